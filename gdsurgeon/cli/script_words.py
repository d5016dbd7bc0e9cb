"""The words of a line of a script: refuses shell features, and quotes values inside the text of steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gdsurgeon.errors import UsageError, quoted
from gdsurgeon.text import shortened


class Part(NamedTuple):
    """A part of a word.

    Attributes:
        text: the text, without quotes.
        kind: ``bare``, ``quoted`` (or after a backslash), or the ``value`` of a variable.
    """

    text: str
    kind: str


Word = tuple[Part, ...]


def spelt(word: Word) -> str:
    """Returns the text of WORD."""
    return "".join(part.text for part in word)


# -- what a shell would do ---------------------------------------------------------------------------------------

_JOINS = re.compile(r";|&&|\|\||^\|&?$|\|(?=(?:\S*/)?gdsurgeon$)")
_REDIRECTS = re.compile(r"[0-9&]?(>>?|<)")
_ASSIGNS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_QUOTED = "\0"
"""Replaces quoted text and values of variables."""


def check_is_edit(words: Sequence[Word]) -> None:
    """Raises UsageError if the WORDS of a line use a shell feature or call gdsurgeon."""
    bare = ["".join(part.text if part.kind == "bare" else _QUOTED for part in word) for word in words]
    if not bare:
        return
    _check_begins(bare)
    for place, word in enumerate(bare):
        joins, redirects = _JOINS.search(word), _REDIRECTS.match(word)
        if joins is not None and any(before.startswith("--steps") for before in bare[:place]):
            raise UsageError(
                "put the value of --steps between quotes: --steps 'STEP | STEP'",
                code="bad-script",
                facts={"option": "--steps"},
            )
        if joins is not None:
            next_line = "write the next edit on a separate line, without 'gdsurgeon' and MODEL"
            raise UsageError(
                f"{quoted(joins[0])} cannot be used in a script: {next_line}",
                code="bad-script",
                facts={"value": joins[0]},
            )
        if redirects is not None:
            does = "cannot read a file" if redirects[1] == "<" else "cannot write a file: use -o OUT of apply"
            raise UsageError(f"{quoted(redirects[0])} {does}", code="bad-script", facts={"value": redirects[0]})
        if word.startswith("~/"):
            raise UsageError("'~' is not replaced: use $HOME", code="bad-script", facts={"value": "~"})
        if "`" in word:
            raise UsageError(
                "a command in `...` is not run: use a variable $VAR, and set it with --var VAR=VALUE",
                code="bad-script",
                facts={"value": "`"},
            )
    if bare[-1] == "&":
        raise UsageError("an edit cannot run in the background: leave out '&'", code="bad-script", facts={"value": "&"})


def _check_begins(bare: Sequence[str]) -> None:
    """Raises UsageError if the line with the words BARE calls gdsurgeon or sets a variable."""
    calls = 1 if bare[0].rpartition("/")[2] == "gdsurgeon" else 3 if bare[1:3] == ["-m", "gdsurgeon"] else 0
    if calls:
        edit = f": {quoted(f'{bare[calls]} ...')}" if bare[calls:] and _QUOTED not in bare[calls] else ""
        raise UsageError(f"a line is written without 'gdsurgeon' and without MODEL{edit}", code="model-in-a-script")
    assigns = _ASSIGNS.match(bare[1] if bare[0] == "export" and bare[1:] else bare[0])
    if assigns is not None:
        raise UsageError(
            f"a line cannot set a variable: use apply --var {assigns[1]}=VALUE, or the environment",
            code="bad-script",
            facts={"value": assigns[0]},
        )


# -- steps -------------------------------------------------------------------------------------------------------

_VALUE = "\ud800"
"""Replaces a value; UTF-8 text cannot contain it."""
_TOKEN = re.compile(r"""'[^']*'|"[^"]*"|['"].*|[()]|[\s,\[\]|=]+|[^\s,()\[\]|='"]+""", re.DOTALL)


def steps_text(word: Word) -> str:
    """Returns WORD, a text of steps, in which the value of a variable in parentheses is a single value.

    The value is quoted if the language of steps would split it. Outside parentheses, a value may contain steps.

    Raises:
        UsageError: a value contains both kinds of quotes, which the language of steps cannot represent.
    """
    values = iter([part.text for part in word if part.kind == "value"])
    out: list[str] = []
    depth = 0
    for token in _TOKEN.findall("".join(_VALUE if part.kind == "value" else part.text for part in word)):
        depth += (token == "(") - (token == ")")
        text = re.sub(_VALUE, lambda _: next(values), token)
        if _VALUE not in token or not depth:
            out.append(text)
        elif token[0] not in "'\"":
            out.append(text if _is_one_value(text) else _between_quotes(text))
        else:
            out.append(_between_quotes(text[1:-1]) if token[1:].endswith(token[0]) else text)
    return "".join(out)


def _is_one_value(text: str) -> bool:
    """Returns whether TEXT is a single value in the language of steps: a number, a word, a list or a quoted text."""
    from gdsurgeon.steps.parse import parse

    try:
        calls = parse(f"step({text})")
    except UsageError:
        return False
    arguments = calls[0].arguments
    return text == text.strip() and len(calls) == len(arguments) == 1 and not arguments[0].key


def _between_quotes(text: str) -> str:
    for quote in "'\"":
        if quote not in text:
            return f"{quote}{text}{quote}"
    raise UsageError(
        f"{quoted(shortened(text, 40))} contains both kinds of quotes, but a text in steps can contain only one kind",
        code="bad-script",
    )
