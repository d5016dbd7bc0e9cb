"""What constants hold, as people write it: the values of small ones, of others what they are like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdsurgeon.analysis.queries.attr_text import format_element, format_float
from gdsurgeon.analysis.queries.constants import ValueStatistics, values_of
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.constants import TensorHeader, constant, constant_header
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOAT64, STRING

MOST = 16
"""Elements of a constant that is small."""
MOST_SUMMED = 4 << 20
"""Elements that are looked at for statistics, of all constants together: some tenths of a second."""


class Values:
    """What CONSTANTS, nodes by row, hold as text.

    The numbers of large ones are looked at until there were `MOST_SUMMED` of them.
    """

    def __init__(self, constants: Mapping[int, Node]) -> None:
        self._constants = constants
        self._headers: dict[int, TensorHeader | None] = {}
        self._left = MOST_SUMMED

    def header(self, row: int) -> TensorHeader | None:
        """Returns the header of the constant in a row; None if it is missing or corrupt."""
        if row in self._constants and row not in self._headers:
            try:
                self._headers[row] = constant_header(self._constants[row])
            except GdsurgeonError:
                self._headers[row] = None
        return self._headers.get(row)

    def text(self, row: int) -> str:
        """The value of a small constant: ``0.5``, ``[[1,2],[3,4]]``; '' of others."""
        header = self.header(row)
        if header is None or header.elements > MOST:
            return ""
        try:
            value = constant(self._constants[row])
        except GdsurgeonError:
            return ""
        return "" if value is None else _nested([_element(item, value.dtype) for item in value.values], value.shape)

    def statistics(self, row: int) -> str:
        """``-0.53 to 0.61, mean 0.001, standard deviation 0.05, 3 zero``; '' of small ones, and of no numbers."""
        header = self.header(row)
        if header is None or not MOST < header.elements <= self._left or header.dtype == STRING:
            return ""
        self._left -= header.elements
        try:
            return ", ".join(_told(values_of(self._constants[row]).statistics))
        except GdsurgeonError:
            return ""


def _told(found: ValueStatistics) -> Iterator[str]:
    if found.minimum is not None and found.maximum is not None:
        yield f"{found.minimum:.6g} to {found.maximum:.6g}"
    if found.mean is not None and found.std is not None:
        yield f"mean {found.mean:.4g}, standard deviation {found.std:.4g}"
    for count, what in ((found.zeros, "zero"), (found.nan, "NaN"), (found.infinite, "infinite")):
        if count:
            yield f"{count:,} {what}"


def _element(item: int | float | bytes, dtype: int) -> str:
    return format_float(item) if isinstance(item, float) and dtype != FLOAT64 else format_element(item)


def _nested(texts: list[str], shape: Sequence[int]) -> str:
    """TEXTS in brackets, as the dims of SHAPE have it, the innermost first."""
    for size in reversed(shape):
        if not size:
            return "[]"
        texts = [f"[{','.join(texts[at : at + size])}]" for at in range(0, len(texts), size)]
    return texts[0] if texts else ""
