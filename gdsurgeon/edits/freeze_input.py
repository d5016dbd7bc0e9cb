"""freeze-input: makes inputs of a graph constants, and changes the values of constants."""

from __future__ import annotations

from typing import Any

from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.edits.decorator import edit, of_nodes, of_olds
from gdsurgeon.edits.replacing import remove_unused, unrenamed_outputs
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import format_shape, type_value
from gdsurgeon.graph.constants import Literal, constant_header, parse_literal, raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, placeholder_shape
from gdsurgeon.ops.dtypes import BOOL, DTYPES, NUMBERS, STRING, dtype_name
from gdsurgeon.ops.kinds import PLACEHOLDERS, STATED_SHAPES
from gdsurgeon.text import an, shortened
from gdsurgeon.wire.protos import AttrValue

MOST_SHOWN = 60
"""The largest number of characters of a value in a message."""


@edit(values=of_olds(of_nodes))
def freeze_input(graph: Graph, values: Pairs[str, object]) -> EditResult:
    """Makes placeholders constants, which keep their names, and changes the values of constants.

    Args:
        graph: changed in place.
        values: the value for the name of each node: text as on the command line (``false``, ``0.5``, ``[1, 2]``), a
            number or bool, or an array (an object with `dtype`, `shape` and `tobytes`). A single number fills a
            placeholder of known rank, whose dimensions become 1. A constant keeps its dtype and shape.

    Raises:
        EditError: no such placeholder or constant, or a value of a different dtype or shape. The graph is unchanged.
    """
    if not values:
        raise EditError("no input is given: name an input and its value", code="missing-argument")
    frozen: dict[Node, AttrValue] = {}
    for name, value in pairs_of(values):
        node = graph[name.removesuffix(":0")]
        if node.op not in PLACEHOLDERS | {"Const"}:
            message = f"{quoted(node.name)} is {an(node.op)}, not a Placeholder or a Const"
            raise EditError(message, code="not-a-placeholder", node=node.name, op=node.op)
        tensor = _of_array(node, value) if hasattr(value, "tobytes") else _of_text(node, value)
        if frozen.setdefault(node, tensor) is not tensor:
            raise EditError(f"{quoted(node.name)} has two values", code="given-twice", node=node.name)
    defaults = [read.node for node in frozen for read in node.inputs]
    for node, tensor in frozen.items():
        attrs = {"shape": None, STATED_SHAPES: None, "dtype": type_value(node.output.dtype), "value": tensor}
        graph.replace_op(node, "Const", [], attrs)
    intent = Intent(changed=[node.name for node in frozen])
    intent.removed = remove_unused(graph, defaults)  # they would become outputs
    names = {node.name: node.name for node in frozen}
    statement = equation([f"{printable(name)} := its value" for name in names])
    constants = {node.name: value.SerializeToString() for node, value in frozen.items()}
    return EditResult(intent, (SameGiven(names, unrenamed_outputs(graph), statement, constants=constants),))


def _shape(node: Node, given: tuple[int, ...] | None) -> tuple[int, ...]:
    """Returns the shape of a value; without `given` all dimensions of the node are 1. Raises EditError: it differs."""
    header = constant_header(node) if node.op == "Const" else None
    stated = placeholder_shape(node) if node.op != "Const" else header.dims if header is not None else None
    shape = given if given is not None else (1,) * len(stated or ())
    if not compatible(shape, stated):
        raise EditError(
            f"the value for {quoted(node.name)} has the shape {format_shape(shape)}, expected "
            f"{dtype_name(node.output.dtype)} {format_shape(stated)}",
            code="shape-mismatch",
            node=node.name,
            found=shape,
            expected=stated,
        )
    return shape


def _of_text(node: Node, value: object) -> AttrValue:
    """Returns a value that is text, a number or a bool."""
    dtype = node.output.dtype
    short = shortened(str(value), MOST_SHOWN)
    where = f"the value {quoted(short)} of {quoted(node.name)}"
    facts = {"node": node.name, "value": short, "expected": dtype_name(dtype)}
    try:
        is_bytes = isinstance(value, bytes)
        literal = Literal((), [value], True) if is_bytes else parse_literal(str(value), dtype)
        shape = _shape(node, None if literal.is_scalar else literal.shape)
        values = [bool(item) if dtype == BOOL and item in (0, 1) else item for item in literal.values]
        values = [v.encode("utf-8", "surrogateescape") if isinstance(v, str) else v for v in values]
        return tensor_value(dtype, shape, values)
    except UnicodeEncodeError:
        raise EditError(f"{where} is not valid text", code="not-text", facts=facts) from None
    except EditError:
        raise
    except ValueError as error:
        (reason,) = error.args
        code = reason.code if isinstance(reason, Remark) else "bad-value"
        raise EditError(f"{where} {reason}", code=code, facts=facts) from None


def _of_array(node: Node, array: Any) -> AttrValue:
    """Returns a value that is an array."""
    dtype = node.output.dtype
    texts = array.ravel().tolist() if dtype == STRING else []
    is_text = bool(texts) and all(isinstance(text, bytes) for text in texts)
    # A .npy file stores bfloat16 and similar dtypes as words of their size, and quantized integers as plain integers.
    kind, wanted = array.dtype, DTYPES.get(dtype)
    is_held = wanted is not None and NUMBERS.get(kind.name) == dtype
    if wanted is not None and not is_held:
        is_words = kind.kind == "V" and kind.names is None and kind.itemsize == wanted.size
        is_held = (is_words and not wanted.code) or (wanted.is_quantized and kind.name == wanted.numpy)
    if not is_text and not is_held:
        found, expected = array.dtype.name, dtype_name(dtype)
        message = f"the array for {quoted(node.name)} has dtype {found}, expected {expected}"
        raise EditError(message, code="dtype-mismatch", node=node.name, found=found, expected=expected)
    shape = _shape(node, tuple(int(size) for size in array.shape) or None)
    if is_text:
        return tensor_value(dtype, shape, texts)
    return raw_value(dtype, shape, array.astype(array.dtype.newbyteorder("<")).tobytes())
