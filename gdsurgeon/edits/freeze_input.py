"""freeze-input: inputs of a graph become constants, and constants get other values."""

from __future__ import annotations

from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.edits.naming import naming, of_nodes, of_olds
from gdsurgeon.edits.replacing import remove_unread, unrenamed_outputs
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import Shape, format_shape, type_value
from gdsurgeon.graph.constants import constant_header, raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.literals import Literal, parse_literal
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.placeholders import placeholder_shape
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.dtypes import BOOL, DTYPES, NUMBERS, STRING, dtype_name
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import an, shortened

MOST_SHOWN = 60
"""Characters of a value that a message repeats."""


class _Frozen(NamedTuple):
    node: Node
    value: bytes
    dtype: int


@public
@naming(values=of_olds(of_nodes))
@edit
def freeze_input(graph: Graph, values: Pairs[str, object]) -> EditResult:
    """Makes placeholders constants, which keep their names, and gives constants other values.

    Args:
        graph: changed in place.
        values: by the node's name: a text as on the command line (``false``, ``0.5``, ``[1, 2]``), a number or
            bool, or an array (anything with `dtype`, `shape` and `tobytes`). A single number fills a placeholder of
            known rank with dims of 1. A constant keeps its dtype and shape.

    Raises:
        EditError: no such placeholder or constant, or a value not of its dtype and shape; the graph is as it was.
    """
    if not values:
        raise EditError("no input is given: name an input and its value", code="missing-argument")
    frozen = [_frozen(_taking(graph, name), value) for name, value in pairs_of(values)]
    doubled = [item.node.name for item in frozen if sum(other.node is item.node for other in frozen) > 1]
    if doubled:
        raise EditError(f"{quoted(doubled[0])} has two values", code="given-twice", node=doubled[0])
    defaults = [read.node for item in frozen for read in item.node.inputs]
    for node, value, dtype in frozen:
        graph.set_op(node, "Const")
        graph.set_inputs(node, [])
        for key in ("shape", STATED_SHAPES):
            if node.has_attr(key):
                graph.set_attr(node, key, None)
        graph.set_attr(node, "dtype", type_value(dtype))
        graph.set_attr(node, "value", value)
    intent = Intent(changed=[item.node.name for item in frozen])
    intent.removed = remove_unread(graph, defaults)  # they would pass for outputs
    names = {item.node.name: item.node.name for item in frozen}
    statement = equation([f"{printable(name)} := its value" for name in names])
    constants = {item.node.name: item.value for item in frozen}
    return EditResult(intent, (SameGiven(names, unrenamed_outputs(graph), statement, constants=constants),))


def _taking(graph: Graph, name: str) -> Node:
    node = graph[name.removesuffix(":0")]
    if node.op not in PLACEHOLDERS | {"Const"}:
        message = f"{quoted(node.name)} is {an(node.op)}, not a Placeholder or a Const"
        raise EditError(message, code="not-a-placeholder", facts={"node": node.name, "op": node.op})
    return node


def _stated_shape(node: Node) -> Shape:
    if node.op != "Const":
        return placeholder_shape(node)
    header = constant_header(node)
    return None if header is None else header.dims


def _frozen(node: Node, value: object) -> _Frozen:
    dtype = node.output.dtype
    if hasattr(value, "tobytes"):
        return _from_array(node, dtype, value)
    short = shortened(str(value), MOST_SHOWN)
    where = f"the value {quoted(short)} of {quoted(node.name)}"
    facts = {"node": node.name, "value": short, "expected": dtype_name(dtype)}
    try:
        literal = _literal(value, dtype)
        shape = _filled(node) if literal.is_scalar else literal.shape
        _check_shape(node, shape)
        values = [bool(item) if dtype == BOOL and item in (0, 1) else item for item in literal.values]
        values = [v.encode("utf-8", "surrogateescape") if isinstance(v, str) else v for v in values]
        return _Frozen(node, tensor_value(dtype, shape, values).SerializeToString(), dtype)
    except UnicodeEncodeError:
        raise EditError(f"{where} is not valid text", code="not-text", facts=facts) from None
    except ValueError as error:
        (reason,) = error.args
        code = reason.code if isinstance(reason, Remark) else "bad-value"
        raise EditError(f"{where} {reason}", code=code, facts=facts) from None


def _literal(value: object, dtype: int) -> Literal:
    if isinstance(value, bytes):
        return Literal((), [value], True)
    return parse_literal(value if isinstance(value, str) else str(value), dtype)


def _filled(node: Node) -> tuple[int, ...]:
    """The shape that a single number gets: as many dims of 1 as the placeholder has dims."""
    return (1,) * len(_stated_shape(node) or ())


def _from_array(node: Node, dtype: int, array: Any) -> _Frozen:
    texts = array.ravel().tolist() if dtype == STRING else []
    is_text = bool(texts) and all(isinstance(text, bytes) for text in texts)
    if not is_text and not _holds(array.dtype, dtype):
        found, expected = array.dtype.name, dtype_name(dtype)
        message = f"the array for {quoted(node.name)} has dtype {found}, expected {expected}"
        raise EditError(message, code="dtype-mismatch", facts={"node": node.name, "found": found, "expected": expected})
    shape = tuple(int(size) for size in array.shape) or _filled(node)
    _check_shape(node, shape)
    if is_text:
        return _Frozen(node, tensor_value(dtype, shape, texts).SerializeToString(), dtype)
    content = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return _Frozen(node, raw_value(dtype, shape, content).SerializeToString(), dtype)


def _holds(kind: Any, dtype: int) -> bool:
    """Whether an array of KIND, a dtype of numpy, holds elements of DTYPE: as what they are, or as files have them.

    A .npy file has bfloat16 and the like as words of their size, and quantised integers as plain ones.
    """
    wanted = DTYPES.get(dtype)
    if wanted is None or NUMBERS.get(kind.name) == dtype:
        return wanted is not None
    is_words = kind.kind == "V" and kind.names is None and kind.itemsize == wanted.size
    return (is_words and not wanted.code) or (wanted.is_quantized and kind.name == wanted.numpy)


def _check_shape(node: Node, shape: tuple[int, ...]) -> None:
    if not compatible(shape, _stated_shape(node)):
        raise EditError(
            f"the value for {quoted(node.name)} has the shape {format_shape(shape)}, expected "
            f"{dtype_name(node.output.dtype)} {format_shape(_stated_shape(node))}",
            code="shape-mismatch",
            facts={"node": node.name, "found": shape, "expected": _stated_shape(node)},
        )
