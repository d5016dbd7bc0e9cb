"""Whole graphs, views and scopes copied, with handlers and with other inputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick_some
from support.graph_editor_running import clone, refused, sound
from support.graphs import FLOAT, INT32, add, const, graph, identity, neg, node, placeholder, scalar

from gdsurgeon import graph_editor as ge
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Node, Output

# Whole graphs.


def t8(*more: bytes) -> Graph:
    """Three additions in a row, of ones."""
    ones = [1.0] * 10
    return graph(
        const("Const", ones, _foo="foo"), const("Const_1", ones), const("Const_2", ones), const("Input", ones),
        add("Add", "Const", "Input"), add("Add_1", "Const_1", "Add"), add("Add_2", "Const_2", "Add_1"),
        identity("o", "Add_2"), *more,
    )  # fmt: skip


def test_what_became_of_what() -> None:
    found = t8()
    target = ge.empty_graph(found)
    _, info = ge.copy(found, target, dst_scope="x")
    assert info.transformed({"n": "Add", "t": [found["Add"].output]}) == {
        "n": target["x/Add"], "t": [target["x/Add"].output],
    }  # fmt: skip
    assert info.transformed("Add:0") == target["x/Add"].output
    assert info.original("x/Add") is found["Add"]
    other = t8()
    assert info.transformed(other["Add"]) is None
    assert info.transformed(other["Add"], lambda leaf: leaf.name) == "Add"
    refused(found, "wrong-type", lambda: info.transformed(3), expected="Node or Output", found="int")
    refused(found, "no-such-node", lambda: info.transformed("nope"), node="nope")


def test_a_copy_goes_to_a_graph_and_is_of_something() -> None:
    found, target = t8(), b""
    copied: Any = partial(ge.copy, found, dst_graph=target)
    refused(found, "wrong-type", copied, expected="Graph", found="bytes")
    refused(found, "nothing-selected", lambda: ge.copy([]))
    refused(found, "nothing-selected", lambda: ge.copy([], found))


@given(graphs.random_graphs(), st.data())
def test_nodes_can_be_in_any_order(drawn: graphs.Drawn, data: st.DataObject) -> None:
    """Copied whole to an empty graph, and in part inside the graph itself."""
    found = from_bytes(drawn.data)
    target = ge.empty_graph(found)
    ge.copy(found, target)
    assert graphs.inputs(target) == {name: _once(read) for name, read in graphs.inputs(found).items()}
    before = graphs.inputs(found)
    chosen = set(pick_some(data.draw, sorted(before), least=1, unique=True))
    _, info = ge.copy_with_input_replacements([found[name] for name in sorted(chosen)], {}, dst_scope="copied")
    names = {old.name: new.name for old, new in info.transformed_ops.items()}
    assert names == {name: f"copied/{name}" for name in chosen}
    after = graphs.inputs(found)
    assert {name: after[name] for name in before} == before
    for name in chosen:
        assert after[names[name]] == _once([_moved(i, names) for i in before[name]])
    # Elsewhere a placeholder stands for each tensor from outside.
    part = ge.empty_graph(found)
    ge.copy([found[name] for name in sorted(chosen)], part, "copied")
    assert set(names.values()) <= set(graphs.names(part)) and sound(part)
    copied = graphs.inputs(part)
    for name in chosen:
        assert len(_data(copied[names[name]])) == len(_data(before[name]))


def _once(read: list[str]) -> list[str]:
    """Each control input once, as the graph has them."""
    return _data(read) + list(dict.fromkeys(i for i in read if i[0] == "^"))


def _data(read: list[str]) -> list[str]:
    return [i for i in read if i[0] != "^"]


def _moved(text: str, names: dict[str, str]) -> str:
    mark, rest = ("^", text[1:]) if text[0] == "^" else ("", text)
    name, colon, index = rest.partition(":")
    return mark + names.get(name, name) + colon + index


def test_nodes_on_a_cycle_are_refused() -> None:
    found = graph(identity("a", "b"), identity("b", "a"))
    refused(found, "would-cycle", lambda: ge.copy(found, dst_scope="t"), node="a")


# Handlers.


def with_noise(handler: Any) -> Any:
    """In place of the output of each addition the sum of that and of ones."""

    def handle(info: ge.TransformerInfo, op: Node, new_inputs: list[Output]) -> tuple[Node, Any]:
        node, outputs = handler(info, op, new_inputs)
        if not op.name.startswith("Add"):
            return node, outputs
        noise = ge.make_const(info.graph_, "Noise", [1.0] * 10, uniquify_name=True)
        attrs = {"T": type_value(1).SerializeToString()}
        [output] = outputs
        noisy = info.graph_.add(info.graph_.unique_names()("AddNoise"), "AddV2", [noise.output, output], attrs=attrs)
        return node, [noisy.output]

    return handle


@pytest.mark.parametrize("in_place", [False, True])
def test_a_handler_gives_later_nodes_something_else_to_read(in_place: bool) -> None:
    original = t8()
    handler, target = (ge.transform_op_in_place, original) if in_place else (ge.copy_op_handler, None)
    found = handled(original, with_noise(handler), target)
    inputs = graphs.inputs(found)
    above = "Input"
    for suffix in ("", "_1", "_2"):
        reads = [inputs[f"Add{suffix}"], inputs[f"AddNoise{suffix}"]]
        assert reads == [[f"Const{suffix}", above], [f"Noise{suffix}", f"Add{suffix}"]]
        above = f"AddNoise{suffix}"
    assert inputs["o"] == [above]
    assert found.node_count == 14
    assert sound(found)


def handled(found: Graph, handler: Any, target: Graph | None = None) -> Graph:
    """A copy that HANDLER makes, in an empty graph unless TARGET is given."""
    target = ge.empty_graph(found) if target is None else target
    copier = ge.Transformer()
    copier.transform_op_handler = handler
    copier(found, target, "")
    return target


def test_in_place_is_inside_the_graph() -> None:
    found = t8()
    refused(found, "not-replaceable", lambda: handled(found, ge.transform_op_in_place), node="Const")
    handled(found, ge.transform_op_in_place, found)
    assert not found.is_changed
    same: Any = lambda info, op, inputs: (op, [op.output])  # noqa: E731
    refused(found, "other-graph", lambda: handled(found, same), node="Const", found="Const")


def test_a_function_of_the_node_def() -> None:
    def respelt(node_def: Any) -> Any:
        if "_foo" in node_def.attr:
            del node_def.attr["_foo"]
        node_def.attr["_bar"].s = b"bar"
        node_def.device = "/cpu:0"
        return node_def

    found = t8()
    target = handled(found, partial(ge.copy_op_handler, nodedef_fn=respelt))
    assert graphs.attrs(found, "Const")["_foo"].s == b"foo"
    assert "_foo" not in graphs.attrs(target, "Const")
    assert {graphs.attrs(target, name)["_bar"].s for name in graphs.names(target)} == {b"bar"}
    assert {n.device for n in graphs.parsed(target).node} == {"/cpu:0"}
    assert "_bar" not in graphs.attrs(found, "Add") and not found.is_changed
    assert graphs.inputs(target) == graphs.inputs(found)


def test_a_function_of_the_node_def_may_change_its_op_and_its_name() -> None:
    def respelt(node_def: Any) -> Any:
        if node_def.op == "Identity":
            node_def.op, node_def.name = "Neg", "minus"
            del node_def.attr["_class"]
        return node_def

    found = graph(const("a", [1]), identity("b", "a", _class=["loc:@a"]), add("c", "b", "b"))
    target = handled(found, partial(ge.copy_op_handler, nodedef_fn=respelt))
    assert graphs.inputs(target) == {"a": [], "minus": ["a"], "c": ["minus", "minus"]}
    assert graphs.ops(target)["minus"] == "Neg" and graphs.colocations(target) == {}


# Inputs.


def test_replacements_that_do_not_fit_are_refused() -> None:
    found, other = t8(const("i", [1], INT32)), t8()
    node, old = found["Add_2"], found["Add_1"].output
    for new, code, tensor in [(other["o"], "other-graph", "o"), (found["i"], "dtype-mismatch", "Add_1")]:
        copied = partial(ge.copy_with_input_replacements, node, {old: new.output})
        refused(found, code, copied, tensor=tensor)


# Scopes, colocation.


def test_a_scope_that_is_in_use_is_made_unique_as_a_whole() -> None:
    def copied(**options: Any) -> list[str]:
        found = graph(const("s/b", [1]), identity("s/b/y", "s/b"), const("t/b", [1]))
        _, info = ge.copy(ge.sgv_scope("s", found), dst_scope="t", src_scope="s", **options)
        return [n.name for n in info.transformed_ops.values()]

    assert copied() == ["t_1/b", "t_1/b/y"]
    assert copied(reuse_dst_scope=True) == ["t/b_1", "t/b/y"]


def test_a_colocation_with_something_outside_is_kept() -> None:
    found = clone(identity("s/c", "ext", _class=["loc:@ext", "loc:@s/b"]))
    ge.copy_with_input_replacements(ge.sgv_scope("s", found), {}, dst_scope="t", src_scope="s")
    assert graphs.colocations(found)["t/c"] == [b"loc:@ext", b"loc:@t/b"]
    target = ge.empty_graph(found)
    ge.copy(ge.sgv_scope("s", found), target)
    assert graphs.colocations(target) == {"s/c": [b"loc:@s/b"]}


# While loops, conditionals, functions, shared names.


def test_a_copy_has_a_frame_a_table_and_functions_of_its_own() -> None:
    body, types = identity("y", "x"), graphs.dtypes(FLOAT)
    call = node("call", "PartitionedCall", ["a"], f=graphs.func("F"), Tin=types, Tout=types)
    table = node("table", "HashTableV2", key_dtype=graphs.STRING, value_dtype=graphs.INT64, shared_name="shared")
    library = graphs.library(graphs.function("F", body, ret="y:output:0"))
    found = graph(*graphs.loop(), const("a", [1]), call, table, library)
    other = graphs.function("F", body, node("z", "NoOp"), ret="y:output:0")
    for target, function in ((found, "F"), (graph(*graphs.loop(), table, graphs.library(other)), "F_1")):
        ge.copy(found, target, "x")
        assert graphs.attrs(target, "x/call")["f"].func.name == function == target.functions[function].signature.name
        for name, key in (("w/Enter", "frame_name"), ("table", "shared_name")):
            assert graphs.attrs(target, f"x/{name}")[key].s != graphs.attrs(target, name)[key].s
        assert sound(target)


def total(*more: bytes) -> Graph:
    """c = a + b + eps."""
    return graph(
        scalar("a", 1), scalar("b", 1), scalar("eps", 0.001), add("add", "a", "b"), add("add_1", "add", "eps"),
        identity("c", "add_1"), scalar("a_new", 2), *more,
    )  # fmt: skip


def replaced(found: Graph, target: object) -> object:
    return ge.graph_replace(target, {found["a"].output: found["a_new"].output})


def test_no_target_that_depends_on_it_is_refused() -> None:
    found = total()
    refused(found, "nothing-to-do", lambda: replaced(found, [found["b"].output, found["a_new"].output]))
    refused(found, "wrong-type", lambda: replaced(found, found["c"]), expected="Output", found="Node")
    refused(found, "other-graph", lambda: replaced(found, total()["c"].output), name="a", expected="c")


def test_a_replaced_target_is_what_replaces_it() -> None:
    found = total()
    assert replaced(found, found["a"].output) == found["a_new"].output
    assert not found.is_changed


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
