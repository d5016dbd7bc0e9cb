"""The pages of the documentation, and the commands and programs in them."""

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

import click
import pytest
from support.browsing import browser
from support.desk import Desk, Ran
from support.paths import FIXTURES, ROOT
from test_layers import ROOMS

from gdsurgeon.cli.main import main as program
from gdsurgeon.registry import COMMANDS
from gdsurgeon.steps.catalog import catalog


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    done = run("-m", "mkdocs", "build", "--strict", "--site-dir", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_menu_has_every_page(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        path = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / path).exists()
        assert f'href="{path}"' in menu or page.name == "index.md", f"{path} is in no menu"


def test_the_site_has_every_command_option_and_step(site: Path) -> None:
    index = (site / "commands" / "index.html").read_text()
    group = program.make_context("gdsurgeon", ["help"])
    for name in COMMANDS:
        assert f'href="{name}.html"><code>{name}</code>' in index
        page = (site / "commands" / f"{name}.html").read_text()
        command = program.get_command(group, name)
        assert command is not None
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        names = [option.opts[0] for option in options] + ([] if name != "steps" else list(catalog()))
        assert [option for option in names if option not in page] == [], name


def test_a_dead_link_keeps_the_site_from_building(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Home\n\n[gone](gone.md)\n")
    settings = re.sub(r"^(hooks|nav):\n(?: .*\n)+", "", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(settings)
    done = run("-m", "mkdocs", "build", "--strict", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode != 0
    assert "gone.md" in done.stdout + done.stderr


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]*)"', page.read_text())
        assert loaded == []


@pytest.mark.browser
@pytest.mark.slow
def test_no_page_scrolls_sideways_and_tables_fit_a_screen(site: Path) -> None:
    script = """() => [document.documentElement.scrollWidth - document.documentElement.clientWidth,
        ...[...document.querySelectorAll(".md-typeset__scrollwrap")].map(e => e.scrollWidth - e.clientWidth)]"""
    with browser() as chromium:
        page = chromium.new_page()
        for file in sorted(site.rglob("*.html")):
            page.goto(file.as_uri())
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 800})
                beyond, *beyond_of_tables = page.evaluate(script)
                assert beyond <= 0, f"{file.name} at {width} pixels"
                assert width < 1280 or max(beyond_of_tables, default=0) <= 1, f"a table of {file.name}"


def test_readme_is_short_and_names_files_that_exist() -> None:
    """Its links are absolute: a package index shows README without the repository. Pictures are the exception."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert sum((ROOT / picture).stat().st_size for picture in pictures) < 600_000
    assert [link for link in re.findall(r"(?<!!)\[[^]]+\]\(([^)]+)", text) if not link.startswith("https://")] == []
    paths = re.findall(r"`((?:docs|scripts)/[^` ]*)`", text)
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []


def test_architecture_names_the_rooms() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", text[text.index("## Packages") : text.index("## What")], re.MULTILINE)
    assert [name.strip("`/") for row in rows for name in row.split(", ")] == list(ROOMS)


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
