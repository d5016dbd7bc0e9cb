"""Runs commands in separate processes, in turn, measures their time and memory, and checks bounds.

The modules that bench.py imports are small (no NumPy, no TensorFlow): the system reports a peak of memory for a child
that is never below the memory of the process that started it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Timer
from typing import Any, NamedTuple

MB = 1_000_000
TIMEOUT = 600
"""Seconds after which a command is stopped."""
SLOW_ROUNDS = 2
"""Maximum number of rounds for slow peers."""
UNITS = {"s": 1.0, "ms": 1e-3, "MB": float(MB)}


class Sample(NamedTuple):
    """The time and memory of a process, or the figures that it measured itself.

    `rss` is the peak of resident memory in bytes, of the process or of its largest child, never their sum.
    """

    seconds: float
    cpu_seconds: float
    rss: int


class Failed(Exception):
    """A command that did not do its work; the text has the reason."""


@dataclass
class Contender:
    """One command of a comparison, and its samples by round.

    Attributes:
        column: the tool's name in the table.
        line: the command line.
        note: the difference to other commands of the tool.
        model: a file; the output must have about the same size.
        slow: the command runs only in the first rounds, and not with --no-peers.
        status: the expected exit status.
        tree: a second checkout whose gdsurgeon the command runs.
        failure: the reason if the command failed; then it has no samples.
    """

    column: str
    line: str
    note: str = ""
    model: str = ""
    slow: bool = False
    status: int = 0
    tree: str = ""
    samples: dict[int, Sample] = field(default_factory=dict)
    failure: str = ""

    @property
    def label(self) -> str:
        return f"{self.column} {self.note}".strip()

    @property
    def seconds(self) -> float:
        """The median time."""
        return statistics.median(sample.seconds for sample in self.samples.values())

    @property
    def rss(self) -> int:
        """The largest peak of memory, in bytes."""
        return max(sample.rss for sample in self.samples.values())

    def compared(self, other: Contender, how: Callable[[float, float], float] = float.__truediv__) -> float | None:
        """Returns the median of a function of both times, over the common rounds; None without common rounds."""
        common = self.samples.keys() & other.samples.keys()
        values = [how(self.samples[turn].seconds, other.samples[turn].seconds) for turn in common]
        return statistics.median(values) if values else None


# -- bounds -----------------------------------------------------------------------------------------------------------


def met(target: str, contenders: Sequence[Contender]) -> bool | None:
    """Returns whether the first contender meets every bound of `target`; None if this is unknown.

    Bounds are `<= 40 MB`, `<= 0.2 s`, `<= 1.3 x PEER`, `<= PEER + 80 ms` and `>= 15 x less memory than PEER`,
    separated by commas. `PEER` is the label of a contender, or the beginning of several labels: then the slowest such
    contender counts.
    """
    if not contenders[0].samples:
        return None
    found = [is_met(bound, contenders) for bound in target.split(", ")]
    return False if False in found else None if None in found else True


def is_met(bound: str, contenders: Sequence[Contender]) -> bool | None:
    """Returns whether one bound of `met` holds; None if this is unknown."""
    subject = contenders[0]
    if found := re.fullmatch(r"<= (\S+) (s|ms|MB)", bound):
        return (subject.rss if found[2] == "MB" else subject.seconds) <= float(found[1]) * UNITS[found[2]]
    if found := re.fullmatch(r">= (\S+) x less memory than (.+)", bound):
        peer = named(contenders, found[2])
        return peer.rss / subject.rss >= float(found[1]) if peer.samples else None
    if found := re.fullmatch(r"<= (\S+) x (.+)", bound):
        value, limit = subject.compared(named(contenders, found[2])), float(found[1])
    else:
        found = re.fullmatch(r"<= (.+) \+ (\S+) (s|ms)", bound)
        assert found is not None, bound
        value = subject.compared(named(contenders, found[1]), float.__sub__)
        limit = float(found[2]) * UNITS[found[3]]
    return None if value is None else value <= limit


def named(contenders: Iterable[Contender], label: str) -> Contender:
    """Returns the contender with this label, or else the slowest contender whose label begins with it."""
    found = [each for each in contenders if each.label.startswith(label)]
    return max(found, key=lambda each: (each.label == label, each.seconds if each.samples else 0.0))


def duration(seconds: float) -> str:
    """Returns a time with at most three figures, in a suitable unit."""
    if abs(seconds) < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"


# -- processes --------------------------------------------------------------------------------------------------------


class Runner:
    """Starts processes and waits for them.

    Attributes:
        out, folder_out: the paths for the output of a command: a file, or a folder.
        figures: a JSON file with a command's own measurements: `seconds` and `bytes`.
        errors: a file for stderr.
    """

    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        self.environment = environment
        names = ("out.pb", "out", "own.json", "errors")
        self.out, self.folder_out, self.figures, self.errors = (os.path.join(folder, name) for name in names)

    def run(self, line: str, status: int = 0, tree: str = "") -> Sample:
        """Runs a command to its end, with the modules of `tree`. Raises Failed unless it exits with `status`."""
        environment = {**self.environment, "PYTHONPATH": tree} if tree else self.environment
        started = time.perf_counter()
        try:
            with open(self.errors, "wb") as errors:
                child = subprocess.Popen(
                    shlex.split(line), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=errors, start_new_session=True,
                )  # fmt: skip
        except OSError as fault:
            raise Failed(f"{fault.filename}: {fault.strerror}") from None
        timer = Timer(TIMEOUT, os.killpg, (child.pid, signal.SIGKILL))
        timer.start()
        try:
            _, ended, usage = os.wait4(child.pid, 0)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        finally:
            timer.cancel()
        seconds = time.perf_counter() - started
        code = child.returncode = os.waitstatus_to_exitcode(ended)
        if code != status:
            how = f"exit {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
            with open(self.errors, "rb") as file:
                lines = [line for line in file.read()[-20_000:].decode(errors="replace").splitlines() if line.strip()]
            found = [line for line in lines if line.startswith("Error:")] or lines or ["it printed nothing"]
            raise Failed(f"{how} after {duration(seconds)}: {found[-1].strip()[:200]}")
        unit = 1 if sys.platform == "darwin" else 1024
        return Sample(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit)

    def measure(self, contender: Contender) -> Sample:
        """Runs a contender once; it writes a fresh file, which is deleted again.

        Before each run, all written data is on the disk, and the model is in the page cache. A virtual machine returns
        freed memory to its host after a moment, and the next process waits for memory (a copy of 1.9 GB then takes 1.9
        s instead of 0.5): therefore a copy is written and deleted just before.
        """
        model = contender.model
        try:
            if model:
                os.sync()
                self.run(f"cat {model}")
                if not contender.slow:
                    self.run(f"cp {model} {self.out}")
                    remove(self.out)
            sample = self.run(contender.line, contender.status, contender.tree)
            if model:
                have, want = (os.path.getsize(path) if os.path.exists(path) else 0 for path in (self.out, model))
                if abs(want - have) > 4096 + want // 100:
                    raise Failed(f"it wrote {have:,} bytes for a model of {want:,}")
            if os.path.exists(self.figures):
                with open(self.figures, encoding="utf-8") as file:
                    found: dict[str, Any] = json.load(file)
                sample = Sample(found["seconds"], sample.cpu_seconds, found["bytes"])
        finally:
            for path in (self.out, self.folder_out, self.figures):
                remove(path)
        return sample


def compare(runner: Runner, contenders: Iterable[Contender], repeat: int, say: Callable[[str], None]) -> None:
    """Runs the contenders in turn, A B C A B C ..., after a round that does not count.

    A contender that fails does not run again, and keeps its reason.
    """
    for turn in range(repeat + 1):
        for each in contenders:
            if each.failure or (each.slow and not 1 <= turn <= SLOW_ROUNDS):
                continue
            say(f"round {turn} of {repeat}: {each.label}")
            try:
                each.samples[turn] = runner.measure(each)
            except Failed as fault:
                each.failure = str(fault)
                each.samples.clear()
    for each in contenders:
        each.samples.pop(0, None)


def remove(path: str) -> None:
    """Removes a file or a folder, if it exists."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
