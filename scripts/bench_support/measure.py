"""Runs commands as processes of their own, in turn, and measures their time and memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """What one process took.

    `rss` is the peak of resident memory in bytes, of the process or of the largest of the children
    that it waited for, never their sum; or what the command says itself of what it ran.
    """

    seconds: float
    cpu_seconds: float
    rss: int


class Failed(Exception):
    """A command that did not do its work; the text says why."""


@dataclass(frozen=True)
class Contender:
    """One command of a comparison.

    `column` is the tool's name in the table, `note` what sets this command apart from others of the
    tool. `model` and `output`, where given, are files (an output may be a folder): an output must come
    out about as large as its model, where that is given. A slow contender is not warmed up, runs in the
    first rounds only, and is left out by --no-peers. `status` is the exit status of a good end.
    `figures`, where given, is a file into which the command writes what it has measured itself, as
    JSON: `seconds` and `bytes`, instead of the
    whole process's. `tree`, where given, is a second checkout whose gdsurgeon the command runs.
    """

    column: str
    command: tuple[str, ...]
    note: str = ""
    model: str | None = None
    output: str | None = None
    slow: bool = False
    status: int = 0
    figures: str | None = None
    tree: str | None = None

    @property
    def label(self) -> str:
        return f"{self.column} {self.note}".strip()


@dataclass
class Measured:
    """All samples of one contender, by round; and why it stopped, if it did."""

    contender: Contender
    samples: dict[int, Sample] = field(default_factory=dict)
    failure: str | None = None

    @property
    def seconds(self) -> float:
        """The median time. Raises StatisticsError where nothing was measured."""
        return statistics.median(sample.seconds for sample in self.samples.values())

    @property
    def rss(self) -> int:
        """The largest peak of memory, in bytes."""
        return max(sample.rss for sample in self.samples.values())

    def against(self, other: Measured) -> Iterator[tuple[Sample, Sample]]:
        """Yields pairs of its samples and the samples of `other` from the same rounds."""
        for turn, sample in self.samples.items():
            if turn in other.samples:
                yield sample, other.samples[turn]

    def ratio(self, other: Measured) -> float | None:
        """How many times as long as `other`, by the median of the rounds; None without such a round."""
        ratios = [mine.seconds / its.seconds for mine, its in self.against(other)]
        return statistics.median(ratios) if ratios else None

    def excess(self, other: Measured) -> float | None:
        """How many seconds longer than `other`, by the median of the rounds."""
        differences = [mine.seconds - its.seconds for mine, its in self.against(other)]
        return statistics.median(differences) if differences else None


class Runner:
    """Starts processes and waits for them; `errors` is a file for what they print to stderr."""

    def __init__(self, errors: str, timeout: float, environment: dict[str, str]) -> None:
        self.errors = errors
        self.timeout = timeout
        self.environment = environment

    def run(self, command: Sequence[str], status: int = 0, tree: str | None = None) -> Sample:
        """Runs a command to its end, with the modules of `tree`. Raises Failed unless it exits with `status`."""
        environment = {**self.environment, "PYTHONPATH": tree} if tree else self.environment
        started = time.perf_counter()
        try:
            child = os.posix_spawnp(
                command[0], list(command), environment, file_actions=self._redirections(), setpgroup=0
            )
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
        if os.waitstatus_to_exitcode(ended) != status:
            raise Failed(f"{ending(ended)}: {last_words(self.errors)}")
        unit = 1 if sys.platform == "darwin" else 1024
        return Sample(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit)

    def measure(self, contender: Contender) -> Sample:
        """One run of a contender, writing a fresh file, which is deleted again."""
        try:
            self.settle(contender)
            sample = self.run(contender.command, contender.status, contender.tree)
            if contender.model and contender.output:
                expect_like(contender.model, contender.output)
            if contender.figures:
                sample = own_figures(contender.figures, sample)
        finally:
            remove(contender.output)
            remove(contender.figures)
        return sample

    def settle(self, contender: Contender) -> None:
        """Brings the machine to the same state before each run, whatever ran before.

        All written data is on the disk, and the model in the page cache. A virtual machine returns
        freed memory to its host after a moment, and the next process waits for memory (a copy
        of 1.9 GB then takes 1.9 s instead of 0.5): so a copy is written and deleted just before.
        """
        remove(contender.output)
        if contender.model is None:
            return
        os.sync()
        self.run(("cat", contender.model))
        if contender.output and not contender.slow:
            self.run(("cp", contender.model, contender.output))
            remove(contender.output)

    def _redirections(self) -> list[tuple[Any, ...]]:
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, self.errors, create, 0o600),
        ]


def compare(
    runner: Runner,
    contenders: Sequence[Contender],
    repeat: int,
    slow_repeat: int,
    say: Callable[[str], None],
) -> list[Measured]:
    """Runs the contenders in turn, A B C A B C ..., after a round that is not counted.

    A contender that fails is left out from there on and keeps its reason.
    """
    results = [Measured(contender) for contender in contenders]
    for turn in range(repeat + 1):
        for result in results:
            slow = result.contender.slow
            if result.failure or (slow and not 1 <= turn <= slow_repeat):
                continue
            say(f"round {turn} of {repeat}: {result.contender.label}")
            try:
                sample = runner.measure(result.contender)
            except Failed as fault:
                result.failure = str(fault)
                result.samples.clear()
                continue
            if turn:
                result.samples[turn] = sample
    return results


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raises TimeoutError inside the block when it takes longer."""

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ending(status: int) -> str:
    """How a process ended, in words."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def last_words(errors: str) -> str:
    """The line of a process's stderr that says what went wrong."""
    with open(errors, "rb") as file:
        lines = [line for line in file.read()[-20_000:].decode(errors="replace").splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("Error:")]
    return (said or lines or ["it said nothing"])[-1].strip()[:200]


def expect_like(model: str, output: str) -> None:
    """Raises Failed unless the output is as large as its model, give or take a renamed node."""
    if not os.path.exists(output):
        raise Failed("it wrote no file")
    want, have = os.path.getsize(model), os.path.getsize(output)
    if abs(want - have) > 4096 + want // 100:
        raise Failed(f"it wrote {have:,} bytes for a model of {want:,}")


def own_figures(path: str, sample: Sample) -> Sample:
    """Returns the figures that a command has measured, which replace the figures of its process."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as fault:
        raise Failed(f"it has measured nothing: {fault}") from None
    return Sample(found["seconds"], sample.cpu_seconds, found["bytes"])


def remove(path: str | None) -> None:
    if path and os.path.isdir(path):
        shutil.rmtree(path)
    elif path and os.path.exists(path):
        os.remove(path)
