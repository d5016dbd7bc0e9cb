"""Clones scopes of small graphs, and looks at what that gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from support import graphs
from support.graphs import (
    FLOAT,
    INT32,
    X,
    add,
    const,
    graph,
    graph_bytes,
    identity,
    neg,
    node,
    placeholder,
    scalar,
    typed,
)


def cloned(records: Sequence[bytes], source: str = "s", target: str = "t", **options: Any) -> tuple[Graph, EditResult]:
    """The graph with the clone after the existing nodes, which must not have changed by a byte."""
    found = graph(*records)
    result = clone_scope(found, source, target, **options)
    data = graphs.written(found)
    before, after = graphs.bodies(graph_bytes(*records)), graphs.bodies(data)
    assert after[: len(before)] == before
    assert [n.name for n in graphs.parsed(data).node][len(before) :] == result.intent.added
    assert check(from_bytes(data)).faults == []
    return found, result


def layer(scope: str, source: str, *, weights: Sequence[float] = (2, 3)) -> list[bytes]:
    """source * w + b"""
    return [
        const(f"{scope}/w", weights),
        typed("Mul", f"{scope}/mul", source, f"{scope}/w"),
        const(f"{scope}/b", [1, 1]),
        add(f"{scope}/add", f"{scope}/mul", f"{scope}/b"),
    ]


MODEL = [X, placeholder("z", FLOAT, (2,)), *layer("s", "x"), neg("y", "s/add")]


def table(scope: str, shared_name: str, init: str) -> list[bytes]:
    """A table, what fills it (INIT, with its own keys and values), and what looks it up."""
    return [
        node(f"{scope}/table", "HashTableV2", key_dtype=INT32, value_dtype=FLOAT, shared_name=shared_name),
        const(f"{init}/keys", [1, 2], INT32), const(f"{init}/values", [5, 6]),
        node(f"{init}/fill", "LookupTableImportV2", [f"{scope}/table", f"{init}/keys", f"{init}/values"], Tin=INT32,
             Tout=FLOAT),
        scalar(f"{scope}/default", -1),
        node(f"{scope}/find", "LookupTableFindV2", [f"{scope}/table", "k", f"{scope}/default"], Tin=INT32, Tout=FLOAT),
    ]  # fmt: skip


KEYS = placeholder("k", INT32, (2,))


def variable(scope: str, init: str, *, resource: bool = False) -> list[bytes]:
    """A variable with its initial value (twice 3 and 4) under INIT, and what reads it."""
    value = [const(f"{init}/value", [3, 4]), add(f"{init}/twice", f"{init}/value", f"{init}/value")]
    if resource:
        return [
            node(f"{scope}/v", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name=f"{scope}/v"),
            *value,
            node(f"{init}/Assign", "AssignVariableOp", [f"{scope}/v", f"{init}/twice"], dtype=FLOAT),
            node(f"{scope}/read", "ReadVariableOp", [f"{scope}/v"], dtype=FLOAT),
            typed("Mul", f"{scope}/mul", "x", f"{scope}/read"),
        ]
    return [
        node(f"{scope}/v", "VariableV2", dtype=FLOAT, shape=(2,), shared_name="", container=""),
        *value,
        typed("Assign", f"{init}/Assign", f"{scope}/v", f"{init}/twice", _class=[f"loc:@{scope}/v"]),
        identity(f"{scope}/read", f"{scope}/v", _class=[f"loc:@{scope}/v"]),
        typed("Mul", f"{scope}/mul", "x", f"{scope}/read"),
    ]


def texts(found: Graph, name: str) -> list[object]:
    """The values of a constant."""
    held = constant(found[name])
    assert held is not None
    return list(held.values)
