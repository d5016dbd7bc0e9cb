"""Sizes, counts and lists as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gdsurgeon.errors import printable, quoted

MIB = 1 << 20


def size(count: int) -> str:
    """COUNT bytes: ``18.3 MiB``."""
    if count < 1024:
        return counted(count, "byte")
    value = count / 1024
    for unit in ("KiB", "MiB"):
        if round(value, 1) < 1024:
            return f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.2f} GiB"


def an(word: str) -> str:
    """WORD with its article: ``a Relu``, ``an ArgMax``."""
    return f"{'an' if word[:1] in tuple('AEIOUaeiou') else 'a'} {printable(word)}"


def is_utf8(text: str) -> bool:
    """Whether TEXT can be written as UTF-8: an argument of the command line may hold other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def counted(count: int, noun: str) -> str:
    """``1 node``, ``2,727 nodes``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def told_apart(a: int, b: int) -> tuple[str, str]:
    """Two sizes in bytes as text, in whole bytes where they would look the same else."""
    texts = size(a), size(b)
    return texts if a == b or texts[0] != texts[1] else (f"{a:,} bytes", f"{b:,} bytes")


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


def first_lines(lines: Sequence[str], most: int, others: str = "more") -> tuple[str, ...]:
    """The first of LINES, and behind them a line that says how many OTHERS there are."""
    more = len(lines) - most
    return (*lines[:most], f"and {more:,} {others}") if more > 0 else tuple(lines)


def or_nothing(names: Iterable[str]) -> str:
    """NAMES in quotes, all of them, or that there is none."""
    return ", ".join(map(quoted, names)) or "nothing"


MOST_WORK = 2_000_000
"""Pairs of letters that are compared in the search for a near miss: less than a second's work."""


def near_miss(name: str, names: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` where one of NAMES is like NAME, else nothing."""
    from difflib import get_close_matches

    lowered = name.lower()
    pool: list[str] = []
    work = 0
    for candidate in names:
        if candidate.lower() == lowered:
            return f" Did you mean {quoted(candidate)}?"
        # Comparing is quadratic in the length of the names and linear in their number: only the likely ones.
        similar_length = abs(len(candidate) - len(name)) <= 4
        if work < MOST_WORK and (similar_length or (len(name) > 3 and lowered in candidate.lower())):
            pool.append(candidate)
            work += len(name) * len(candidate)
    found = get_close_matches(name, pool, 1, 0.75)
    if not found:
        found = [c for c in pool if len(name) > 3 and lowered in c.lower()][:1]
    return f" Did you mean {quoted(found[0])}?" if found else ""


def abbreviated(count: int) -> str:
    """``912``, ``25.6M``: COUNT to three digits, with the letter of the thousands."""
    value = float(count)
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 999.5:
            return f"{value:.0f}{unit}" if not unit or value >= 99.95 else f"{value:.1f}{unit}"
        value /= 1000
    return f"{value:,.0f}P"
