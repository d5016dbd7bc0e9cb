"""Attr values: spelled in rules, and the defaults of ops."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import cast

from gdsurgeon.graph.attrs import attr_value, func_value, kind_of, plain, shape_value
from gdsurgeon.graph.constants import Constant
from gdsurgeon.ops.op_defs import AttrDef
from gdsurgeon.patterns.terms import DTypeName
from gdsurgeon.wire.protos import AttrValue

_FIELDS = {"int": "i", "bool": "b", "float": "f", "string": "s", "type": "type"}


def spelt(attr: AttrDef, value: object) -> bytes:
    """Returns the serialized AttrValue of a value in a rule: numbers, texts, dtypes, or a list of them.

    Raises:
        ValueError: the attr has a different kind; the message names it.
    """
    wrong = ValueError(f"{attr.name} is of kind {attr.kind}")
    if attr.kind == "shape":
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise wrong
        return shape_value(tuple(value)).SerializeToString(deterministic=True)
    if attr.kind == "func":
        if not isinstance(value, str):
            raise wrong
        return func_value(value).SerializeToString(deterministic=True)
    out: AttrValue = AttrValue()
    if attr.kind.startswith("list("):
        kind = attr.kind[5:-1]
        if not isinstance(value, list) or kind not in _FIELDS:
            raise wrong
        out.list.SetInParent()
        getattr(out.list, _FIELDS[kind]).extend(_item(kind, item, wrong) for item in value)
    elif attr.kind in _FIELDS:
        setattr(out, _FIELDS[attr.kind], _item(attr.kind, value, wrong))
    else:
        raise wrong
    return out.SerializeToString(deterministic=True)


def _item(kind: str, value: object, wrong: ValueError) -> object:
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
        return value
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value, wrong)
    if kind == "string" and isinstance(value, str):
        return value.encode()
    if kind == "type" and isinstance(value, DTypeName):
        return value.number
    raise wrong


def _float(value: float, wrong: ValueError) -> float:
    """Returns `value`, which must be in the range of float32."""
    try:
        pack("<f", value)
    except OverflowError:
        raise wrong from None
    return float(value)


def of_constant(attr: AttrDef, found: Constant | None) -> bytes:
    """Returns the serialized AttrValue of the value of a constant. Raises ValueError; see `spelt`."""
    wrong = ValueError(f"{attr.name} is of kind {attr.kind}, which the constant does not fit")
    if found is None or not all(isinstance(value, int | float) for value in found.values):
        raise wrong
    values: list[object] = list(found.values)
    if attr.kind in ("int", "list(int)") and any(isinstance(v, float) and not v.is_integer() for v in values):
        raise wrong
    if attr.kind in ("int", "list(int)"):
        values = [int(value) if isinstance(value, float) else value for value in values]
    if attr.kind.startswith("list("):
        return spelt(attr, values)
    if len(values) != 1:
        raise wrong
    return spelt(attr, values[0])


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
    value = attr_value(b"")
    is_list = attr.kind.startswith("list(")
    items = cast("Sequence[object]", attr.default) if is_list else [attr.default]
    encoded = [item.encode() if isinstance(item, str) else item for item in items]
    if is_list:
        value.list.SetInParent()
        getattr(value.list, _FIELDS[attr.kind[5:-1]]).extend(encoded)
    else:
        setattr(value, _FIELDS[attr.kind], encoded[0])
    return value.SerializeToString(deterministic=True)
