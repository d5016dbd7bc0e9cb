"""The peak of the memory out of the metadata of traced runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.graphs import Builder
from support.patience import LONG_ENOUGH
from support.workers import lent_worker

from gdsurgeon.proof.models.trace import peak_bytes
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.messages import message

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
WAIT = LONG_ENOUGH


@pytest.fixture(scope="module", params=["capi", "python"])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    with lent_worker(runtime=request.param) as started:
        yield started


def traced(worker: Worker, data: bytes, size: int, *fetches: str) -> bytes:
    """The metadata of a run of DATA, whose x is a matrix of SIZE x SIZE; not the first run, which sets things up."""
    worker.load("g", data=data)
    x = from_numpy(np.ones((size, size), np.float32))
    for trace in (False, True):
        summary = worker.run("g", "r", {"x": x}, fetches, trace=trace).result(WAIT)
    assert summary.metadata is not None
    return summary.metadata


# --- of TensorFlow's making ----------------------------------------------------------------------------


def chain(length: int) -> bytes:
    """LENGTH products by x, each of the one before: no kernel can write into its input."""
    builder = Builder()
    last = builder.placeholder("x", shape=[-1, -1])
    for k in range(length):
        last = builder.node(f"n{k}", "MatMul", [last, "x"], T="float32")
    builder.node("y", "L2Loss", [last], T="float32")
    return builder.bytes()


def fan(width: int) -> bytes:
    """WIDTH products of x and itself, which the sum of them all needs at once."""
    builder = Builder()
    builder.placeholder("x", shape=[-1, -1])
    made = [builder.node(f"n{k}", "MatMul", ["x", "x"], T="float32") for k in range(width)]
    builder.node("y", "AddN", made, T="float32", N=width)
    return builder.bytes()


@pytest.mark.tensorflow
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
    stats = message("tensorflow.StepStats")()
    for name, nodes in devices:
        stats.dev_stats.add(device=name).node_stats.extend(nodes)
    return bytes(encode_len(1, stats.SerializeToString()))


def allocated(name: str, **allocators: list[tuple[int, int]]) -> Any:
    stats = message("tensorflow.NodeExecStats")(node_name=name)
    for allocator, records in allocators.items():
        memory = stats.memory.add(allocator_name=allocator)
        for micros, size in records:
            memory.allocation_records.add(alloc_micros=micros, alloc_bytes=size)
    return stats


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
    part = metadata((CPU, [allocated("a", cpu=[(1, 10)])]))
    data = encode_len(2, b"\xff\xff") + part + b"\x28\x07" + metadata((CPU, [allocated("a", cpu=[(2, 20)])]))
    assert peak_bytes(data) == {f"{CPU}/cpu": 30}


def test_empty_and_broken() -> None:
    assert peak_bytes(b"") == {} and peak_bytes(metadata((CPU, [allocated("a")]))) == {}
    for data in (b"\x0a\x05\x01", encode_len(1, b"\x0a\x7f")):
        with pytest.raises(ValueError, match=r"^not the metadata of a run"):
            peak_bytes(data)
