"""Sizes, counts and lists as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.errors import printable, quoted

MIB = 1 << 20


def size(count: int) -> str:
    """Returns `count` bytes as text: ``18.3 MiB``."""
    if count < 1024:
        return counted(count, "byte")
    value = count / 1024
    for unit in ("KiB", "MiB"):
        if round(value, 1) < 1024:
            return f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.2f} GiB"


def an(word: str) -> str:
    """Returns `word` with its article: ``a Relu``, ``an ArgMax``."""
    return f"{'an' if word[:1] in tuple('AEIOUaeiou') else 'a'} {printable(word)}"


def is_utf8(text: str) -> bool:
    """Returns whether `text` can be encoded as UTF-8; command-line arguments may hold other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def counted(count: int, noun: str) -> str:
    """Returns `count` with the noun, in the plural if needed: ``1 node``, ``2,727 nodes``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def told_apart(a: int, b: int) -> tuple[str, str]:
    """Returns two sizes in bytes as text; in whole bytes if different sizes would otherwise look equal."""
    texts = size(a), size(b)
    return texts if a == b or texts[0] != texts[1] else (f"{a:,} bytes", f"{b:,} bytes")


def change(before: int, after: int) -> str:
    """Returns the difference, such as `` (+7)``; '' if both numbers are equal."""
    return f" ({after - before:+,})" if after != before else ""


def ops(counts: Mapping[str, int], most: int = 8) -> str:
    """Returns op counts as text, ops that occur once first: ``DecodeJpeg, Identity, Const x 4``."""
    items = sorted(counts.items(), key=lambda item: (item[1] > 1, item[0]))
    items = [(printable(op), n) for op, n in items]
    shown = [op if n == 1 else f"{op} x {n:,}" for op, n in items[:most]]
    return ", ".join(shown) + (f" and {counted(len(items) - most, 'other op')}" if len(items) > most else "")


def listed(items: Iterable[str], most: int = 6) -> str:
    """Returns the first `most` items and the number of the rest: ``a, b, c and 12 more``."""
    return named(list(items), most, str)


def named(names: Sequence[str], most: int = 6, show: Callable[[str], str] = printable) -> str:
    """Returns the first `most` names, formatted by `show`, and the number of the rest."""
    return ", ".join(map(show, names[:most])) + and_more(len(names) - most)


def and_more(count: int, others: str = "more") -> str:
    """Returns the number of remaining items, such as `` and 12 more``; '' if `count` is not positive."""
    return f" and {count:,} {others}" if count > 0 else ""


def first_lines(items: Sequence[str], most: int, others: str = "more") -> tuple[str, ...]:
    """Returns the first `most` items, one a line, then a line with the number of the rest if there are more."""
    more = and_more(len(items) - most, others)
    return (*map(str, items[:most]), *((more[1:],) if more else ()))


def renaming(names: tuple[str, str]) -> str:
    """Returns a renaming as text: ``old  ->  new``."""
    return "  ->  ".join(map(printable, names))


def columns(
    rows: Sequence[Sequence[str]], indent: str = "    ", right: Collection[int] = (), widest: int = 0
) -> Iterator[str]:
    """Yields `rows` as the lines of a table. All rows have the same number of cells; empty columns are left out.

    Args:
        rows: the cells, row by row.
        indent: text before each line.
        right: the columns that are right-aligned.
        widest: the largest width to pad a column to, in characters; longer cells shift the rest of their row. 0 for no
            limit.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = [min(width, widest or width) for width in widths]
    for row in rows:
        cells = [
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)) if w
        ]
        yield (indent + "  ".join(cells)).rstrip()


class Entry(NamedTuple):
    """An entry of a summary.

    Attributes:
        label: the first word of the line.
        text: the line.
        names: names, or changes of names, that the line ends with; a brief summary shows only the first.
    """

    label: str
    text: str
    names: Sequence[str] = ()


def before_text(label: str) -> str:
    """Returns `label`, the label of an entry, padded with spaces."""
    return f"  {label:<9}" if len(label) < 9 else f"  {label}  "


def labelled(entries: Sequence[tuple[str, str]]) -> list[str]:
    """Returns a line for each entry: its label, then its text."""
    return [before_text(label) + text for label, text in entries]


def shortened(text: str, most: int) -> str:
    """Returns `text`, or its first `most` characters followed by dots if it is longer."""
    return text if len(text) <= most else text[:most] + "..."


MOST_WORK = 2_000_000
"""Pairs of letters that are compared in the search for a near miss: less than a second's work."""


def near_miss(name: str, names: Iterable[str]) -> str:
    """Returns `` Did you mean 'x'?`` if 'x' of `names` is similar to `name`, else ''."""
    return suggestion(nearest(name, names))


def suggestion(near: str | None) -> str:
    """Returns `` Did you mean 'x'?`` if `near` is the name 'x'; '' if it is None."""
    return f" Did you mean {quoted(near)}?" if near is not None else ""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Returns the one of `names` that `name` is probably a typo for, or None."""
    from difflib import get_close_matches

    lowered = name.lower()
    pool: list[str] = []
    work = 0
    for candidate in names:
        if candidate.lower() == lowered:
            return candidate
        # Comparing is quadratic in the length of the names and linear in their number: only the likely ones.
        similar_length = abs(len(candidate) - len(name)) <= 4
        if work < MOST_WORK and (similar_length or (len(name) > 3 and lowered in candidate.lower())):
            pool.append(candidate)
            work += len(name) * len(candidate)
    found = get_close_matches(name, pool, 1, 0.75)
    if not found:
        found = [c for c in pool if len(name) > 3 and lowered in c.lower()][:1]
    return found[0] if found else None


def abbreviated(count: int) -> str:
    """Returns `count` to three digits, with a letter for the power of 1000: ``912``, ``25.6M``."""
    value = float(count)
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 999.5:
            return f"{value:.0f}{unit}" if not unit or value >= 99.95 else f"{value:.1f}{unit}"
        value /= 1000
    return f"{value:,.0f}P"


def spelt_value(value: object) -> str:
    """Returns `value` as the command line spells it: ``true``, ``3``, ``[1, 2]``; a string is returned unchanged.

    Raises:
        TypeError: JSON cannot represent it.
    """
    if isinstance(value, str):
        return value
    as_list = getattr(value, "tolist", None)
    import json

    return json.dumps(as_list() if as_list is not None else value)
