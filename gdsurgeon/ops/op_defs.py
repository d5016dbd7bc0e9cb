"""Op signatures without TensorFlow: arguments, attrs and their types, from the table kept as package data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from gdsurgeon.ops.dtypes import REF
from gdsurgeon.wire.protos import DATA


class Arg(NamedTuple):
    """An input or output argument of an op; it stands for one tensor, or for several.

    Attributes:
        dtype: the fixed DataType, or 0.
        type_attr: the attr of kind ``type`` that holds the DataType, or ''.
        number_attr: the attr of kind ``int`` with the number of tensors, or ''.
        list_attr: the attr of kind ``list(type)`` that holds a DataType for each tensor, or ''.
        is_ref: whether the tensors are references.
    """

    name: str
    dtype: int = 0
    type_attr: str = ""
    number_attr: str = ""
    list_attr: str = ""
    is_ref: bool = False


class AttrDef(NamedTuple):
    """An attr of an op. `kind` is ``type``, ``list(type)``, ``int``, ``shape``, ...; the default may be unknown.

    `allowed` are the allowed DataTypes of an attr of kind ``type`` or ``list(type)``, `texts` the allowed strings of
    kind ``string`` or ``list(string)``; () if all are allowed. `minimum` is the smallest value of kind ``int``, and the
    smallest length of a list.
    """

    name: str
    kind: str
    has_default: bool
    default: object
    allowed: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    minimum: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether not every value of its kind is allowed."""
        return bool(self.allowed or self.texts) or self.minimum is not None


class OpDef(NamedTuple):
    """The signature of an op. GraphDefs of version `removed_in` or later cannot contain the op; 0: not removed."""

    name: str
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    attrs: dict[str, AttrDef]
    is_stateful: bool
    removed_in: int = 0

    @property
    def takes_functions(self) -> bool:
        """Whether an attr names functions."""
        return any("func" in attr.kind for attr in self.attrs.values())


AttrReader = Callable[[str], object]
"""Returns the plain value of an attr of kind int, type or list(type), or None if the attr is absent."""


@cache
def table(name: str) -> str:
    """Returns the text of a table in the package data; the file is compressed if its name ends in ``.z``."""
    with open(os.path.join(DATA, name), "rb") as file:
        data = file.read()
    if name.endswith(".z"):
        import zlib

        data = zlib.decompress(data)
    return data.decode()


def row_of(name: str, op: str) -> str | None:
    """Returns the row of `op` in a table, without the op; None if the table does not have it."""
    text = table(name)
    start = text.find(f"\n{op}\t") if not {"\t", "\n"}.intersection(op) else -1
    begin = start + len(op) + 2
    return None if start < 0 else text[begin : text.index("\n", begin)]


@cache
def _rows() -> dict[str, str]:
    """Returns the line of each op in the table, by op name."""
    return {line[: line.index("\t")]: line for line in table("ops.txt").split("\n")[1:-1]}


@cache
def op_def(name: str) -> OpDef | None:
    """Returns the signature of the op `name`, or None if the TensorFlow version of the table does not have the op."""
    row = _rows().get(name)
    if row is None:
        return None
    import json

    return definition(name, json.loads(row[len(name) + 1 :]))


Row = Mapping[str, Any]
"""The row of an op in a table, as JSON."""


def definition(name: str, row: Row) -> OpDef:
    """Returns the signature of the op `name` from its `row` in a table; see `scripts/make_tensorflow_tables.py`."""
    allowed, minima = row.get("t", {}), row.get("m", {})
    attrs = (_attr(allowed.get(item[0], ()), minima.get(item[0]), *item) for item in row.get("a", ()))
    return OpDef(
        name,
        tuple(_arg(*item) for item in row.get("i", ())),
        tuple(_arg(*item) for item in row.get("o", ())),
        {attr.name: attr for attr in attrs},
        "s" in row,
        row.get("d", 0),
    )


def _attr(allowed: Sequence[int | str], minimum: int | None, name: str, kind: str, *default: object) -> AttrDef:
    texts = tuple(value for value in allowed if isinstance(value, str))
    dtypes = tuple(value for value in allowed if isinstance(value, int))
    return AttrDef(name, kind, bool(default), default[0] if default else None, dtypes, texts, minimum)


def _arg(name: str, kind: int | str | list[str] = 0, number_attr: str | None = None, is_ref: int = 0) -> Arg:
    if isinstance(kind, list):
        return Arg(name, list_attr=kind[0], is_ref=bool(is_ref))
    dtype, type_attr = (kind, "") if isinstance(kind, int) else (0, kind)
    return Arg(name, dtype, type_attr, number_attr or "", "", bool(is_ref))


def op_names() -> list[str]:
    """Returns the names of all ops."""
    return list(_rows())


@cache
def _head() -> list[str]:
    return table("ops.txt").partition("\n")[0].split("\t")


def table_version() -> str:
    """Returns the TensorFlow version that the table was made from."""
    return _head()[1]


def graph_def_version() -> int:
    """Returns the GraphDef version of the TensorFlow version of the table; a file can exclude this version."""
    return int(_head()[2])


MOST_LISTED = 1 << 20
"""The most tensors of one run that are listed. No real node has more; a larger count is an error in the file."""

Run = tuple[int, int]
"""A DataType, 0 if unknown, and the number of consecutive tensors with it."""


def arg_runs(args: Iterable[Arg], definition: OpDef | None, read: AttrReader) -> Iterator[Run]:
    """Yields the DataTypes of the tensors that `args` stand for, as runs; 0 if the attr with the DataType is absent.

    An absent count or list with no default counts as one tensor of unknown dtype: the node is broken, and the
    structural check reports it.
    """
    for arg in args:
        ref = REF if arg.is_ref else 0
        if arg.list_attr:
            types = _value(arg.list_attr, definition, read)
            yield from ((_dtype(t, ref), 1) for t in types) if isinstance(types, list) else ((0, 1),)
            continue
        number = _value(arg.number_attr, definition, read) if arg.number_attr else 1
        count = number if isinstance(number, int) and number >= 0 else 1
        yield _dtype(arg.dtype or _value(arg.type_attr, definition, read), ref), count


def arg_dtypes(args: Iterable[Arg], definition: OpDef | None, read: AttrReader) -> list[int]:
    """Returns the DataTypes of the tensors that `args` stand for, at most `MOST_LISTED` per run; see `arg_runs`."""
    out: list[int] = []
    for dtype, count in arg_runs(args, definition, read):
        out.extend([dtype] * min(count, MOST_LISTED))
    return out


def arg_count(args: Iterable[Arg], definition: OpDef | None, read: AttrReader) -> int:
    """Returns the number of tensors that `args` stand for, without listing them."""
    return sum(count for _, count in arg_runs(args, definition, read))


def _value(attr: str, definition: OpDef | None, read: AttrReader) -> object:
    """Returns the value of the attr `attr`, or its default; None if neither exists."""
    value = read(attr) if attr else None
    if value is None and definition is not None and attr in definition.attrs:
        return definition.attrs[attr].default
    return value


def _dtype(value: object, ref: int) -> int:
    return value + ref if value and isinstance(value, int) else 0
