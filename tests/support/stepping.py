"""Graphs of steps: built in front of small models, and run."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gdsurgeon as gds
from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.ops.elements import numpy_dtype
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.steps import preprocessing
from gdsurgeon.steps.build import Chain, begin, finish
from gdsurgeon.steps.catalog import read_steps
from gdsurgeon.steps.value import Value, parse_input
from gdsurgeon.wire.write import read_chunks
from support.graphs import Builder, identity, placeholder
from support.running import run

Array = npt.NDArray[Any]

NHWC = (-1, 8, 6, 3)


def model(dtype: str = "float32", shape: Sequence[int] | None = NHWC) -> Graph:
    """A model whose input `x` takes SHAPE of DTYPE, and whose output is `y`."""
    x = placeholder("x", dtype, None if shape is None else tuple(shape))
    return Builder(x, identity("y", "x", kind=dtype)).graph("model.pb")


def built(
    steps: str | Sequence[str], dtype: str = "float32", shape: Sequence[int] | None = NHWC, *, raw: str = ""
) -> Graph:
    """STEPS in front of a model that takes SHAPE of DTYPE."""
    return preprocessing(steps, model(dtype, shape), raw=raw)


def refusal(steps: str, *model: Any, **more: Any) -> str:
    """Returns the error for `steps` before such a model, one line."""
    return refusal_of(lambda: built(steps, *model, **more))


def refusal_of(build: Callable[[], object]) -> str:
    """Returns the error of a function, one line."""
    with pytest.raises(GdsurgeonError) as caught:
        build()
    assert "\n" not in caught.value.message
    return caught.value.message


def png(pixels: Array) -> bytes:
    """An RGB image of uint8 as a PNG."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # each row without a filter
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    out = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        out += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return out


def wav(samples: Array, rate: int = 8000) -> bytes:
    """A WAV file of 16 bits; SAMPLES has a column for each channel."""
    data = samples.astype("<i2").tobytes()
    channels = samples.shape[1]
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def ops(graph: Graph) -> list[str]:
    """Returns the ops of GRAPH, without constants."""
    return [node.op for node in graph.nodes() if node.op != "Const"]


def execute(graph: Graph, value: Any, fetch: str = "x_preprocessed") -> Array:
    """Returns the result of GRAPH for VALUE at its placeholder `x`; texts are bytes, or lists of bytes."""
    array = np.asarray(value, object) if isinstance(value, (bytes, list)) else np.asarray(value)
    with run.session(graph) as (executor, key):
        executor.wait(executor._worker.run(key, "out", {"x": from_numpy(array)}, [fetch], []))
        found: Array = executor.tensor("out", 0).numpy()
    return found


def made(steps: str, value: Any, dtype: str, shape: Sequence[int] | None, *, raw: str = "") -> Array:
    """Returns the result of STEPS for VALUE, for a model with SHAPE and DTYPE; checks its dtype and shape."""
    out = execute(built(steps, dtype, shape, raw=raw), value)
    assert out.dtype == numpy_dtype(NUMBERS[dtype])
    assert shape is None or compatible(out.shape, tuple(shape))
    return out


def typed(steps: str, raw: str) -> tuple[Graph, Value]:
    """STEPS on a value RAW at `x`, in front of nothing, and what the builder says of what they make of it."""
    chain = Chain(read_steps(steps))
    build, value = begin("x", "_preprocessed", parse_input(raw), is_declared=True)
    value = chain.apply(build, value)
    return finish(build, value, "x_preprocessed"), value


def check_as_said(found: Array, value: Value) -> None:
    """FOUND is of the type, the shape and the bounds of VALUE."""
    assert found.dtype == numpy_dtype(value.dtype)
    assert compatible(found.shape, value.shape)
    if found.size and found.dtype.kind not in "bO":
        near = 1e-2 if found.dtype == np.float16 else 1e-5
        slack = near * (1 + np.abs(found).max().astype(np.float64))
        assert value.low - slack <= found.min() and found.max() <= value.high + slack


def joined(graphs: list[Graph]) -> Graph:
    """GRAPHS as one: protobuf joins repeated fields."""
    return gds.from_bytes(b"".join(read_chunks(graph.chunks()) for graph in graphs), "steps.pb")
