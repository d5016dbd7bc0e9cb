"""What small constants hold, as people write it."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.queries.attr_text import format_float, format_string
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOAT64

MOST = 16
"""Elements of a constant that is small."""


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


def _element(item: int | float | bytes, dtype: int) -> str:
    if isinstance(item, bytes):
        return format_string(item)
    if isinstance(item, bool):
        return "true" if item else "false"
    return format_float(item) if isinstance(item, float) and dtype != FLOAT64 else repr(item)


def _nested(texts: list[str], shape: Sequence[int]) -> str:
    """TEXTS in brackets, as the dims of SHAPE have it, the innermost first."""
    for size in reversed(shape):
        if not size:
            return "[]"
        texts = [f"[{','.join(texts[at : at + size])}]" for at in range(0, len(texts), size)]
    return texts[0] if texts else ""
