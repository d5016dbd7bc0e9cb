"""Attrs that have the default of the newest release, which say nothing: dropped, or spelt out where that is another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from gdsurgeon.graph.attrs import attr_value, kind_of, plain
from gdsurgeon.ops.op_defs import AttrDef
from gdsurgeon.wire.protos import AttrValue


def is_default(value: AttrValue, attr: AttrDef) -> bool:
    """Whether VALUE is the default of ATTR, an attr of a release."""
    if not attr.has_default:
        return False
    if isinstance(attr.default, dict):
        return value.SerializeToString(deterministic=True) == bytes.fromhex(attr.default["x"])
    kind = kind_of(value)
    if kind != attr.kind and kind != "list()":
        return False
    held = plain(value)
    return _text(held) == attr.default


def spelt_out(attr: AttrDef) -> bytes:
    """The default of ATTR, which has one, as a serialised AttrValue."""
    if isinstance(attr.default, dict):
        return bytes.fromhex(attr.default["x"])
    value = AttrValue()
    kind, default = attr.kind, attr.default
    if kind.startswith("list("):
        value.list.SetInParent()
        items = [item.encode() if isinstance(item, str) else item for item in cast(Sequence[object], default)]
        getattr(value.list, _FIELDS[kind[5:-1]]).extend(items)
    else:
        setattr(value, _FIELDS[kind], default.encode() if isinstance(default, str) else default)
    return value.SerializeToString(deterministic=True)


_FIELDS = {"int": "i", "bool": "b", "float": "f", "string": "s", "type": "type"}


def _text(held: object) -> object:
    if isinstance(held, bytes):
        return held.decode("utf-8", "replace")
    return [_text(item) for item in held] if isinstance(held, list) else held


def same_value(data: bytes | None, attr: AttrDef) -> bool:
    """Whether a serialised AttrValue is the default of ATTR."""
    return data is not None and is_default(attr_value(data), attr)
