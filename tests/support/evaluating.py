"""Evaluations of constants, for edits that fold them: by a few lines of NumPy, or by TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.executor import Refused
from gdsurgeon.runtime.tensor import Tensor, from_numpy
from support import graphs
from support.running import run

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "AddV2": np.add,
    "Fill": np.full,
    "Mul": np.multiply,
    "Neg": np.negative,
    "RealDiv": np.divide,
    "Reshape": np.reshape,
    "Sub": np.subtract,
    "Tile": np.tile,
    "Transpose": np.transpose,
}


class Evaluations:
    """Computes a few ops; it says what it was asked for.

    Attributes:
        asked: the names, for each time.
        nodes: all nodes of what it was given.
    """

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.nodes: set[str] = set()

    def __call__(self, data: bytes, names: Sequence[str]) -> Mapping[str, Tensor]:
        self.asked.append(list(names))
        values: dict[str, Any] = {}
        nodes = {node.name: node for node in graphs.parsed(data).node}
        self.nodes |= nodes.keys()

        def value(name: str) -> Any:
            node = nodes[name]
            if node.op == "Const" and name not in values:
                values[name] = array(from_bytes(data)[name])
            elif name not in values:
                values[name] = _FUNCTIONS[node.op](*map(value, node.input))
            return values[name]

        return {name: from_numpy(value(name)) for name in names if nodes[name].op in _FUNCTIONS}


def array(node: Any) -> Any:
    """The value of a small Const as an array."""
    from gdsurgeon.graph.constants import constant
    from gdsurgeon.ops.elements import numpy_dtype

    found = constant(node)
    assert found is not None, node
    return np.array(found.values, numpy_dtype(found.dtype)).reshape(found.shape)


def by_tensorflow(data: bytes, names: Sequence[str]) -> Mapping[str, Tensor]:
    """Returns the values of NAMES in TensorFlow; an empty list if one of them does not run."""
    with run.session(data) as (executor, key):
        try:
            executor.run(key, "constants", {}, names)
        except Refused:
            return {}
        return {name: executor.tensor("constants", at) for at, name in enumerate(names)}
