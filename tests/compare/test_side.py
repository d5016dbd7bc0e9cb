"""A graph that cannot be walked is refused with what is wrong with it; what it has of loops and controls is read."""

from __future__ import annotations

import pytest
from support.graphs import FLOAT, INT32, const, graph, identity, node, placeholder
from support.paths import FIXTURES

from gdsurgeon.compare.match import match
from gdsurgeon.compare.side import Side
from gdsurgeon.container.load import load
from gdsurgeon.errors import InputError


def test_a_dangling_input() -> None:
    with pytest.raises(InputError, match="gone"):
        Side(graph(placeholder("x"), identity("y", "gone")))


def test_a_cycle() -> None:
    with pytest.raises(InputError, match="cycle"):
        Side(graph(identity("a", "b"), identity("b", "a")))


def test_two_nodes_of_one_name() -> None:
    with pytest.raises(InputError, match="named"):
        Side(graph(placeholder("x"), placeholder("x"), identity("y", "x")))


def test_control_edges_are_apart_from_data() -> None:
    side = Side(graph(placeholder("x"), placeholder("z"), identity("y", "x", "^z"), node("n", "NoOp", ["^y"])))
    assert side.written[2] == [(0, 0)] and side.controls[2] == [1] and side.waiting[1] == [2]
    assert side.inputs[3] == [(2, -1)]  # a node that only waits


def test_a_loop_is_walked() -> None:
    a, b = load(str(FIXTURES / "while_v1.pb")), load(str(FIXTURES / "while_v1.pb"))
    matching = match(a, b)
    assert all(i == j for i, j in matching.pairs())
    assert sum(1 for _ in matching.pairs()) == a.node_count


def test_weights_are_told_from_counts() -> None:
    side = Side(graph(const("axis", [0, 1], INT32), const("w", [1, 2], FLOAT)))
    assert [form.is_trained for form in side.forms] == [False, True]


@pytest.mark.parametrize("op", ["VariableV2", "Const", "Relu"])
def test_a_corrupt_attr_is_compared_as_it_is(op: str) -> None:
    broken = b"\x3a\x7f"
    side = Side(graph(node("w", op, dtype=broken, shape=broken, value=broken)))
    assert side.forms[0].tensor is None
