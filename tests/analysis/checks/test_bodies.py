"""The check of functions: what it does not look at closely has no faults. On random bodies, with faults planted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.graphs import random_graphs

from gdsurgeon.analysis.checks.bodies import Body, Kinds
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.messages import message


class EachNode(Body):
    """Has all nodes looked at."""

    def _suspects(self) -> Sequence[int]:
        for name, number in zip(self.names, self._kind_of, strict=True):
            self._enter(name, self.kinds[number])
        return range(len(self.names))


def spelt(text: str, ops: dict[str, str]) -> str:
    """An input of a graph as a function spells it."""
    name, _, place = text.partition(":")
    definition = op_def(ops[name]) if name in ops else None
    return f"{name}:{definition.outputs[0].name}:{place or 0}" if definition and definition.outputs else text


def function_of(nodes: Sequence[Any]) -> Any:
    """A function with NODES of a graph, which returns what the last of them gives, where that is one tensor."""
    out = message("tensorflow.FunctionDef")()
    out.signature.name = "F"
    out.signature.input_arg.add(name="x", type=1)
    ops = {node.name: node.op for node in nodes}
    for node in nodes:
        made = out.node_def.add()
        made.CopyFrom(node)
        del made.input[:]
        made.input.extend(spelt(text, ops) for text in node.input)
    out.signature.output_arg.add(name="out", type=1)
    out.ret["out"] = spelt(nodes[-1].name, ops)
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
    """Two nodes of a name, of which one gives int32."""
    node.name, node.op = other.name, "Shape"
    node.attr["T"].type = 1


IN_BODIES: dict[str, Callable[[Any, Any], object]] = {
    "no name": lambda node, _: node.ClearField("name"),
    "illegal name": lambda node, _: setattr(node, "name", "_" + node.name),
    "illegal character": lambda node, _: setattr(node, "name", node.name + "\n"),
    "colon": lambda node, _: setattr(node, "name", node.name + ":0"),
    "doubled name": lambda node, other: setattr(node, "name", other.name),
    "no op": lambda node, _: node.ClearField("op"),
    "unknown op": lambda node, _: setattr(node, "op", "NoSuchOp"),
    "another op": lambda node, _: setattr(node, "op", "AddV2"),
    "an op without outputs": lambda node, _: setattr(node, "op", "NoOp"),
    "dangling": lambda node, _: node.input.append("gone"),
    "dangling control": lambda node, _: node.input.append("^gone"),
    "one input more": lambda node, other: node.input.append(other.name),
    "no inputs": lambda node, _: node.ClearField("input"),
    "large index": lambda node, other: node.input.append(f"{other.name}:7"),
    "index one": lambda node, other: node.input.append(f"{other.name}:1"),
    "index one in place of another": another_index,
    "no tensor": lambda node, _: node.input.append("a:b:c"),
    "empty input": lambda node, _: node.input.append(""),
    "control first": control_first,
    "control last": lambda node, other: node.input.append("^" + other.name),
    "attr gone": without_attr,
    "attr of another kind": lambda node, _: node.attr["T"].CopyFrom(message("tensorflow.AttrValue")(i=3)),
    "no dtype": lambda node, _: node.attr["T"].CopyFrom(message("tensorflow.AttrValue")(type=777)),
    "attr of no op": lambda node, _: node.attr["foreign"].CopyFrom(message("tensorflow.AttrValue")(b=True)),
    "colocated": lambda node, other: node.attr["_class"].list.s.append(b"loc:@" + other.name.encode()),
    "colocated with nothing": lambda node, _: node.attr["_class"].list.s.append(b"loc:@gone"),
    "unknown field": lambda node, _: node.MergeFromString(b"\x78\x05"),
    "waits for a node that waits for it": wait_for_each_other,
    "a node of the same name that gives another dtype": shape_of_same_name,
    "one input less": lambda node, _: node.input.__delitem__(slice(1, 2)),
    "name of an argument": lambda node, _: setattr(node, "name", "x"),
    "control input of an argument": lambda node, _: node.input.append("^x"),
    "argument in place of another": lambda node, _: node.input.__setitem__(slice(0, 1), ["x"]),
    "several tensors at once": lambda node, other: node.input.append(f"{other.name}:output"),
}


def compare(function: Any) -> None:
    """Holds what is found where only suspects are looked at against what is found where all are."""
    library = graphs.graph().functions
    assert list(Body(function, Kinds(library)).faults()) == list(EachNode(function, Kinds(library)).faults())


@given(
    random_graphs(),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(sorted(IN_BODIES)), st.integers(0, 99), st.integers(0, 99)), max_size=3),
)
def test_what_is_no_suspect_has_no_fault(
    drawn: graphs.Drawn, in_order: bool, plants: list[tuple[str, int, int]]
) -> None:
    nodes = message("tensorflow.GraphDef").FromString(drawn.data).node
    function = function_of(producers_first(nodes) if in_order else nodes)
    body = function.node_def
    for name, at, other in plants:
        IN_BODIES[name](body[at % len(body)], body[other % len(body)])
    compare(function)


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


@pytest.mark.parametrize("name", IN_BODIES)
def test_a_fault_planted_anywhere_is_found(name: str) -> None:
    for at in range(len(body())):
        for other in range(len(body())):
            function = function_of(body())
            IN_BODIES[name](function.node_def[at], function.node_def[other])
            compare(function)
