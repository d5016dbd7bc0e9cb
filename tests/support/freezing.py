"""Freezes inputs of small graphs, and looks at what that gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.analysis.checks.check import check, check_edited
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.errors import EditError
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.messages import message
from support import graphs
from support.expecting import refuse
from support.graphs import (
    graph,
    identity,
    node,
    placeholder,
)


def not_frozen(found: Graph, values: dict[str, Any], words: str) -> EditError:
    """The error of a freeze, after which the graph is as it was."""
    error: EditError = refuse(found, words, lambda g: freeze_input(g, values))
    assert not found.is_changed
    return error


def frozen(kind: bytes, shape: tuple[int, ...] | None, value: Any) -> Graph:
    """A graph in which `p`, a placeholder of KIND and SHAPE, is VALUE."""
    found = graph(placeholder("p", kind, shape), identity("y", "p", kind=kind))
    freeze_input(found, {"p": value})
    assert check(from_bytes(graphs.written(found))).faults == []
    assert check_edited(found) == []
    return found


def value_of(found: Graph, name: str = "p") -> Any:
    """The value of a constant in the graph as it would be read again: (shape, elements)."""
    read = constant(from_bytes(graphs.written(found))[name])
    assert read is not None
    return read.shape, read.values


def constant_of(name: str, kind: bytes, shape: Sequence[int], **elements: Sequence[Any]) -> bytes:
    """A constant of typed ELEMENTS, such as float_val, as a frozen input has them."""
    dims = message("tensorflow.TensorShapeProto").FromString(graphs.shape_proto(shape))
    value = message("tensorflow.TensorProto")(dtype=kind[1], tensor_shape=dims, **elements)
    return node(name, "Const", dtype=kind, value=graphs.encode_len(8, value.SerializeToString()))
