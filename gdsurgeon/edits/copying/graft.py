"""Brings the nodes and functions of a GraphDef message into a graph whose nodes they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gdsurgeon.comparison.intent import Altered, Intent, made
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import CONTROL, format_input, parse_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.attr_names import COLOCATION_ATTR
from gdsurgeon.wire.protos import GraphDef, NodeDef


class Read(NamedTuple):
    """The inputs of a node as a NodeDef spells them: (node, index) of the data inputs, nodes of the control inputs."""

    data: list[tuple[str, int]]
    controls: list[str]


def read_of(definition: NodeDef) -> Read:
    """The inputs of a NodeDef."""
    out = Read([], [])
    for text in definition.input:
        ref = parse_input(text)
        assert ref is not None  # TensorFlow has written it
        if ref.port == CONTROL:
            out.controls.append(ref.node)
        else:
            out.data.append((ref.node, ref.port))
    return out


def graft(graph: Graph, definition: GraphDef) -> Intent:
    """Adds the nodes of DEFINITION to GRAPH; those whose names are taken take the place of what is there.

    Its functions are added to the library. Everything that a node reads is in GRAPH or in DEFINITION. What the nodes
    are to be is said as DEFINITION has it: no specification knows that.
    """
    intent = Intent()
    nodes: dict[str, Node] = {}
    for function in definition.library.function:
        graph.functions.add(function)
        intent.functions.added.append(function.signature.name)
    for item in definition.node:
        there = graph.find(item.name)
        attrs = {key: value.SerializeToString() for key, value in item.attr.items() if key != COLOCATION_ATTR}
        if there is None:
            intent.altered += _said(item, attrs)
            there = graph.add(item.name, item.op, attrs=attrs, device=item.device)
            intent.added.append(item.name)
        else:
            gone = [key for key in there.attr_keys if key not in item.attr and key != COLOCATION_ATTR]
            stays = [said for said in _said(item, attrs) if said.what not in ("device", "colocated", "attrs")]
            intent.altered += [*stays, *(Altered(item.name, f"attr {key}", None) for key in gone)]
            _become(graph, there, item)
            intent.changed.append(item.name)
        nodes[item.name] = there
    for item in definition.node:
        read = read_of(item)
        node = nodes[item.name]
        graph.set_inputs(node, [Output(graph[name], index) for name, index in read.data])
        if read.controls or node.controls:
            graph.set_controls(node, [graph[name] for name in read.controls])
    return intent


LARGEST_SAID = 1 << 16
"""Bytes of an attr up to which it is said what it holds; of larger ones that they are there."""


def _said(definition: NodeDef, attrs: Mapping[str, bytes]) -> list[Altered]:
    """All that a node is which DEFINITION makes; ATTRS are its attrs, serialised."""
    read = read_of(definition)
    inputs = [format_input(name, index) for name, index in read.data]
    small = {key: value if len(value) <= LARGEST_SAID else None for key, value in attrs.items()}
    return made(definition.name, definition.op, inputs, list(dict.fromkeys(read.controls)), definition.device, small)


def _become(graph: Graph, node: Node, definition: NodeDef) -> None:
    """Gives NODE the op and the attrs of a NodeDef."""
    if node.op != definition.op:
        graph.set_op(node, definition.op)
    for key in node.attr_keys:
        if key not in definition.attr and key != COLOCATION_ATTR:
            graph.set_attr(node, key, None)
    for key, value in definition.attr.items():
        if key != COLOCATION_ATTR and node.attr(key) != value:
            graph.set_attr(node, key, value.SerializeToString())
