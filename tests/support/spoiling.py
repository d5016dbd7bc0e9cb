"""Wrong edits: undeclared changes of the graph after the edit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.wire.write import read_chunks
from support.graphs import Builder, tensor

Edit = Callable[[Graph], EditResult]
Spoil = Callable[[Graph, EditResult], None]


def proven(executor: Executor, m: Builder, edit: Edit, overrides: Overrides | None = None) -> Proof:
    """The proof of EDIT on M, in a process that many tests share."""
    graph = m.graph("model.pb")
    executor.load_graph(ORIGINAL, graph)
    result = edit(graph)
    result.asked = None  # the test checks the claims and the intent only
    chunks = graph.chunks()
    executor.load(EDITED, read_chunks(chunks))
    proof = prove(executor, Change(graph.pristine(), graph, result), overrides or Overrides())
    check_accounted(graph, result, chunks)
    return proof


def caught(executor: Executor, m: Builder, edit: Edit, overrides: Overrides | None = None) -> GdsurgeonError:
    """The error with which the proof ends."""
    with pytest.raises(GdsurgeonError) as error:
        proven(executor, m, edit, overrides)
    return error.value


def claiming(edit: Edit, kind: type[Any], **changes: Any) -> Edit:
    """EDIT, with CHANGES of its claims of this KIND."""

    def claimed(graph: Graph) -> EditResult:
        result = edit(graph)
        result.claims = tuple(replace(c, **changes) if isinstance(c, kind) else c for c in result.claims)
        return result

    return claimed


def spoilt(edit: Edit, *spoils: Spoil) -> Edit:
    """EDIT, with SPOILS done to the graph behind its back."""

    def wrong(graph: Graph) -> EditResult:
        result = edit(graph)
        for spoil in spoils:
            spoil(graph, result)
        return result

    return wrong


def exchanged(name: str, a: int = 0, b: int = 1) -> Spoil:
    """Node NAME reads at input A what it read at B."""

    def spoil(graph: Graph, _: EditResult) -> None:
        inputs = list(graph[name].inputs)
        inputs[a], inputs[b] = inputs[b], inputs[a]
        graph.set_inputs(graph[name], inputs)

    return spoil


def reads(name: str, slot: int, other: str) -> Spoil:
    """Node NAME reads OTHER."""

    def spoil(graph: Graph, _: EditResult) -> None:
        assert graph[name].inputs[slot] != graph.tensor(other)
        graph.set_slots({graph[name]: {slot: graph.tensor(other)}})

    return spoil


def value(name: str, new: object, dtype: str = "float32") -> Spoil:
    """The constant NAME gets a different value."""

    def spoil(graph: Graph, _: EditResult) -> None:
        graph.set_attr(graph[name], "value", tensor(new, dtype))

    return spoil


def said(name: str) -> Spoil:
    """The intent declares the node as changed: only its value can show the mistake."""

    def spoil(_: Graph, result: EditResult) -> None:
        result.intent.changed.append(name)

    return spoil


def without_controls(name: str) -> Spoil:
    """Node NAME waits for nothing."""

    def spoil(graph: Graph, _: EditResult) -> None:
        assert graph[name].controls
        graph.set_controls(graph[name], [])

    return spoil
