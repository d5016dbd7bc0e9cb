"""Sizes and counts as text."""

from __future__ import annotations

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


def counted(count: int, noun: str) -> str:
    """``1 node``, ``2,727 nodes``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def told_apart(a: int, b: int) -> tuple[str, str]:
    """Two sizes in bytes as text, in whole bytes where they would look the same else."""
    texts = size(a), size(b)
    return texts if a == b or texts[0] != texts[1] else (f"{a:,} bytes", f"{b:,} bytes")
