"""A script of edits: a line of the command line on each line, without MODEL; comments, quotes, variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.cli.script_words import Part, Word, check_is_edit, spelt, steps_text
from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.text import nearest, suggestion

_ESCAPED_IN_QUOTES = '"\\$`\n'
"""What a backslash takes its meaning from between double quotes; before all else it stands for itself."""

TYPOGRAPHIC = "“”„‘’‚«»"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a variable is called."""


class ScriptLine(NamedTuple):
    """A line, with those that continue it.

    Attributes:
        number: of the first of them, from 1.
        text: as it is written, without what continues it and comments.
        words: as a shell would have them.
    """

    number: int
    text: str
    words: tuple[str, ...]


class Fault(NamedTuple):
    """The error in the line `number`."""

    number: int
    error: UsageError


def read_script(text: str, variables: Mapping[str, str]) -> list[ScriptLine | Fault]:
    """The lines of the script TEXT that hold words, in which VARIABLES have their values.

    The rules are those of a POSIX shell, as far as they go: ``#`` begins a comment, a backslash at the end of a line
    joins the next one, quotes keep words together, ``$NAME`` and ``${NAME}`` stand for a variable but between single
    quotes. The value of a variable is one word, or a part of it, whatever it holds; among the arguments of a step it is
    one argument. What would have a shell do more than run a command is a fault.
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
    """Lines with those that continue them, the number of the first, and of one that a blank keeps from being last."""
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
    """Whether the backslash at the end of LINE joins the next one: it does not in a comment, nor between ' and '."""
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
    """The words of LINE, and where a comment begins, or the line ends. Raises UsageError."""
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
    """What stands for the variable that is named in LINE from AT, behind a ``$``, and where it goes on.

    Raises:
        UsageError: there is no such variable.
    """
    if line[at : at + 1] == "(":
        raise UsageError("$(...) is not run: set $VAR with --var VAR=VALUE", code="bad-script", facts={"value": "$("})
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
