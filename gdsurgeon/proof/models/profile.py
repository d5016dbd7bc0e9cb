"""How long graphs take, side by side, and which of their nodes take longest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from gdsurgeon.errors import Json
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.models.trace import NodeTime, node_times
from gdsurgeon.proof.subject import Feeds
from gdsurgeon.runtime.protocol import RunSummary

MOST_RUNS = 15
LONGEST_MEASURING = 4.0
"""Seconds for measuring all graphs together."""
MOST_NODES = 10


class MeasuredGraph(NamedTuple):
    """A graph of the executor that is measured, what it is fed, and what is fetched of it, run by run."""

    key: str
    feeds: Feeds
    groups: Sequence[Sequence[str]]


class Profile(NamedTuple):
    """What running a graph costs.

    Attributes:
        seconds: of a run, the median of RUNS; under several fetch groups the sum over them.
        runs: how many were timed.
        node_seconds: of all nodes together in one further run that was traced.
        slowest: its slowest nodes in that run, the slowest first.
    """

    seconds: float
    runs: int
    node_seconds: float
    slowest: tuple[NodeTime, ...]

    def as_json(self) -> dict[str, Json]:
        """For reports."""
        slowest = [node._asdict() for node in self.slowest]
        return {"seconds": self.seconds, "runs": self.runs, "node_seconds": self.node_seconds, "slowest": slowest}


def measured(executor: Executor, work: Sequence[MeasuredGraph], least: float = 0.0) -> list[list[float]]:
    """The seconds of runs of each graph, by turns, so that a busy machine slows all of them; all have run before.

    Who begins changes from turn to turn. LEAST: seconds that it is to take at least, where runs are so short that some
    of them show nothing.

    Raises:
        Refused: TensorFlow refuses a run.
    """
    times: list[list[float]] = [[] for _ in work]
    started = time.monotonic()
    pairs = list(zip(times, work, strict=True))
    while (taken := time.monotonic() - started) < least or (
        len(times[0]) < MOST_RUNS and (taken < LONGEST_MEASURING or len(times[0]) < 3)
    ):
        for seconds, item in pairs if len(times[0]) % 2 else pairs[::-1]:
            seconds.append(sum(run.seconds for run in run_again(executor, item)))
    return times


def run_again(executor: Executor, work: MeasuredGraph, *, trace: bool = False) -> list[RunSummary]:
    """One run for each of the groups of fetches, of which nothing is kept; TRACE: with a full trace. Raises Refused."""
    result = f"{work.key} again"
    runs = [executor.wait(executor.run(work.key, result, work.feeds, names, trace=trace)) for names in work.groups]
    executor.drop(result)
    return runs


def profiles(executor: Executor, work: Sequence[MeasuredGraph]) -> list[Profile]:
    """A profile of each graph. Raises Refused."""
    times = measured(executor, work)
    out: list[Profile] = []
    for seconds, item in zip(times, work, strict=True):
        found = [node for run in run_again(executor, item, trace=True) for node in node_times(run.metadata or b"")]
        nodes = sorted(found, key=lambda node: -node.seconds)
        total = sum(node.seconds for node in nodes)
        out.append(Profile(median(seconds), len(seconds), total, tuple(nodes[:MOST_NODES])))
    return out
