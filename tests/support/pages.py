"""The actions that a page of the documentation asks its reader to do, from its blocks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.paths import ROOT

DONE_ALREADY = ("python3 -m venv ",)
"""What commands begin with that set up the place in which the tests run."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# ([\w.-]+\.\w+)\n")
_PRINTED = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)


class Step(NamedTuple):
    """A thing that the reader of a page does.

    Attributes:
        where: page and line, for messages.
        kind: ``command`` (of a shell), ``file`` (to be written) or ``python`` (to be run).
        text: the command, the file's content, or the program.
        expected: the lines that it is to print, among others.
        name: of the file.
    """

    where: str
    kind: str
    text: str
    expected: tuple[str, ...] = ()
    name: str = ""


def pages() -> list[Path]:
    """README and all pages under docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def steps(page: Path) -> list[Step]:
    """The actions that PAGE asks its reader to do, in order.

    A block ``console`` holds commands behind ``$``, each with lines that it prints. A block whose first line is
    ``# NAME`` is a file of that name. A block ``python`` without one is a program; a comment behind a ``print`` is what
    that prints. Other blocks are for reading only.
    """
    found = []
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        kind, content = block.groups()
        line = text.count("\n", 0, block.start()) + 2
        where = f"{page.relative_to(ROOT)}:{line}"
        named = _NAMED.match(content)
        if kind == "console":
            found += _commands(content, page, line)
        elif named is not None:
            found.append(Step(where, "file", content, name=named[1]))
        elif kind == "python":
            found.append(Step(where, "python", content, tuple(_PRINTED.findall(content))))
    return found


def _commands(content: str, page: Path, first: int) -> Iterator[Step]:
    expected: list[str] = []
    command, where = "", ""
    for number, line in enumerate(content.splitlines(), first):
        if line.startswith("$ "):
            if command:
                yield Step(where, "command", command, tuple(expected))
            command, where, expected = line[2:], f"{page.relative_to(ROOT)}:{number}", []
        elif line != "...":
            expected.append(line)
    if command:
        yield Step(where, "command", command, tuple(expected))


def arguments(command: str) -> list[str] | None:
    """A COMMAND that is one call of gdsurgeon or of Python, as the program and its arguments; None otherwise."""
    words = shlex.shlex(command, posix=True, punctuation_chars="|<>&;")
    words.whitespace_split = True
    found = list(words)
    if any(set(word) <= set("|<>&;") for word in found) or "$" in re.sub("'[^']*'", "", command):
        return None
    program = found[0].removeprefix(".venv/bin/")
    return [program, *found[1:]] if program in ("gdsurgeon", "python") else None


def masked(line: str) -> str:
    """LINE without what differs from run to run: seconds, and what hangs on versions and processors.

    That is sizes, values, and by how little floats differ.
    """
    line = re.sub(r"\d+\.\d s\)", "N s)", line)
    line = re.sub(r" = .*", " = VALUE", line)
    line = re.sub(r"\b[\d.]+e-\d+", "LITTLE", line)
    return re.sub(r"[\d.,]+ [KMG]iB", "SIZE", line)
