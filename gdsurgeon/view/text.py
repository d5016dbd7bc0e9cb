"""Changes and lists as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gdsurgeon.analysis.quantities import counted
from gdsurgeon.errors import printable


def change(before: int, after: int) -> str:
    """`` (+7)``, or nothing where both are equal."""
    return f" ({after - before:+,})" if after != before else ""


def ops(counts: Mapping[str, int], most: int = 8) -> str:
    """``DecodeJpeg, Identity, Const x 4``, single ones first."""
    items = sorted(counts.items(), key=lambda item: (item[1] > 1, item[0]))
    items = [(printable(op), n) for op, n in items]
    shown = [op if n == 1 else f"{op} x {n:,}" for op, n in items[:most]]
    return ", ".join(shown) + (f" and {counted(len(items) - most, 'other op')}" if len(items) > most else "")


def listed(items: Iterable[str], most: int = 6) -> str:
    """``a, b, c and 12 more``."""
    return named(list(items), most, str)


def named(names: Sequence[str], most: int = 6, show: Callable[[str], str] = printable) -> str:
    """`listed`, of names that are made printable first: those that are shown, of however many."""
    more = len(names) - most
    return ", ".join(map(show, names[:most])) + (f" and {more:,} more" if more > 0 else "")
