"""The external effects of ops: files, networks, other processes, Python. From a table in the package data.

The table has every op of the TensorFlow release that it was made from, with the result of a review by a person. An op
that is not in the table was not reviewed, and counts as having an external effect. `scripts/make_reach_table.py` makes
and checks the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from gdsurgeon.ops.op_defs import row_of, table

NONE, UNKNOWN = "none", "unknown"
FILE_READ = "file read"
KINDS = (NONE, FILE_READ, "file write", "network", "process", "python")
"""The possible external effects. ``process`` stands for running code outside the graph: a program in a string, a device
that several processes share, the end of this process. An op that writes a file may also read the file."""


class OpReach(NamedTuple):
    """The external effect of an op.

    Attributes:
        kind: one of `KINDS`, or `UNKNOWN` for an op that is not in the table.
        attr: an attr that can prevent the effect, or ''.
        harmless: the values of that attr that prevent the effect; an empty list always does.
    """

    kind: str
    attr: str = ""
    harmless: tuple[str, ...] = ()


@cache
def reach_of(op: str) -> OpReach:
    """Returns the external effect of nodes of `op`."""
    row = row_of("reach.txt", op)
    return OpReach(UNKNOWN) if row is None else _parsed(row)


def reaches() -> Iterator[tuple[str, OpReach]]:
    """Yields each op of the table with its external effect."""
    for line in table("reach.txt").splitlines()[1:]:
        op, _, rest = line.partition("\t")
        yield op, _parsed(rest)


def _parsed(row: str) -> OpReach:
    kind, *condition = row.split("\t")
    if not condition:
        return OpReach(kind)
    import json

    return OpReach(kind, condition[0], tuple(json.loads(condition[1])))


def is_pure(op: str, attrs: Mapping[str, object]) -> bool:
    """Returns whether a node of `op` has no external effect, apart from the functions that it calls.

    Args:
        op: the op of the node; not a library function.
        attrs: the plain values of its attrs. An absent attr has its default, which is harmless. An attr without a plain
            value, because the caller of the function sets it, is not harmless.
    """
    reach = reach_of(op)
    if reach.kind == NONE or not reach.attr:
        return reach.kind == NONE
    if reach.attr not in attrs:
        return True
    value = attrs[reach.attr]
    return value == [] or (isinstance(value, bytes) and value.decode("utf-8", "replace") in reach.harmless)
