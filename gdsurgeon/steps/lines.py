"""The lines of a file that a step reads."""

from __future__ import annotations

from gdsurgeon.errors import printable
from gdsurgeon.steps.kinds import FileRead
from gdsurgeon.steps.value import Unfit


def lines(file: FileRead, what: str) -> list[bytes]:
    """Returns the lines of `file`, which hold `what`, without empty lines at the end.

    Raises Unfit: there are no lines.
    """
    name = printable(file.path)
    try:
        found = [line.removesuffix("\r") for line in file.data.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        number = file.data.count(b"\n", 0, error.start) + 1
        raise Unfit(f"{name} is not UTF-8 text: line {number:,} cannot be decoded") from None
    while found and not found[-1].strip():
        found.pop()
    for number, line in enumerate(found, 1):
        if "\0" in line:
            raise Unfit(f"{name} is not text: line {number:,} has a zero byte")
    if not found:
        raise Unfit(f"{name} is empty: it has no {what}")
    return [line.encode() for line in found]
