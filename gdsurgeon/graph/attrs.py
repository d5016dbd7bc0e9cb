"""Attr values: from AttrValue messages to plain values and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gdsurgeon.ops.op_defs import OpDef
from gdsurgeon.wire.fields import Buffer, WireError, fields
from gdsurgeon.wire.protos import AttrValue, NameAttrList, TensorShapeProto

MAX_FUNCTION_NESTING = 30
"""Function attrs inside function attrs: protobuf's limit of 100 nested messages allows this many."""

Shape = tuple[int, ...] | None
"""Dims, -1 for an unknown one; None for an unknown rank."""

Plain: TypeAlias = int | float | bytes | list[int] | list[float] | list[bytes]
"""The value of an attr of kind int, bool, float, string or type, or of a list of such values."""


def attr_value(data: bytes) -> AttrValue:
    """The AttrValue message in DATA. Raises protobuf's DecodeError."""
    return AttrValue.FromString(data)


def kind_of(value: AttrValue) -> str:
    """Returns the kind of an AttrValue as op signatures call it: ``int``, ``list(type)``, ``func``, ... or ''."""
    return next(iter(kinds_in(value)), "")


def kinds_in(value: AttrValue) -> tuple[str, ...]:
    """All that an AttrValue holds, as `kind_of` says it: one thing, unless it is a list of several kinds."""
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
    """The value of an AttrValue of kind int, bool, float, string, type or a list of them; else None."""
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
    """A TensorShapeProto as dims."""
    if proto.unknown_rank:
        return None
    return tuple(dim.size for dim in proto.dim)


def format_shape(shape: Shape) -> str:
    """``[?,224,224,3]``, ``[]`` for a scalar, ``[...]`` for an unknown rank."""
    if shape is None:
        return "[...]"
    return "[" + ",".join("?" if dim < 0 else str(dim) for dim in shape) + "]"


def shape_value(shape: Shape) -> AttrValue:
    """An AttrValue that holds SHAPE."""
    value = AttrValue()
    if shape is None:
        value.shape.unknown_rank = True
        return value
    value.shape.SetInParent()
    for size in shape:
        value.shape.dim.add(size=size)
    return value


def shapes_value(shapes: Sequence[Shape]) -> AttrValue:
    """An AttrValue that holds a list of shapes."""
    value = AttrValue()
    value.list.SetInParent()
    value.list.shape.extend(shape_value(shape).shape for shape in shapes)
    return value


def int_value(number: int) -> AttrValue:
    """An AttrValue that holds an int."""
    return AttrValue(i=number)


def ints_value(numbers: Sequence[int]) -> AttrValue:
    """An AttrValue that holds a list of ints."""
    value = AttrValue()
    value.list.SetInParent()
    value.list.i.extend(numbers)
    return value


def bool_value(flag: bool) -> AttrValue:
    """An AttrValue that holds a bool."""
    return AttrValue(b=flag)


def float_value(number: float) -> AttrValue:
    """An AttrValue that holds a float."""
    return AttrValue(f=number)


def type_value(dtype: int) -> AttrValue:
    """An AttrValue that holds a DataType."""
    return AttrValue(type=dtype)


def types_value(dtypes: Sequence[int]) -> AttrValue:
    """An AttrValue that holds a list of DataTypes."""
    value = AttrValue()
    value.list.SetInParent()
    value.list.type.extend(dtypes)
    return value


def func_value(name: str) -> AttrValue:
    """An AttrValue that holds a function without attrs."""
    value = AttrValue()
    value.func.name = name
    return value


def bytes_value(data: bytes) -> AttrValue:
    """An AttrValue that holds a string, which is bytes to TensorFlow."""
    return AttrValue(s=data)


def string_value(text: str) -> AttrValue:
    """An AttrValue that holds a string."""
    return bytes_value(text.encode("utf-8", "surrogateescape"))


def strings_value(texts: Sequence[str]) -> AttrValue:
    """An AttrValue that holds a list of strings."""
    value = AttrValue()
    value.list.SetInParent()
    value.list.s.extend(text.encode("utf-8", "surrogateescape") for text in texts)
    return value


def said_by_inputs(definition: OpDef, sources: Sequence[int]) -> dict[str, AttrValue]:
    """Returns the attrs that the number and dtypes of inputs determine; none if the number cannot be right."""
    several = [arg for arg in definition.inputs if arg.number_attr or arg.list_attr]
    counts = {arg.number_attr or arg.list_attr for arg in several}
    left = len(sources) - (len(definition.inputs) - len(several))
    if len(counts) > 1 or left < 0 or (several and left % len(several)) or (left and not several):
        return {}  # which input is whose cannot be told
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
    """The NameAttrLists in an AttrValue, those inside their attrs included; mutable."""
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


def is_too_deeply_nested(data: Buffer) -> bool:
    """Whether function attrs nest in an AttrValue's DATA deeper than protobuf reads; never recurses."""
    pending = [(0, len(data), 0)]
    try:
        while pending:
            start, end, depth = pending.pop()
            if depth > MAX_FUNCTION_NESTING:
                return True
            for field in fields(data, start, end):
                if field.wire_type == 2 and field.number in (1, 10):  # AttrValue.list, AttrValue.func
                    pending.extend((*span, depth + 1) for span in _nested_values(data, field.value, field.end))
    except WireError:
        return False
    return False


def _nested_values(data: Buffer, start: int, end: int) -> list[tuple[int, int]]:
    """Where the AttrValues inside a NameAttrList (or, by way of field 9, inside a ListValue) lie."""
    out: list[tuple[int, int]] = []
    for field in fields(data, start, end):
        if field.wire_type != 2:
            continue
        if field.number == 9:
            out.extend(_nested_values_of_func(data, field.value, field.end))
        elif field.number == 2:
            out.extend(_values_of_entry(data, field.value, field.end))
    return out


def _nested_values_of_func(data: Buffer, start: int, end: int) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for field in fields(data, start, end):
        if field.wire_type == 2 and field.number == 2:
            out.extend(_values_of_entry(data, field.value, field.end))
    return out


def _values_of_entry(data: Buffer, start: int, end: int) -> list[tuple[int, int]]:
    try:
        return [(f.value, f.end) for f in fields(data, start, end) if f.wire_type == 2 and f.number == 2]
    except WireError:
        return []  # field 2 of a ListValue is a string, not a map entry
