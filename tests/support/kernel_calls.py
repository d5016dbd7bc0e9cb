"""Runs under strace, and what it writes of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

STRACE = ("strace", "-f")
STOPPING_LESS = ("--seccomp-bpf",)
"""Has it stop for the calls alone that are traced; a signal is not injected then."""


def can_trace() -> bool:
    """Whether strace is there and may trace."""
    if shutil.which("strace") is None:
        return False
    command = [*STRACE, *STOPPING_LESS, "-o", os.devnull, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def counted_calls(trace: Path, kinds: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """The calls of KINDS in TRACE, in order: the line, which call it is, and the how-manyeth of its kind."""
    counts = dict.fromkeys(kinds, 0)
    for line in trace.read_text(errors="replace").splitlines():
        call = re.match(r"(?:\d+ +)?(\w+)\(", line)
        if call is not None and call[1] in counts:
            counts[call[1]] += 1
            yield line, call[1], counts[call[1]]
