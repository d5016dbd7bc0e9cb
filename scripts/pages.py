"""Parts of the scripts that write pages of results: their options and models, a command, an error, a table, a page."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import keras_models

import gdsurgeon
from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal


def page_parser(doc: str | None, keras: bool = True) -> argparse.ArgumentParser:
    """Returns a parser with the options of all these scripts; the first line of `doc` describes the script."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("-o", dest="out", type=Path, metavar="PAGE")
    parser.add_argument("--models", default="*", metavar="PATTERN", help="Use only these models.")
    if keras:
        parser.add_argument("--keras", type=Path, metavar="DIR", help="Folder for the models of Keras.")
    return parser


def models(options: argparse.Namespace, keras: Sequence[str] = (), made: str = "") -> list[Path]:
    """Returns the models of the folder and the models `keras`; the latter are made in `made` without --keras."""
    paths = sorted(path for path in options.folder.iterdir() if path.suffix != ".md")
    if keras:
        folder = options.keras or Path(made)
        keras_models.make(folder, [name for name in keras if fnmatch(f"{name}.pb", options.models)])
        paths += sorted(folder.glob("*.pb"))
    return [path for path in paths if fnmatch(path.name, options.models)]


def called(*arguments: str) -> tuple[int, str]:
    """Runs a command in this process. Returns its exit code and its standard error."""
    terminal.__init__()  # type: ignore[misc]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = exit_code(list(arguments))
    return code, errors.getvalue()


def answer_of(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Runs a command in a separate process. Returns its exit code, its JSON ({} without JSON), and its error."""
    command = [sys.executable, "-m", "gdsurgeon", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except json.JSONDecodeError:
        found = {}
    return done.returncode, found, error_in(done.stderr)


def runs(path: Path) -> bool:
    """Returns whether the model at `path` runs."""
    return called("validate", str(path), "--samples", "1")[0] == 0


def error_in(text: str, most: int = 1, separator: str = " ") -> str:
    """Returns the error in the standard error of a command on one line, with `most` of its details; '' without one."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith("Error: ")), None)
    if at is None:
        return ""
    details = [line.strip() for line in lines[at + 1 :] if line.startswith("  ")]
    return separator.join([lines[at].removeprefix("Error: "), *details[:most]])


def table(header: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns a table in Markdown: `header` has the headings, separated by ``|``."""
    lines = [f"| {header} |", "|" + "---|" * (header.count("|") + 1)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def plain(text: str, most: int = 160) -> str:
    """Returns `text` for a cell of a table, without folders of this machine and at most `most` characters long."""
    text = re.sub(r"(?<![\w.\]'])/\S+/(?=\w)", "", text)
    short = text if len(text) <= most else f"{text[:most]}..."
    return re.sub(r"[|<>*`]", " ", short).replace("_", r"\_")


def publish(head: str, body: str, out: Path | None) -> None:
    """Writes a page to the file `out`, or prints it. In `head`, `{measured}` stands for the sentence of `measured`."""
    text = head.replace("{measured}", measured()) + body
    if out is None:
        print(text, end="")
    else:
        out.write_text(text)


def measured() -> str:
    """Returns a sentence with the date, the versions of gdsurgeon and TensorFlow, and the processor."""
    versions = f"gdsurgeon {gdsurgeon.__version__} and TensorFlow {_tensorflow()}"
    return f"Measured on {datetime.date.today().isoformat()} with {versions} ({_processor()})."


def _tensorflow() -> str:
    try:
        return version("tensorflow")
    except PackageNotFoundError:
        return version("tensorflow-cpu")


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return f"{found[1] if found else platform.machine()}, {os.cpu_count()} cores"
