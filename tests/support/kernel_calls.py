"""Runs under strace, and what it writes of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path


@cache
def can_trace() -> bool:
    """Whether strace is there and may trace a process that runs."""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        tracing = subprocess.Popen(["strace", "-p", str(process.pid)], stderr=subprocess.PIPE)
        assert tracing.stderr is not None
        said = tracing.stderr.readline()
        process.kill()
        tracing.communicate()
    return b"attached" in said


def counted_calls(trace: Path, kinds: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """The calls of KINDS in TRACE, in order: the line, which call it is, and the how-manyeth of its kind."""
    counts = dict.fromkeys(kinds, 0)
    for line in trace.read_text(errors="replace").splitlines():
        call = re.match(r"(?:\d+ +)?(\w+)\(", line)
        if call is not None and call[1] in counts:
            counts[call[1]] += 1
            yield line, call[1], counts[call[1]]
