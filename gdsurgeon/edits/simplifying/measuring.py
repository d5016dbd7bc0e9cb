"""What a simpler graph takes in time, beside the one that it was; a pass that makes it slower is taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.simplifying.inlining import written
from gdsurgeon.errors import Json, NothingToDo, UsageError
from gdsurgeon.graph.graph import Graph

SLOWER = 1.03
SERIES = 3
"""A graph counts as slower than another where its runs take more than `SLOWER` times as long in each of `SERIES` series
of runs by turns: the ratio of the medians, and the median of the ratios of neighbours. The first series that says
so by neither ends them."""


class Times(NamedTuple):
    """Seconds, before and after, the median of some by turns."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        """How much of the time it takes after."""
        return self.after / max(self.before, 1e-9)

    @property
    def told(self) -> str:
        """``1.2 ms  ->  1.1 ms: 1.09 x as fast``."""
        what = f"{1 / self.ratio:.2f} x as fast" if self.ratio <= 1 else f"{self.ratio:.2f} x slower"
        return f"{self.before * 1000:.3g} ms  ->  {self.after * 1000:.3g} ms: {what}"


class Figures(NamedTuple):
    """What two graphs take, as they are written and optimised by TensorFlow.

    Attributes:
        start: to load it and to run it once.
        run: of a run.
        is_slower: whether the second one's runs take longer, in either way.
    """

    start: tuple[Times, Times]
    run: tuple[Times, Times]
    is_slower: bool

    @property
    def worst(self) -> float:
        """The larger ratio of the runs."""
        return max(times.ratio for times in self.run)


Measure = Callable[[Graph, Graph], Figures]
"""Measures two graphs, the second of which gives what the first one does."""
Simplify = Callable[[Graph, Sequence[str]], EditResult]
"""Simplifies a graph, without the passes that are named."""


def measured(graph: Graph, simplify: Simplify, measure: Measure) -> EditResult:
    """Simplifies GRAPH in place, without the passes that make it slower; the folds of batch norms are one.

    What is slower is tried without each of the passes that have done something; without the one that it is quickest
    without, then without another of those that are left, until it is not slower.

    Raises:
        NothingToDo: nothing is left that could be done.
        EditError: see SIMPLIFY.
    """
    skipped: list[str] = []
    figures, done = _tried(graph, simplify, measure, skipped)
    while figures.is_slower:
        tried: dict[str, tuple[Figures, list[str]]] = {}
        for name in done:
            try:
                tried[name] = _tried(graph, simplify, measure, [*skipped, name])
            except (NothingToDo, UsageError):  # nothing is left without it
                continue
            if not tried[name][0].is_slower:
                break
        if not tried:
            what = ", ".join([*skipped, *done])
            raise NothingToDo(f"nothing would change: what could be done makes it slower, and is left ({what})")
        best = min(tried, key=lambda name: (tried[name][0].is_slower, tried[name][0].worst))
        skipped.append(best)
        figures, done = tried[best]
    result = simplify(graph, skipped)
    result.told += _told(figures)
    result.facts["measured"] = _as_json(figures, skipped)
    for name in skipped:
        result.notes.append(f"the pass {name} is taken back: it makes a run slower")
    return result


def _tried(graph: Graph, simplify: Simplify, measure: Measure, skip: Sequence[str]) -> tuple[Figures, list[str]]:
    """What GRAPH takes when it is simplified without SKIP, beside what it takes; and what has been done for it."""
    other = written(graph)
    result = simplify(other, skip)
    passes = cast("Mapping[str, Json]", result.facts.get("passes", {}))
    return measure(written(graph), written(other)), [name for name, count in passes.items() if count]


def _told(figures: Figures) -> list[tuple[str, str]]:
    lines = [("start", figures.start), ("run", figures.run)]
    return [(name, f"{found[0].told}; Grappler  {found[1].told}") for name, found in lines]


def _as_json(figures: Figures, taken_back: Sequence[str]) -> dict[str, Json]:
    out: dict[str, Json] = {
        name: {"as_written": found[0]._asdict(), "optimized": found[1]._asdict()}
        for name, found in (("start", figures.start), ("run", figures.run))
    }
    return out | {"slower": figures.is_slower, "taken_back": list(taken_back)}
