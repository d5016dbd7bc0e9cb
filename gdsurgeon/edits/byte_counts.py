"""Amounts of memory as text."""

from __future__ import annotations

MIB = 1 << 20


def amount(nbytes: int) -> str:
    """Bytes as text: ``6.8 MiB``."""
    if nbytes < MIB:
        return f"{nbytes / 1024:,.1f} KiB"
    return f"{nbytes / MIB:,.{0 if nbytes >= 100 * MIB else 1}f} MiB"
