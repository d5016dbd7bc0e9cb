"""What runs of a graph cost and reach: times, slowest nodes, memory, and the coverage of the feeds.

Traces are serialised RunMetadata (`RunSummary.metadata`), read without TensorFlow. Coverage counts both sides of
comparisons, clips and choices, rows of constant tables, and channels of rectifiers. After neuron coverage (Pei et al.,
DeepXplore, 2017).
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import accumulate, islice
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import Json
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import IDENTITY, IFS, TABLE_INITIALIZERS
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.proof.trial import ORIGINAL, Trial
from gdsurgeon.runtime.protocol import RunSummary
from gdsurgeon.runtime.tensor import Array
from gdsurgeon.wire.fields import LEN, WireError, fields
from gdsurgeon.wire.protos import NodeExecStats, StepStats, decode_error

MOST_RUNS = 15
LONGEST_MEASURING = 4.0
"""The seconds for all graphs together."""
MOST_NODES = 10


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


def profiles(trial: Trial, runs: Sequence[str]) -> list[Profile]:
    """Returns a profile of each of `runs`, on its feeds in the last sample of `trial`. Raises Refused.

    The runs alternate, so that a busy machine slows all of them; their order changes from round to round.
    """
    executor, subjects = trial.executor, [trial.subject(run) for run in runs]

    def again(subject: Subject, *, trace: bool = False) -> list[RunSummary]:
        feeds, result = trial.fed[subject.name], f"{subject.key} again"
        found = [executor.run(subject.key, result, feeds, names, trace=trace) for names in subject.plan.groups]
        executor.drop(result)
        return found

    rounds: list[list[float]] = []
    started = time.monotonic()
    while len(rounds) < 3 or (len(rounds) < MOST_RUNS and time.monotonic() - started < LONGEST_MEASURING):
        step = 1 if len(rounds) % 2 else -1
        rounds.append([sum(run.seconds for run in again(subject)) for subject in subjects[::step]][::step])
    out: list[Profile] = []
    for subject, seconds in zip(subjects, zip(*rounds, strict=True), strict=True):
        found = [node for run in again(subject, trace=True) for node in node_times(run.metadata or b"")]
        slowest = nlargest(MOST_NODES, found, key=attrgetter("seconds"))
        out.append(Profile(median(seconds), len(seconds), sum(node.seconds for node in found), tuple(slowest)))
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
    If the trace lists the kernels on the GPU, their time is used instead. TensorFlow's own nodes (_SOURCE, _SINK,
    _arg_x_0_0 for a feed) are left out. A node has an entry for each device.

    Args:
        metadata: a serialised RunMetadata; b'' has no nodes.

    Raises:
        ValueError: `metadata` is not a RunMetadata.
    """
    times: dict[tuple[str, str], list[int]] = defaultdict(list)  # nanoseconds, which add up exactly
    kernels: dict[tuple[str, str], int] = defaultdict(int)
    for device in _step_stats(metadata).dev_stats:
        listed = _KERNELS.search(device.device)
        if listed is not None:
            for kernel in device.node_stats:
                kernels[_node_of(kernel.node_name), listed["device"].upper()] += _nanoseconds(kernel)
        elif not _TRACER.search(device.device):
            for node in device.node_stats:
                if not node.node_name.startswith("_"):
                    times[node.node_name, device.device].append(_nanoseconds(node))
    found = []
    for (name, where), launched in times.items():
        short = _DEVICE.search(where)
        measured = kernels.get((name, short[0].upper() if short else ""), sum(launched))
        found.append(NodeTime(name, where, measured / 1e9, len(launched)))
    return sorted(found, key=lambda node: (-node.seconds, node.name, node.device))


