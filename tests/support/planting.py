"""Faults to plant in a node: each does one thing to the NodeDef of a node, with another node at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gdsurgeon.wire.messages import message


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


PLANTS: dict[str, Callable[[Any, Any], object]] = {
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
}
