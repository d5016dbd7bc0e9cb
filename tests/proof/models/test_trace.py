"""Times and memory out of the metadata of traced runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.graphs import graph_bytes, placeholder, typed
from support.patience import LONG_ENOUGH
from support.workers import lent_worker

from gdsurgeon.proof.cost import NodeTime, node_times, peak_bytes
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import NodeExecStats, StepStats

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
WAIT = LONG_ENOUGH


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with lent_worker() as started:
        yield started


def traced(worker: Worker, data: bytes, size: int, *fetches: str) -> bytes:
    """The metadata of a run of DATA, whose x is a matrix of SIZE x SIZE; not the first run, which sets things up."""
    worker.load("g", data)
    x = from_numpy(np.ones((size, size), np.float32))
    for trace in (False, True):
        summary = worker.run("g", "r", {"x": x}, fetches, trace=trace).result(WAIT)
    assert summary.metadata is not None
    return summary.metadata


# --- of TensorFlow's making ----------------------------------------------------------------------------


def test_the_expensive_node_is_the_slowest(worker: Worker) -> None:
    negative, product = typed("Neg", "before/negative", "x"), typed("MatMul", "product", "before/negative", "x")
    ends = typed("Abs", "after", "product"), typed("Abs", "idle", "x")
    data = graph_bytes(placeholder("x", shape=(-1, -1)), negative, product, *ends)
    least: dict[str, float] = {}  # a node may have to wait for others than those of the graph, but not in each run
    for _ in range(3):
        found = node_times(traced(worker, data, 1200, "after"))
        assert sorted(entry.name for entry in found) == ["after", "before/negative", "product"]
        assert all(entry.device == CPU and entry.runs == 1 and entry.seconds > 0 for entry in found)
        assert [entry.seconds for entry in found] == sorted((entry.seconds for entry in found), reverse=True)
        least |= {entry.name: min(entry.seconds, least.get(entry.name, entry.seconds)) for entry in found}
    assert max(least, key=least.__getitem__) == "product"


def chain(length: int) -> bytes:
    """LENGTH products by x, each of the one before: no kernel can write into its input."""
    names = ["x", *(f"n{k}" for k in range(length))]
    products = (typed("MatMul", name, last, "x") for last, name in pairwise(names))
    return graph_bytes(placeholder("x", shape=(-1, -1)), *products, typed("L2Loss", "y", names[-1]))


def fan(width: int) -> bytes:
    """WIDTH products of x and itself, which the sum of them all needs at once."""
    names = [f"n{k}" for k in range(width)]
    products = (typed("MatMul", name, "x", "x") for name in names)
    return graph_bytes(placeholder("x", shape=(-1, -1)), *products, typed("AddN", "y", *names, N=width))


def test_peak_of_tensors_of_known_size(worker: Worker) -> None:
    """In a chain a tensor and the one made of it are there at once; side by side all of them are."""
    size = 256
    tensor = 4 * size * size
    for data, tensors in ((chain(6), 2), (fan(6), 6)):
        [(place, peak)] = peak_bytes(traced(worker, data, size, "y")).items()
        assert place.startswith(CPU + "/")
        assert tensors * tensor <= peak < (tensors + 1.5) * tensor


# --- made by hand --------------------------------------------------------------------------------------


def metadata(*devices: tuple[str, list[Any]]) -> bytes:
    stats = StepStats()
    for name, nodes in devices:
        stats.dev_stats.add(device=name).node_stats.extend(nodes)
    return bytes(encode_len(1, stats.SerializeToString()))


def took(name: str, nanos: int = 0, *, start: int = 0, micros: int = 0) -> Any:
    return NodeExecStats(
        node_name=name,
        op_start_rel_nanos=start,
        op_end_rel_nanos=start + nanos,
        op_end_rel_micros=micros or nanos // 1000,
        all_end_rel_nanos=10**12,
    )


def allocated(name: str, **allocators: list[tuple[int, int]]) -> Any:
    stats = took(name)
    for allocator, records in allocators.items():
        memory = stats.memory.add(allocator_name=allocator)
        for micros, size in records:
            memory.allocation_records.add(alloc_micros=micros, alloc_bytes=size)
    return stats


def test_runs_of_a_node_add_up_and_tensorflows_own_nodes_are_left_out() -> None:
    data = metadata(
        (CPU, [took("_SOURCE", 9000), took("b", 1000, start=500), took("a", 2000), took("_SINK", 9000)]),
        (CPU, [took("b", 4000), took("_arg_x_0_0", 9000), took("c", 2000), took("_retval_a_0_0", 9000)]),
        ("/job:worker/replica:0/task:1/device:CPU:0", [took("b", 1000)]),
    )
    assert node_times(data) == [
        NodeTime("b", CPU, 5e-6, 2),
        NodeTime("a", CPU, 2e-6, 1),
        NodeTime("c", CPU, 2e-6, 1),
        NodeTime("b", "/job:worker/replica:0/task:1/device:CPU:0", 1e-6, 1),
    ]


def test_microseconds_stand_in_where_there_are_no_nanoseconds() -> None:
    assert node_times(metadata((CPU, [took("a", micros=3)]))) == [NodeTime("a", CPU, 3e-6, 1)]


@pytest.mark.parametrize("prefix", ["", "/job:localhost/replica:0/task:0"])
def test_kernels_on_a_gpu_count_once_and_instead_of_their_launch(prefix: str) -> None:
    kernels = [took("scope/m:MatMul", micros=40), took("scope/m:MatMul#id=7,step=2#", micros=60), took("none:Op", 9000)]
    data = metadata(
        (f"{prefix}/device:GPU:0/stream:14", kernels),
        (f"{prefix}/device:GPU:0/stream:all", kernels),
        (f"{prefix}/device:GPU:0/memcpy", [took("launched", 10**6)]),
        (f"{prefix}/device:GPU:1/stream:all", [took("launched:Op", 10**6)]),
        (GPU, [took("scope/m", 5000), took("launched", 6000)]),
        (CPU, [took("scope/m", 7000)]),
        ("/host:CPU", [took("launched", 10**6)]),
    )
    assert node_times(data) == [
        NodeTime("scope/m", GPU, 1e-4, 1),
        NodeTime("scope/m", CPU, 7e-6, 1),
        NodeTime("launched", GPU, 6e-6, 1),
    ]


def test_peak_is_that_of_the_running_sum_by_device_and_allocator() -> None:
    data = metadata(
        (CPU, [allocated("late", cpu=[(30, 50), (40, -50)]), allocated("early", cpu=[(10, 100), (20, -100)])]),
        (CPU, [allocated("between", cpu=[(15, 7)]), allocated("small", other=[(1, 5), (2, -5), (3, 4)])]),
        (GPU, [allocated("early", cpu=[(10, 3)], nothing=[])]),
    )
    assert peak_bytes(data) == {f"{CPU}/cpu": 107, f"{CPU}/other": 5, f"{GPU}/cpu": 3}


def test_within_a_microsecond_what_is_freed_is_still_there() -> None:
    data = metadata((CPU, [allocated("a", cpu=[(1, 10), (2, -10)]), allocated("b", cpu=[(2, 20)])]))
    assert peak_bytes(data) == {f"{CPU}/cpu": 30}


def test_other_fields_and_several_parts() -> None:
    part = metadata((CPU, [took("a", 1000)]))
    data = encode_len(2, b"\xff\xff") + part + b"\x28\x07" + metadata((CPU, [took("a", 2000)]))
    assert node_times(data) == [NodeTime("a", CPU, 3e-6, 2)]


def test_empty_and_broken() -> None:
    assert node_times(b"") == [] and peak_bytes(b"") == {}
    assert peak_bytes(metadata((CPU, [took("a", 1)]))) == {}
    for data in (b"\x0a\x05\x01", encode_len(1, b"\x0a\x7f")):
        for reader in (node_times, peak_bytes):
            with pytest.raises(ValueError, match=r"^this is not the metadata of a run"):
                reader(data)
