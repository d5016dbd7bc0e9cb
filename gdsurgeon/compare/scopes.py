"""Scopes that were renamed: learnt from nodes whose partners are known, and tried on the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

FEWEST, MOST = 3, 40
"""Nodes that must bear a renaming out before it is tried on others; renamings that are tried."""


def renaming(old: str, new: str) -> tuple[str, str]:
    """What is left of two names, taken by scopes, without what both end with."""
    before, after = old.split("/"), new.split("/")
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    return "/".join(before), "/".join(after)


def learnt(names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The renamings of scopes that several pairs of NAMES show, the most frequent first."""
    counts = Counter(renaming(old, new) for old, new in names if old != new)
    return [pair for pair, count in counts.most_common(MOST) if count >= FEWEST]


def renamed(name: str, renamings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """What NAME may be called now."""
    for old, new in renamings:
        if not old:
            yield f"{new}/{name}"
        elif name.startswith(f"{old}/"):
            yield (new + name[len(old) :]).removeprefix("/")
