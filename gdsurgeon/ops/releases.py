"""The op signatures of released TensorFlows, from a table that `scripts/make_release_table.py` makes of their wheels.

Only who asks for a release reads it: 3 ms, and some 20 us for each op that is asked for.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from functools import cache
from typing import Any, NamedTuple

from gdsurgeon.ops.op_defs import OpDef, definition
from gdsurgeon.wire.messages import DATA


class Release(NamedTuple):
    """A release of TensorFlow.

    Attributes:
        name: without the number of the patch: ``2.8``.
        place: among all releases of the table, the oldest is 0.
        version: of the GraphDefs that it writes; it reads those of other versions unless they say that it must not.
        last_dtype: the last DataType that it knows.
    """

    name: str
    place: int
    version: int
    last_dtype: int

    def op_def(self, op: str) -> OpDef | None:
        """The signature that OP has in this release; None: it has no such op.

        A default that is a shape, a tensor or a function is ``{"x": HEX}``, of the serialised AttrValue.
        """
        return _definition(op, self.place)

    def knows_as(self, op: str, other: Release) -> bool:
        """Whether this release has OP and what it says of it is what OTHER says."""
        return _is_same(op, self.place, other.place)

    def takes_matrices_only(self, op: str) -> bool:
        """Whether OP takes tensors of two dims only."""
        return self._is_at_most(MATRICES_ONLY.get(op, ""))

    def takes_one_group(self, op: str) -> bool:
        """Whether OP, a convolution, takes filters as deep as its input only (on a CPU)."""
        return self._is_at_most(ONE_GROUP.get(op, ""))

    def takes_less(self, op: str) -> bool:
        """Whether kernels of OP take less than those of today."""
        return self.takes_matrices_only(op) or self.takes_one_group(op)

    def _is_at_most(self, name: str) -> bool:
        last = release(name)
        return last is not None and self.place <= last.place


MATRICES_ONLY = {"LogSoftmax": "1.10", "Softmax": "1.10"}
"""Ops that take tensors of two dims only, up to a release: their kernels say so when they run, and no table does."""
ONE_GROUP = {"Conv2D": "2.4"}
"""The same for convolutions of several groups, where each group reads a part of the channels."""

OTHERWISE = dict.fromkeys(
    ("MaxPoolGradGradWithArgmax", "MaxPoolGradWithArgmax", "MaxPoolWithArgmax"), "include_batch_in_index"
)
"""Attrs whose default is not what a release does that lacks them, by op: places were those in the whole batch."""


def release(name: str) -> Release | None:
    """The release NAME, ``1.15`` or ``1.15.5``; None where the table has none of that name."""
    found = re.fullmatch(r"(\d+\.\d+)(\.\w+)?", name)
    return next((each for each in releases() if found and each.name == found[1]), None)


@cache
def releases() -> tuple[Release, ...]:
    """All releases that the table has, the oldest first."""
    head = json.loads(_table().partition("\n")[0][1:])
    return tuple(Release(name, place, *rest) for place, (name, *rest) in enumerate(head))


def names_with(op: str) -> list[str]:
    """The releases that have OP, the oldest first."""
    return [each.name for each in releases() if _row(op, each.place) is not None]


@cache
def _table() -> str:
    with open(os.path.join(DATA, "releases.z"), "rb") as file:
        return zlib.decompress(file.read()).decode()


@cache
def _eras(op: str) -> tuple[tuple[int, int, dict[str, Any]], ...]:
    """From which release to which OP is what, in whole rows."""
    table = _table()
    start = table.find(f"\n{op}\t") if not {"\t", "\n"}.intersection(op) else -1
    if start < 0:
        return ()
    begin = start + len(op) + 2
    out: list[tuple[int, int, dict[str, Any]]] = []
    row: dict[str, Any] = {}
    for first, last, changes in json.loads(table[begin : table.index("\n", begin)]):
        row = {key: value for key, value in (row | changes).items() if value is not None}
        out.append((first, last, row))
    return tuple(out)


@cache
def _definition(op: str, place: int) -> OpDef | None:
    row = _row(op, place)
    return None if row is None else definition(op, row)


@cache
def _is_same(op: str, place: int, other: int) -> bool:
    row = _row(op, place)
    return row is not None and row == _row(op, other)


def _row(op: str, place: int) -> dict[str, Any] | None:
    return next((row for first, last, row in _eras(op) if first <= place <= last), None)
