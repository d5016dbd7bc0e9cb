"""Rules in lines of text: a rule a line, with a name in front or without, and comments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdsurgeon.errors import UsageError, printable, quoted
from gdsurgeon.patterns.check import rule_of
from gdsurgeon.patterns.terms import Rule

_NAMED = re.compile(r"\s*([A-Za-z][\w-]*)\s*:(?!\d)")


def rules_in_text(lines: Sequence[str], called: str, *, only_patterns: bool = False) -> list[Rule]:
    """The rules in LINES: a rule a line, with a name and a colon in front or without; comments begin with ``#``.

    Raises:
        UsageError: a line is not a rule, or the text has no rule; the message names a line as ``FILE:LINE:COLUMN``.
    """
    out: list[Rule] = []
    names: set[str] = set()
    for number, line in enumerate(lines, 1):
        text = _without_comment(line)
        if not text.strip():
            continue
        place = f"{printable(called)}:{number}:"
        found = _NAMED.match(text)
        name = found[1] if found is not None else f"rule {number}"
        if name in names:
            raise UsageError(f"{place}1: a rule {quoted(name)} exists already", code="bad-rule")
        names.add(name)
        body = text if found is None else " " * found.end() + text[found.end() :]
        out.append(rule_of(body, name=name, place=place, only_pattern=only_patterns))
    if not out:
        raise UsageError(f"{printable(called)} has no rule", code="bad-rule")
    return out


def _without_comment(line: str) -> str:
    """LINE up to a ``#`` that is in no text."""
    at, is_text = 0, False
    for at, character in enumerate(line):
        if character == '"':
            is_text = not is_text
        elif character == "#" and not is_text:
            return line[:at]
    return line
