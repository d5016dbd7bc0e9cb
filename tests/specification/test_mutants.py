# ruff: noqa: E501 (a text of the source stands in one line here, too)
"""Mistakes in the code of edits and of the writer are found before anything is run: nothing else was asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.graphs import (
    FLOAT,
    INT32,
    add,
    const,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    node,
    placeholder,
    shape_proto,
)
from support.mutants import Case, Mutant, check_caught

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection
from gdsurgeon.wire.fields import encode_len


def shapes_attr(*shapes: tuple[int, ...]) -> bytes:
    return encode_len(1, b"".join(encode_len(7, shape_proto(shape)) for shape in shapes))


def scopes() -> Graph:
    """The scopes `net` and `net_2`, a node named like the scope, readers that wait, a colocation, a device, functions."""
    return graph(
        placeholder("x", FLOAT, (1, 4)),
        placeholder("net", FLOAT, (1, 4)),
        const("net/w", [1, 2, 3, 4]),
        add("net/y", "net", "net/w", "^x", device="/device:GPU:0"),
        const("net_2/w", [1, 2, 3, 4], _note="a"),
        add("net_2/y", "net/y", "net_2/w", "^net/y", "^x", _class=["loc:@net/y"]),
        node("two", "Split", ["axis", "net/y"], T=FLOAT, num_split=2),
        const("axis", [1], INT32, ()),
        identity("a", "two", "^x"),
        identity("b", "two:1", "^net/y"),
        identity("a/a", "a"),
        node("call", "PartitionedCall", ["a"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("f"), device="/gpu:0"),
        library(function("f"), function("f_grad"), gradients={"f": "f_grad"}),
    )  # fmt: skip


def reshapes() -> Graph:
    return graph(
        placeholder("image", FLOAT, (1, 2, 8)),
        const("shape", [1, 16], INT32),
        node("flat", "Reshape", ["image", "shape"], T=FLOAT, Tshape=INT32, _output_shapes=shapes_attr((1, 16))),
        const("shared", [1, 16], INT32),
        node("too", "Reshape", ["image", "shared"], T=FLOAT, Tshape=INT32),
        node("itself", "Neg", ["shared"], T=INT32),
        identity("y", "flat"),
        identity("z", "too"),
    )


def defaults() -> Graph:
    return graph(
        const("value", [1.5, 2.5]),
        node("rate", "PlaceholderWithDefault", ["value"], dtype=FLOAT, shape=(2,)),
        placeholder("x", FLOAT, (2, 2)),
        placeholder("also", FLOAT, (2, 2)),
        add("y", "x", "rate"),
        add("z", "y", "also"),
    )


def bypasses() -> Graph:
    return graph(
        placeholder("x", FLOAT, (1, 4)),
        placeholder("z", FLOAT, (1, 4)),
        identity("log", "z"),
        add("gone", "x", "z", "^log"),
        identity("after", "gone", "^gone"),
        node("list", "IdentityN", ["x", "z"], T=dtypes(FLOAT, FLOAT)),
        identity("one", "list"),
        identity("two", "list:1", "^gone", _class=["loc:@gone"]),
        library(function("kept")),
    )


def renamed(g: Graph) -> EditResult:
    return gds.rename(g, scopes=[("net", "tower")])


def one_renamed(g: Graph) -> EditResult:
    return gds.rename(g, [("net/y", "moved")])


def by_pattern(g: Graph) -> EditResult:
    return gds.rename(g, patterns=[("a", "bb")])


def rerouted(g: Graph) -> EditResult:
    return gds.reroute(g, [("two", "two:1")])


def swapped(g: Graph) -> EditResult:
    return gds.reroute(g, [("net/w", "net_2/w")], swap=True)


def only_some(g: Graph) -> EditResult:
    return gds.reroute(g, [("net/y", "net")], only="two")


def attr(g: Graph) -> EditResult:
    return gds.set_attr(g, ["net_2/w"], [("_note:string", "b")])


def listed(g: Graph) -> EditResult:
    return gds.set_attr(g, ["a"], [("_sizes:list(int)", "[1,2,3]")])


def attr_gone(g: Graph) -> EditResult:
    return gds.set_attr(g, ["net_2/w"], remove=["_note"])


def cleared(g: Graph) -> EditResult:
    return gds.set_device(g, clear=True)


def mapped(g: Graph) -> EditResult:
    return gds.set_device(g, pairs=[("/gpu:0", "/gpu:1")])


def placed(g: Graph) -> EditResult:
    return gds.set_device(g, device="/cpu:0", nodes=Selection(scopes=("net",)))


def waiting(g: Graph) -> EditResult:
    return gds.control(g, add=[("a/a", "b")])


def no_wait(g: Graph) -> EditResult:
    return gds.control(g, remove=[("net_2/y", "x")])


def reshaped(g: Graph) -> EditResult:
    return gds.set_shape(g, [("image", (1, 4, 4))])


def opened(g: Graph) -> EditResult:
    return gds.set_shape(g, [("image", (-1, 2, 8))], fix_batch=True)


def frozen(g: Graph) -> EditResult:
    return gds.freeze_input(g, {"rate": "[0.5, 0.25]"})


def arrays(g: Graph) -> EditResult:
    return gds.freeze_input(g, {"x": np.array([[1, 2], [3, 4]], np.float32)})


def bypassed(g: Graph) -> EditResult:
    return gds.remove(g, Selection(nodes=("gone",)), bypass=True, bypass_input=0)


def list_bypassed(g: Graph) -> EditResult:
    return gds.remove(g, Selection(nodes=("list",)), bypass=True)


def dangling(g: Graph) -> EditResult:
    return gds.remove(g, Selection(nodes=("gone",)), dangling="placeholder")


def negated(g: Graph) -> EditResult:
    return gds.swap_op(g, Selection(nodes=("net/y",)), "Sub")


def of(edit: Callable[[Graph], EditResult], make: Callable[[], Graph]) -> Case:
    """The case in which EDIT is done to the graph that MAKE makes."""

    def case() -> tuple[Graph, EditResult]:
        found = make()
        return found, edit(found)

    return case


MUTANTS = [
    Mutant(
        "rename: a scope takes in names that only begin like it", "graph.names", "before, after = scope_prefix(old), scope_prefix(new)", "before, after = scope_prefix(old)[:-1], scope_prefix(new)[:-1]", of(renamed, scopes),
    ),
    Mutant(
        "rename: a scope leaves the node of its own name", "graph.names", "elif name == before[:-1] and after:", "elif False:", of(renamed, scopes),
    ),
    Mutant(
        "rename: a pattern is replaced once in a name", "select", "substitute(replacement, name)", "substitute(replacement, name, 1)", of(by_pattern, scopes),
    ),
    Mutant(
        "rename: the last part of the name only", "graph.names", "yield name, after + name[len(before) :]", 'yield name, after + name.split("/")[-1] + "_"', of(renamed, scopes),
    ),
    Mutant(
        "reroute: the first consumer only", "edits.reroute", "for use in graph.uses(old) if", "for use in graph.uses(old)[:1] if", of(lambda g: gds.reroute(g, [("net/y", "net")]), scopes),
    ),
    Mutant(
        "reroute: a swap goes one way", "edits.reroute", "[(new, old) for old, new in resolved] if swap else []", "[]", of(swapped, scopes),
    ),
    Mutant(
        "reroute: who is named is not looked at", "edits.reroute", "if wanted is not None and not wanted.search(name):", "if False:", of(only_some, scopes),
    ),
    Mutant(
        "reroute: the next output", "edits.reroute", "slots.setdefault(use.node, {})[use.slot] = new",
        "slots.setdefault(use.node, {})[use.slot] = Output(new.node, 0)", of(rerouted, scopes),
    ),
    Mutant(
        "set-attr: a list is read backwards", "analysis.queries.attr_text", "extend(map(parse, _items(item, text)))", "extend(map(parse, _items(item, text)[::-1]))", of(listed, scopes),
    ),
    Mutant(
        "set-attr: all nodes of the op", "edits.set_attr", "    return nodes_of(graph, nodes)\n", "    return [n for n in graph.nodes() if n.op == nodes_of(graph, nodes)[0].op]\n", of(attr, scopes),
    ),
    Mutant(
        "set-attr: the value is kept", "edits.set_attr", "graph.set_attr(node, key, data)", "graph.set_attr(node, key, node.attr_bytes(key))", of(attr, scopes),
    ),
    Mutant(
        "set-attr: what is to go is emptied", "edits.set_attr", "graph.set_attr(node, key, data)", 'graph.set_attr(node, key, data or b"")', of(attr_gone, scopes),
    ),
    Mutant(
        "set-device: --clear leaves those in function bodies", "edits.set_device", "functions = placed.changed_functions(change)", "functions = []", of(cleared, lambda: bodies()),
    ),
    Mutant(
        "set-device: the first node only", "edits.set_device", "    for node, new in changed.items():\n", "    for node, new in list(changed.items())[:1]:\n", of(placed, scopes),
    ),
    Mutant(
        "set-device: another device than is asked for", "analysis.queries.devices", "{device.get('type', '*')}:{device.get('id', '*')}", "{device.get('type', '*')}:2", of(mapped, scopes),
    ),
    Mutant(
        "control: the wrong way round", "edits.control", "        out[node][source] = None\n    return out\n\n\ndef _check_order",
        "        out.setdefault(source, {})[node] = None\n    return out\n\n\ndef _check_order", of(waiting, scopes),
    ),
    Mutant(
        "control: all control inputs go", "edits.control", "*(c for c in node.controls if c not in gone), *new", "*(c for c in node.controls if not gone), *new", of(no_wait, scopes),
    ),
    Mutant(
        "set-shape: height and width are exchanged", "edits.set_shape", "\"shape\", shape_value(shape)", "\"shape\", shape_value(shape[:-2] + shape[:-3:-1])", of(lambda g: gds.set_shape(g, [("image", (1, 4, 6))]), lambda: wide()),
    ),
    Mutant(
        "set-shape: stale shapes stay", "edits.set_shape", "stale = [node for node in behind if STATED_SHAPES in node.attr_keys]", "stale = []", of(opened, reshapes),
    ),
    Mutant(
        "set-shape: a shared constant is changed for all", "edits.set_shape", "alone = {use.node for use in uses} == set(nodes)", "alone = True or {use.node for use in uses} == set(nodes)", of(opened, reshapes),
    ),
    Mutant(
        "freeze-input: values are cut to whole numbers", "edits.freeze_input", "values = [bool(item) if dtype == BOOL and item in (0, 1) else item for item in literal.values]",
        "values = [int(item) for item in literal.values]", of(frozen, defaults),
    ),
    Mutant(
        "freeze-input: an array in column order", "edits.freeze_input", 'array.astype(array.dtype.newbyteorder("<")).tobytes()',
        'array.astype(array.dtype.newbyteorder("<")).tobytes("F")', of(arrays, defaults),
    ),
    Mutant(
        "freeze-input: a default that nobody reads stays", "edits.freeze_input", "intent.removed = remove_unread(graph, defaults)", "intent.removed = []", of(frozen, defaults),
    ),
    Mutant(
        "freeze-input: values go to each other's names", "edits.freeze_input", "[_frozen(_taking(graph, name), value) for name, value in values.items()]",
        "[_frozen(_taking(graph, name), value) for name, value in zip(values, list(values.values())[::-1])]", of(lambda g: gds.freeze_input(g, {"x": "[[1,2],[3,4]]", "also": "[[5,6],[7,8]]"}), defaults),
    ),
    Mutant(
        "remove: --bypass-input is off by one", "edits.remove", "return node.inputs[self.which]", "return node.inputs[self.which + 1]", of(bypassed, bypasses),
    ),
    Mutant(
        "remove: a bypassed IdentityN gives its first input", "edits.remove", "return node.inputs[output.index]", "return node.inputs[0]", of(list_bypassed, bypasses),
    ),
    Mutant(
        "remove: who waited waits for nothing", "edits.remove", "            new.update(_in_place_of(control, members, bypass, known))\n",
        "            new.update({control: None} if control not in members else {})\n", of(bypassed, bypasses),
    ),
    Mutant(
        "remove: control inputs of others go", "edits.remove", "            new.update(_in_place_of(control, members, bypass, known))\n", "            pass\n", of(bypassed, bypasses),
    ),
    Mutant(
        "remove: the placeholder has another dtype", "edits.remove", "add_placeholder(graph, unique(f\"{name}_placeholder\"), output.dtype,", "add_placeholder(graph, unique(f\"{name}_placeholder\"), output.dtype + 1,", of(dangling, bypasses),
    ),
    Mutant(
        "swap-op: an attr is left as it is", "edits.swap_op", "graph.set_op(self.node, self.definition.name)", "graph.set_op(self.node, 'Mul')", of(negated, scopes),
    ),
    Mutant(
        "writing: a node that is written anew loses its device", "graph.writing", "        device=node.device_override,\n", '        device=node.device_override or "",\n', of(one_renamed, scopes),
    ),
    Mutant(
        "writing: control edges to renamed nodes are not written", "graph.writing", "        rename_input=None if resolved else node.graph.spell_base_input,\n",
        '        rename_input=None if resolved else lambda t: t if t[:1] == "^" else node.graph.spell_base_input(t),\n', of(lambda g: gds.rename(g, [("x", "renamed")]), lambda: with_x()),
    ),
    Mutant(
        "writing: control edges are lost where inputs change", "graph.writing", 'return spelt + ["^" + control.name for control in node.controls]', "return spelt", of(rerouted, scopes),
    ),
    Mutant(
        "writing: colocations are lost", "graph.writing", "out.append(COLOCATION + name.encode(\"utf-8\", \"surrogateescape\"))", "pass", of(one_renamed, scopes),
    ),
    Mutant(
        "writing: gradient registrations are not written", "graph.functions", "if (gradient.function_name, gradient.gradient_func) not in kept_gradients:", "if True:", of(mapped, lambda: bodies()),
    ),
    Mutant(
        "writing: attrs are not written", "graph.writing", "        attrs=attrs_now,\n", "        attrs={},\n", of(attr, scopes),
    ),
    Mutant(
        "writing: the last node is left out", "graph.writing", "    if pos < source.size:\n", "    if False:\n", of(one_renamed, scopes),
    ),
    Mutant(
        "writing: what is written anew stands beside what it was", "graph.writing", "(place.start, place.end, record(node))", "(place.end, place.end, record(node))", of(attr, scopes),
    ),
    Mutant(
        "writing: what is written anew comes at the end", "graph.writing", "        out.append((place.start, place.end, record(node)))",
        "        out += [(place.start, place.end, []), (store.layout.end_of_nodes, store.layout.end_of_nodes, record(node))]", of(attr, scopes),
    ),
    Mutant(
        "writing: a stretch is written twice", "graph.writing", "        pos = end\n", "        out += out[:1]\n        pos = end\n", of(attr, scopes),
    ),
    Mutant(
        "writing: the new library stands beside the old", "graph.writing", "(span.start, span.end, functions.chunks_of(span))", "(span.end, span.end, functions.chunks_of(span))", of(cleared, lambda: bodies()),
    ),
    Mutant(
        "writing: gradient registrations are written twice", "graph.functions", "                out.append(chunk)\n", "                out += [chunk, chunk] if field.number == _GRADIENT else [chunk]\n", of(cleared, lambda: bodies()),
    ),
    Mutant(
        "writing: fields that are not known are lost", "wire.node_record", "        else:\n            yield span\n        if inputs", "        elif number in KNOWN_FIELDS:\n            yield span\n        if inputs", of(lambda g: gds.set_device(g, device="/cpu:0", nodes=["x"]), lambda: unknown()),
    ),
    Mutant(
        "graph: colocations do not follow a name", "graph.graph", ", *self.colocated_with(node)):", "):", of(renamed, lambda: colocated()),
    ),
]  # fmt: skip


def bodies() -> Graph:
    """Devices in functions, and a registered gradient."""
    return graph(
        placeholder("x", FLOAT, (2,)),
        node("call", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("f"), device="/gpu:0"),
        library(
            function("f", node("n", "Neg", ["x"], T=FLOAT, device="/gpu:0")), function("f_grad"), gradients={"f": "f_grad"}
        ),
    )  # fmt: skip


def unknown() -> Graph:
    """A node with a field that nobody knows."""
    return graph(encode_len(1, const("x", [1])[2:] + encode_len(900, b"unknown")))


def with_x() -> Graph:
    return graph(placeholder("x"), const("c", [1]), identity("y", "c", "^x"))


def colocated() -> Graph:
    return graph(
        placeholder("x"), identity("net/y", "x"), identity("z", "x", _class=["loc:@net/y"]), identity("w", "z")
    )


def wide() -> Graph:
    return graph(placeholder("image", FLOAT, (1, 2, 3)), identity("y", "image"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_in_the_code_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
