"""The operating system in tests: calls that fail, limits of memory, traces of system calls, counted function calls."""

from __future__ import annotations

import gc
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from support.patience import LONG_ENOUGH


class Fault:
    """Has call number `at` of an os function fail, and every later one where `for_ever`.

    Of close, fsync and write only the calls on regular files count: a folder or a pipe has no disk to run full.
    """

    def __init__(self, name: str, code: int, for_ever: bool) -> None:
        self.name, self.code, self.for_ever = name, code, for_ever
        self.real = getattr(os, name) if name != "fsync" else lambda fd: None
        self.arm(0)

    def disarm(self) -> None:
        self.at = 0

    def arm(self, at: int) -> None:
        self.at, self.calls, self.struck = at, 0, False

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.at and self._counts(*args):
            self.calls += 1
            if self.calls == self.at or (self.for_ever and self.calls > self.at):
                self.struck = True
                if self.name == "close":
                    self.real(*args)  # the descriptor is closed, whatever close returns
                raise OSError(self.code, os.strerror(self.code))
        return self.real(*args, **options)

    def _counts(self, *args: Any) -> bool:
        return self.name not in ("close", "fsync", "write") or stat.S_ISREG(os.fstat(args[0]).st_mode)


def within_memory(most: int, work: Callable[[], object]) -> None:
    """Runs WORK in a fork of this process that gets at most MOST further bytes; fails unless WORK returns."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(LONG_ENOUGH))
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                there = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (there + most, there + most))
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "it took too much memory, or failed: see its traceback"


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


def calls(work: Callable[[], Any]) -> int:
    """How many functions WORK calls, those written in C too."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def is_linear(work: Callable[[int], Callable[[], Any]], small: int, large: int, slack: float = 1.5) -> bool:
    """Whether the work that WORK(n) makes grows no faster than n, from SMALL to LARGE; SLACK is for what does not."""
    work(small)()  # what is looked up once is looked up now
    return calls(work(large)) <= slack * large / small * calls(work(small))
