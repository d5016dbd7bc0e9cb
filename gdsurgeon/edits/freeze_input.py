"""freeze-input: inputs of a graph become constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes import PLACEHOLDERS, compatible, describe, format_shape, placeholder_shape
from gdsurgeon.edits.outputs import unrenamed_outputs
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.dtypes import NAMES, dtype_name
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import EditResult, Journal, SameGiven
from gdsurgeon.graph.literals import parse_literal
from gdsurgeon.graph.node import Node
from gdsurgeon.wire.messages import message


class _Frozen(NamedTuple):
    node: Node
    value: bytes
    dtype: int


def freeze_input(graph: Graph, values: Mapping[str, Any]) -> EditResult:
    """Makes placeholders constants; they keep their names.

    Args:
        graph: changed in place.
        values: by the placeholder's name: a text as on the command line (``false``, ``0.5``, ``[1, 2]``), a number or
            bool, or an array (anything with `dtype`, `shape` and `tobytes`). A single number fills a placeholder of
            known rank with dims of 1.

    Raises:
        EditError: no such placeholder, or a value that is not of its dtype and shape; the graph is as it was.
    """
    if not values:
        raise EditError("nothing to freeze: name an input and its value")
    frozen = [_frozen(_placeholder(graph, name), value) for name, value in values.items()]
    for node, value, dtype in frozen:
        graph.set_op(node, "Const")
        graph.set_inputs(node, [])
        for key in ("shape", "_output_shapes"):
            if node.has_attr(key):
                graph.set_attr(node, key, None)
        graph.set_attr(node, "dtype", type_value(dtype).SerializeToString())
        graph.set_attr(node, "value", value)
    journal = Journal(changed=[item.node.name for item in frozen])
    names = {item.node.name: item.node.name for item in frozen}
    shown = ", ".join(f"{printable(name)} := its value" for name in list(names)[:3])
    statement = f"edited(x) = original(x, {shown}{', ...' if len(names) > 3 else ''})"
    return EditResult(journal, (SameGiven(names, unrenamed_outputs(graph), statement),))


def _placeholder(graph: Graph, name: str) -> Node:
    node = graph[name.removesuffix(":0")]
    if node.op not in PLACEHOLDERS:
        raise EditError(f"{quoted(node.name)} is a {printable(node.op)}, not a Placeholder")
    return node


def _frozen(node: Node, value: Any) -> _Frozen:
    dtype = node.output.dtype
    if hasattr(value, "tobytes"):
        return _from_array(node, dtype, value)
    text = value if isinstance(value, str) else str(value)
    where = f"{text!r} for {quoted(node.name)}"
    try:
        literal = parse_literal(text, dtype)
    except ValueError as error:
        raise EditError(f"{printable(where)} {error}") from None
    stated = placeholder_shape(node)
    shape = (1,) * len(stated or ()) if literal.is_scalar else literal.shape
    _check_shape(node, shape)
    values = [bool(v) if dtype == 10 and v in (0, 1) else v for v in literal.values]
    values = [v.encode() if isinstance(v, str) else v for v in values]
    try:
        return _Frozen(node, tensor_value(dtype, shape, values).SerializeToString(), dtype)
    except ValueError as error:
        raise EditError(f"{printable(where)} {error}") from None


def _from_array(node: Node, dtype: int, array: Any) -> _Frozen:
    found = {name: number for number, name in NAMES.items()}.get(str(array.dtype), 0)
    if found != dtype:
        raise EditError(f"the array for {quoted(node.name)} is {array.dtype}, not {dtype_name(dtype)}")
    shape = tuple(int(size) for size in array.shape)
    _check_shape(node, shape)
    value = message("tensorflow.AttrValue")()
    value.tensor.dtype = dtype
    value.tensor.tensor_shape.SetInParent()
    for size in shape:
        value.tensor.tensor_shape.dim.add(size=size)
    little = array.astype(array.dtype.newbyteorder("<"))
    value.tensor.tensor_content = little.tobytes()
    return _Frozen(node, value.SerializeToString(), dtype)


def _check_shape(node: Node, shape: tuple[int, ...]) -> None:
    if not compatible(shape, placeholder_shape(node)):
        raise EditError(
            f"the value for {quoted(node.name)} has the shape {format_shape(shape)}: it takes {describe(node.output)}"
        )
