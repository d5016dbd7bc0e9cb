"""Attr values: spelled in rules, and the defaults of ops."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error, pack
from typing import Any, cast

from gdsurgeon.graph.attrs import attr_value, func_value, kind_of, plain, shape_value
from gdsurgeon.graph.constants import Constant
from gdsurgeon.ops.op_defs import AttrDef
from gdsurgeon.wire.protos import AttrValue

_FIELDS = {"int": "i", "bool": "b", "float": "f", "string": "s", "type": "type"}


def spelt(attr: AttrDef, value: object) -> bytes:
    """Returns the serialized AttrValue of a value in a rule: numbers, texts, dtypes, or a list of them.

    Raises:
        ValueError: the attr has a different kind; the message names it.
    """
    kind = attr.kind.removeprefix("list(").removesuffix(")")
    items: list[Any] = value if isinstance(value, list) else [value]
    try:
        if attr.kind == "shape" and isinstance(value, list) and all(type(item) is int for item in items):
            return shape_value(tuple(items)).SerializeToString(deterministic=True)
        if attr.kind == "func" and isinstance(value, str):
            return func_value(value).SerializeToString(deterministic=True)
        if isinstance(value, list) == (kind != attr.kind):
            return _with_items(attr, [_item(kind, item) for item in items])
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, error):
        pass
    raise ValueError(f"{attr.name} is of kind {attr.kind}")


def _item(kind: str, value: Any) -> object:
    """Returns a value as a field of this kind holds it; fails if the kind is different."""
    if isinstance(value, bool) != (kind == "bool"):
        raise TypeError
    if kind == "float":
        pack("<f", value)  # it must be in the range of float32
        return float(value)
    return value.encode() if kind == "string" else value.number if kind == "type" else value


def _with_items(attr: AttrDef, items: Sequence[object]) -> bytes:
    """Returns the serialized AttrValue with `items` if the attr is a list, and with the only one otherwise."""
    value: AttrValue = AttrValue()
    if attr.kind.startswith("list("):
        value.list.SetInParent()
        getattr(value.list, _FIELDS[attr.kind[5:-1]]).extend(items)
    else:
        setattr(value, _FIELDS[attr.kind], items[0])
    return value.SerializeToString(deterministic=True)


def of_constant(attr: AttrDef, found: Constant | None) -> bytes:
    """Returns the serialized AttrValue of the value of a constant. Raises ValueError; see `spelt`."""
    values: list[object] = list(found.values) if found is not None else []
    if attr.kind in ("int", "list(int)"):
        values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    is_list, is_number = attr.kind.startswith("list("), all(isinstance(value, int | float) for value in values)
    if found is None or not is_number or (not is_list and len(values) != 1):
        raise ValueError(f"{attr.name} is of kind {attr.kind}, which the constant does not fit")
    return spelt(attr, values if is_list else values[0])


def misfit(data: bytes, attr: AttrDef) -> str:
    """Returns the reason why a serialized AttrValue is not valid for an attr; '' if it is valid."""
    value = attr_value(data)
    for dtype in [value.type] if attr.kind == "type" else value.list.type:
        if attr.allowed and dtype not in attr.allowed:
            return f"{attr.name} cannot have this dtype"
    for text in [value.s] if attr.kind == "string" else value.list.s:
        if attr.texts and text.decode("utf-8", "replace") not in attr.texts:
            return f"{attr.name} must be one of {', '.join(attr.texts)}"
    if attr.kind == "int" and attr.minimum is not None and value.i < attr.minimum:
        return f"{attr.name} must be at least {attr.minimum}"
    return ""


def same_value(data: bytes | None, attr: AttrDef | None) -> bool:
    """Returns whether a serialized AttrValue is the default of `attr`."""
    if data is None or attr is None or not attr.has_default:
        return False
    value = attr_value(data)
    if isinstance(attr.default, dict):
        return value.SerializeToString(deterministic=True) == bytes.fromhex(attr.default["x"])
    return kind_of(value) in (attr.kind, "list()") and _decoded(plain(value)) == attr.default


def _decoded(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_decoded(item) for item in value] if isinstance(value, list) else value


def default_of(attr: AttrDef) -> bytes:
    """Returns the default of `attr`, which has one, as a serialized AttrValue."""
    if isinstance(attr.default, dict):
        return bytes.fromhex(attr.default["x"])
    items = cast("Sequence[object]", attr.default) if attr.kind.startswith("list(") else [attr.default]
    return _with_items(attr, [item.encode() if isinstance(item, str) else item for item in items])
