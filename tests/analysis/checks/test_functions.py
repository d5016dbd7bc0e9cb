"""The check of functions: no faults in random functions, and faults that are planted in each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.graphs import random_graphs

from gdsurgeon.analysis.checks.check import check_functions
from gdsurgeon.analysis.checks.nodes import Findings
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.protos import AttrValue, FunctionDef, GraphDef


def spelt(text: str, ops: dict[str, str]) -> str:
    """An input of a graph as a function spells it."""
    name, _, place = text.partition(":")
    definition = op_def(ops[name]) if name in ops else None
    return f"{name}:{definition.outputs[0].name}:{place or 0}" if definition and definition.outputs else text


def function_of(nodes: Sequence[Any]) -> Any:
    """A function with `nodes` of a graph, which returns its argument."""
    out = FunctionDef()
    out.signature.name = "F"
    out.signature.input_arg.add(name="given", type=1)
    ops = {node.name: node.op for node in nodes}
    for node in nodes:
        made = out.node_def.add()
        made.CopyFrom(node)
        del made.input[:]
        made.input.extend(spelt(text, ops) for text in node.input)
    out.signature.output_arg.add(name="out", type=1)
    out.ret["out"] = "given"
    return out


def producers_first(nodes: Sequence[Any]) -> list[Any]:
    """NODES of a graph without cycles, each behind what it reads and waits for."""
    out: dict[str, Any] = {}
    while len(out) < len(nodes):
        for node in nodes:
            if all(text.strip("^").partition(":")[0] in out for text in node.input):
                out.setdefault(node.name, node)
    return list(out.values())


def control_first(node: Any, other: Any) -> None:
    inputs = list(node.input)
    del node.input[:]
    node.input.extend(["^" + other.name, *inputs])


def another_index(node: Any, other: Any) -> None:
    for i in range(len(node.input))[:1]:
        node.input[i] = f"{other.name}:1"


def without_attr(node: Any, _: Any) -> None:
    for key in sorted(node.attr)[:1]:
        del node.attr[key]


def wait_for_each_other(node: Any, other: Any) -> None:
    node.input.append("^" + other.name)
    other.input.append("^" + node.name)


def shape_of_same_name(node: Any, other: Any) -> None:
    """Two nodes with one name; one of them returns int32."""
    node.name, node.op = other.name, "Shape"
    node.attr["T"].type = 1


IN_BODIES: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "no name": (lambda node, _: node.ClearField("name"), "bad-name no-such-tensor"),
    "illegal name": (lambda node, _: setattr(node, "name", "_" + node.name), "no-such-tensor"),
    "illegal character": (lambda node, _: setattr(node, "name", node.name + "\n"), "bad-name no-such-tensor"),
    "colon": (lambda node, _: setattr(node, "name", node.name + ":0"), "bad-name no-such-tensor"),
    "doubled name": (
        lambda node, other: setattr(node, "name", other.name),
        "cycle dtype-mismatch name-taken no-such-tensor",
    ),
    "no op": (lambda node, _: node.ClearField("op"), ""),
    "unknown op": (lambda node, _: setattr(node, "op", "NoSuchOp"), ""),
    "another op": (
        lambda node, _: setattr(node, "op", "AddV2"),
        "dtype-mismatch no-such-attr no-such-tensor wrong-count",
    ),
    "an op without outputs": (lambda node, _: setattr(node, "op", "NoOp"), "no-such-tensor wrong-count"),
    "dangling": (lambda node, _: node.input.append("gone"), "no-such-tensor out-of-order"),
    "dangling control": (lambda node, _: node.input.append("^gone"), "no-such-tensor"),
    "one input more": (lambda node, other: node.input.append(other.name), "no-such-tensor out-of-order"),
    "no inputs": (lambda node, _: node.ClearField("input"), "wrong-count"),
    "large index": (lambda node, other: node.input.append(f"{other.name}:7"), "cycle no-such-tensor out-of-order"),
    "index one": (lambda node, other: node.input.append(f"{other.name}:1"), "cycle no-such-tensor out-of-order"),
    "index one in place of another": (another_index, "cycle no-such-tensor"),
    "no tensor": (lambda node, _: node.input.append("a:b:c"), "no-such-tensor out-of-order"),
    "empty input": (lambda node, _: node.input.append(""), "no-such-tensor out-of-order"),
    "control first": (control_first, "cycle out-of-order"),
    "control last": (lambda node, other: node.input.append("^" + other.name), "cycle"),
    "attr gone": (without_attr, "no-such-attr"),
    "attr of another kind": (
        lambda node, _: node.attr["T"].CopyFrom(AttrValue(i=3)),
        "bad-value",
    ),
    "no dtype": (lambda node, _: node.attr["T"].CopyFrom(AttrValue(type=777)), "bad-value"),
    "attr of no op": (lambda node, _: node.attr["foreign"].CopyFrom(AttrValue(b=True)), ""),
    "colocated": (lambda node, other: node.attr["_class"].list.s.append(b"loc:@" + other.name.encode()), ""),
    "colocated with nothing": (lambda node, _: node.attr["_class"].list.s.append(b"loc:@gone"), ""),
    "unknown field": (lambda node, _: node.MergeFromString(b"\x78\x05"), ""),
    "waits for a node that waits for it": (wait_for_each_other, "cycle"),
    "a node of the same name that gives another dtype": (
        shape_of_same_name,
        "cycle dtype-mismatch name-taken no-such-tensor wrong-count",
    ),
    "one input less": (lambda node, _: node.input.__delitem__(slice(1, 2)), "wrong-count"),
    "name of an argument": (lambda node, _: setattr(node, "name", "given"), "name-taken no-such-tensor"),
    "control input of an argument": (lambda node, _: node.input.append("^given"), ""),
    "argument in place of another": (
        lambda node, _: node.input.__setitem__(slice(0, 1), ["given"]),
        "dtype-mismatch wrong-count",
    ),
    "several tensors at once": (
        lambda node, other: node.input.append(f"{other.name}:output"),
        "cycle no-such-tensor out-of-order wrong-count",
    ),
}
"""Faults by name, each with the codes that are reported if it is planted in any node."""


def codes(function: Any) -> set[str]:
    """The codes of the faults of a function."""
    proto = GraphDef()
    proto.library.function.add().CopyFrom(function)
    proto.node.add(name="idle", op="NoOp")
    findings = Findings()
    check_functions(from_bytes(proto.SerializeToString()).functions, findings)
    assert all(fault.facts["function"] == "F" for fault in findings.faults)
    return set(findings.counts)


@given(random_graphs(), st.booleans())
def test_the_nodes_of_a_sound_graph_are_a_sound_function_in_any_order(drawn: graphs.Drawn, in_order: bool) -> None:
    nodes = GraphDef.FromString(drawn.data).node
    assert codes(function_of(producers_first(nodes) if in_order else nodes)) == set()


@cache
def body() -> list[Any]:
    """Nodes of several ops, with control inputs, each behind what it reads."""
    records = [
        graphs.const("axis", [0], graphs.INT32, ()),
        graphs.const("c", [1, 2]),
        graphs.node("s", "Split", ["axis", "c", "^axis"], T=graphs.FLOAT, num_split=2),
        graphs.add("a", "s:0", "s:1", "^c", "^axis"),
        graphs.node("n", "Shape", ["a"], T=graphs.FLOAT),
        graphs.node("m", "MyCustomOp", ["n"]),
        graphs.identity("y", "a"),
        graphs.identity("z", "y", "^m"),
    ]
    return list(graphs.proto(*records, trailer=b"").node)


@pytest.mark.parametrize(("plant", "expected"), IN_BODIES.values(), ids=IN_BODIES)
def test_a_fault_planted_anywhere_is_found(plant: Callable[[Any, Any], object], expected: str) -> None:
    found: set[str] = set()
    for at in range(len(body())):
        for other in range(len(body())):
            function = function_of(body())
            plant(function.node_def[at], function.node_def[other])
            found |= codes(function)
    assert found == set(expected.split())
