"""simplify --measure: what both graphs take is told, and a pass that makes runs slower is taken back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from support import graphs
from support.desk import Desk
from support.folding import ints
from support.graphs import FLOAT, add, const, graph, graph_bytes, identity, node, placeholder, scalar

from gdsurgeon.edits.simplify import simplify
from gdsurgeon.edits.simplifying.measuring import Figures, Times, measured
from gdsurgeon.errors import NothingToDo
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.models import side_times
from gdsurgeon.proof.models.profile import MeasuredGraph, run_again
from gdsurgeon.proof.models.side_times import SideTimes
from gdsurgeon.proof.models.trace import node_times
from gdsurgeon.proof.settings import Settings

MODEL = [
    placeholder("x"), const("a", [1.0, 2.0]), const("b", [1.0, 2.0]), identity("i", "x"), scalar("one", 1),
    node("m", "Mul", ["i", "one"], T=FLOAT), add("s", "m", "a"), add("y", "s", "b"),
]  # fmt: skip
"""There is something to do for identities, neutral and equal-nodes."""


def figures(ratio: float) -> Figures:
    same = Times(1.0, 1.0)
    return Figures((same, same), (same, Times(1.0, ratio)), is_slower=ratio > 1.03)


def made(found: Graph, ratio: Callable[[Sequence[str]], float]) -> tuple[object, list[list[str]]]:
    """FOUND simplified where what is left, nodes by name, takes RATIO times as long; and what was measured."""
    asked: list[list[str]] = []

    def measure(_: Graph, after: Graph) -> Figures:
        asked.append(graphs.names(after))
        return figures(ratio(asked[-1]))

    result = measured(found, lambda g, skip: simplify(g, skip=skip), measure)
    check_accounted(found, result, found.chunks())
    return result, asked


def test_what_is_no_slower_is_measured_once() -> None:
    found = graph(*MODEL)
    result, asked = made(found, lambda _: 1.02)
    assert asked == [graphs.names(found)] == [["x", "a", "s", "y"]]
    assert result.facts["measured"]["taken_back"] == []  # type: ignore[attr-defined]
    sizes = [len(graphs.written(each)) for each in (found.pristine(), found)]
    assert ("nodes", "8  ->  4") in result.told  # type: ignore[attr-defined]
    assert ("bytes", f"{sizes[0]}  ->  {sizes[1]}") in result.told  # type: ignore[attr-defined]
    assert ("run", "1e+03 ms  ->  1e+03 ms: 1.00 x as fast; Grappler  1e+03 ms  ->  1.02e+03 ms: 1.02 x slower") in (
        result.told  # type: ignore[attr-defined]
    )


def test_the_pass_that_makes_it_slower_is_taken_back() -> None:
    found = graph(*MODEL)
    result, _ = made(found, lambda names: 1.0 if "b" in names else 1.5)
    assert graphs.names(found) == ["x", "a", "b", "s", "y"]
    assert result.notes == ["the pass equal-nodes is taken back: it makes a run slower"]  # type: ignore[attr-defined]
    assert result.facts["measured"]["taken_back"] == ["equal-nodes"]  # type: ignore[attr-defined]


def test_two_passes_that_make_it_slower_are_taken_back() -> None:
    found = graph(*MODEL)
    result, _ = made(found, lambda names: (1.5, 1.2, 1.0)[("b" in names) + ("m" in names)])
    assert graphs.names(found) == ["x", "a", "b", "one", "m", "s", "y"]
    assert result.facts["measured"]["taken_back"] == ["neutral", "equal-nodes"]  # type: ignore[attr-defined]


FOLDING = [
    placeholder("x", FLOAT, (1, 4, 4, 2)), const("k", [1.0] * 4, FLOAT, (1, 1, 2, 2)),
    node("conv", "Conv2D", ["x", "k"], T=FLOAT, strides=ints((1, 1, 1, 1)), padding="SAME"),
    const("by", [1.5, 2.0]), identity("i", "conv"), node("y", "Mul", ["i", "by"], T=FLOAT),
]  # fmt: skip
"""There is something to do for identities, and a factor to be folded."""


def test_folds_that_make_it_slower_are_taken_back() -> None:
    found = graph(*FOLDING)

    def measure(_: Graph, after: Graph) -> Figures:
        return figures(1.0 if "by" in graphs.names(after) else 1.5)

    result = measured(found, lambda g, skip: simplify(g, skip=skip, fold_bn=True), measure)
    check_accounted(found, result, found.chunks())
    assert graphs.names(found) == ["x", "k", "conv", "by", "y"]
    assert result.notes == ["the pass fold-bn is taken back: it makes a run slower"]
    alone = graph(*FOLDING[:4], node("y", "Mul", ["conv", "by"], T=FLOAT))
    with pytest.raises(NothingToDo, match=r"is left \(fold-bn\)"):
        measured(alone, lambda g, skip: simplify(g, skip=skip, fold_bn=True), measure)


def test_the_only_pass_that_was_asked_for_makes_it_slower() -> None:
    with pytest.raises(NothingToDo, match=r"is left \(identities\)"):
        measured(graph(*MODEL), lambda g, skip: simplify(g, passes=["identities"], skip=skip), lambda *_: figures(2.0))


def test_where_all_makes_it_slower_nothing_is_done() -> None:
    found = graph(*MODEL)
    before = graphs.written(found)
    with pytest.raises(NothingToDo, match="makes it slower, and is left"):
        made(found, lambda _: 2.0)
    assert graphs.written(found) == before


def test_all_series_have_to_say_that_it_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    series: list[list[list[float]]] = []
    monkeypatch.setattr(side_times, "measured", lambda *_: series.pop(0))
    slow, noisy, same = [[1.0, 1.0, 1.0], [1.2, 1.2, 1.2]], [[1.0, 2.0, 2.0], [1.1, 1.5, 2.5]], [[1.0], [1.0]]
    pair = side_times._Pair(None, (), ())  # type: ignore[arg-type]
    for found, slower, left in (
        ([slow] * 3, True, 0), ([slow, slow, same], False, 0), ([same, slow], False, 1),
        ([noisy, slow, slow], False, 0),
    ):  # fmt: skip
        series[:] = found
        assert (pair.ran(again=3)[1], len(series)) == (slower, left)


@pytest.mark.tensorflow
def test_both_graphs_are_measured(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_times, "STARTS", 2)
    monkeypatch.setattr(side_times, "LEAST", 0.0)
    monkeypatch.setattr(side_times, "SLOWER", float("inf"))  # two runs of a few nodes say nothing of that
    desk.put("model.pb", graph_bytes(*MODEL))
    ran = desk.run("simplify", "model.pb", "--measure", "--report", "r.json", "-o", "out.pb", "--outputs", "y")
    assert ran.code == 0, ran.err
    report = json.loads((desk.folder / "r.json").read_text())
    found = report["edit"]["measured"]
    assert all(found[what][way][when] > 0 for what in ("start", "run") for way in ("as_written", "optimized")
               for when in ("before", "after"))  # fmt: skip
    assert report["edit"]["passes"]["identities"] == 1 and not found["taken_back"] and not found["slower"]
    assert "Grappler" in ran.err and "start" in ran.err


def counted(executor: Executor, work: Sequence[MeasuredGraph], _least: float) -> list[list[float]]:
    """As many seconds as nodes have run, of each: three runs by turns."""
    times: list[list[float]] = [[] for _ in work]
    for _ in range(3):
        for seconds, item in zip(times, work, strict=True):
            traced = run_again(executor, item, trace=True)
            seconds.append(float(sum(len(node_times(run.metadata or b"")) for run in traced)))
    return times


@pytest.mark.tensorflow
def test_what_takes_longer_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is executed: how long 300 short nodes take beside a call of the runtime hangs on who else is at work."""
    monkeypatch.setattr(side_times, "measured", counted)
    monkeypatch.setattr(side_times, "STARTS", 2)
    wide = [placeholder("x", FLOAT, (64,)), scalar("n", 1), node("y", "Relu", ["x"], T=FLOAT)]
    steps = [node(f"e{i}", "Tanh", [f"e{i - 1}" if i else "x"], T=FLOAT) for i in range(300)]
    slow = [wide[0], *steps, node("y", "Relu", ["e299"], T=FLOAT)]
    measure = SideTimes(Settings(), Overrides())
    quick, long = (from_bytes(graph_bytes(*records)) for records in (wide, slow))
    assert measure(quick, long).is_slower
    assert not measure(long, quick).is_slower


@pytest.mark.tensorflow
def test_what_does_not_run_is_not_measured(desk: Desk) -> None:
    records = [identity("i", "x"), node("y", "ReadFile", ["f"]), node("f", "AsString", ["i"], T=FLOAT)]
    desk.put("model.pb", graph_bytes(placeholder("x"), *records))
    ran = desk.run("simplify", "model.pb", "--measure", "-o", "out.pb")
    assert ran.code == 7 and "out.pb" not in desk.files(), ran
