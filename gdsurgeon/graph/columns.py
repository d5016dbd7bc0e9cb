"""What the columns of an index are made of: names looked up for many nodes at once, and arrays as bytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from sys import byteorder
from typing import TypeVar, overload

from gdsurgeon.graph.records import CONTROL_INPUT, DATA_INPUT, input_kind
from gdsurgeon.wire.scan import LARGEST_CHUNK

_Value = TypeVar("_Value")

END_OF_NODE = b"\0"
"""What stands among the kinds of inputs after those of each node."""


class Rows:
    """The row of each name; of a name that is there twice, the last.

    To grow one dictionary of a million names takes longer than all else about them, and few are asked for: each batch
    has its own, until so much was asked that it pays to make one of all.
    """

    _PAYS = 1 / 4
    """Dictionaries looked into, for each name in those that are apart: then they are put together."""

    def __init__(self) -> None:
        self._parts: list[dict[str, int]] = [{}]
        self._apart = 0
        self._looked = 0
        self._distinct: int | None = None

    def add(self, names: dict[str, int]) -> None:
        """Adds the rows of a batch, which is handed over."""
        self._parts.append(names)
        self._apart += len(names)
        self._distinct = None

    def put(self, name: str, row: int) -> None:
        """Adds one row."""
        self._parts[-1][name] = row
        self._distinct = None

    @overload
    def get(self, name: str) -> int | None: ...
    @overload
    def get(self, name: str, default: int) -> int: ...
    def get(self, name: str, default: int | None = None) -> int | None:
        """Returns the row of `name`, or `default` if there is none."""
        if self._apart:
            self._looked += len(self._parts)
            if self._looked > self._PAYS * self._apart:
                self._put_together()
        if len(self._parts) == 1:
            return self._parts[0].get(name, default)
        for names in reversed(self._parts):
            row = names.get(name)
            if row is not None:
                return row
        return default

    def _put_together(self) -> None:
        first, *others = self._parts
        for names in others:
            first.update(names)
        self._parts, self._apart, self._looked = [first], 0, 0

    def __getitem__(self, name: str) -> int:
        row = self.get(name)
        if row is None:
            raise KeyError(name)
        return row

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __len__(self) -> int:
        """How many names there are."""
        if self._distinct is None:
            self._distinct = len(set().union(*self._parts)) if self._apart else len(self._parts[0])
        return self._distinct


class Near(dict[str, int]):
    """For the inputs of a batch the rows that they name, numbers for those that are not plainly a name, END for "".

    Args:
        rows: the rows of all names so far, this batch's among them.
        names: the rows of the names of the batch.

    Attributes:
        odd: the inputs that are not plainly a name so far. The k-th has the number ``_ODD + k``, a control input
            ``_ODD_CONTROL + k``: the highest byte tells one from the other, and both from a row and from `END`.
        far: the rows of the records that were read for them.
    """

    def __init__(self, rows: Rows, names: dict[str, int]) -> None:
        super().__init__(names)
        self[""] = END
        self._rows = rows
        self.odd: list[str] = []
        self.far: list[int] = []

    def __missing__(self, text: str) -> int:
        row = self._rows.get(text)
        if row is None:
            row = len(self.odd) + (_ODD_CONTROL if input_kind(text) == CONTROL_INPUT else _ODD)
            self.odd.append(text)
        else:
            self.far.append(row)
        self[text] = row
        return row


END, _ODD_CONTROL, _ODD = -1, -1 << 29, -1 << 30
_HIGHEST_BYTES = {0: DATA_INPUT, _ODD >> 24 & 255: DATA_INPUT, _ODD_CONTROL >> 24 & 255: CONTROL_INPUT}
KINDS = b"".join(_HIGHEST_BYTES.get(byte, END_OF_NODE) for byte in range(256))
"""For the highest byte of what `Near` has for an input, its kind."""

IS_END = bytes(kind == ord(END_OF_NODE) for kind in range(256))
"""For each kind of input 0, and 1 for the end of a node."""


def little_endian(column: array[int]) -> bytes:
    """The bytes of COLUMN, of each number the lowest first."""
    if byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def native(data: bytearray, size: int = 8) -> bytes:
    """The numbers of SIZE bytes in DATA, of each the lowest byte first, as the machine has them."""
    column = array("Q" if size == 8 else "I", bytes(data))
    if byteorder == "big":
        column.byteswap()
    return column.tobytes()


def picked(values: Sequence[_Value], places: Sequence[int]) -> tuple[_Value, ...]:
    """The one of VALUES at each of PLACES; quicker than one by one, and takes room for all of them."""
    return itemgetter(0, 0, *places)(values)[2:] if places else ()


def places(column: array[int], value: int) -> Iterator[int]:
    """Where VALUE stands in COLUMN, ascending."""
    data, size = column.tobytes(), column.itemsize
    needle = array(column.typecode, [value]).tobytes()
    at = data.find(needle)  # many times as quick as to compare number by number
    while at >= 0:
        place, apart = divmod(at, size)
        if not apart:
            yield place
        at = data.find(needle, (place + 1) * size)


def close_together(rows: Iterable[int], starts: Sequence[int], ends: Sequence[int]) -> Iterator[list[int]]:
    """Yields `rows` in groups that are read at once: small records close together, ascending; a large one separately.

    Args:
        rows: in any order.
        starts, ends: where the record of each row lies.
    """
    held: list[int] = []
    reached = most = 0  # where the last record ends, and where what is read at once may end
    for row in rows:
        start, end = starts[row], ends[row]
        is_small = end - start <= _CLOSE
        if held and not (is_small and 0 <= start - reached <= _CLOSE and end <= most):
            yield held
            held = []
        if not held:
            most = start + LARGEST_CHUNK if is_small else 0
        held.append(row)
        reached = end
    if held:
        yield held


_CLOSE = 1 << 12
"""Bytes of records, and between them, that are rather read than left out."""
