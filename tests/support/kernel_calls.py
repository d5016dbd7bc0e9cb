"""What strace writes of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path


def counted_calls(trace: Path, kinds: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """The calls of KINDS in TRACE, in order: the line, which call it is, and the how-manyeth of its kind."""
    counts = dict.fromkeys(kinds, 0)
    for line in trace.read_text(errors="replace").splitlines():
        call = re.match(r"(?:\d+ +)?(\w+)\(", line)
        if call is not None and call[1] in counts:
            counts[call[1]] += 1
            yield line, call[1], counts[call[1]]
