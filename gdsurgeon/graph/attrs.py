"""Attr values: from AttrValue messages to plain values and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from gdsurgeon.wire.fields import LEN, Buffer, WireError, fields
from gdsurgeon.wire.protos import AttrValue, NameAttrList, TensorShapeProto

if TYPE_CHECKING:
    from gdsurgeon.ops.op_defs import OpDef

MAX_FUNCTION_NESTING = 30
"""Most levels of function attrs inside function attrs that protobuf's limit of 100 nested messages allows."""

Shape = tuple[int, ...] | None
"""Dims, -1 for an unknown one; None for an unknown rank."""
FullShape = tuple[int, ...]
"""Dims, all known."""

Plain: TypeAlias = int | float | bytes | list[int] | list[float] | list[bytes]
"""The value of an attr of kind int, bool, float, string or type, or of a list of such values."""


def attr_value(data: bytes) -> AttrValue:
    """Returns the AttrValue message that `data` encodes. Raises protobuf's DecodeError."""
    return AttrValue.FromString(data)


def kind_of(value: AttrValue) -> str:
    """Returns the kind of an AttrValue as op signatures call it: ``int``, ``list(type)``, ``func``, ... or ''."""
    return next(iter(kinds_in(value)), "")


def kinds_in(value: AttrValue) -> tuple[str, ...]:
    """Returns the kinds of the values in an AttrValue, named as in `kind_of`; more than one only for a mixed list."""
    which = value.WhichOneof("value")
    if which is None:
        return ()
    if which != "list":
        return (_KINDS[which],)
    return tuple(f"list({_KINDS[field.name]})" for field, _ in value.list.ListFields()) or ("list()",)


_KINDS = {
    "s": "string", "i": "int", "f": "float", "b": "bool", "type": "type", "shape": "shape", "tensor": "tensor",
    "func": "func", "placeholder": "placeholder",
}  # fmt: skip


def plain(value: AttrValue) -> Plain | None:
    """Returns the value of an AttrValue of kind int, bool, float, string, type or a list of such a kind; else None."""
    which = value.WhichOneof("value")
    if which in ("i", "b", "f", "s", "type"):
        single: Plain = getattr(value, which)
        return single
    if which == "list":
        for field, items in value.list.ListFields():
            if field.name in ("i", "b", "f", "s", "type"):
                return list(items)
        return []
    return None


def shape_of(proto: TensorShapeProto) -> Shape:
    """Returns the dims of a TensorShapeProto; None for an unknown rank."""
    if proto.unknown_rank:
        return None
    return tuple(dim.size for dim in proto.dim)


def format_shape(shape: Shape) -> str:
    """Returns the shape as text: ``[?,224,224,3]``, ``[]`` for a scalar, ``[...]`` for an unknown rank."""
    if shape is None:
        return "[...]"
    return "[" + ",".join("?" if dim < 0 else str(dim) for dim in shape) + "]"


def shape_value(shape: Shape) -> AttrValue:
    """Returns an AttrValue that holds `shape`."""
    if shape is None:
        return AttrValue(shape={"unknown_rank": True})
    return AttrValue(shape={"dim": [{"size": size} for size in shape]})


def shapes_value(shapes: Sequence[Shape]) -> AttrValue:
    """Returns an AttrValue that holds a list of shapes."""
    return AttrValue(list={"shape": [shape_value(shape).shape for shape in shapes]})


def int_value(number: int) -> AttrValue:
    """Returns an AttrValue that holds an int."""
    return AttrValue(i=number)


def ints_value(numbers: Sequence[int]) -> AttrValue:
    """Returns an AttrValue that holds a list of ints."""
    return AttrValue(list={"i": numbers})


def bool_value(flag: bool) -> AttrValue:
    """Returns an AttrValue that holds a bool."""
    return AttrValue(b=flag)


def float_value(number: float) -> AttrValue:
    """Returns an AttrValue that holds a float."""
    return AttrValue(f=number)


def type_value(dtype: int) -> AttrValue:
    """Returns an AttrValue that holds a DataType."""
    return AttrValue(type=dtype)


def types_value(dtypes: Sequence[int]) -> AttrValue:
    """Returns an AttrValue that holds a list of DataTypes."""
    return AttrValue(list={"type": dtypes})


def func_value(name: str) -> AttrValue:
    """Returns an AttrValue that holds a function without attrs."""
    return AttrValue(func={"name": name})


def bytes_value(data: bytes) -> AttrValue:
    """Returns an AttrValue that holds a string; TensorFlow's strings are bytes."""
    return AttrValue(s=data)


def string_value(text: str) -> AttrValue:
    """Returns an AttrValue that holds a string."""
    return bytes_value(text.encode("utf-8", "surrogateescape"))


def strings_value(texts: Sequence[str]) -> AttrValue:
    """Returns an AttrValue that holds a list of strings."""
    return AttrValue(list={"s": [text.encode("utf-8", "surrogateescape") for text in texts]})


def said_by_inputs(definition: OpDef, sources: Sequence[int]) -> dict[str, AttrValue]:
    """Returns the attrs that the number and dtypes of inputs determine; none if the number is wrong or ambiguous."""
    several = [arg for arg in definition.inputs if arg.number_attr or arg.list_attr]
    counts = {arg.number_attr or arg.list_attr for arg in several}
    left = len(sources) - (len(definition.inputs) - len(several))
    if len(counts) > 1 or left < 0 or (several and left % len(several)) or (left and not several):
        return {}  # it is ambiguous which input belongs to which argument
    out: dict[str, AttrValue] = {}
    at = 0
    for arg in definition.inputs:
        count = left // len(several) if arg in several else 1
        part = sources[at : at + count]
        at += count
        if arg.number_attr:
            out[arg.number_attr] = int_value(count)
        if arg.list_attr and all(part):
            out[arg.list_attr] = types_value(part)
        known = next((dtype for dtype in part if dtype), 0)
        if arg.type_attr and known:
            out.setdefault(arg.type_attr, type_value(known))
    return out


def functions_in(value: AttrValue) -> list[NameAttrList]:
    """Returns the NameAttrLists in an AttrValue, including those nested in their attrs; they are mutable."""
    found: list[NameAttrList] = []
    pending = [value]
    while pending:
        item = pending.pop()
        which = item.WhichOneof("value")
        if which == "func":
            nested = [item.func]
        elif which == "list":
            nested = list(item.list.func)
        else:
            continue
        for func in nested:
            found.append(func)
            pending.extend(func.attr.values())
    return found


_NESTING: dict[str, dict[int, str]] = {
    "library": {1: "function"},
    "function": {3: "node", 5: "entry"},
    "node": {5: "entry"},
    "entry": {2: "value"},
    "value": {1: "list", 10: "call"},
    "list": {9: "call"},
    "call": {2: "entry"},
}
"""For each message, the numbers of the fields that can contain function attrs, with the message in each field."""


def is_too_deeply_nested(data: Buffer, part: str = "value") -> bool:
    """Returns whether function attrs in `data` nest deeper than protobuf reads; never recurses.

    Args:
        data: the bytes of an AttrValue, or of a different message.
        part: the message, a key of `_NESTING`.
    """
    pending = [(0, len(data), part, 0)]
    while pending:
        start, end, part, depth = pending.pop()
        if depth > MAX_FUNCTION_NESTING:
            return True
        inner = _NESTING[part]
        try:
            found = [field for field in fields(data, start, end) if field.wire_type == LEN and field.number in inner]
        except WireError:
            continue
        pending += [(f.value, f.end, inner[f.number], depth + (part == "call")) for f in found]
    return False
