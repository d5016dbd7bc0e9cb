"""What a graph does not give twice on the same feeds, and what may be laid to that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.proof import OutputProof
from gdsurgeon.proof.subject import Feeds, Subject

CONTROL = "control"
CONTROLS = 4
"""Runs of the original that are compared with the first one where something differs."""
MOST_SPREAD = 8.0
"""By how many times the original's own spread a difference may exceed it and still be laid to chance."""


def spread(
    executor: Executor, subject: Subject, sample: int, feeds: Feeds, *, optimize: bool = False
) -> dict[str, float]:
    """By how much fetches of a graph differ from run to run on the same FEEDS; what is always the same is left out.

    Kernels may sum in another order each time: what differs no more than that differs by chance. The graph is loaded
    anew for it, OPTIMIZE as it was, and run by turns in both sessions. What a seeded random op draws goes on from run
    to run, as does what a graph keeps. Such a graph is compared with itself in fresh sessions alone, each of which
    begins with the seed and keeps nothing yet.
    """
    out: dict[str, float] = {}
    begins_anew = bool(subject.plan.chance) or subject.plan.keeps_state
    try:
        for turn in range(2 * CONTROLS):
            if not turn or begins_anew:
                executor.load_source(CONTROL, subject.graph, optimize=optimize)
                executor.loaded(CONTROL)
                executor.initialize(CONTROL, subject.plan.initializers)
            key = subject.key if turn % 2 and not begins_anew else CONTROL
            for group, names in enumerate(subject.plan.groups):
                result = f"{CONTROL} {min(turn, 1)} {group}"
                executor.wait(executor.run(key, result, feeds, names))
                first = f"{CONTROL} 0 {group}" if begins_anew else subject.result(sample, group)
                pending = executor.compare(first, result, [(i, i) for i in range(len(names))])
                for name, found in zip(names, executor.comparisons(pending), strict=True):
                    if found.max_abs:
                        out[name] = max(out.get(name, 0.0), found.max_abs)
    except Refused:
        pass  # nothing can be said of it
    executor.unload(CONTROL)
    return out


def excused(outputs: Iterable[OutputProof], own: Mapping[str, float], name: str) -> dict[str, str]:
    """Makes those OUTPUTS not comparable that differ no more than the graph NAME does from itself, by OWN.

    Returns the reasons by the name in that graph.
    """
    out: dict[str, str] = {}
    for output in outputs:
        gap, found = own.get(output.before, 0.0), output.comparison
        if gap and found is not None and found.max_abs is not None and found.max_abs <= MOST_SPREAD * gap:
            output.comparison = None
            output.reason = f"{name} is not deterministic here: two of its runs differ by {gap:.3g}"
            out[output.before] = output.reason
    return out
