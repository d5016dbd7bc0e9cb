"""Measures graphs: the time of runs, the slowest nodes, and the memory of a traced run.

Traces are serialised RunMetadata (`RunSummary.metadata`), read without TensorFlow.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from gdsurgeon.errors import Json
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.subject import Feeds
from gdsurgeon.proof.trial import Trial
from gdsurgeon.runtime.protocol import RunSummary
from gdsurgeon.wire.fields import LEN, WireError, fields
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import NodeExecStats, StepStats

MOST_RUNS = 15
LONGEST_MEASURING = 4.0
"""The seconds for all graphs together."""
MOST_NODES = 10


class MeasuredGraph(NamedTuple):
    """A graph of the executor, its feeds, and the fetches of each run."""

    key: str
    feeds: Feeds
    groups: Sequence[Sequence[str]]


def measurable(trial: Trial, run: str) -> MeasuredGraph:
    """Returns the graph of `run` with its feeds in the last sample, to be run again."""
    subject = trial.subject(run)
    return MeasuredGraph(subject.key, trial.fed[run], subject.plan.groups)


class Profile(NamedTuple):
    """The cost of a run.

    Attributes:
        seconds: the median of several runs; with several groups of fetches their sum.
        runs: the number of timed runs.
        node_seconds: the sum over all nodes in an additional traced run.
        slowest: the slowest nodes in that run, slowest first.
    """

    seconds: float
    runs: int
    node_seconds: float
    slowest: tuple[NodeTime, ...]

    def as_json(self) -> dict[str, Json]:
        """Returns the profile for reports."""
        slowest = [node._asdict() for node in self.slowest]
        return {"seconds": self.seconds, "runs": self.runs, "node_seconds": self.node_seconds, "slowest": slowest}


def measured(executor: Executor, work: Sequence[MeasuredGraph], least: float = 0.0) -> list[list[float]]:
    """Returns the seconds of runs of each graph, which alternate so that a busy machine slows all of them.

    The order changes from round to round. `least` is the least number of seconds for all runs.

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
    """Runs each group of fetches once, without results; `trace`: with a full trace. Raises Refused."""
    result = f"{work.key} again"
    runs = [executor.wait(executor.run(work.key, result, work.feeds, names, trace=trace)) for names in work.groups]
    executor.drop(result)
    return runs


def profiles(executor: Executor, work: Sequence[MeasuredGraph]) -> list[Profile]:
    """Returns a profile of each graph. Raises Refused."""
    times = measured(executor, work)
    out: list[Profile] = []
    for seconds, item in zip(times, work, strict=True):
        found = [node for run in run_again(executor, item, trace=True) for node in node_times(run.metadata or b"")]
        nodes = sorted(found, key=lambda node: -node.seconds)
        total = sum(node.seconds for node in nodes)
        out.append(Profile(median(seconds), len(seconds), total, tuple(nodes[:MOST_NODES])))
    return out


_STEP_STATS = 1  # field of RunMetadata
# As TensorFlow's tracer of a GPU lists what has run there: '/device:GPU:0/stream:all' has every kernel, and the
# other lists ('/stream:14', '/memcpy', ...) have parts of it again.
_KERNELS = re.compile(r"(?:^|/)(?P<device>device:\w+:\d+)/stream:all$", re.IGNORECASE)
_TRACER = re.compile(r"/(?:stream:[^/]*|memcpy|sync|host:[^/]*)$", re.IGNORECASE)
_DEVICE = re.compile(r"device:\w+:\d+$", re.IGNORECASE)


class NodeTime(NamedTuple):
    """The time of a node.

    Attributes:
        name: of the node; in an inlined function, its name after inlining.
        device: such as '/job:localhost/replica:0/task:0/device:CPU:0'.
        seconds: of all its runs together.
        runs: the number of runs, which is more than one in a loop.
    """

    name: str
    device: str
    seconds: float
    runs: int


def node_times(metadata: bytes) -> list[NodeTime]:
    """Returns the computing time of each node, slowest first, then by name.

    The time is from the start to the end of the kernel's Compute. On a GPU this is only the time to launch the kernel.
    If
    the trace lists the kernels on the GPU, their time is used instead. TensorFlow's own nodes (_SOURCE, _SINK,
    _arg_x_0_0
    for a feed) are left out. A node has an entry for each device.

    Args:
        metadata: a serialised RunMetadata; b'' has no nodes.

    Raises:
        ValueError: `metadata` is not a RunMetadata.
    """
    times: dict[tuple[str, str], int] = defaultdict(int)  # nanoseconds, which add up exactly
    runs: dict[tuple[str, str], int] = defaultdict(int)
    kernels: dict[tuple[str, str], int] = defaultdict(int)
    for device in _step_stats(metadata).dev_stats:
        listed = _KERNELS.search(device.device)
        if listed is not None:
            for kernel in device.node_stats:
                kernels[_node_of(kernel.node_name), listed["device"].upper()] += _nanoseconds(kernel)
        elif not _TRACER.search(device.device):
            for node in device.node_stats:
                if not node.node_name.startswith("_"):
                    times[node.node_name, device.device] += _nanoseconds(node)
                    runs[node.node_name, device.device] += 1
    found = []
    for (name, where), launched in times.items():
        short = _DEVICE.search(where)
        measured = kernels.get((name, short[0].upper()), launched) if short else launched
        found.append(NodeTime(name, where, measured / 1e9, runs[name, where]))
    return sorted(found, key=lambda node: (-node.seconds, node.name, node.device))


def peak_bytes(metadata: bytes) -> dict[str, int]:
    """Returns the largest number of bytes in use at the same time, by 'device/allocator'.

    Feeds, constants and variables do not count, because the run does not allocate them. Times are in microseconds.
    Memory
    that is freed in a microsecond counts as used in it, so the result is an upper bound.

    Args:
        metadata: a serialised RunMetadata.

    Raises:
        ValueError: `metadata` is not a RunMetadata.
    """
    records: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for device in _step_stats(metadata).dev_stats:
        for node in device.node_stats:
            for memory in node.memory:
                records[f"{device.device}/{memory.allocator_name}"] += [
                    (record.alloc_micros, record.alloc_bytes) for record in memory.allocation_records
                ]
    peaks = {}
    for place, changes in records.items():
        live = peak = 0
        for _, change in sorted(changes, key=lambda record: (record[0], -record[1])):
            live += change
            peak = max(peak, live)
        if peak:
            peaks[place] = peak
    return peaks


def _step_stats(metadata: bytes) -> StepStats:
    """Returns the StepStats in `metadata`, without parsing the whole message."""
    stats = StepStats()
    try:
        for field in fields(metadata, 0, len(metadata)):
            if field.number == _STEP_STATS and field.wire_type == LEN:
                stats.MergeFromString(metadata[field.value : field.end])
    except (WireError, decode_error()) as error:
        raise ValueError(f"this is not the metadata of a run: {error}") from error
    return stats


def _nanoseconds(node: NodeExecStats) -> int:
    """Returns the computing time of a kernel; some versions and tracers only have microseconds."""
    nanos = int(node.op_end_rel_nanos - node.op_start_rel_nanos)
    micros = int(node.op_end_rel_micros - node.op_start_rel_micros)
    return max(nanos or 1000 * micros, 0)


def _node_of(annotation: str) -> str:
    """Returns the node that launched a kernel: 'scope/y' for 'scope/y:MatMul#id=7,step=1#'."""
    label = annotation.partition("#")[0]
    return label.rpartition(":")[0] or label
