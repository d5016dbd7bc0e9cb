"""Runs commands in separate processes, in turn, and measures their time and memory.

The modules that bench.py imports are small (no NumPy, no TensorFlow): the system reports a peak of memory for a child
that is never below the memory of the process that started it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MB = 1_000_000
FIGURES = "own.json"
NOISE = 0.02
"""Seconds below which a difference between two sizes has no meaning."""


class Sample(NamedTuple):
    """The time and memory of a process, or the figures that it measured itself.

    `rss` is the peak of resident memory in bytes, of the process or of its largest child, never their sum.
    """

    seconds: float
    cpu_seconds: float
    rss: int


class Failed(Exception):
    """A command that did not do its work; the text has the reason."""


@dataclass(frozen=True)
class Contender:
    """One command of a comparison.

    Attributes:
        column: the tool's name in the table.
        line: the command line.
        note: the difference to other commands of the tool.
        model: a file; the output must have about the same size.
        slow: the command runs only in the first rounds, and not with --no-peers.
        status: the expected exit status.
        tree: a second checkout whose gdsurgeon the command runs.
    """

    column: str
    line: str
    note: str = ""
    model: str = ""
    slow: bool = False
    status: int = 0
    tree: str = ""

    @property
    def label(self) -> str:
        return f"{self.column} {self.note}".strip()

    @property
    def has_figures(self) -> bool:
        """Whether the command writes its own measurements."""
        return FIGURES in self.line


@dataclass
class Measured:
    """All samples of one contender, by round; and the reason if it stopped."""

    contender: Contender
    samples: dict[int, Sample] = field(default_factory=dict)
    failure: str | None = None

    @property
    def seconds(self) -> float:
        """The median time."""
        return statistics.median(sample.seconds for sample in self.samples.values())

    @property
    def rss(self) -> int:
        """The largest peak of memory, in bytes."""
        return max(sample.rss for sample in self.samples.values())

    def compared(self, other: Measured, how: Callable[[float, float], float]) -> float | None:
        """Returns the median, over the common rounds, of a function of both times; None without common rounds."""
        common = self.samples.keys() & other.samples.keys()
        values = [how(self.samples[turn].seconds, other.samples[turn].seconds) for turn in common]
        return statistics.median(values) if values else None

    def ratio(self, other: Measured) -> float | None:
        """Returns the time relative to the time of `other`."""
        return self.compared(other, lambda mine, its: mine / its)


@dataclass(frozen=True)
class Target:
    """Bounds on the first contender of a row; only the given bounds apply.

    `times`, `plus` (seconds) and `less` (the factor in memory) are relative to the contender with the label `peer`; if
    several labels begin with `peer`, to the slowest of them.
    """

    times: float | None = None
    plus: float | None = None
    peer: str = "cp"
    seconds: float | None = None
    megabytes: float | None = None
    less: float | None = None

    def __str__(self) -> str:
        bounds = {
            f">= {self.less or 0:.3g} x less memory than {self.peer}": self.less,
            f"<= {self.times or 0:.3g} x {self.peer}": self.times,
            f"<= {self.peer} + {duration(self.plus or 0)}": self.plus,
            f"<= {duration(self.seconds or 0)}": self.seconds,
            f"<= {self.megabytes or 0:g} MB": self.megabytes,
        }
        return ", ".join(text for text, bound in bounds.items() if bound is not None)

    def met(self, results: Sequence[Measured]) -> bool | None:
        """Returns whether every bound holds; None if this is unknown."""
        subject = results[0]
        if not subject.samples:
            return None
        measured: list[tuple[float | None, float | None]] = [
            (self.seconds, subject.seconds),
            (self.megabytes, subject.rss / MB),
        ]
        if {self.times, self.plus, self.less} != {None}:
            peer = named(results, self.peer)
            measured += [(self.times, subject.ratio(peer)), (self.plus, subject.compared(peer, float.__sub__))]
            measured.append(
                (1 / self.less, subject.rss / peer.rss if peer.samples else None) if self.less else (None, 0)
            )
        bounded = [(bound, value) for bound, value in measured if bound is not None]
        if any(value is not None and value > bound for bound, value in bounded):
            return False
        return None if any(value is None for _, value in bounded) else True


@dataclass(frozen=True)
class Growth:
    """Bounds the cost of a further node (or byte) in the large model, relative to its cost in the middle model.

    The first three contenders do the same work on a tiny, a middle and a large model. Three further contenders are cp
    on the same files; the growth of cp itself is allowed.
    """

    sizes: tuple[int, int, int]
    unit: str
    times: float = 1.3

    def __str__(self) -> str:
        return f"<= {self.times:g} x linear"

    def slope(self, results: Sequence[Measured]) -> float | None:
        """Returns the cost of a further unit from middle to large, relative to its cost from tiny to middle."""
        if len(results) < 3 or not all(result.samples for result in results):
            return None
        tiny, middle, large = (result.seconds for result in results)
        if middle - tiny < NOISE:
            return None
        first = (middle - tiny) / (self.sizes[1] - self.sizes[0])
        return (large - middle) / (self.sizes[2] - self.sizes[1]) / first

    def met(self, results: Sequence[Measured]) -> bool | None:
        """Returns whether the bound holds; None if this is unknown."""
        slope, own = self.slope(results[:3]), self.slope(results[3:6])
        return None if slope is None else slope <= self.times * max(1.0, own or 1.0)

    def detail(self, results: Sequence[Measured]) -> str:
        """Returns the slopes as text."""
        slope, own = self.slope(results[:3]), self.slope(results[3:6])
        if slope is None:
            return "cannot be told"
        return f"{slope:.2f} x linear per {self.unit}{f' (cp {own:.2f})' if own is not None else ''}"


def named(results: Sequence[Measured], label: str) -> Measured:
    """Returns the contender with this label, or else the slowest contender whose label begins with it."""
    found = [result for result in results if result.contender.label == label]
    found = found or [result for result in results if result.contender.label.startswith(label)]
    return max(found, key=lambda result: result.seconds if result.samples else 0.0)


def duration(seconds: float) -> str:
    """Returns a time with at most three figures, in a suitable unit."""
    if abs(seconds) < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"


class Runner:
    """Starts processes and waits for them.

    Attributes:
        out, folder_out: the paths for the output of a command: a file, or a folder.
        figures: a JSON file with a command's own measurements: `seconds` and `bytes`.
        errors: a file for stderr.
    """

    def __init__(self, folder: str, timeout: float, environment: dict[str, str]) -> None:
        self.timeout, self.environment = timeout, environment
        self.out, self.folder_out, self.figures, self.errors = (
            os.path.join(folder, name) for name in ("out.pb", "out", FIGURES, "errors")
        )

    def run(self, line: str, status: int = 0, tree: str = "") -> Sample:
        """Runs a command to its end, with the modules of `tree`. Raises Failed unless it exits with `status`."""
        command = shlex.split(line)
        environment = {**self.environment, "PYTHONPATH": tree} if tree else self.environment
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        streams = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, self.errors, create, 0o600),
        ]
        started = time.perf_counter()
        try:
            child = os.posix_spawnp(command[0], command, environment, file_actions=streams, setpgroup=0)
        except OSError as fault:
            raise Failed(f"{command[0]}: {fault.strerror}") from None
        try:
            with alarm(self.timeout):
                _, ended, usage = os.wait4(child, 0)
        except BaseException as stop:
            os.killpg(child, signal.SIGKILL)
            os.wait4(child, 0)
            if isinstance(stop, TimeoutError):
                raise Failed(f"no end within {self.timeout:g} s") from None
            raise
        seconds = time.perf_counter() - started
        code = os.waitstatus_to_exitcode(ended)
        if code != status:
            how = f"exit {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
            raise Failed(f"{how}: {last_words(self.errors)}")
        unit = 1 if sys.platform == "darwin" else 1024
        return Sample(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit)

    def measure(self, contender: Contender) -> Sample:
        """Runs a contender once; it writes a fresh file, which is deleted again.

        Before each run, all written data is on the disk, and the model is in the page cache. A virtual machine returns
        freed memory to its host after a moment, and the next process waits for memory (a copy of 1.9 GB then takes 1.9
        s instead of 0.5): therefore a copy is written and deleted just before.
        """
        try:
            if contender.model:
                os.sync()
                self.run(f"cat {contender.model}")
                if not contender.slow:
                    self.run(f"cp {contender.model} {self.out}")
                    remove(self.out)
            sample = self.run(contender.line, contender.status, contender.tree)
            if contender.model:
                expect_like(contender.model, self.out)
            if os.path.exists(self.figures):
                with open(self.figures, encoding="utf-8") as file:
                    found: dict[str, Any] = json.load(file)
                sample = Sample(found["seconds"], sample.cpu_seconds, found["bytes"])
        finally:
            for path in (self.out, self.folder_out, self.figures):
                remove(path)
        return sample


def compare(
    runner: Runner, contenders: Sequence[Contender], repeat: int, slow_repeat: int, say: Callable[[str], None]
) -> list[Measured]:
    """Runs the contenders in turn, A B C A B C ..., after a round that does not count.

    A contender that fails does not run again, and keeps its reason.
    """
    results = [Measured(contender) for contender in contenders]
    for turn in range(repeat + 1):
        for result in results:
            if result.failure or (result.contender.slow and not 1 <= turn <= slow_repeat):
                continue
            say(f"round {turn} of {repeat}: {result.contender.label}")
            try:
                result.samples[turn] = runner.measure(result.contender)
            except Failed as fault:
                result.failure = str(fault)
                result.samples.clear()
    for result in results:
        result.samples.pop(0, None)
    return results


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raises TimeoutError inside the block if it takes longer."""

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def last_words(errors: str) -> str:
    """Returns the error in the stderr of a process."""
    with open(errors, "rb") as file:
        lines = [line for line in file.read()[-20_000:].decode(errors="replace").splitlines() if line.strip()]
    found = [line for line in lines if line.startswith("Error:")]
    return (found or lines or ["it printed nothing"])[-1].strip()[:200]


def expect_like(model: str, output: str) -> None:
    """Raises Failed unless the output has the size of its model, except for a renamed node."""
    if not os.path.exists(output):
        raise Failed("it wrote no file")
    want, have = os.path.getsize(model), os.path.getsize(output)
    if abs(want - have) > 4096 + want // 100:
        raise Failed(f"it wrote {have:,} bytes for a model of {want:,}")


def remove(path: str) -> None:
    """Removes a file or a folder, if it exists."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
