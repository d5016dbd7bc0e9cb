"""insert into several tensors, each of which gets a copy of the graph."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.desk import Desk
from support.expecting import account, refused
from support.graphs import FLOAT, add, const, graph, node, placeholder, scalar
from support.running import run
from support.v1_control_flow import LOOP

import gdsurgeon as gds
from gdsurgeon.edits.insert import insert
from gdsurgeon.select import Selection


def body() -> list[bytes]:
    """in * 10 + 1."""
    return [
        placeholder("in", FLOAT, (2,)), scalar("ten", 10), node("tens", "Mul", ["in", "ten"], T=FLOAT),
        scalar("one", 1), add("out", "tens", "one"),
    ]  # fmt: skip


DEEP = [placeholder("x", FLOAT, (2,)), node("a", "Neg", ["x"], T=FLOAT), node("b", "Neg", ["a"], T=FLOAT),
        node("y", "Abs", ["b"], T=FLOAT), node("c", "Neg", ["a"], T=FLOAT)]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("tensors", "scope", "prefixes"),
    [(Selection(ops=("Neg",)), "", ("a/", "b/")), (["b", "a"], "s", ("b/s/", "a/s/")), (["a"], "", ("a/",))],
)
def test_several_tensors(tensors: Any, scope: str, prefixes: tuple[str, ...]) -> None:
    """Each has a copy of its own, whether or not one is computed from another."""
    found = graph(*DEEP)
    result = insert(found, tensors, graph(*body(), name="body.pb"), scope=scope)
    account(found, result)
    for name in prefixes:
        tensor = name[0]
        assert graphs.inputs(found)[f"{name}tens"] == [tensor, f"{name}ten"]
        assert graphs.inputs(found)[{"a": "b", "b": "y"}[tensor]] == [f"{name}out"]
    assert gds.prove(found, result).compared
    of_a, of_b = ((lambda v: v * 10 + 1) if any(p[0] == n for p in prefixes) else (lambda v: v) for n in "ab")
    assert run(found, "y", x=[1.0, -2.0]) == [[abs(of_b(-of_a(-v))) for v in (1, -2)]]


@pytest.mark.tensorflow
def test_several_tensors_some_of_which_lie_in_a_loop() -> None:
    """Their values cannot be fetched: the copies there are run apart."""
    found = graph(*LOOP)
    part = [placeholder("in", FLOAT, ()), node("out", "Neg", ["in"], T=FLOAT)]
    result = insert(found, Selection(ops=("Mul", "Exit")), graph(*part, name="body.pb"))
    account(found, result)
    assert {"w/double/out", "w/Exit_v/out"} <= set(found.names())
    assert gds.prove(found, result).compared


@pytest.mark.parametrize(
    ("tensors", "scope", "code", "facts"),
    [
        (Selection(nodes=("y", "c")), "", "no-consumers", {"tensors": ["y", "c"]}),
        (["a", "y"], "", "no-consumers", {"tensor": "y"}),
        (["a", "b"], "s", "name-taken", {"name": "b/s/ten"}),
        (["a", "nope"], "", "no-such-node", {"node": "nope"}),
    ],
)
def test_several_tensors_that_are_refused(tensors: Any, scope: str, code: str, facts: dict[str, Any]) -> None:
    found, part = graph(*DEEP, const("b/s/ten", [1])), graph(*body())
    refused(found, code, lambda g: insert(g, tensors, part, scope=scope), part, **facts)


def test_a_selection_on_the_command_line(desk: Desk) -> None:
    desk.put("m.pb", graphs.graph_bytes(*DEEP))
    desk.put("body.pb", graphs.graph_bytes(*body()))
    quick = ("--validate", "structure", "-o", "out.pb")
    assert desk.run("insert", "m.pb", "--op", "Neg", "body.pb", *quick).code == 0
    assert desk.run("select", "out.pb", "--op", "Mul").out.decode().split() == ["a/tens", "b/tens"]
    assert desk.run("insert", "m.pb", "--op", "Neg", "--steps", "clip(0, 6)", *quick).code == 0
    assert len(desk.run("select", "out.pb", "--op", "ClipByValue").out.decode().split()) == 2
    desk.refused(2, "missing-argument", "insert", "m.pb", name="TENSOR")
    desk.refused(2, "conflicting-options", "insert", "m.pb", "a", "body.pb", "--op", "Neg", name="TENSOR")
    steps = ("insert", "m.pb", "--op", "Neg", "--steps", "clip(0, 6)")
    desk.refused(2, "conflicting-options", *steps, "--emit", "e.pb", option="--emit")
