"""Whether another release of TensorFlow takes a graph, and gives what this one gives: it runs it, on the same feeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from gdsurgeon.errors import GdsurgeonError, Json, Line, UsageError, ValidationError, printable, quoted
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.progress import Event
from gdsurgeon.proof.proof import difference
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import EDITED
from gdsurgeon.runtime.failures import TensorFlowMissing
from gdsurgeon.runtime.released import unpacked
from gdsurgeon.text import counted, named

RTOL, ATOL = 1e-3, 1e-4
"""By how much floats may differ: releases have kernels of their own. RTOL is of the largest element of a tensor."""
RELEASED = "the other release"


class Released(NamedTuple):
    """What another release has made of a graph: its VERSION, and what it has shown, in words, with its name."""

    version: str
    told: str


def check_released(
    executor: Executor,
    graph: Graph,
    overrides: Overrides,
    path: str,
    load: Callable[[Executor], None],
    *,
    runs: bool = True,
) -> Released:
    """Has the release in PATH run the edited graph on what this TensorFlow is fed, and compares what both give.

    Args:
        executor: has loaded GRAPH as the edited one.
        graph: the edited graph.
        overrides: what the user says of feeds.
        path: a wheel, or a folder into which one was unpacked.
        load: has an executor load the edited graph.
        runs: whether it is run; else it only has to load.

    Returns:
        What that has shown.

    Raises:
        ValidationError: the release does not load the graph, does not run it, or gives something else; the facts have
            its version, as `released`.
        UsageError: PATH holds no release.
        NotValidatedError: its libraries cannot be loaded here.
    """
    executor.progress(Event("proving"))
    try:
        with unpacked(path) as folder:
            reads = (*executor.settings.reads, folder, path)
            with Executor(executor.settings._replace(release=folder, reads=reads)) as other:
                name = other.version().partition(" (")[0]
                version = other.runtime_version()
                there: dict[str, Json] = {"released": version}
                try:
                    load(other)
                    load(executor)
                    other.loaded(EDITED)
                    told = _compared(executor, other, graph, overrides) if runs else "loads it"
                    return Released(version, f"{name} {told}")
                except Refused as refused:
                    what = f"{name} does not load or run the result: {printable(refused.text)}"
                    raise ValidationError(what, code="does-not-load", facts=there) from refused
                except GdsurgeonError as error:
                    text = f"in {name}: {error.message}"
                    raise ValidationError(
                        text, code=error.code, details=error.details, facts={**error.facts, **there}
                    ) from error
    except TensorFlowMissing as missing:
        line = "{run_in} {path}: {reason}; expected is a wheel of a release, or a folder with one"
        facts = {"path": printable(path), "reason": printable(str(missing))}
        raise UsageError(Line(line, **facts), code="no-such-release", facts=facts) from missing


def _compared(executor: Executor, other: Executor, graph: Graph, overrides: Overrides) -> str:
    """Runs the graph here and there. Raises ValidationError where the values are not near."""
    plan = plan_with(executor.settings, graph)
    plan = replace(plan.only(set(plan.fetches) - plan.random), beside=[])
    if not plan.fetches:
        return "loads it, but nothing can be compared"
    here = Subject(executor, EDITED, graph, plan=plan, overrides=overrides, options=SubjectOptions("here"))
    here.initialize()
    there: Subject | None = None
    largest = 0.0
    for sample in range(here.calls):
        feeds, begun = here.start(sample, {})
        here.wait(begun)
        bound = {name: executor.fetched(value) for name, value in feeds.items()}
        if there is None:
            options = SubjectOptions(RELEASED, bound=frozenset(bound))
            there = Subject(other, EDITED, graph, plan=plan, options=options)
            there.initialize()
        _, begun = there.start(sample, dict(bound))
        there.wait(begun)
        largest = max(largest, *(_difference(here, there, sample, group) for group in range(len(plan.groups))))
        here.finish(sample)
        there.finish(sample)
    outputs = counted(len(plan.fetches), "output")
    equal = "bit-identical" if not largest else f"largest difference {largest:.1e}"
    return f"returns the same: {outputs}, {counted(here.calls, 'input set')}, {equal}"


def _difference(here: Subject, there: Subject, sample: int, group: int) -> float:
    """The largest difference of a group of fetches. Raises ValidationError: they are not near."""
    names = here.plan.groups[group]
    given = [there.executor.tensor(there.result(sample, group), place) for place in range(len(names))]
    here.executor.put(RELEASED, given)
    pairs = [(place, place) for place in range(len(names))]
    asked = here.executor.compare(here.result(sample, group), RELEASED, pairs, rtol=RTOL, atol=ATOL)
    found = here.executor.comparisons(asked)
    largest = [
        max(abs(each.minimum or 0.0), abs(each.maximum or 0.0))
        for each in here.executor.statistics(here.result(sample, group))
    ]
    wrong = {
        name: c
        for name, c, most in zip(names, found, largest, strict=True)
        if not c.close and (c.max_abs is None or c.max_abs > RTOL * most)
    }
    if wrong:
        details = tuple(f"{quoted(name)}: {difference(c)}" for name, c in wrong.items())
        raise ValidationError(
            f"{named(list(wrong), 3)} {'differs' if len(wrong) == 1 else 'differ'}",
            code="differs",
            facts={"tensors": list(wrong)},
            details=details,
        )
    return max(c.max_abs or 0.0 for c in found)
