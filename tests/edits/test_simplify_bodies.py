"""simplify: the passes go over the bodies of functions that stay, and what is constant in one becomes so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support import graphs
from support.desk import check_error
from support.evaluating import Evaluations, by_tensorflow
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    X,
    add,
    const,
    define,
    dtypes,
    func,
    graph_bytes,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    typed,
)
from support.running import run
from support.simplifying import simplified, stays

from gdsurgeon.analysis.shapes.inference import called_shapes
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes

P = placeholder("p", BOOL, ())
F1 = dtypes(FLOAT)
BODY = [
    const("a", [1.0, 2.0]), const("b", [3.0, 4.0]), typed("Mul", "c", "a:output:0", "b:output:0"),
    identity("d", "x"), add("e", "d:output:0", "c:z:0"), scalar("one", 1.0),
    typed("Mul", "f", "e:z:0", "one:output:0"), neg("g", "f:z:0"), neg("h", "f:z:0"), add("y", "g:y:0", "h:y:0"),
    typed("Tanh", "k", "x"),
]  # fmt: skip
"""A product of constants, an Identity, a product with 1, two equal nodes, and an unread node."""
LESS = ["c", "e", "g", "y"]


def body(name: str, *nodes: bytes, returned: str = "y:z:0", **options: Any) -> Any:
    return define(name, {"x": FLOAT}, {"o": (FLOAT, returned)}, *(nodes or BODY), **options)


def chosen(*functions: Any, **attrs: Any) -> list[bytes]:
    """A graph in which an If calls the first of FUNCTIONS or the last."""
    ends = {"then_branch": func(functions[0].signature.name), "else_branch": func(functions[-1].signature.name)}
    call = node("c", "If", ["p", "x"], Tcond=BOOL, Tin=F1, Tout=F1, **ends, **attrs)
    return [P, X, call, identity("y", "c"), library(*functions)]


def folded(*records: bytes, **options: Any) -> tuple[Graph, EditResult]:
    return simplified(*records, **{"evaluate": Evaluations(), **options})


def nodes_of(found: Graph, name: str = "F") -> list[str]:
    return [n.name for n in found.functions.get(name).node_def]  # type: ignore[union-attr]


def test_a_body_is_a_graph() -> None:
    other = body("G", typed("Abs", "y", "x"), returned="y:y:0")
    records = chosen(body("F"), other)
    found, result = folded(*records)
    assert nodes_of(found) == LESS
    assert nodes_of(found, "G") == ["y"]
    assert result.intent.functions.changed == ["F"]
    assert result.claims == (SameOutputs(as_written=True, deployed=True),)
    passes: Any = result.facts["passes"]
    names = ("unread", 2), *((name, 1) for name in ("identities", "neutral", "equal-nodes", "constants", "bodies"))
    assert {name: count for name, count in passes.items() if count} == dict(names)
    for p in (True, False):
        fed = {"x": [1.5, -2.0], "p": p}
        assert run(found, "y", **fed) == run(graph_bytes(*records), "y", **fed)


def test_a_function_that_calls_itself_keeps_its_signature() -> None:
    total = typed("Sum", "s", "x", "axis:output:0", Tidx=INT32)
    some = [const("axis", [0], INT32), total, scalar("zero", 0.0)]
    positive = typed("Greater", "p", "s:output:0", "zero:output:0")
    ends = {"Tin": F1, "Tout": F1, "then_branch": func("F"), "else_branch": func("F")}
    again = node("y", "If", ["p:z:0", "d:output:0"], Tcond=BOOL, **ends)
    found, _ = folded(*chosen(body("F", *some, positive, identity("d", "x"), again, returned="y:output:0")))
    assert nodes_of(found) == ["axis", "s", "zero", "p", "y"]


def test_what_is_no_whole_function_stays() -> None:
    waits = body("F", identity("d", "x"), typed("Abs", "y", "d:output:0", "^gone"), returned="y:y:0")
    unknown = body("F", identity("d", "x"), typed("Unheard", "y", "d:output:0"), returned="y:y:0")
    for records in (chosen(waits), chosen(unknown), [*chosen(body("F")), library(body("F"))]):
        stays(*records, evaluate=Evaluations())


def test_what_somebody_looks_into_stays() -> None:
    looked = body("F")
    looked.attr["api_implements"].s = b"some"
    compiled = body("F")
    compiled.attr["_XlaMustCompile"].b = True
    for records in (chosen(looked), chosen(compiled), chosen(body("F"), _XlaMustCompile=True)):
        stays(*records, evaluate=Evaluations())
    derived = node("d", "SymbolicGradient", ["x", "x"], f=func("F"), Tin=dtypes(FLOAT, FLOAT), Tout=F1)
    stays(X, derived, identity("y", "d"), library(body("F")), evaluate=Evaluations())


def test_what_lasts_and_what_is_waited_for_stays() -> None:
    said = [typed("AsString", "t", "x"), node("said", "PrintV2", ["t:output:0"])]
    nodes = [*said, identity("d", "x"), typed("Abs", "y", "d:output:0", "^said")]
    found, _ = folded(*chosen(body("F", *nodes, returned="y:y:0", effects=["said"], stateful=True)))
    assert nodes_of(found) == ["t", "said", "y"]


def test_a_call_of_constants_is_one() -> None:
    """Also one in a body, and of a function that calls another."""
    call = node("c", "PartitionedCall", ["a"], f=func("G"), Tin=F1, Tout=F1)
    inner = node("y", "PartitionedCall", ["x"], f=func("F"), Tin=F1, Tout=F1)
    both = library(body("F"), body("G", inner, returned="y:output:0"))
    records = [X, const("a", [1.0, 2.0]), call, typed("Slice", "s", "c", "at", "two", Index=INT32),
               const("at", [0], INT32), const("two", [2], INT32), add("y", "x", "s")]  # fmt: skip
    found, result = folded(*records, both, skip=["inline"], evaluate=by_tensorflow)
    assert graphs.ops(found) == {"x": "Placeholder", "s": "Const", "y": "AddV2"} and not list(found.functions)
    assert isinstance(result.claims[0], SameOutputs) and result.claims[0].as_written
    fed = {"x": [1.5, -2.0]}
    assert run(found, "y", **fed) == run(graph_bytes(*records, both), "y", **fed)
    inside = [const("a", [1.0, 2.0]), node("d", "F", ["a:output:0"]), add("y", "x", "d:o:0")]
    found, _ = folded(*chosen(body("H", *inside)), library(body("F")), evaluate=by_tensorflow)
    assert nodes_of(found, "H") == ["d", "y"]


def test_bodies_can_be_left() -> None:
    stays(*chosen(body("F")), skip=["bodies"], evaluate=Evaluations())
    found, _ = folded(*chosen(body("F")), skip=["constants"])
    assert nodes_of(found) == ["a", "b", *LESS]


N = placeholder("n", INT32, ())
LOOPING = {"i": INT32, "n": INT32, "x": FLOAT}
T3 = dtypes(INT32, INT32, FLOAT)
CALLING: dict[str, Any] = {"Tin": F1, "Tout": F1}
NEG = define("neg", {"x": FLOAT}, {"o": (FLOAT, "y:y:0")}, neg("y", "x"))
ABS = define("abs", {"x": FLOAT}, {"o": (FLOAT, "y:y:0")}, typed("Abs", "y", "x"))


def shaping(name: str, source: str) -> list[bytes]:
    """A sum over as many elements as there are in a row of SOURCE, which a Slice of all and a Reshape hand on."""
    return [
        typed("Shape", "s", source, out_type=INT32), typed("Reshape", "r", source, "s:output:0", Tshape=INT32),
        const("from", [1], INT32), const("to", [2], INT32), const("by", [1], INT32),
        typed("StridedSlice", "w", "s:output:0", "from:output:0", "to:output:0", "by:output:0", kind=INT32, Index=INT32,
              begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=1),
        node("wide", "Cast", ["w:output:0"], SrcT=INT32, DstT=FLOAT, Truncate=False),
        typed("RealDiv", name, "r:output:0", "wide:y:0"),
    ]  # fmt: skip


def chosen_in(*nodes: bytes, returned: str, more: Sequence[Any] = (), x: Sequence[int] = (-1, 3)) -> list[bytes]:
    """A graph in which an If calls a function of NODES, or another."""
    body = define("F", {"x": FLOAT}, {"o": (FLOAT, returned)}, *nodes)
    call = node("c", "If", ["p", "x"], Tcond=BOOL, then_branch=func("F"), else_branch=func("abs"), **CALLING)
    return [P, placeholder("x", FLOAT, x), call, identity("y", "c"), library(body, ABS, *more)]


def looping(*nodes: bytes, returned: str, x: Sequence[int] = (-1, 3), more: Sequence[Any] = ()) -> list[bytes]:
    """A graph with a loop of N iterations; each iteration calls a function of NODES."""
    asked = define("asked", LOOPING, {"go": (BOOL, "k:z:0")}, typed("Less", "k", "i", "n", kind=INT32))
    step = [scalar("one", 1, INT32), add("next", "i", "one:output:0", kind=INT32)]
    given = {"j": (INT32, "next:z:0"), "m": (INT32, "n"), "o": (FLOAT, returned)}
    turn = define("F", LOOPING, given, *step, *nodes)
    loop = typed(
        "StatelessWhile", "c", "zero", "n", "x", kind=T3, cond=func("asked"), body=func("F"), parallel_iterations=10
    )
    end = identity("y", "c:2")
    return [N, placeholder("x", FLOAT, x), scalar("zero", 0, INT32), loop, end, library(asked, turn, ABS, *more)]


def folded_by_tensorflow(records: list[bytes], **options: Any) -> tuple[Graph, EditResult]:
    return simplified(*records, **{"evaluate": by_tensorflow, **options})


def ops_of(found: Graph, name: str = "F") -> list[str]:
    return [n.op for n in found.functions.get(name).node_def]  # type: ignore[union-attr]


ROWS = [[1.0, -2.0, 0.5], [3.0, 0.25, -8.0]]
CHOICE = [const("k", True, BOOL), node("d", "StatelessIf", ["k:output:0", "x"], Tcond=BOOL, then_branch=func("neg"),
                          else_branch=func("abs"), **CALLING),
          typed("Tanh", "t", "d:output:0")]  # fmt: skip
STOPPED = define("stopped", {"x": FLOAT}, {"go": (BOOL, "k:output:0")}, const("k", False, BOOL))
NO_TURN = [typed("StatelessWhile", "d", "x", kind=F1, cond=func("stopped"), body=func("neg"), parallel_iterations=10),
           typed("Tanh", "t", "d:output:0")]  # fmt: skip
INSIDE = {
    "a choice": (CHOICE, "t:y:0", [NEG], {"PartitionedCall", "Tanh"}),
    "a loop of no turns": (NO_TURN, "t:y:0", [STOPPED, NEG], {"Tanh"}),
    "shapes": (shaping("t", "x"), "t:z:0", [], {"Const", "RealDiv"}),
}


@pytest.mark.parametrize(("nodes", "returned", "more", "left"), INSIDE.values(), ids=INSIDE)
def test_a_body_is_folded_as_a_graph_is(nodes: list[bytes], returned: str, more: list[Any], left: set[str]) -> None:
    """In both branches and for any number of turns it gives what it gave."""
    records = chosen_in(*nodes, returned=returned, more=more)
    found, _ = folded_by_tensorflow(records)
    assert {*ops_of(found)} == left
    for p in (True, False):
        fed = {"x": ROWS, "p": p}
        assert run(found, "y", **fed) == run(graph_bytes(*records), "y", **fed)
    records = looping(*nodes, returned=returned, more=more)
    found, _ = folded_by_tensorflow(records)
    assert {*ops_of(found)} == left | {"Const", "AddV2"}
    for n in (0, 1, 3):
        fed = {"x": ROWS, "n": n}
        assert run(found, "y", **fed) == run(graph_bytes(*records), "y", **fed)


def test_a_shape_that_a_loop_does_not_keep_is_none() -> None:
    """A turn that makes its tensor longer is called with others from the second time on."""
    axis = scalar("axis", 1, INT32)
    longer = typed("ConcatV2", "t", "x", "x", "axis:output:0", N=2, Tidx=INT32)
    rows = typed("Shape", "s", "x", out_type=INT32)
    again = typed("Reshape", "r", "t:output:0", "all:output:0", Tshape=INT32)
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
    found = called_shapes(from_bytes(graph_bytes(*records, library(outer, NEG, ABS, other))), use_stated=False)
    assert found == {"outer": [(2, 3)], "neg": [None], "abs": [(2, 4)], "outer2": []}


def test_passes_that_are_not_chosen_are_not_done_inside() -> None:
    for name, (nodes, returned, more, _) in INSIDE.items():
        skip = ["conditions"] if name != "shapes" else ["shapes", "same-shape", "equal-nodes"]
        stays(*chosen_in(*nodes, returned=returned, more=more), skip=skip, evaluate=Evaluations())


def test_what_takes_no_tensorflow_is_folded_where_there_is_none() -> None:
    def unable(*_: object) -> Any:
        raise NotValidatedError("no TensorFlow", code="no-engine")

    nodes = [const("a", [1.0]), const("b", [2.0]), typed("Mul", "c", "a:output:0", "b:output:0")]
    nodes += [*shaping("u", "x"), typed("Mul", "t", "u:z:0", "c:z:0")]
    found, result = folded_by_tensorflow(chosen_in(*nodes, returned="t:z:0"), evaluate=unable)
    assert "Shape" not in ops_of(found)
    (note,) = result.notes
    check_error(note, "not-computed", {"reason": "no-engine"})
