"""Adds the nodes of steps to a graph. The op's signature determines attributes, the step determines names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from gdsurgeon.edits.functions import make_function
from gdsurgeon.graph.attrs import (
    Shape,
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
from gdsurgeon.ops.op_defs import op_def
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


Input: TypeAlias = "Output | float | Sequence[float] | Sequence[Sequence[float]]"
"""An input of a node: a tensor, or a constant as a number, a list, or a list of lists: float32 or int32."""


def empty_graph() -> Graph:
    """Returns an empty graph."""
    graph_def = GraphDef()
    graph_def.versions.producer, graph_def.versions.min_consumer = PRODUCER, MIN_CONSUMER
    return from_bytes(graph_def.SerializeToString(deterministic=True), "the steps")


def _no_other(_name: str) -> Value:
    raise Unfit("requires two outputs of a model, so it must be added after a model")


class Builder:
    """Adds nodes to a graph, in a name scope for each step.

    Attributes:
        graph: the graph.
        scope: the name scope, without a slash at the end.
        step: the part of the scope for the current step.
        other: returns a different output of the model by its name; only for steps after a model.
    """

    def __init__(self, graph: Graph, scope: str) -> None:
        self.graph = graph
        self.scope = scope
        self.step = ""
        self.other: Callable[[str], Value] = _no_other
        self._unique = graph.unique_names()

    def node(
        self,
        op: str,
        inputs: Sequence[Input],
        attrs: Mapping[str, object],
        name: str = "",
        controls: Sequence[Node] = (),
    ) -> Node:
        """Adds a node.

        Args:
            op: its op.
            inputs: tensors and constants.
            attrs: attributes that the inputs do not determine and that have no default.
            name: the full name; by default the op in the scope of the step.
            controls: nodes that run before it.
        """
        definition = op_def(op)
        assert definition is not None, op
        tensors = [self._tensor(item) for item in inputs]
        types = {node: node.output_dtypes or [] for node in {read.node for read in tensors}}  # once each
        implied = said_by_inputs(definition, [types[read.node][read.index] for read in tensors])
        kinds = definition.attrs
        # A default dtype is left out: an older TensorFlow may not have the attribute.
        values = {key: v for key, v in implied.items() if kinds[key].kind != "type" or kinds[key].default != v.type}
        values |= {key: _ENCODERS[kinds[key].kind](value) for key, value in attrs.items()}
        data = {key: value.SerializeToString(deterministic=True) for key, value in values.items()}
        name = name or self._unique("/".join(filter(None, (self.scope, self.step, op))))
        return self.graph.add(name, op, tensors, controls, attrs=data)

    def _tensor(self, item: Input) -> Output:
        if isinstance(item, Output):
            return item
        items = item if isinstance(item, Sequence) else [item]
        rows = [row if isinstance(row, Sequence) else [row] for row in items]
        shape: tuple[int, ...] = (len(items),) if isinstance(item, Sequence) else ()
        if items and isinstance(items[0], Sequence):
            shape = (len(items), len(items[0]))
        flat = [number for row in rows for number in row]
        return self.constant(FLOAT32 if flat and isinstance(flat[0], float) else INT32, flat, shape)

    def placeholder(self, name: str, dtype: DType, shape: Shape) -> Output:
        """Adds a placeholder."""
        return self.node("Placeholder", (), {"dtype": dtype, "shape": shape}, name).output

    def add(self, op: str, *inputs: Input, **attrs: object) -> Output:
        """Adds a node, and returns its first output; see `node`."""
        return self.node(op, inputs, attrs).output

    def constant(self, dtype: DType, values: Sequence[object] | float, shape: tuple[int, ...] | None = None) -> Output:
        """Adds a constant: a scalar, a vector, or a tensor of `shape` with values in row-major order.

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

    # -- operations of many steps --------------------------------------------------------------------------

    def cast(self, value: Value, dtype: DType) -> Value:
        """Returns the value as `dtype`, computed by the op Cast."""
        if value.dtype == dtype:
            return value
        is_whole = value.is_whole or value.dtype == BOOL or value.dtype.is_integer or dtype.is_integer
        return value.replace(tensor=self.add("Cast", value.tensor, DstT=dtype), dtype=dtype, is_whole=is_whole)

    def floating(self, value: Value) -> Value:
        """Returns the value for arithmetic: floats are unchanged, other numbers become float32. Raises Unfit."""
        value.require_numbers()
        return value if value.dtype.is_float else self.cast(value, FLOAT32)

    def number(self, like: Value, number: float) -> Output:
        """Adds a scalar with the dtype of `like`."""
        return self.constant(like.dtype, number if like.dtype.is_float else int(number))

    def with_batch(self, value: Value) -> Value:
        """Returns the value as a batch of one, with a first dimension of 1."""
        tensor = self.add("ExpandDims", value.tensor, 0)
        return value.replace(tensor=tensor, shape=(1, *value.dims), layout=in_batch(value.layout))

    def without_batch(self, value: Value) -> Value:
        """Returns the only item of a batch."""
        tensor = self.add("Squeeze", value.tensor, squeeze_dims=[0])
        return value.replace(tensor=tensor, shape=value.dims[1:], layout=value.layout.removeprefix("N"))

    def mapped(
        self, inner: Builder, items: Sequence[Output], results: Sequence[Value], batch: Sequence[Output]
    ) -> list[Output]:
        """Adds a function, and a node that calls it for each item of a batch; returns the outputs of the node.

        Args:
            inner: has built the function.
            items: its placeholders.
            results: its results, with their dtypes and shapes.
            batch: for each placeholder, the tensor with all items.
        """
        ends = {item.node for item in items}
        nodes = [node for node in inner.graph.nodes() if node not in ends]
        stem = "/".join(filter(None, (self.scope, self.step)))
        function = make_function(stem, nodes, list(items), [value.tensor for value in results])
        self.graph.functions.add(function)
        attrs = {
            "Targuments": [tensor.dtype for tensor in batch],
            "Tcaptured": [],
            "output_types": [value.dtype for value in results],
            "output_shapes": [value.shape for value in results],
            "f": function.signature.name,
        }
        return self.node("MapDefun", batch, attrs).outputs
