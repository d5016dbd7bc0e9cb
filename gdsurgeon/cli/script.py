"""Parses a script of edits: each line is a command line without MODEL, with comments, quotes and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.cli.script_words import Part, Word, check_is_edit, spelt, steps_text
from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.text import nearest, suggestion

_ESCAPED_IN_QUOTES = '"\\$`\n'
"""The characters that a backslash escapes within double quotes; before others it is a plain character."""

TYPOGRAPHIC = "“”„‘’‚«»"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of a variable."""


class ScriptLine(NamedTuple):
    """A line of a script, with its continuation lines.

    Attributes:
        number: the number of the first line, from 1.
        text: the text of the line, without backslashes of continuation and comments.
        words: the words of the line, split as a shell does.
    """

    number: int
    text: str
    words: tuple[str, ...]


class Fault(NamedTuple):
    """The error in the line `number`."""

    number: int
    error: UsageError


def read_script(text: str, variables: Mapping[str, str]) -> list[ScriptLine | Fault]:
    """Returns the non-empty lines of the script TEXT with the values of VARIABLES, and the faults.

    The syntax is a subset of that of a POSIX shell: ``#`` starts a comment, a backslash at the end of a line joins the
    next line, quotes keep words together, and ``$NAME`` and ``${NAME}`` are replaced by the value of a variable, except
    within single quotes. A value is never split into words; among the arguments of a step it is one argument. Pipes,
    redirections and other shell features are faults.
    """
    out: list[ScriptLine | Fault] = []
    for number, joined, not_last in _logical_lines(text):
        if not_last:
            what = "there is a space after the backslash: a backslash continues the line only as the last character"
            out.append(Fault(not_last, UsageError(what, code="bad-script", facts={"value": "\\"})))
            continue
        try:
            words, end = _words(joined, variables)
            check_is_edit(words)
            is_steps = [spelt(word) == "--steps" for word in ((), *words)]
            listed = [
                steps_text(word) if follows or spelt(word).startswith("--steps=") else spelt(word)
                for word, follows in zip(words, is_steps, strict=False)
            ]
        except UsageError as error:
            out.append(Fault(number, error))
            continue
        if listed:
            out.append(ScriptLine(number, " ".join(joined[:end].split()), tuple(listed)))
    return out


def _logical_lines(text: str) -> Iterator[tuple[int, str, int]]:
    """Yields the number of each line, the line with its continuations, and the number of a faulty backslash, or 0."""
    held, first, not_last = "", 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        first = first or number
        held += line.removesuffix("\r")
        bare = held.rstrip()
        if bare.endswith("\\") and _is_continued(bare):
            not_last = not_last or (number if bare != held else 0)
            held = bare[:-1]
            continue
        yield first, held, not_last
        held, first, not_last = "", 0, 0
    if held or not_last:
        yield first, held, not_last


def _is_continued(line: str) -> bool:
    """Returns whether the backslash at the end of LINE joins the next line: not in a comment or single quotes."""
    quote, is_word, at = "", False, 0
    while at < len(line):
        char = line[at]
        at += 1
        if char == "\\" and quote != "'":
            if at == len(line):
                return True
            is_word, at = True, at + 1
        elif quote:
            quote = "" if char == quote else quote
        elif char == "#" and not is_word:
            return False
        else:
            quote = char if char in "'\"" else ""
            is_word = not char.isspace()
    return False


def _words(line: str, variables: Mapping[str, str]) -> tuple[list[Word], int]:
    """Returns the words of LINE and the position of its comment or end. Raises UsageError."""
    words: list[Word] = []
    word: list[Part] = []
    is_word, quote, at = False, "", 0
    while at < len(line):
        char = line[at]
        at += 1
        kind = "quoted" if quote else "bare"
        if quote == "'":
            quote, taken = ("", "") if char == "'" else (quote, char)
        elif char == "\\" and at < len(line) and (not quote or line[at] in _ESCAPED_IN_QUOTES):
            taken, is_word, kind = line[at], True, "quoted"
            at += 1
        elif char == "$":
            start = at
            taken, at = _variable(line, at, variables)
            kind = "value" if at > start else kind
            is_word = True
        elif quote:
            quote, taken = ("", "") if char == quote else (quote, char)
        elif char in "'\"":
            quote, taken, is_word = char, "", True
        elif char.isspace():
            if is_word:
                words.append(tuple(word))
            word, is_word, taken = [], False, ""
        elif char == "#" and not is_word:
            return words, at - 1
        else:
            if char in TYPOGRAPHIC and not is_word:
                raise UsageError(
                    f"{char} is a typographic quote: use ' or \"", code="bad-script", facts={"value": char}
                )
            taken, is_word = char, True
        if taken or kind == "value":
            word.append(Part(taken, kind))
    if quote:
        raise UsageError(
            f"the quote {quote} is not closed; within double quotes, a backslash at the end continues the line",
            code="bad-script",
            facts={"value": quote},
        )
    return words + [tuple(word)] * is_word, len(line)


def _variable(line: str, at: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """Returns the value of the variable whose name starts at AT, after a ``$`` in LINE, and the position after it.

    Raises:
        UsageError: the variable is not set.
    """
    if line[at : at + 1] == "(":
        raise UsageError(
            "a command in $(...) is not run: use a variable $VAR, and set it with --var VAR=VALUE",
            code="bad-script",
            facts={"value": "$("},
        )
    if line[at : at + 1] == "{":
        end = line.find("}", at)
        name, after = line[at + 1 : end], end + 1
        if end < 0 or VARIABLE.fullmatch(name) is None:
            raise UsageError("${...} is not the name of a variable", code="bad-script", facts={"value": "${"})
    else:
        found = VARIABLE.match(line, at)
        if found is None:
            return "$", at
        name, after = found[0], found.end()
    if name not in variables:
        near = nearest(name, variables)
        line = f"the variable {quoted(name)} is not set.{suggestion(near)}".rstrip(".")
        raise UsageError(line, code="no-such-variable", facts={"name": name, "near": near})
    return variables[name], after
