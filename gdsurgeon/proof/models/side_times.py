"""How long two graphs take that give the same: to load and run once, and to run; as written, and optimised."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from gdsurgeon.edits.simplifying.measuring import SERIES, SLOWER, Figures, Times
from gdsurgeon.errors import NotValidatedError, printable
from gdsurgeon.feeds.given import as_meant
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.models.profile import MeasuredGraph, measured, run_again
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.progress import Event, Progress, silent
from gdsurgeon.proof.restored import with_restoring
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import DO_WITHOUT
from gdsurgeon.wire.write import read_chunks

KEYS = ("before", "after")
STARTS = 5
LEAST = 0.3
"""Seconds for a series of runs, at least."""
LONGEST_STARTING = 8.0
"""Seconds for starting both graphs again and again; each is started twice at least."""


class SideTimes:
    """Measures pairs of graphs in one process, as `gdsurgeon.edits.simplifying.measuring.Measure`.

    Args:
        settings: how to run.
        overrides: what the user says of feeds.
        outputs: the tensors that are asked for; by default all outputs.
        progress: called with every step.
    """

    def __init__(
        self, settings: Settings, overrides: Overrides, outputs: Sequence[str] = (), progress: Progress = silent
    ) -> None:
        self._settings, self._overrides, self._progress = settings, overrides, progress
        self._outputs = [parse_tensor(tensor).node for tensor in outputs]

    def __call__(self, before: Graph, after: Graph) -> Figures:
        """What both take, by turns.

        Raises:
            NotValidatedError: they cannot be run here.
        """
        self._progress(Event("measuring"))
        with Executor(self._settings) as executor:
            try:
                return self._figures(executor, before, after)
            except Refused as refused:
                raise NotValidatedError(f"the graphs cannot be measured: {printable(refused.text)}") from refused

    def _figures(self, executor: Executor, before: Graph, after: Graph) -> Figures:
        graphs = dict(zip(KEYS, (before, after), strict=True))
        data = {key: with_restoring(graph, read_chunks(graph.chunks())) for key, graph in graphs.items()}
        for key in KEYS:
            if executor.is_barred(key, graphs[key]):
                executor.loaded(key)  # says why
            executor.load_bytes(key, data[key])
        pair = self._pair(executor, before, after)
        found = [(pair.started(data, optimize=optimize), *pair.ran(again=SERIES)) for optimize in (False, True)]
        (start, run, slower), (other_start, other_run, other_slower) = found
        return Figures((start, other_start), (run, other_run), is_slower=slower or other_slower)

    def _pair(self, executor: Executor, before: Graph, after: Graph) -> _Pair:
        """Both graphs, on feeds that the first one takes."""
        plan = plan_with(self._settings, before, self._outputs or None)
        subjects = [
            Subject(executor, key, graph, plan=plan if key == KEYS[0] else FetchPlan([]), overrides=said)
            for key, graph, said in zip(KEYS, (before, after), (as_meant(self._overrides, before), None), strict=True)
        ]
        first, second = subjects
        if not plan.fetches:
            raise NotValidatedError("no output can be run here: nothing can be measured", advice=DO_WITHOUT)
        for subject in subjects:
            subject.initialize()
        feeds, begun = first.start(0, {})
        first.wait(begun)
        groups = [[name for name in group if parse_tensor(name).node in after] for group in plan.groups]
        theirs = {name: value for name, value in feeds.items() if parse_tensor(name).node in after}
        second.plan.initializers = [name for name in plan.initializers if name in after]
        return _Pair(
            executor,
            subjects,
            [MeasuredGraph(key, fed, groups) for key, fed in zip(KEYS, (feeds, theirs), strict=True)],
        )


class _Pair(NamedTuple):
    """Two graphs in the executor, and what is run of them."""

    executor: Executor
    subjects: Sequence[Subject]
    work: Sequence[MeasuredGraph]

    def started(self, data: Mapping[str, bytes], *, optimize: bool) -> Times:
        """Starts each, by turns: loads it, has it restored, and runs it once."""
        times: list[list[float]] = [[], []]
        began = time.monotonic()
        while len(times[1]) < STARTS and (time.monotonic() - began < LONGEST_STARTING or len(times[1]) < 2):
            for seconds, subject, item in zip(times, self.subjects, self.work, strict=True):
                now = time.monotonic()
                self.executor.load_bytes(subject.key, data[subject.key], optimize=optimize)
                subject.initialize()
                run_again(self.executor, item)
                seconds.append(time.monotonic() - now)
        return _times(times)

    def ran(self, *, again: int) -> tuple[Times, bool]:
        """Runs each, by turns; AGAIN: how many series have to say so before the second one counts as slower."""
        found: list[list[float]] = [[], []]
        slower = 0
        for _ in range(again):
            some = measured(self.executor, self.work, LEAST)
            for all_of_it, seconds in zip(found, some, strict=True):
                all_of_it += seconds
            ratios = _ratios(some)
            slower += min(ratios) > SLOWER
            if max(ratios) <= SLOWER:
                break
        return _times(found), slower == again


def _times(seconds: Sequence[Sequence[float]]) -> Times:
    return Times(*map(median, seconds))


def _ratios(seconds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """How many times as long the second graph takes: by the median of neighbours, and by the medians."""
    ratios = [theirs / max(mine, 1e-9) for mine, theirs in zip(*seconds, strict=True)]
    return median(ratios), _times(seconds).ratio
