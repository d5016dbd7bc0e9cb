"""Feeds that are made for the inputs of small graphs, and what the graphs give for them."""

from __future__ import annotations

from gdsurgeon.feeds.input_spec import InputSpec, input_seed, input_spec, make_feed
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.subject import Subject
from gdsurgeon.runtime.tensor import Tensor
from support.graphs import Builder


def identity(dtype: str, shape: tuple[int, ...] | None = (2, 3)) -> Builder:
    m = Builder()
    m.placeholder("x", dtype, shape)
    m.node("y", "Identity", ["x"], T=dtype)
    return m


def spec_of(graph: Graph, name: str = "x") -> InputSpec:
    return input_spec(graph[name])


def feed_of(m: Builder, seed: int = 0, name: str = "x", *, sample: int = 0) -> Tensor:
    spec = spec_of(m.graph(), name)
    feed = make_feed(spec, spec.shapes[0], input_seed(seed, name), wide=sample % 2 == 1, sample=sample)
    assert isinstance(feed, Tensor)
    return feed


def returned(executor: Executor, m: Builder, overrides: Overrides | None = None, sample: int = 0) -> dict[str, Tensor]:
    """What the graph gives for the feeds that are made for it."""
    executor.load_bytes("fed", m.bytes())
    executor.loaded("fed")
    subject = Subject(executor, "fed", m.graph(), overrides=overrides or Overrides())
    subject.initialize()
    _, runs = subject.start(sample, {})
    for run in runs:
        executor.wait(run)
    return {
        name: executor.tensor(subject.result(sample, group), i)
        for group, names in enumerate(subject.plan.groups)
        for i, name in enumerate(names)
    }
