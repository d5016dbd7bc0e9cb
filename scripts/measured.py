"""Parts of the scripts that write pages of results: a command run in this process, and the head of a page."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gdsurgeon
from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal


def called(*arguments: str) -> tuple[int, str]:
    """Runs a command in this process. Returns its exit code and its standard error."""
    terminal.__init__()  # type: ignore[misc]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = exit_code(list(arguments))
    return code, errors.getvalue()


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
