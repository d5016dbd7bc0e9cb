"""What constants hold, as people write it: the values of small ones, of others what they are like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdsurgeon.analysis.queries.attr_text import format_element, format_float
from gdsurgeon.analysis.queries.constant_values import ValueStatistics, values_of
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOAT64, STRING

MOST = 16
"""Elements of a constant that is small."""
MOST_SUMMED = 4 << 20
"""Elements that are looked at for statistics, of all constants together: some tenths of a second."""


def value_text(node: Node) -> str:
    """The value of a small constant: ``0.5``, ``[[1,2],[3,4]]``; '' of others."""
    try:
        header = constant_header(node) if node.op == "Const" else None
        if header is None or header.elements > MOST:
            return ""
        value = constant(node)
    except GdsurgeonError:
        return ""
    if value is None:
        return ""
    texts = [_element(item, value.dtype) for item in value.values]
    return _nested(texts, value.shape)


class Statistics:
    """Says what the large ones among NODES are like, until `MOST_SUMMED` elements were looked at."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._left = MOST_SUMMED

    def __call__(self, row: int) -> str:
        """``-0.53 to 0.61, mean 0.001, standard deviation 0.05, 3 zero``; '' of small ones, and of no numbers."""
        node = self._nodes[row]
        try:
            header = constant_header(node) if node.op == "Const" else None
            if header is None or not MOST < header.elements <= self._left or header.dtype == STRING:
                return ""
            self._left -= header.elements
            return ", ".join(_told(values_of(node).statistics))
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
