"""Where rules come from: a line, a file of lines, or the book."""

from __future__ import annotations

import re

from gdsurgeon.errors import InputError, printable, reason
from gdsurgeon.patterns.book import in_book
from gdsurgeon.patterns.lines import rules_in_text
from gdsurgeon.patterns.terms import Rule

BUILTIN = "builtin:"
_LINE_END = re.compile(r"\r\n|\r|\n")
"""What ends a line to editors; str.splitlines knows more, which may stand in a text or a comment."""
LARGEST_FILE = 1 << 20
"""Bytes of a file of rules that are read."""


def rules_in(source: str, *, only_patterns: bool = False) -> list[Rule]:
    """The rules of a source: ``builtin:NAME``, or the path of a file with one rule a line.

    Args:
        source: which.
        only_patterns: whether there may be patterns without what takes their place.

    Raises:
        InputError: there is no such file, or it is no text.
        UsageError: the book has no such rule, a line is not a rule, or the text has no rule; the message names a line
            as ``FILE:LINE:COLUMN``.
    """
    if source.startswith(BUILTIN):
        return in_book(source.removeprefix(BUILTIN))
    try:
        with open(source, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(
            f"{printable(source)} cannot be opened: {reason(error)}", code="unreadable", facts={"file": source}
        ) from error
    try:
        if len(data) > LARGEST_FILE:
            raise InputError(
                f"{printable(source)} is too long for a file of rules; the limit is {LARGEST_FILE:,} bytes",
                code="too-large",
                facts={"file": source},
            )
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{printable(source)} is not text", code="not-text", facts={"file": source}) from None
    return rules_in_text(_LINE_END.split(text), source, only_patterns=only_patterns)
