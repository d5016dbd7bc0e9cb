"""What a rule is given: a node that a release does not take, what is known of its inputs, and how to change it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.attrs import Shape, type_value
from gdsurgeon.graph.constants import Constant, constant, raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import DTYPES, INT32, STRING, base_dtype
from gdsurgeon.ops.kinds import IDENTITY
from gdsurgeon.ops.releases import Release
from gdsurgeon.wire.protos import AttrValue

ROUNDING = 1e-5
"""A tolerance where another kernel may compute it: oneDNN takes some forms alone, and adds up in its own order."""


class Rule(NamedTuple):
    """An older form of an op.

    Attributes:
        op: what a release lacks, or takes with fewer attrs.
        to: what takes its place, in words.
        where: the precondition, for people; '' where there is none.
        apply: makes the node at a `Site` the older form, and returns ''; or leaves it, and says why, and what would
            help; or None: it is one already.
        tolerance: by how much the values may be others, relative and absolute, where another kernel computes them and
            rounds in another order.
    """

    op: str
    to: str
    where: str
    apply: Callable[[Site], str | None]
    tolerance: float = 0.0
    finite: int | None = None


class Places:
    """A graph in which nodes are replaced: what is inferred of it, once, before the first is; GIVEN: known shapes."""

    def __init__(self, graph: Graph, release: Release, given: Mapping[Output, Shape] | None = None) -> None:
        self.graph = graph
        self.release = release
        self._given = given
        self.unique = graph.unique_names()
        self.notes: dict[str, None] = {}
        self._shapes: Shapes | None = None
        self._flow: ControlFlow | None = None
        self._outputs: frozenset[Node] | None = None

    def shape(self, read: Output) -> Shape:
        """What is known of the shape of a tensor."""
        if self._shapes is None:
            self._shapes = infer_shapes(self.graph, self._given)
        try:
            return self._shapes.shape(read)
        except KeyError:  # it has come since
            return None

    def returned(self, node: Node) -> set[int]:
        """The outputs of a node that are outputs of the graph: all of a node that is one, or what signatures name."""
        serving = serving_of(self.graph)
        if serving is not None and serving.called:
            served = (parse_tensor(text) for each in serving.called.values() for text in each.outputs.values())
            return {ref.port for ref in served if ref.node == node.name}
        if self._outputs is None:
            self._outputs = frozenset(output_nodes(self.graph))
        return {output.index for output in node.outputs} if node in self._outputs else set()

    def is_in_loop(self, node: Node) -> bool:
        """Whether a node that was there from the beginning lies in a frame of a v1 while loop."""
        if self._flow is None:
            self._flow = control_flow(topology_of(self.graph))
        topology = self._flow.topology
        return topology.knows(node) and self._flow.frames[topology.id_of(node)] > 0


class Site:
    """A node that is to become something else.

    Attributes:
        node: it.
        graph: where it is, or the body of a function.
        release: what is to take it.
    """

    def __init__(self, places: Places, node: Node) -> None:
        self._places = places
        self.node = node
        self.graph = places.graph
        self.release = places.release
        self._first = node.inputs[0].node if node.inputs else None

    def shape(self, slot: int) -> Shape:
        """What is known of the shape of an input."""
        return self.known(self.node.inputs[slot])

    def known(self, read: Output) -> Shape:
        """What is known of the shape of a tensor."""
        return self._places.shape(read)

    def dtype(self, slot: int) -> int:
        """The DataType of an input, 0 where it is not known."""
        return base_dtype(self.node.inputs[slot].dtype)

    def value(self, slot: int) -> Constant | None:
        """The value of an input that is a small constant, by way of Identities, or None."""
        node = self.node.inputs[slot].node
        while node.op in IDENTITY and node.inputs:
            node = node.inputs[0].node
        return constant(node)

    def reads(self) -> set[int]:
        """The outputs of the node that are read."""
        users = self.graph.users(self.node)
        return {read.index for user in users for read in user.inputs if read.node is self.node}

    def returns(self) -> set[int]:
        """The outputs of the node that are outputs of the graph."""
        return self._places.returned(self.node)

    def note(self, text: str) -> None:
        """Says something that somebody should know of the replacement."""
        self._places.notes.setdefault(text)

    # -- changing ------------------------------------------------------------------------------------------

    def become(
        self,
        op: str,
        inputs: Sequence[Output] | None = None,
        *,
        drop: Iterable[str] = (),
        attrs: Mapping[str, AttrValue] | None = None,
    ) -> str:
        """Makes the node OP, with other INPUTS where these are given, without the attrs DROP and with ATTRS."""
        node = self.node
        for user in self.graph.users(node) if self.graph.is_body else ():
            self.graph.touch(user)  # it spells the argument of the op that it reads
        if op != node.op:
            self.graph.set_op(node, op)
        for key in drop:
            if node.has_attr(key):
                self.graph.set_attr(node, key, None)
        for key, value in (attrs or {}).items():
            self.graph.set_attr(node, key, value.SerializeToString(deterministic=True))
        if inputs is not None:
            self.graph.set_inputs(node, inputs)
        return ""

    def add(self, name: str, op: str, inputs: Sequence[Output] = (), **attrs: AttrValue) -> Output:
        """Output 0 of a new node, in the scope of the node, where that runs."""
        controls = [self._first] if not inputs and self._first and self._places.is_in_loop(self.node) else []
        data = {key: value.SerializeToString(deterministic=True) for key, value in attrs.items()}
        name = self._places.unique(f"{self.node.name}/{name}")
        made = self.graph.add(name, op, inputs, controls, attrs=data, device=self.node.device, after=self.node)
        return made.output

    def const(
        self, name: str, dtype: int, values: Sequence[float] | float, dims: Sequence[int] | None = None
    ) -> Output:
        """A new constant: a vector, or a scalar, or what has the dims DIMS."""
        known = DTYPES[dtype]
        items = values if isinstance(values, Sequence) else [values]
        if dims is None:
            dims = [len(items)] if isinstance(values, Sequence) else []
        whole = [item if known.is_float else int(item) for item in items]
        value = raw_value(dtype, dims, struct.pack(f"<{len(items)}{known.code}", *whole))
        return self.add(name, "Const", dtype=type_value(dtype), value=value)

    def text(self, name: str, text: bytes) -> Output:
        """A new constant: a string, a scalar."""
        return self.add(name, "Const", dtype=type_value(STRING), value=tensor_value(STRING, (), [text]))

    def ints(self, name: str, values: Sequence[int] | int) -> Output:
        """A new constant of int32."""
        return self.const(name, INT32, values)


def typed(**dtypes: int) -> dict[str, AttrValue]:
    """Attrs that hold DataTypes."""
    return {key: type_value(dtype) for key, dtype in dtypes.items()}


def is_known(shape: Shape) -> bool:
    """Whether all of SHAPE is known."""
    return shape is not None and all(dim >= 0 for dim in shape)
