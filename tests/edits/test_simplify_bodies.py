"""simplify: the passes go over the bodies of functions that stay, and what is constant in one becomes so."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.desk import check_error
from support.evaluating import Evaluations, by_tensorflow
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    add,
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

from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.graph.graph import Graph

X = placeholder("x", FLOAT, (2,))
P = placeholder("p", BOOL, ())
F1 = dtypes(FLOAT)
BODY = [
    const("a", [1.0, 2.0]), const("b", [3.0, 4.0]), node("c", "Mul", ["a:output:0", "b:output:0"], T=FLOAT),
    identity("d", "x"), node("e", "AddV2", ["d:output:0", "c:z:0"], T=FLOAT), scalar("one", 1.0),
    node("f", "Mul", ["e:z:0", "one:output:0"], T=FLOAT), node("g", "Neg", ["f:z:0"], T=FLOAT),
    node("h", "Neg", ["f:z:0"], T=FLOAT), node("y", "AddV2", ["g:y:0", "h:y:0"], T=FLOAT),
    node("k", "Tanh", ["x"], T=FLOAT),
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


@pytest.mark.tensorflow
def test_a_body_is_a_graph() -> None:
    other = body("G", node("y", "Abs", ["x"], T=FLOAT), returned="y:y:0")
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


def test_bodies_in_bodies() -> None:
    some = node("s", "Sum", ["x", "axis:output:0"], T=FLOAT, Tidx=INT32)
    positive = node("p", "Greater", ["s:output:0", "zero:output:0"], T=FLOAT)
    call = node("y", "If", ["p:z:0", "x"], Tcond=BOOL, Tin=F1, Tout=F1, then_branch=func("F"), else_branch=func("F"))
    outer = body("G", const("axis", [0], INT32), some, scalar("zero", 0.0), positive, call, returned="y:output:0")
    found, result = folded(*chosen(outer), library(body("F")))
    assert (nodes_of(found), len(nodes_of(found, "G"))) == (LESS, 5)
    assert result.intent.functions.changed == ["F"]


def test_a_function_that_calls_itself_keeps_its_signature() -> None:
    total = node("s", "Sum", ["x", "axis:output:0"], T=FLOAT, Tidx=INT32)
    some = [const("axis", [0], INT32), total, scalar("zero", 0.0)]
    positive = node("p", "Greater", ["s:output:0", "zero:output:0"], T=FLOAT)
    ends = {"Tin": F1, "Tout": F1, "then_branch": func("F"), "else_branch": func("F")}
    again = node("y", "If", ["p:z:0", "d:output:0"], Tcond=BOOL, **ends)
    found, _ = folded(*chosen(body("F", *some, positive, identity("d", "x"), again, returned="y:output:0")))
    assert nodes_of(found) == ["axis", "s", "zero", "p", "y"]


def test_what_is_no_whole_function_stays() -> None:
    waits = body("F", identity("d", "x"), node("y", "Abs", ["d:output:0", "^gone"], T=FLOAT), returned="y:y:0")
    unknown = body("F", identity("d", "x"), node("y", "Unheard", ["d:output:0"], T=FLOAT), returned="y:y:0")
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
    said = [node("t", "AsString", ["x"], T=FLOAT), node("said", "PrintV2", ["t:output:0"])]
    nodes = [*said, identity("d", "x"), node("y", "Abs", ["d:output:0", "^said"], T=FLOAT)]
    found, _ = folded(*chosen(body("F", *nodes, returned="y:y:0", effects=["said"], stateful=True)))
    assert nodes_of(found) == ["t", "said", "y"]


@pytest.mark.tensorflow
def test_a_call_of_constants_is_one() -> None:
    """Also one in a body, and of a function that calls another."""
    call = node("c", "PartitionedCall", ["a"], f=func("G"), Tin=F1, Tout=F1)
    inner = node("y", "PartitionedCall", ["x"], f=func("F"), Tin=F1, Tout=F1)
    both = library(body("F"), body("G", inner, returned="y:output:0"))
    records = [X, const("a", [1.0, 2.0]), call, node("s", "Slice", ["c", "at", "two"], T=FLOAT, Index=INT32),
               const("at", [0], INT32), const("two", [2], INT32), add("y", "x", "s")]  # fmt: skip
    found, result = folded(*records, both, skip=["inline"], evaluate=by_tensorflow)
    assert graphs.ops(found) == {"x": "Placeholder", "s": "Const", "y": "AddV2"} and not list(found.functions)
    assert isinstance(result.claims[0], SameOutputs) and result.claims[0].as_written
    fed = {"x": [1.5, -2.0]}
    assert run(found, "y", **fed) == run(graph_bytes(*records, both), "y", **fed)
    inside = [const("a", [1.0, 2.0]), node("d", "F", ["a:output:0"]), node("y", "AddV2", ["x", "d:o:0"], T=FLOAT)]
    found, _ = folded(*chosen(body("H", *inside)), library(body("F")), evaluate=by_tensorflow)
    assert nodes_of(found, "H") == ["d", "y"]


def test_bodies_can_be_left() -> None:
    stays(*chosen(body("F")), skip=["bodies"], evaluate=Evaluations())
    found, _ = folded(*chosen(body("F")), skip=["constants"])
    assert nodes_of(found) == ["a", "b", *LESS]


def test_checks_that_go_in_a_body_are_said() -> None:
    check = [node("d", "CheckNumerics", ["x"], T=FLOAT, message="no"), node("y", "Abs", ["d:output:0"], T=FLOAT)]
    _, result = folded(*chosen(body("F", *check, returned="y:y:0")))
    (warning,) = result.warnings
    check_error(warning, "checks-removed", {"ops": {"CheckNumerics": 1}})
