"""Tensors computed once more from others than before."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from support import graphs
from support.graph_editor_running import refused, sound
from support.graphs import FLOAT, INT32, add, const, graph, identity, neg, node, placeholder, scalar

from gdsurgeon import graph_editor as ge
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output


def total(*more: bytes) -> Graph:
    """c = a + b + eps."""
    return graph(
        scalar("a", 1), scalar("b", 1), scalar("eps", 0.001), add("add", "a", "b"), add("add_1", "add", "eps"),
        identity("c", "add_1"), scalar("a_new", 2), *more,
    )  # fmt: skip


def replaced(found: Graph, target: object) -> object:
    return ge.graph_replace(target, {found["a"].output: found["a_new"].output})


def test_what_lies_between_is_copied_and_the_original_left_alone() -> None:
    found = total()
    before = graphs.inputs(found)
    new = replaced(found, found["c"].output)
    assert isinstance(new, Output) and new.name == "c_1"
    after = graphs.inputs(found)
    assert {name: after.pop(name) for name in before} == before
    assert after == {"add_2": ["a_new", "b"], "add_1_1": ["add_2", "eps"], "c_1": ["add_1_1"]}
    assert sound(found)


class One(NamedTuple):
    t: Output


def test_the_result_has_the_form_of_the_targets() -> None:
    found = total()
    c = found["c"].output
    for i, target in enumerate([{"c": c}, OrderedDict(c=c), One(c), [c], (c,), {"x": [One(c)]}], 1):
        new = replaced(found, target)
        assert type(new) is type(target)
        name = f"c_{i}"
        assert [t.name for t in ge.util.flatten_tree(new)] == [name]
    assert isinstance(new, dict) and isinstance(new["x"][0], One)


def test_a_target_that_does_not_depend_on_it_is_returned_as_it_is() -> None:
    found = graph(
        scalar("a", 1), scalar("b", 2), scalar("two", 2), node("mul", "Mul", ["two", "b"], T=FLOAT),
        add("c", "a", "mul"), scalar("d", 2),
    )  # fmt: skip
    b, c = found["b"].output, found["c"].output
    new = ge.graph_replace([b, c], {found["a"].output: found["d"].output})
    assert new == [b, found["c_1"].output]
    assert graphs.inputs(found)["c_1"] == ["d", "mul"]


def test_no_target_that_depends_on_it_is_refused() -> None:
    found = total()
    refused(found, "nothing-to-do", lambda: replaced(found, [found["b"].output, found["a_new"].output]))
    refused(found, "wrong-type", lambda: replaced(found, found["c"]), expected="Output", found="Node")
    refused(found, "other-graph", lambda: replaced(found, total()["c"].output), name="a", expected="c")


def test_a_replaced_target_is_what_replaces_it() -> None:
    found = total()
    assert replaced(found, found["a"].output) == found["a_new"].output
    assert not found.is_changed


def test_what_lies_before_a_replaced_tensor_is_not_copied() -> None:
    found = total()
    old = [found[name].output for name in ("a", "add_1")]
    new = ge.graph_replace(found["c"].output, dict.fromkeys(old, found["a_new"].output))
    assert graphs.inputs(found)[new.node.name] == ["a_new"]
    assert found.node_count == 8


def test_what_depends_on_it_by_a_control_edge_alone_is_copied_too() -> None:
    found = graph(const("a", [1]), const("new", [1]), identity("x", "a"), const("y", [1]), identity("z", "y", "^x"))
    ge.graph_replace(found["z"].output, {found["a"].output: found["new"].output})
    assert graphs.inputs(found)["x_1"] == ["new"] and graphs.inputs(found)["z_1"] == ["y", "^x_1"]


def test_the_shape_of_a_replacement_may_be_another_and_the_dtype_not() -> None:
    found = graph(placeholder("a", FLOAT, (32, 3)), identity("y", "a"), placeholder("b", FLOAT, (8, 3)),
                  placeholder("i", INT32, (32, 3)))  # fmt: skip
    y, a = found["y"].output, found["a"].output
    assert ge.graph_replace(y, {a: found["b"].output}).name == "y_1"
    refused(found, "dtype-mismatch", lambda: ge.graph_replace(y, {a: found["i"].output}), tensor="a", replacement="i")


def test_a_tensor_may_be_replaced_by_one_that_depends_on_it() -> None:
    found = graph(const("w", [1]), neg("g", "w"), identity("h", "g"))
    new = ge.graph_replace(found["h"].output, {found["w"].output: found["g"].output}, dst_scope="res")
    assert new.name == "res/h" and sound(found)
    assert (graphs.inputs(found)["res/h"], graphs.inputs(found)["res/g"]) == (["res/g"], ["g"])


def test_a_while_loop_that_is_concerned_is_copied_whole() -> None:
    found = graph(*graphs.loop(), scalar("three", 3, INT32))
    ge.graph_replace(found["out"].output, {found["n"].output: found["three"].output}, dst_scope="x")
    copied = {name for name in graphs.names(found) if name.startswith("x/")}
    assert copied == {f"x/{name}" for name in graphs.names(graph(*graphs.loop())) if name not in ("n", "zero")}
    assert graphs.inputs(found)["x/w/Limit"] == ["three"] and graphs.inputs(found)["x/w/Enter"] == ["zero"]
    assert sound(found)
