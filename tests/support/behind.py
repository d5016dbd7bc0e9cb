"""Graphs of steps behind outputs of small models, and what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.steps import postprocessing
from support.graphs import Builder
from support.running import run
from support.stepping import Array

Shape = Sequence[int] | None


def model(dtype: str = "float32", shape: Shape = (-1, 10), boxes: Shape = None, op: str = "Identity") -> Graph:
    """A model whose output `y` is SHAPE of DTYPE, given by OP; and another output `boxes` where that has a shape."""
    m = Builder()
    m.placeholder("x", dtype, shape)
    m.typed(op, "y", "x", kind=dtype)
    if boxes is not None:
        m.placeholder("z", "float32", boxes)
        m.typed("Identity", "boxes", "z")
    return m.graph("model.pb")


def behind(
    steps: str, dtype: str = "float32", shape: Shape = (-1, 10), boxes: Shape = None, op: str = "Identity"
) -> Graph:
    """STEPS behind the output `y` of such a model."""
    return postprocessing(steps, model(dtype, shape, boxes, op), output="y")


def refusal(
    steps: str, dtype: str = "float32", shape: Shape = (-1, 10), boxes: Shape = None, op: str = "Identity"
) -> str:
    """Returns the error for STEPS, one line."""
    try:
        behind(steps, dtype, shape, boxes, op)
    except GdsurgeonError as error:
        assert "\n" not in error.message
        return error.message
    raise AssertionError(f"{steps} is not refused")


def results(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, Array]:
    """Returns the outputs of GRAPH by name."""
    names = [node.name for node in graph.nodes() if node.op == "Identity" and "/" not in node.name]
    with run.session(graph) as (executor, key):
        given = {name: from_numpy(np.asarray(value)) for name, value in feeds.items()}
        executor.wait(executor._worker.run(key, "out", given, names, []))
        return {name: executor.tensor("out", place).numpy() for place, name in enumerate(names)}


def made(steps: str, value: Array, shape: Shape = None) -> dict[str, Array]:
    """The results of STEPS for VALUE after a model whose output has its type, and SHAPE, or its own shape."""
    return results(behind(steps, str(value.dtype), value.shape if shape is None else shape), {"y": value})
