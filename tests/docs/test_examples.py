"""README and docs/: their commands run, and print the documented output."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.desk import Desk, Ran
from support.paths import FIXTURES, ROOT

from gdsurgeon.registry import COMMANDS

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


class Reader:
    """Somebody who does what a page says, in a folder with the graphs of a checkout.

    A command that is one call of gdsurgeon or of Python runs in this process, where workers live through many tests.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        shutil.copytree(FIXTURES, desk.folder / "fixtures")
        if "keras" in sys.modules:
            sys.modules["keras"].utils.clear_session()  # so that Keras numbers its layers from the beginning

    def do(self, step: Step) -> None:
        """Does STEP, and checks what it prints."""
        work: dict[str, Callable[[Step], tuple[int, str]]] = {
            "file": self.write,
            "python": self.run_python,
            "command": self.run_command,
        }
        code, printed = work[step.kind](step)
        refused = any(line.startswith("Error:") for line in step.expected)
        differs = code == 1 and (step.text.startswith("gdsurgeon diff ") or step.text.endswith(" --check"))
        as_said = (code != 0) == refused or differs or step.text.endswith("; echo $?")
        assert as_said, f"{step.where}: exit code {code}\n{step.text}\n{printed}"
        lines = {masked(line) for line in printed.splitlines()}
        missing = [line for line in step.expected if masked(line) not in lines]
        assert missing == [], f"{step.where} does not print these of its lines; it prints:\n{printed}"

    def write(self, step: Step) -> tuple[int, str]:
        (self.desk.folder / step.name).write_text(step.text)
        return 0, ""

    def run_python(self, step: Step) -> tuple[int, str]:
        return self.said(self.desk.run_program(step.text))

    def run_command(self, step: Step) -> tuple[int, str]:
        words = arguments(step.text)
        if words is None:
            return self.run_process(["bash", "-o", "pipefail", "-c", step.text])
        program, *rest = words
        if program == "python":
            source = rest[1] if rest[0] == "-c" else (self.desk.folder / rest[0]).read_text()
            return self.said(self.desk.run_program(source, *rest[2 if rest[0] == "-c" else 1 :]))
        return self.said(self.desk.run(*rest))

    def said(self, ran: Ran) -> tuple[int, str]:
        return ran.code, ran.out.decode() + ran.err

    def run_process(self, words: list[str]) -> tuple[int, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = self.desk.environment(PATH=path, NO_COLOR="1", TF_CPP_MIN_LOG_LEVEL="2")
        done = subprocess.run(
            words, cwd=self.desk.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout + done.stderr


def to_do(page: Path) -> list[Step]:
    return [step for step in steps(page) if not step.text.startswith(DONE_ALREADY)]


PAGES = [page for page in pages() if to_do(page)]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, desk: Desk) -> None:
    reader = Reader(desk)
    for step in to_do(page):
        if "jq " not in step.text or shutil.which("jq") is not None:
            reader.do(step)


def test_every_command_has_an_example_on_its_page() -> None:
    lacking = []
    for name in COMMANDS:
        page = ROOT / "docs" / "commands" / f"{name}.md"
        if not any(f"gdsurgeon {name}" in step.text for step in steps(page)):
            lacking.append(name)
    assert lacking == []
