"""Records as JSON for reports, and findings about a model as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from operator import attrgetter
from typing import Any

from gdsurgeon.errors import printable
from gdsurgeon.ops.dtypes import base_dtype, dtype_name
from gdsurgeon.text import counted, labelled


def to_json(record: object, *names: str, **paths: str) -> dict[str, Any]:
    """Returns attributes of a dataclass or a NamedTuple as JSON.

    Unknown facts are null: an empty text, a dtype 0, a dimension of unknown size, a number that is not finite.

    Args:
        record: the record.
        names: attributes; without `names` and `paths`, all fields, without the prefix ``is_``.
        paths: attributes that have a different key in the report, also of inner records: ``tensor="key.tensor"``.
    """
    keys = {name: name for name in names} | paths
    if not keys:
        keys = {name.removeprefix("is_"): name for name in getattr(record, "_fields", None) or vars(record)}
    return {key: _field(key, attrgetter(path)(record)) for key, path in keys.items()}


def _field(key: str, value: Any) -> object:
    if key == "dtype" and isinstance(value, int):
        return dtype_name(base_dtype(value)) if value else None
    if key == "shape":
        return shape_json(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    return None if value == "" else _plain(value)


def shape_json(shape: Sequence[int] | None) -> list[int | None] | None:
    """Returns a shape as JSON; unknown dimensions are null."""
    return None if shape is None else [None if dim < 0 else dim for dim in shape]


def _plain(value: object) -> object:
    if hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
        return to_json(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [*map(_plain, value)] if isinstance(value, (list, tuple)) else value


def findings(model: str, nodes: int, ops: int, entries: Sequence[tuple[str, str]]) -> list[str]:
    """Returns the lines: the model with its numbers of nodes and ops, then the entries with their labels."""
    return [f"{printable(model)}  {counted(nodes, 'node')}, {counted(ops, 'op type')}", *labelled(entries)]