def peak_bytes(metadata: bytes) -> dict[str, int]:
    """Returns the largest number of bytes in use at the same time, by 'device/allocator'.

    Feeds, constants and variables do not count, because the run does not allocate them. Times are in microseconds.
    Memory that is freed in a microsecond counts as used in it, so the result is an upper bound.

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
        ordered = sorted(changes, key=lambda record: (record[0], -record[1]))
        peak = max(accumulate((change for _, change in ordered), initial=0))
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


# -- coverage -------------------------------------------------------------------------------------------------

MOST_PLACES = 256
"""The limit on places of each kind: their tensors are held in memory."""
MOST_KEYS = 1 << 20
"""The limit on elements of the keys of one look-up."""
_RESULT = "coverage"
_SIDES: dict[str, tuple[int | None, tuple[float, ...]]] = {
    **dict.fromkeys("Relu Elu Selu LeakyRelu Abs Sign Softplus".split(), (0, (0.0,))),
    "Relu6": (0, (0.0, 6.0)),
    **dict.fromkeys(
        "Less LessEqual Greater GreaterEqual Equal NotEqual LogicalAnd LogicalOr LogicalNot".split(), (None, (0.5,))
    ),
    **dict.fromkeys(("Select", "SelectV2", "Where", *IFS), (0, (0.5,))),
    **dict.fromkeys(("Switch", "RefSwitch"), (1, (0.5,))),
}
"""For ops with two behaviours, the data input whose elements decide (None: the output decides), and the limits."""
_RECTIFIERS = ("Relu", "Relu6")
_GATHERS = ("Gather", "GatherV2")
_FINDS = ("LookupTableFind", "LookupTableFindV2")


class Place(NamedTuple):
    """A node with two behaviours: one if an element of `tensor` is below `limit`, one if it is above."""

    node: str
    tensor: str
    limit: float


class Lookup(NamedTuple):
    """A look-up in a constant: an embedding, or a table.

    Attributes:
        node: the node that looks up.
        tensor: the requested row numbers or keys.
        rows: the number of rows.
        keys: the tensor of a table's keys; '' for row numbers.
    """

    node: str
    tensor: str
    rows: int
    keys: str


class Coverage(NamedTuple):
    """What one feed reached.

    Attributes:
        sides: for each place whether an element was below its limit, and whether one was above.
        rows: for each look-up the number of different rows that were requested.
        alive: for each rectifier one byte per channel, 1 if an element was above zero.
    """

    sides: dict[Place, tuple[bool, bool]]
    rows: dict[Lookup, int]
    alive: dict[str, bytes]

    @property
    def unreached(self) -> list[str]:
        """One phrase for each place with a side that was not reached: the node and the side."""
        words = {(True, False): "above", (False, True): "below", (False, False): "below or above"}
        return [f"{place.node} {words[sides]} {place.limit:g}" for place, sides in self.sides.items() if sides in words]

    @property
    def channels(self) -> tuple[int, int]:
        """The number of channels above zero, and of all channels."""
        return sum(map(sum, self.alive.values())), sum(map(len, self.alive.values()))

    def as_json(self) -> dict[str, Json]:
        """Returns the coverage as JSON."""
        missing = self.unreached
        alive, channels = self.channels
        return {
            "places": len(self.sides),
            "both_sides": len(self.sides) - len(missing),
            "unreached": missing,
            "rows": {lookup.node: {"there": lookup.rows, "asked": count} for lookup, count in self.rows.items()},
            "channels": {"there": channels, "alive": alive},
            "dead_channels": {node: found.count(0) for node, found in self.alive.items() if 0 in found},
        }


def coverage_of(executor: Executor, graph: Graph, fed: Feeds) -> Coverage:
    """Runs the original on the feeds `fed` and returns what they reached of `graph`.

    Nodes inside functions and loops are not counted.

    Raises:
        Refused: TensorFlow refuses the run.
    """
    found = Coverage({}, {}, {})
    sides, lookups = list(islice(_sides(graph), MOST_PLACES)), list(islice(_lookups(graph), MOST_PLACES))
    rectifiers = {node.name: node.inputs[0] for node in islice(_with_ops(graph, _RECTIFIERS), MOST_PLACES)}
    wanted = [*(place.tensor for place in sides), *(read.name for read in rectifiers.values())]
    wanted += [tensor for lookup in lookups for tensor in (lookup.tensor, lookup.keys) if tensor]
    tensors = plan_with(executor.settings, graph, wanted).only(wanted).fetches
    if not tensors:
        return found
    executor.run(ORIGINAL, _RESULT, fed, tensors)
    statistics = dict(zip(tensors, executor.statistics(_RESULT), strict=True))

    def array(tensor: str) -> Array:
        return executor.tensor(_RESULT, tensors.index(tensor)).numpy()

    for place in sides:
        if place.tensor in statistics:
            low, high = statistics[place.tensor].minimum, statistics[place.tensor].maximum
            found.sides[place] = low is not None and low < place.limit, high is not None and high > place.limit
    for lookup in lookups:
        if {lookup.tensor, lookup.keys or lookup.tensor} <= statistics.keys():
            asked: set[object] = set()
            if statistics[lookup.tensor].count <= MOST_KEYS and lookup.rows <= MOST_KEYS:
                known = array(lookup.keys).flat if lookup.keys else range(lookup.rows)
                asked = set(known).intersection(array(lookup.tensor).flat)
            found.rows[lookup] = len(asked)
    for name, read in rectifiers.items():
        if read.name in statistics:
            values = array(read.name)
            is_read = values.ndim > 1 and values.size and values.dtype.kind == "f"
            channels = 1 if read.node.plain_attr("data_format") == b"NCHW" else values.ndim - 1
            others = tuple(axis for axis in range(values.ndim) if axis != channels)
            found.alive[name] = (values > 0).any(axis=others).tobytes() if is_read else b""
    executor.drop(_RESULT)
    return found


def _with_ops(graph: Graph, ops: Iterable[str]) -> Iterator[Node]:
    top = topology_of(graph)
    return map(top.node, top.with_ops(ops))


def _sides(graph: Graph) -> Iterator[Place]:
    for node in _with_ops(graph, _SIDES):
        slot, limits = _SIDES[node.op]
        yield from (Place(node.name, node.name if slot is None else node.inputs[slot].name, limit) for limit in limits)


def _lookups(graph: Graph) -> Iterator[Lookup]:
    for node in _with_ops(graph, _GATHERS):
        rows = constant_header(_origin(node.inputs[0].node))
        axis = constant(_origin(node.inputs[2].node)) if node.op == "GatherV2" else None
        is_by_rows = node.op == "Gather" or (axis is not None and axis.values == [0])
        if rows is not None and rows.dims and rows.dims[0] > 1 and is_by_rows:
            yield Lookup(node.name, node.inputs[1].name, rows.dims[0], "")
    keys = {
        node.inputs[0].node: node.inputs[1] for node in _with_ops(graph, TABLE_INITIALIZERS) if len(node.inputs) > 2
    }
    for node in _with_ops(graph, _FINDS):
        known = keys.get(node.inputs[0].node)
        found = constant_header(_origin(known.node)) if known is not None else None
        if known is not None and found is not None and found.elements > 0:
            yield Lookup(node.name, node.inputs[1].name, found.elements, known.name)


def _origin(node: Node) -> Node:
    """Returns the node whose value `node` forwards, or `node` itself."""
    while node.op in IDENTITY:
        node = node.inputs[0].node
    return node
