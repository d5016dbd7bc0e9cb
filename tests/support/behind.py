"""Graphs of steps behind outputs of small models, and what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdsurgeon.graph.graph import Graph
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.steps import postprocessing
from support.graphs import Builder, identity, placeholder, typed
from support.running import run
from support.stepping import Array, refusal_of

Shape = Sequence[int] | None


def model(dtype: str = "float32", shape: Shape = (-1, 10), boxes: Shape = None, op: str = "Identity") -> Graph:
    """A model whose output `y` is SHAPE of DTYPE, given by OP; and another output `boxes` where that has a shape."""
    more = [] if boxes is None else [placeholder("z", "float32", boxes), identity("boxes", "z")]
    return Builder(placeholder("x", dtype, shape), typed(op, "y", "x", kind=dtype), *more).graph("model.pb")


def behind(steps: str, *model_: Any, **more: Any) -> Graph:
    """Returns such a model with `steps` after the output `y`."""
    return postprocessing(steps, model(*model_, **more), output="y")


def refusal(steps: str, *model: Any, **more: Any) -> str:
    """Returns the error for `steps` after the output of such a model, one line."""
    return refusal_of(lambda: behind(steps, *model, **more))


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
