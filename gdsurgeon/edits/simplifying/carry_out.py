"""Has a graph be as a draft of it is, or some of its nodes the constants that they give; and says what is different."""

from __future__ import annotations

from collections.abc import Mapping

from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.replacing import drop_colocations
from gdsurgeon.edits.simplifying.draft import BITS, CONTROL, Draft
from gdsurgeon.edits.simplifying.folding import Folding
from gdsurgeon.edits.simplifying.literal import constant_attrs
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import STATED_SHAPES
from gdsurgeon.runtime.tensor import Tensor


def carry_out(draft: Draft) -> Intent:
    """Has the graph of DRAFT be as that is."""
    graph, topology = draft.graph, topology_of(draft.graph)
    numbers = sorted(number for number in draft.changed if not draft.gone[number])
    going = [topology.node(number) for number in topology.numbers() if draft.gone[number]]
    intent = Intent(removed=[node.name for node in going])
    for number in numbers:
        node = topology.node(number)
        data, waits = _parted(draft.topology, number)
        before, waited = _parted(topology, number)
        inputs = [Output(topology.node(code >> BITS), code & CONTROL) for code in data]
        if waits != waited or number in draft.merges:
            intent.changed.append(node.name)
        if number not in draft.merges:
            slots = enumerate(zip(before, data, inputs, strict=True))
            intent.rewired += [
                Rewired(node.name, i, _spelt(topology, old), new.name) for i, (old, code, new) in slots if old != code
            ]
        graph.set_reads(node, inputs, dict.fromkeys(topology.node(code >> BITS) for code in waits))
    for number in draft.merges:
        if not draft.gone[number]:
            _become_identity(graph, topology.node(number))
    drop_colocations(graph, going)
    graph.remove(going)
    return intent


def _parted(topology: Topology, number: int) -> tuple[list[int], list[int]]:
    """The codes of what a node reads, and of what it waits for."""
    codes = topology.inputs(number)
    data = [code for code in codes if code & CONTROL != CONTROL]
    return data, [code for code in codes if code & CONTROL == CONTROL] if len(data) < len(codes) else []


def _spelt(topology: Topology, code: int) -> str:
    """The name of a tensor."""
    return format_input(topology.name(code >> BITS), code & CONTROL)


def _become_identity(graph: Graph, node: Node) -> None:
    graph.set_op(node, "Identity")
    for key in ("N", STATED_SHAPES):
        if node.has_attr(key):
            graph.set_attr(node, key, None)


def become_constants(folding: Folding, values: Mapping[int, Tensor]) -> Intent:
    """Has nodes be the constants that they give; what nobody else has read goes."""
    graph, topology = folding.graph, folding.top
    idle = folding.idle(values)
    going = [topology.node(number) for number in idle]
    intent = Intent(removed=[node.name for node in going])
    folding.draft.become_constants(values)
    folding.draft.remove(idle, "constants")
    for number, value in values.items():
        node = topology.node(number)
        intent.changed.append(node.name)
        graph.set_op(node, "Const")
        graph.set_inputs(node, ())
        graph.set_colocated(node, ())
        for key in node.attr_keys:
            graph.set_attr(node, key, None)
        for key, data in constant_attrs(value).items():
            graph.set_attr(node, key, data)
    drop_colocations(graph, going)
    graph.remove(going)
    return intent
