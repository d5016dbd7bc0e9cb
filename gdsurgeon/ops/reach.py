"""The external effects of ops: files, networks, other processes, Python. From a table in the package data.

The table has every op of the TensorFlow release that it was made from, with the result of a review by a person. An op
that is not in the table was not reviewed, and counts as reaching. `scripts/make_reach_table.py` makes and checks the
table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from gdsurgeon.wire.messages import DATA

NONE, UNKNOWN = "none", "unknown"
FILE_READ = "file read"
KINDS = (NONE, FILE_READ, "file write", "network", "process", "python")
"""The possible external effects. ``process`` stands for running code outside the graph: a program in a string, a device
that several processes share, the end of this process. An op that writes a file may also read the file."""


class OpReach(NamedTuple):
    """The external effect of an op.

    Attributes:
        kind: one of `KINDS`, or `UNKNOWN` for an op that is not in the table.
        attr: an attr that keeps it from reaching anything, or ''.
        harmless: the values of that attr with which it does not; an empty list is harmless for any.
    """

    kind: str
    attr: str = ""
    harmless: tuple[str, ...] = ()


@cache
def _table() -> str:
    with open(os.path.join(DATA, "reach.txt"), encoding="utf-8") as file:
        return file.read()


@cache
def reach_of(op: str) -> OpReach:
    """What nodes of OP reach."""
    table = _table()
    start = table.find(f"\n{op}\t") if "\t" not in op and "\n" not in op else -1
    if start < 0:
        return OpReach(UNKNOWN)
    begin = start + len(op) + 2
    return _parsed(table[begin : table.index("\n", begin)])


def reaches() -> Iterator[tuple[str, OpReach]]:
    """Each op of the table, and what it reaches."""
    for line in _table().splitlines()[1:]:
        op, _, rest = line.partition("\t")
        yield op, _parsed(rest)


def _parsed(row: str) -> OpReach:
    kind, *condition = row.split("\t")
    if not condition:
        return OpReach(kind)
    import json

    return OpReach(kind, condition[0], tuple(json.loads(condition[1])))


def is_pure(op: str, attrs: Mapping[str, object]) -> bool:
    """Whether a node of OP reaches nothing outside of the graph, whatever the functions do that it calls.

    Args:
        op: its op; not a library function.
        attrs: the plain values of its attrs. One that is absent has its default, which is harmless; one that is
            there without a plain value, for it is taken from the function's caller, is not.
    """
    reach = reach_of(op)
    if reach.kind == NONE or not reach.attr:
        return reach.kind == NONE
    if reach.attr not in attrs:
        return True
    value = attrs[reach.attr]
    return value == [] or (isinstance(value, bytes) and value.decode("utf-8", "replace") in reach.harmless)
