"""The ops of released TensorFlows and of other engines, from tables."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import NamedTuple

from gdsurgeon.ops.op_defs import OpDef, Row, definition, row_of, table


class Release(NamedTuple):
    """A release of TensorFlow.

    Attributes:
        name: without the patch number: ``2.8``.
        place: its index among all releases of the table; the oldest has 0.
        version: of the GraphDefs that it writes; it reads other versions unless the file excludes this version.
        last_dtype: the largest DataType that it knows.
    """

    name: str
    place: int
    version: int
    last_dtype: int

    def op_def(self, op: str) -> OpDef | None:
        """Returns the signature of `op` in this release; None if the release does not have the op.

        A default that is a shape, a tensor or a function is ``{"x": HEX}``: the serialised AttrValue in hexadecimal.
        """
        return _definition(op, self.place)

    def knows_as(self, op: str, other: Release) -> bool:
        """Returns whether this release has `op` with the same signature as the release `other`."""
        return _is_same(op, self.place, other.place)

    def takes_less(self, op: str) -> bool:
        """Returns whether the kernels of `op` in this release accept fewer inputs than current kernels."""
        last = release((MATRICES_ONLY | ONE_GROUP).get(op, ""))
        return last is not None and self.place <= last.place


MATRICES_ONLY = {"LogSoftmax": "1.10", "Softmax": "1.10"}
"""Ops whose kernels accept only tensors with two dims, up to a release. They fail at run time; no table says so."""
ONE_GROUP = {"Conv2D": "2.4"}
"""Convolutions whose CPU kernels do not support several groups, up to a release; a group reads some channels."""

OTHERWISE = dict.fromkeys(
    ("MaxPoolGradGradWithArgmax", "MaxPoolGradWithArgmax", "MaxPoolWithArgmax"), "include_batch_in_index"
)
"""By op, attrs whose default differs from the behaviour of releases without them: indices included the batch."""


def release(name: str) -> Release | None:
    """Returns the release `name`, ``1.15`` or ``1.15.5``; None if the table does not have it."""
    found = re.fullmatch(r"(\d+\.\d+)(\.\w+)?", name)
    return next((each for each in releases() if found and each.name == found[1]), None)


@cache
def releases() -> tuple[Release, ...]:
    """Returns all releases of the table, the oldest first."""
    head = json.loads(table("releases.z").partition("\n")[0][1:])
    return tuple(Release(name, place, *rest) for place, (name, *rest) in enumerate(head))


def names_with(op: str) -> list[str]:
    """Returns the names of the releases that have `op`, the oldest first."""
    return [each.name for each in releases() if _row(op, each.place) is not None]


@cache
def _eras(op: str) -> tuple[tuple[int, int, Row], ...]:
    """Returns the signatures of `op` over time: (first release, last release, complete row of the table)."""
    out: list[tuple[int, int, Row]] = []
    row: Row = {}
    for first, last, changes in json.loads(row_of("releases.z", op) or "[]"):
        row = {key: value for key, value in ({**row, **changes}).items() if value is not None}
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


def _row(op: str, place: int) -> Row | None:
    return next((row for first, last, row in _eras(op) if first <= place <= last), None)


TITLES = {"opencv": "OpenCV", "openvino": "OpenVINO", "tfjs": "TensorFlow.js", "tflite": "TFLite"}
"""The titles of engines, by name."""
SELECT = "select"


class Engine(NamedTuple):
    """An engine, with the ops that one release of it supports.

    Attributes:
        name: ``opencv``, ...
        version: of the release that was tested.
        ops: the supported ops. The value is ``select`` if the op needs TensorFlow's kernel linked into the program,
            else ''.
    """

    name: str
    version: str
    ops: dict[str, str]

    @property
    def called(self) -> str:
        """Its title and version."""
        return f"{TITLES[self.name]} {self.version}"


@cache
def engine(name: str) -> Engine:
    """Returns the engine `name`, which must be one of `TITLES`."""
    text = table("engines.txt")
    head, _, rest = text[text.index(f">{name}\t") :].partition("\n")
    lines = rest.partition(">")[0].splitlines()
    version = head.partition("\t")[2]
    return Engine(name, version, {op: kind for op, _, kind in (line.partition("\t") for line in lines)})
