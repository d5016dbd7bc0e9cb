"""The lines of a file that a step reads."""

from __future__ import annotations

from gdsurgeon.steps.kinds import FileRead
from gdsurgeon.steps.value import Unfit


def lines(file: FileRead, what: str) -> list[bytes]:
    """The lines of FILE, which are WHAT; empty ones at the end do not count. Raises Unfit: there are none."""
    try:
        found = [line.removesuffix("\r") for line in file.data.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError:
        raise Unfit(f"{file.path} is not UTF-8 text") from None
    while found and not found[-1].strip():
        found.pop()
    if not found or "\0" in "".join(found):
        raise Unfit(f"{file.path} holds no {what}")
    return [line.encode() for line in found]
