"""Where a set of nodes meets the rest of its graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gdsurgeon.graph.graph import Use
from gdsurgeon.graph.node import Node, Output


@dataclass
class Boundary:
    """The edges between a set of nodes and the rest of their graph.

    Attributes:
        inputs: tensors from outside that the nodes read, in the order of first use.
        outputs: tensors of the nodes that somebody outside reads, or that nobody reads at all.
        inside: tensors of the nodes that the nodes themselves read.
        outer_uses: for each of `outputs`, the places outside where it is read.
        controls_in: nodes outside that the nodes wait for.
        controls_out: nodes of the set that nodes outside wait for, with those.
    """

    inputs: list[Output] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    inside: list[Output] = field(default_factory=list)
    outer_uses: dict[Output, list[Use]] = field(default_factory=dict)
    controls_in: list[Node] = field(default_factory=list)
    controls_out: dict[Node, list[Node]] = field(default_factory=dict)


def boundary(nodes: Iterable[Node]) -> Boundary:
    """The boundary of NODES, which are of one graph, in their order. Linear in their edges and those of their users.

    An output of which the op does not say that it exists (an unknown op) is taken to be one where somebody reads it.
    """
    members = dict.fromkeys(nodes)
    out = Boundary()
    inputs: dict[Output, None] = {}
    controls: dict[Node, None] = {}
    for node in members:
        inputs.update((read, None) for read in node.inputs if read.node not in members)
        controls.update((control, None) for control in node.controls if control not in members)
    out.inputs, out.controls_in = list(inputs), list(controls)
    for node in members:
        _add_outputs(node, members, out)
    return out


def served(edges: Boundary) -> list[Output]:
    """What the nodes are there for: outputs read outside, and output 0 of what nobody reads at all."""
    busy = {output.node for output in edges.inside} | {o.node for o, uses in edges.outer_uses.items() if uses}
    return [o for o in edges.outputs if edges.outer_uses[o] or (o.node not in busy and not o.index)]


def _add_outputs(node: Node, members: dict[Node, None], out: Boundary) -> None:
    dtypes = node.output_dtypes
    reads: dict[int, list[Use]] = {index: [] for index in range(1 if dtypes is None else len(dtypes))}
    inner: set[int] = set()
    for user in node.graph.users(node):
        if user in members:
            inner.update(read.index for read in user.inputs if read.node is node)
            continue
        for slot, read in enumerate(user.inputs):
            if read.node is node:
                reads.setdefault(read.index, []).append(Use(user, slot))
        if node in user.controls:
            out.controls_out.setdefault(node, []).append(user)
    for index in sorted(reads.keys() | inner):
        output = Output(node, index)
        if index in inner:
            out.inside.append(output)
        if reads.get(index) or index not in inner:
            out.outputs.append(output)
            out.outer_uses[output] = reads.get(index, [])
