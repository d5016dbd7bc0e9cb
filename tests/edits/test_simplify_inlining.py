"""simplify: bodies of functions replace plain calls if the file does not grow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import below, pick
from support.evaluating import by_tensorflow
from support.graphs import FLOAT, X, call, define, graph, graph_bytes, identity, library, neg, typed
from support.inlining import F1, LESS_ONE, TWICE, functions_of
from support.running import run
from support.simplifying import simplified, stays
from support.v1_control_flow import while_loop

from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes

FED = {"x": [1.5, -2.0]}
AROUND = define("around", {"a": FLOAT}, {"o": (FLOAT, "c:output:0")}, call("c", "less_one", ["a"], F1, F1))


STEPS = [typed("Exp" if i % 2 else "Tanh", f"n{i}", f"n{i - 1}:y:0" if i else "a") for i in range(24)]
LARGE = define("large", {"a": FLOAT}, {"o": (FLOAT, "n23:y:0")}, *STEPS)


def inlined(*records: bytes, **options: Any) -> tuple[Graph, EditResult]:
    """What becomes of RECORDS; the file is no larger."""
    found, result = simplified(*records, **options)
    assert len(graphs.written(found)) <= len(graph_bytes(*records))
    return found, result


NAMED = define("named", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "a"))
NAMED.attr["api_implements"].s = b"lstm_1"
CALLER, OWN = (
    define(name, {"a": FLOAT}, {"o": (FLOAT, "c:output:0")}, call("c", called, ["a"], F1, F1))
    for name, called in (("caller", "named"), ("own", "own"))
)
KEPT = {
    "a large body": [
        X, *(call(f"c{i}", "large", [f"c{i - 1}" if i else "x"], F1, F1) for i in range(6)), neg("y", "c5"),
        library(LARGE),
    ],
    "what stands for something else": [X, call("c", "caller", ["x"], F1, F1), neg("y", "c"), library(NAMED, CALLER)],
    "what XLA compiles": [
        X, call("c", "less_one", ["x"], F1, F1, _XlaMustCompile=True), neg("y", "c"), library(LESS_ONE)
    ],
    "a call in a loop": [*while_loop(call("w/c", "less_one", ["w/v"], F1, F1), result="w/c"), library(LESS_ONE)],
    "what calls itself": [X, call("c", "own", ["x"], F1, F1), neg("y", "c"), library(OWN)],
}  # fmt: skip


@pytest.mark.parametrize("what", KEPT)
def test_no_call_is_inlined(what: str) -> None:
    found = graph(*KEPT[what])
    calls = [n.name for n in found.nodes() if n.op in ("PartitionedCall", "StatefulPartitionedCall")]
    with suppress(NothingToDo):
        simplified(found)
    assert [name for name in calls if name in found and "Call" in found[name].op] == calls


def test_calls_are_gone_with_their_functions() -> None:
    records = [X, call("c", "around", ["x"], F1, F1), neg("y", "c"), library(LESS_ONE, AROUND)]
    found, result = inlined(*records)
    assert graphs.names(found) == ["x", "k", "d", "y"]
    assert functions_of(found) == []
    assert result.claims == (SameOutputs(as_written=True, deployed=True),)
    assert (result.intent.removed, result.intent.added) == (["c"], ["k", "d"])
    assert run(found, "y", **FED) == run(graph_bytes(*records), "y", **FED)


def test_an_output_keeps_its_name() -> None:
    records = [X, call("c", "less_one", ["x"], F1, F1), call("y", "less_one", ["c"], F1, F1), library(LESS_ONE)]
    found, _ = inlined(*records)
    assert found["y"].op == "Identity"
    assert sum(n.op == "Const" for n in found.nodes()) == 1
    assert run(found, "y", **FED) == run(graph_bytes(*records), "y", **FED)


def test_a_call_that_is_asked_for_and_read_stays() -> None:
    stays(X, call("c", "less_one", ["x"], F1, F1), neg("y", "c"), library(LESS_ONE), outputs=["c", "y"])


def test_a_large_body_that_one_calls_is_inlined() -> None:
    found, _ = inlined(X, call("c", "large", ["x"], F1, F1), neg("y", "c"), library(LARGE))
    assert functions_of(found) == []


def test_one_is_inlined_beside_another_that_is_not() -> None:
    calls = [call(f"c{i}", "large", [f"c{i - 1}" if i else "l"], F1, F1) for i in range(6)]
    records = [X, call("l", "less_one", ["x"], F1, F1), *calls, neg("y", "c5"), library(LARGE, LESS_ONE)]
    found, _ = inlined(*records)
    assert functions_of(found) == ["large"]


def test_what_the_other_passes_make_up_for_is_inlined() -> None:
    steps = [identity(f"i{i}", f"i{i - 1}:output:0" if i else "a") for i in range(24)]
    handing = define("handing", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, *steps, neg("n", "i23:output:0"))
    calls = [call(f"c{i}", "handing", [f"c{i - 1}" if i else "x"], F1, F1) for i in range(9)]
    found, _ = inlined(X, *calls, typed("Exp", "y", "c8"), library(handing))
    assert graphs.names(found) == ["x", "n", "y"]


# -- random ones ----------------------------------------------------------------------------------------------


@st.composite
def models(draw: st.DrawFn) -> bytes:
    """Functions that call those before them, and nodes that call functions or wait for those that do."""
    made: list[Any] = [LESS_ONE, TWICE]
    for i in range(draw(below(3))):
        made.append(_caller(f"f{i}", [pick(draw, [f.signature.name for f in made]) for _ in range(draw(below(3)) + 1)]))
    values, records = ["x"], [X]
    for i in range(draw(below(6)) + 1):
        waits = [f"^{pick(draw, values)}"] if draw(below(3)) == 0 else []
        called = pick(draw, [*(f.signature.name for f in made), ""])
        source = pick(draw, values)
        plain = typed(pick(draw, ("Neg", "Identity", "Relu")), f"n{i}", source, *waits)
        records.append(call(f"n{i}", called, [source, *waits], F1, F1) if called else plain)
        values.append(f"n{i}")
    return graph_bytes(*records, library(*made))


def _caller(name: str, called: Sequence[str]) -> Any:
    """A function that calls CALLED, one after the other, and one more time what is the first."""
    calls = [call(f"c{i}", to, [f"c{i - 1}:output:0" if i else "a"], F1, F1) for i, to in enumerate(called)]
    return define(name, {"a": FLOAT}, {"o": (FLOAT, f"c{len(called) - 1}:output:0")}, *calls)


@pytest.mark.tensorflow
@given(models())
def test_random_graphs_of_calls_give_what_they_gave(data: bytes) -> None:
    found = from_bytes(data)
    with suppress(NothingToDo):
        simplified(found, again=False, evaluate=by_tensorflow)
    assert len(graphs.written(found)) <= len(data)
    before = from_bytes(data)
    ends = [n.name for n in before.nodes() if not before.users(n) and n.op != "Placeholder"]
    assert run(found, *ends, **FED) == run(data, *ends, **FED)
