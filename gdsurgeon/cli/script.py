"""A script of edits: a line of the command line on each line, without MODEL; comments, quotes, variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.text import near_miss

_ESCAPED_IN_QUOTES = '"\\$`\n'
"""What a backslash takes its meaning from between double quotes; before all else it stands for itself."""

TYPOGRAPHIC = "“”„‘’‚«»"


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
    """What is wrong with the line NUMBER."""

    number: int
    message: str


def read_script(text: str, variables: Mapping[str, str]) -> list[ScriptLine | Fault]:
    """The lines of the script TEXT that hold words, in which VARIABLES have their values.

    The rules are those of a POSIX shell, as far as they go: ``#`` begins a comment, a backslash at the end of a line
    joins the next one, quotes keep words together, ``$NAME`` and ``${NAME}`` stand for a variable but between single
    quotes. The value of a variable is one word, or a part of it, whatever it holds.
    """
    out: list[ScriptLine | Fault] = []
    for number, joined in _logical_lines(text):
        try:
            words, end = _words(joined, variables)
        except UsageError as error:
            out.append(Fault(number, error.message))
            continue
        if words:
            out.append(ScriptLine(number, " ".join(joined[:end].split()), tuple(words)))
    return out


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with those that continue them, and the number of the first."""
    held, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        first = first or number
        held += line.removesuffix("\r")
        if held.endswith("\\") and _is_continued(held):
            held = held[:-1]
            continue
        yield first, held
        held, first = "", 0
    if held:
        yield first, held


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


def _words(line: str, variables: Mapping[str, str]) -> tuple[list[str], int]:
    """The words of LINE, and where a comment begins, or the line ends. Raises UsageError."""
    words: list[str] = []
    word: list[str] = []
    is_word, quote, at = False, "", 0
    while at < len(line):
        char = line[at]
        at += 1
        if quote == "'":
            quote, taken = ("", "") if char == "'" else (quote, char)
        elif char == "\\" and at < len(line) and (not quote or line[at] in _ESCAPED_IN_QUOTES):
            taken, is_word = line[at], True
            at += 1
        elif char == "$":
            taken, at = _variable(line, at, variables)
            is_word = True
        elif quote:
            quote, taken = ("", "") if char == quote else (quote, char)
        elif char in "'\"":
            quote, taken, is_word = char, "", True
        elif char.isspace():
            if is_word:
                words.append("".join(word))
            word, is_word, taken = [], False, ""
        elif char == "#" and not is_word:
            return words, at - 1
        else:
            if char in TYPOGRAPHIC and not is_word:
                raise UsageError(f"a typographic quote {char}: ' and \" are quotes")
            taken, is_word = char, True
        word.append(taken)
    if quote:
        raise UsageError(f"a quote {quote} is not closed")
    return words + ["".join(word)] * is_word, len(line)


def _variable(line: str, at: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """What stands for the variable that is named in LINE from AT, behind a ``$``, and where it goes on.

    Raises:
        UsageError: there is no such variable.
    """
    if at < len(line) and line[at] == "{":
        end = line.find("}", at)
        name = line[at + 1 : end]
        if end < 0 or not name.isidentifier():
            raise UsageError("${...} names no variable")
        after = end + 1
    else:
        after = at
        while after < len(line) and (line[after].isalnum() or line[after] == "_") and line[after].isascii():
            after += 1
        name = line[at:after]
        if not name or name[0].isdigit():
            return "$", at
    if name not in variables:
        raise UsageError(f"the variable {quoted(name)} is not set.{near_miss(name, list(variables))}".rstrip("."))
    return variables[name], after
