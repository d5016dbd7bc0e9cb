"""simplify: bodies of functions are folded by what constants decide there, and by the shapes that calls pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.desk import check_error
from support.evaluating import Evaluations, by_tensorflow
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    const,
    define,
    dtypes,
    func,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
    scalar,
)
from support.running import run
from support.simplifying import simplified, stays

from gdsurgeon.analysis.shapes.inference import called_shapes
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes

F1 = dtypes(FLOAT)
P = placeholder("p", BOOL, ())
N = placeholder("n", INT32, ())
LOOPING = {"i": INT32, "n": INT32, "x": FLOAT}
T3 = dtypes(INT32, INT32, FLOAT)
CALLING: dict[str, Any] = {"Tin": F1, "Tout": F1}
NEG = define("neg", {"x": FLOAT}, {"o": (FLOAT, "y:y:0")}, node("y", "Neg", ["x"], T=FLOAT))
ABS = define("abs", {"x": FLOAT}, {"o": (FLOAT, "y:y:0")}, node("y", "Abs", ["x"], T=FLOAT))


def shaping(name: str, source: str) -> list[bytes]:
    """A sum over as many elements as there are in a row of SOURCE, which a Slice of all and a Reshape hand on."""
    return [
        node("s", "Shape", [source], T=FLOAT, out_type=INT32),
        node("r", "Reshape", [source, "s:output:0"], T=FLOAT, Tshape=INT32),
        const("from", [1], INT32), const("to", [2], INT32), const("by", [1], INT32),
        node("w", "StridedSlice", ["s:output:0", "from:output:0", "to:output:0", "by:output:0"], T=INT32, Index=INT32,
             begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=1),
        node("wide", "Cast", ["w:output:0"], SrcT=INT32, DstT=FLOAT, Truncate=False),
        node(name, "RealDiv", ["r:output:0", "wide:y:0"], T=FLOAT),
    ]  # fmt: skip


def chosen(*nodes: bytes, returned: str, more: Sequence[Any] = (), x: Sequence[int] = (-1, 3)) -> list[bytes]:
    """A graph in which an If calls a function of NODES, or another."""
    body = define("F", {"x": FLOAT}, {"o": (FLOAT, returned)}, *nodes)
    call = node("c", "If", ["p", "x"], Tcond=BOOL, then_branch=func("F"), else_branch=func("abs"), **CALLING)
    return [P, placeholder("x", FLOAT, x), call, identity("y", "c"), library(body, ABS, *more)]


def looping(*nodes: bytes, returned: str, x: Sequence[int] = (-1, 3), more: Sequence[Any] = ()) -> list[bytes]:
    """A graph with a loop of N turns each of which is a function of NODES."""
    asked = define("asked", LOOPING, {"go": (BOOL, "k:z:0")}, node("k", "Less", ["i", "n"], T=INT32))
    step = [scalar("one", 1, INT32), node("next", "AddV2", ["i", "one:output:0"], T=INT32)]
    given = {"j": (INT32, "next:z:0"), "m": (INT32, "n"), "o": (FLOAT, returned)}
    turn = define("F", LOOPING, given, *step, *nodes)
    loop = node(
        "c", "StatelessWhile", ["zero", "n", "x"], T=T3, cond=func("asked"), body=func("F"), parallel_iterations=10
    )
    end = node("y", "Identity", ["c:2"], T=FLOAT)
    return [N, placeholder("x", FLOAT, x), scalar("zero", 0, INT32), loop, end, library(asked, turn, ABS, *more)]


def folded(records: list[bytes], **options: Any) -> tuple[Graph, EditResult]:
    return simplified(*records, **{"evaluate": by_tensorflow, **options})


def ops_of(found: Graph, name: str = "F") -> list[str]:
    return [n.op for n in found.functions.get(name).node_def]  # type: ignore[union-attr]


ROWS = [[1.0, -2.0, 0.5], [3.0, 0.25, -8.0]]
CHOICE = [const("k", True, BOOL), node("d", "StatelessIf", ["k:output:0", "x"], Tcond=BOOL, then_branch=func("neg"),
                          else_branch=func("abs"), **CALLING),
          node("t", "Tanh", ["d:output:0"], T=FLOAT)]  # fmt: skip
STOPPED = define("stopped", {"x": FLOAT}, {"go": (BOOL, "k:output:0")}, const("k", False, BOOL))
NO_TURN = [node("d", "StatelessWhile", ["x"], T=F1, cond=func("stopped"), body=func("neg"), parallel_iterations=10),
           node("t", "Tanh", ["d:output:0"], T=FLOAT)]  # fmt: skip
INSIDE = {
    "a choice": (CHOICE, "t:y:0", [NEG], {"PartitionedCall", "Tanh"}),
    "a loop of no turns": (NO_TURN, "t:y:0", [STOPPED, NEG], {"Tanh"}),
    "shapes": (shaping("t", "x"), "t:z:0", [], {"Const", "RealDiv"}),
}


@pytest.mark.tensorflow
@pytest.mark.parametrize(("nodes", "returned", "more", "left"), INSIDE.values(), ids=INSIDE)
def test_a_body_is_folded_as_a_graph_is(nodes: list[bytes], returned: str, more: list[Any], left: set[str]) -> None:
    """In both branches and for any number of turns it gives what it gave."""
    records = chosen(*nodes, returned=returned, more=more)
    found, _ = folded(records)
    assert {*ops_of(found)} == left
    for p in (True, False):
        fed = {"x": ROWS, "p": p}
        assert run(found, "y", **fed) == run(graph_bytes(*records), "y", **fed)
    records = looping(*nodes, returned=returned, more=more)
    found, _ = folded(records)
    assert {*ops_of(found)} == left | {"Const", "AddV2"}
    for n in (0, 1, 3):
        fed = {"x": ROWS, "n": n}
        assert run(found, "y", **fed) == run(graph_bytes(*records), "y", **fed)


def test_a_shape_that_a_loop_does_not_keep_is_none() -> None:
    """A turn that makes its tensor longer is called with others from the second time on."""
    axis = scalar("axis", 1, INT32)
    longer = node("t", "ConcatV2", ["x", "x", "axis:output:0"], T=FLOAT, N=2, Tidx=INT32)
    rows = node("s", "Shape", ["x"], T=FLOAT, out_type=INT32)
    again = node("r", "Reshape", ["t:output:0", "all:output:0"], T=FLOAT, Tshape=INT32)
    records = looping(axis, longer, rows, const("all", [-1, 1], INT32), again, returned="r:output:0", x=(2, 1))
    shapes = called_shapes(from_bytes(graph_bytes(*records)), use_stated=False)
    assert shapes["F"] == [(), (), (-1, 1)]
    assert shapes["asked"] == [(), (), (-1, 1)]


def test_shapes_of_calls_are_those_on_which_they_agree() -> None:
    """Also those of calls in other functions; nothing is known of what others call, or hand over as they like."""
    call = node("y", "PartitionedCall", ["x"], f=func("neg"), **CALLING)
    outer = define("outer", {"x": FLOAT}, {"o": (FLOAT, "y:output:0")}, call)
    records = [
        placeholder("a", FLOAT, (2, 3)), placeholder("b", FLOAT, (2, 4)),
        node("c", "PartitionedCall", ["a"], f=func("outer"), **CALLING), node("d", "neg", ["b"]),
        node("e", "abs", ["b"]), node("f", "BatchFunction", ["b"], f=func("outer2"), Tin=F1, Tout=F1),
    ]  # fmt: skip
    other = define("outer2", {"x": FLOAT}, {"o": (FLOAT, "y:output:0")}, call)
    data = graph_bytes(*records, library(outer, NEG, ABS))
    found = called_shapes(from_bytes(data), use_stated=False)
    assert found == {"outer": [(2, 3)], "neg": [(2, -1)], "abs": [(2, 4)]}
    found = called_shapes(from_bytes(data), use_stated=False, others=["abs"])
    assert found == {"outer": [(2, 3)], "neg": [(2, -1)], "abs": []}
    found = called_shapes(from_bytes(graph_bytes(*records, library(outer, NEG, ABS, other))), use_stated=False)
    assert found == {"outer": [(2, 3)], "neg": [None], "abs": [(2, 4)], "outer2": []}


def test_passes_that_are_not_chosen_are_not_done_inside() -> None:
    for name, (nodes, returned, more, _) in INSIDE.items():
        skip = ["conditions"] if name != "shapes" else ["shapes", "same-shape", "equal-nodes"]
        stays(*chosen(*nodes, returned=returned, more=more), skip=skip, evaluate=Evaluations())


def test_what_takes_no_tensorflow_is_folded_where_there_is_none() -> None:
    def unable(*_: object) -> Any:
        raise NotValidatedError("no TensorFlow", code="no-engine")

    nodes = [const("a", [1.0]), const("b", [2.0]), node("c", "Mul", ["a:output:0", "b:output:0"], T=FLOAT)]
    nodes += [*shaping("u", "x"), node("t", "Mul", ["u:z:0", "c:z:0"], T=FLOAT)]
    found, result = folded(chosen(*nodes, returned="t:z:0"), evaluate=unable)
    assert "Shape" not in ops_of(found)
    (note,) = result.notes
    check_error(note, "not-computed", {"reason": "no-engine"})
