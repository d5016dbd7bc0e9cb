"""Which nodes draw, where predicates are decided before anything is run."""

from __future__ import annotations

from typing import Any

from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    VERSIONS,
    call,
    define,
    func,
    graph,
    identity,
    library,
    node,
    placeholder,
    tensor,
)

from gdsurgeon.analysis.queries.effects import MOST_CALLS, random_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph


def boolean(name: str, value: bool) -> bytes:
    return node(name, "Const", dtype=BOOL, value=tensor_value(10, (), [value]).SerializeToString())


def drawing(found: Graph) -> list[str]:
    topology = topology_of(found)
    return [topology.name(number) for number in random_nodes(found)]


def draw(name: str, *controls: str, inputs: tuple[str, ...] = ("shape",)) -> bytes:
    return node(name, "RandomUniform", [*inputs, *controls], T=INT32, dtype=FLOAT)


SHAPE = node("shape", "Const", dtype=INT32, value=tensor([2], INT32))


def test_predicates_are_followed_through_what_passes_them_on_and_negations() -> None:
    found = graph(
        SHAPE,
        boolean("k", True),
        node("n", "LogicalNot", ["k"]),
        identity("p", "n", kind=BOOL),
        node("s", "Switch", ["p", "p"], T=BOOL),
        identity("t", "s:1", kind=BOOL),
        draw("then", "^t"),
    )
    assert drawing(found) == []


def branch(name: str, *body: bytes, source: str = "y:output:0") -> Any:
    return define(name, {"shape": INT32}, {"out": (FLOAT, source)}, *body, stateful=True)


DRAWS = branch("draws", draw("y"))
CALM = branch("calm", node("y", "Cast", ["shape"], SrcT=INT32, DstT=FLOAT), source="y:y:0")


def choice(predicate: str, *, body: bool = False) -> bytes:
    return node(
        "if", "If", [predicate, "shape"], Tcond=BOOL, Tin=b"\n\x03\x32\x01\x03", Tout=b"\n\x03\x32\x01\x01",
        then_branch=func("draws"), else_branch=func("calm"),
    )  # fmt: skip


def test_of_a_decided_conditional_only_what_is_called_counts() -> None:
    for value, expected in ((True, ["if"]), (False, [])):
        found = graph(SHAPE, boolean("p", value), choice("p"), trailer=library(DRAWS, CALM) + VERSIONS)
        assert drawing(found) == expected
    found = graph(SHAPE, placeholder("p", BOOL, ()), choice("p"), trailer=library(DRAWS, CALM) + VERSIONS)
    assert drawing(found) == ["if"]


def test_what_a_call_is_given_decides_inside() -> None:
    inner = define("inner", {"p": BOOL, "shape": INT32}, {"out": (FLOAT, "if:output:0")}, choice("p"), stateful=True)
    for value, expected in ((True, ["call"]), (False, [])):
        call_ = call("call", "inner", ["p", "shape"], [BOOL, INT32], [FLOAT], stateful=True)
        found = graph(SHAPE, boolean("p", value), call_, trailer=library(inner, DRAWS, CALM) + VERSIONS)
        assert drawing(found) == expected


def test_calls_that_double_at_each_level_are_looked_at_once() -> None:
    """Two to the power of forty calls; and deeper than is looked into."""
    last = [branch("f0", node("y", "Cast", ["shape"], SrcT=INT32, DstT=FLOAT), source="y:y:0")]

    def level(number: int, *more: bytes) -> Any:
        calls = [call(n, f"f{number - 1}", ["shape"], [INT32], [FLOAT], stateful=True) for n in "ab"]
        return branch(f"f{number}", *calls, *more, source="a:output:0")

    levels = [level(number, *((draw("r"),) if number == 1 else ())) for number in range(1, 41)]
    top = call("call", "f40", ["shape"], [INT32], [FLOAT], stateful=True)
    assert drawing(graph(SHAPE, top, trailer=library(*last, *levels) + VERSIONS)) == ["call"]
    deep = [level(number) for number in range(1, MOST_CALLS + 3)]
    top = call("call", f"f{MOST_CALLS + 2}", ["shape"], [INT32], [FLOAT], stateful=True)
    found = graph(SHAPE, top, trailer=library(branch("f0", draw("y")), *deep) + VERSIONS)
    assert drawing(found) == ["call"]
