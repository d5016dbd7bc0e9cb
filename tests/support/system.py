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
import tracemalloc
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from support.patience import LONG_ENOUGH


class Fault:
    """Makes call number `at` of an os function fail inside a `with` block, and all later calls if `for_ever`.

    Of close, fsync and write only calls for regular files count: a folder or a pipe has no disk that can be full.
    """

    def __init__(self, name: str, code: int, for_ever: bool, at: int) -> None:
        self.name, self.code, self.for_ever, self.at = name, code, for_ever, at
        self.real = _sync if name == "fsync" else getattr(os, name)
        self.calls, self.struck = 0, False

    def __enter__(self) -> Fault:
        self._before = getattr(os, self.name)
        setattr(os, self.name, self)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(os, self.name, self._before)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.name not in ("close", "fsync", "write") or stat.S_ISREG(os.fstat(args[0]).st_mode):
            self.calls += 1
            if self.calls == self.at or (self.for_ever and self.calls > self.at):
                self.struck = True
                if self.name == "close":
                    self.real(*args)  # the descriptor is closed, whatever close returns
                raise OSError(self.code, os.strerror(self.code))
        return self.real(*args, **options)


def _sync(_fd: int) -> None:
    """Replaces fsync, which takes long."""


def faults(patch: pytest.MonkeyPatch, call: str, code: int, for_ever: bool = False) -> Iterator[Fault]:
    """Yields a fault for the first call of an os function, the second call, ..., until the last fault is not reached.

    A run inside `with fault` whose fault is not reached must succeed.
    """
    patch.setattr(os, "fsync", _sync)
    for at in range(1, 200):
        fault = Fault(call, code, for_ever, at)
        yield fault
        if not fault.struck:
            return
    pytest.fail("it never comes to an end")


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


def memory(work: Callable[[], object]) -> int:
    """Returns the most bytes that the objects of Python take while WORK is done."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
