"""What is fed to small graphs, and the numbers that arrive."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdsurgeon.feeds.input_spec import description
from gdsurgeon.proof.executor import Executor
from support.feeding import feed_of, returned, spec_of
from support.graphs import Builder

SAMPLES = (0, 1)


CALL: dict[str, Any] = {"config": "", "config_proto": "", "executor_type": ""}


def made(m: Builder, name: str = "x") -> str:
    return description(spec_of(m.graph(), name))


def values(m: Builder, sample: int = 0, name: str = "x") -> Any:
    return feed_of(m, sample, name, sample=sample).numpy().astype(np.float64)


def fed(executor: Executor, m: Builder, name: str, sample: int = 0) -> Any:
    """A tensor of the graph, as it is when the graph runs on what is made for it."""
    return returned(executor, m, sample=sample)[name].numpy()
