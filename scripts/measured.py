"""The sentence that says on what a page of results was measured."""

from __future__ import annotations

import datetime
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gdsurgeon


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
