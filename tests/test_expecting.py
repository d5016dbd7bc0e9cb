"""The helper that edits are held to finds what is wrong with a graph."""

from __future__ import annotations

import pytest
from support.expecting import expect, refused
from support.graphs import FLOAT, add, const, graph, identity, node

from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph

BEFORE = [const("a", [1]), const("b", [2]), add("sum", "a", "b", "^a"), identity("y", "sum")]
AFTER = [*BEFORE[:2], add("c", "a", "b", "^a"), identity("y", "c")]


def test_what_is_right_passes() -> None:
    result = expect(BEFORE, lambda g: rename(g, [("sum", "c")]), AFTER, command="rename sum=c")
    assert result.intent.renamed == {"sum": "c"}


@pytest.mark.parametrize(
    "wrong",
    [
        add("d", "a", "b", "^a"),
        add("c", "b", "a", "^a"),
        add("c", "a", "b"),
        add("c", "a", "b", "^a", _note="more"),
        node("c", "Sub", ["a", "b", "^a"], T=FLOAT),
        node("c", "AddV2", ["a", "b", "^a"], device="/cpu:0", T=FLOAT),
    ],
    ids=["name", "inputs", "control inputs", "attrs", "op", "device"],
)
def test_what_differs_is_found(wrong: bytes) -> None:
    with pytest.raises(AssertionError):
        expect(BEFORE, lambda g: rename(g, [("sum", "c")]), [*BEFORE[:2], wrong, identity("y", "c")])


def test_another_order_is_found() -> None:
    with pytest.raises(AssertionError):
        expect(BEFORE, lambda g: rename(g, [("sum", "c")]), AFTER[::-1])


def test_a_command_line_that_does_something_else_is_found() -> None:
    with pytest.raises(AssertionError):
        expect(BEFORE, lambda g: rename(g, [("sum", "c")]), AFTER, command="rename sum=d")


@pytest.mark.tensorflow
def test_values_that_are_not_the_same_are_found() -> None:
    expect(BEFORE, lambda g: rename(g, [("sum", "c")]), AFTER, same=["y"])
    swapped = [const("b", [1]), const("a", [2]), add("sum", "b", "a", "^b"), identity("y", "sum")]
    with pytest.raises(AssertionError):
        expect(BEFORE, lambda g: rename(g, [("a", "b"), ("b", "a")]), swapped, same=["a"])


def test_a_refusal_that_changes_the_graph_is_found() -> None:
    def half_done(found: Graph) -> None:
        rename(found, [("sum", "c")])
        raise EditError("no")

    with pytest.raises(AssertionError):
        refused(graph(*BEFORE), "edit-refused", half_done)
    with pytest.raises(AssertionError):
        refused(graph(*BEFORE), "name-taken", lambda g: rename(g, [("nothing", "c")]))
