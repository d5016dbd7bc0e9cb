"""Feeds that are made for the inputs of small graphs, and what the graphs give for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdsurgeon.feeds.input_spec import InputSpec, description, input_spec, make_feed
from gdsurgeon.feeds.numbers import input_seed
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import Subject
from gdsurgeon.runtime.tensor import Tensor
from support.graphs import Builder, node, placeholder, typed

SAMPLES = (0, 1)


def identity(dtype: str, shape: tuple[int, ...] | None = (2, 3)) -> Builder:
    return Builder(placeholder("x", dtype, shape), typed("Identity", "y", "x", kind=dtype))


def gather(name: str, table: str, index: str, axis: str = "axis", kind: str = "int32") -> bytes:
    """Rows of TABLE: the record of a node."""
    return node(name, "GatherV2", [table, index, axis], Tparams="float32", Tindices=kind, Taxis="int32")


def spec_of(graph: Graph, name: str = "x") -> InputSpec:
    return input_spec(graph[name])


def feed_of(m: Builder, seed: int = 0, name: str = "x", *, sample: int = 0) -> Tensor:
    spec = spec_of(m.graph(), name)
    feed = make_feed(spec, spec.shapes[0], input_seed(seed, name), wide=sample % 2 == 1, sample=sample)
    assert isinstance(feed, Tensor)
    return feed


def subject_of(executor: Executor, m: Builder, overrides: Overrides | None = None) -> Subject:
    """The graph, loaded."""
    executor.load("fed", m.bytes())
    executor.loaded("fed")
    return Subject(executor, "fed", graph := m.graph(), plan_with(executor.settings, graph), overrides or Overrides())


def returned(executor: Executor, m: Builder, overrides: Overrides | None = None, sample: int = 0) -> dict[str, Tensor]:
    """The outputs of the graph for generated feeds."""
    subject = subject_of(executor, m, overrides)
    subject.initialize()
    subject.run(sample, {})
    return {
        name: executor.tensor(subject.result(sample, group), i)
        for group, names in enumerate(subject.plan.groups)
        for i, name in enumerate(names)
    }


def made(m: Builder, name: str = "x") -> str:
    return description(spec_of(m.graph(), name))


def values(m: Builder, sample: int = 0, name: str = "x") -> Any:
    return feed_of(m, sample, name, sample=sample).numpy().astype(np.float64)


def fed(executor: Executor, m: Builder, name: str, sample: int = 0) -> Any:
    """A tensor of the graph, as it is when the graph runs on what is made for it."""
    return returned(executor, m, sample=sample)[name].numpy()
