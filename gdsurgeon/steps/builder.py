"""Adds the nodes of steps to a graph: attrs follow from the op's signature, names from the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gdsurgeon.graph.attrs import (
    bool_value,
    float_value,
    func_value,
    int_value,
    ints_value,
    said_by_inputs,
    shape_value,
    shapes_value,
    string_value,
    strings_value,
    type_value,
    types_value,
)
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import BOOL, FLOAT32, INT32, DType
from gdsurgeon.ops.op_defs import AttrDef, op_def
from gdsurgeon.steps.value import Unfit, Value, in_batch
from gdsurgeon.text import listed
from gdsurgeon.wire.protos import GraphDef

if TYPE_CHECKING:
    from gdsurgeon.wire.protos import AttrValue

PRODUCER, MIN_CONSUMER = 134, 12
"""The versions of graphs that TensorFlow 1.15 writes: steps use only ops that it has."""

_ENCODERS: dict[str, Callable[[Any], AttrValue]] = {
    "bool": bool_value, "float": float_value, "func": func_value, "int": int_value, "list(int)": ints_value,
    "list(shape)": shapes_value, "list(string)": strings_value, "list(type)": types_value, "shape": shape_value,
    "string": string_value, "tensor": lambda value: value, "type": type_value,
}  # fmt: skip


def _is_default(attr: AttrDef, value: AttrValue) -> bool:
    """Whether it goes without saying: an older TensorFlow may not know that the attr is there."""
    return attr.kind == "type" and attr.default == value.type


def empty_graph() -> Graph:
    """A graph to build in."""
    graph_def = GraphDef()
    graph_def.versions.producer, graph_def.versions.min_consumer = PRODUCER, MIN_CONSUMER
    return from_bytes(graph_def.SerializeToString(deterministic=True), "the steps")


class Builder:
    """Adds nodes to a graph, in a name scope for each step.

    Attributes:
        graph: that it adds to.
        scope: the name scope, without a slash at the end.
        step: the part of the scope that is of the step at hand.
        other: returns a different output of the model by its name; only for steps after a model.
    """

    def __init__(self, graph: Graph, scope: str, other: Callable[[str], Value] | None = None) -> None:
        self.graph = graph
        self.scope = scope
        self.step = ""
        self.other = other
        self._unique = graph.unique_names()

    def node(
        self,
        op: str,
        inputs: Sequence[Output],
        attrs: Mapping[str, object],
        name: str = "",
        controls: Sequence[Node] = (),
    ) -> Node:
        """Adds a node of OP. Of ATTRS those are not needed that the inputs say, nor those that have a default.

        NAME is that of the node in full; by default it is OP in the step's scope. CONTROLS run before it.
        """
        definition = op_def(op)
        assert definition is not None, op
        types = {node: node.output_dtypes or [] for node in {read.node for read in inputs}}  # once each
        said = said_by_inputs(definition, [types[read.node][read.index] for read in inputs])
        kinds = definition.attrs
        values = {key: value for key, value in said.items() if not _is_default(kinds[key], value)}
        values |= {key: _ENCODERS[definition.attrs[key].kind](value) for key, value in attrs.items()}
        data = {key: value.SerializeToString(deterministic=True) for key, value in values.items()}
        return self.graph.add(name or self._name(op), op, inputs, controls, attrs=data)

    def _name(self, op: str) -> str:
        return self._unique("/".join(filter(None, (self.scope, self.step, op))))

    def add(self, op: str, *inputs: Output, **attrs: object) -> Output:
        """Adds a node of OP, and returns its first output; see `node`."""
        return self.node(op, inputs, attrs).output

    def constant(self, dtype: DType, values: Sequence[object] | float, shape: tuple[int, ...] | None = None) -> Output:
        """Adds a constant: a scalar, a vector, or of SHAPE with VALUES in row-major order.

        Raises:
            Unfit: a value does not fit `dtype`, for example if it is too large.
        """
        items: Sequence[object] = values if isinstance(values, Sequence) else [values]
        if shape is None:
            shape = (len(items),) if isinstance(values, Sequence) else ()
        try:
            value = tensor_value(dtype, shape, items)
        except ValueError as error:
            raise Unfit(f"{listed(map(str, items))} {error}") from None
        return self.add("Const", dtype=dtype, value=value)

    def axes(self, *numbers: int) -> Output:
        """Adds a constant of axes, sizes or the like: a vector of int32."""
        return self.constant(INT32, numbers)

    # -- what many steps need ------------------------------------------------------------------------------

    def cast(self, value: Value, dtype: DType) -> Value:
        """VALUE as DTYPE, as the op Cast makes it."""
        if value.dtype == dtype:
            return value
        is_whole = value.is_whole or value.dtype == BOOL or value.dtype.is_integer or dtype.is_integer
        return value.but(tensor=self.add("Cast", value.tensor, DstT=dtype), dtype=dtype, is_whole=is_whole)

    def floating(self, value: Value) -> Value:
        """VALUE for arithmetic: floating point as it is, other numbers as float32. Raises Unfit."""
        value.require_numbers()
        return value if value.dtype.is_float else self.cast(value, FLOAT32)

    def number(self, like: Value, number: float) -> Output:
        """Adds a scalar of the type of LIKE."""
        return self.constant(like.dtype, number if like.dtype.is_float else int(number))

    def with_batch(self, value: Value) -> Value:
        """VALUE as a batch of one: with a first dimension of 1."""
        assert value.shape is not None
        tensor = self.add("ExpandDims", value.tensor, self.constant(INT32, 0))
        return value.but(tensor=tensor, shape=(1, *value.shape), layout=in_batch(value.layout))

    def without_batch(self, value: Value) -> Value:
        """The other way round."""
        assert value.shape is not None
        tensor = self.add("Squeeze", value.tensor, squeeze_dims=[0])
        return value.but(tensor=tensor, shape=value.shape[1:], layout=value.layout.removeprefix("N"))
