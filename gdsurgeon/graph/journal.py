"""What is different about a graph, by its own account: what its primitives have changed, whoever called them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import COLOCATION_ATTR
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node

Value = str | bytes | tuple[str, ...] | None
"""A text, a serialised AttrValue, names of tensors or nodes; None: it is not there."""


class Rewired(NamedTuple):
    """An input slot that reads another tensor than before (`slot` counts the data inputs from 0)."""

    node: str
    slot: int
    old: str
    new: str


@dataclass
class FunctionChanges:
    """Names of library functions."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@dataclass
class Journal:
    """What is different about a graph from what its file says.

    Attributes:
        renamed: names before, and now.
        added, removed: names of nodes; a name is among both where another node has it now.
        rewired: slots that read another tensor, and not only under another name.
        altered: for nodes of the file (names now) what else is different, and what it was and is: ``op``, ``device``,
            ``inputs`` (where there are more or fewer), ``controls``, ``colocated``, ``attr`` and a key.
        functions: of the library.
    """

    renamed: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rewired: list[Rewired] = field(default_factory=list)
    altered: dict[str, dict[str, tuple[Value, Value]]] = field(default_factory=dict)
    functions: FunctionChanges = field(default_factory=lambda: FunctionChanges())


def journal_of(graph: Graph) -> Journal:
    """What is different about GRAPH; in the time that it takes to look at the nodes that were touched."""
    before = graph.pristine()
    gone = [node.base_name for node in graph.removed() if node.base_name is not None]
    out = Journal(removed=gone, functions=_function_changes(before, graph))
    missing = frozenset(gone)
    for node in graph.touched():
        if node.base_name is None:
            out.added.append(node.name)
            continue
        if node.name != node.base_name:
            out.renamed[node.base_name] = node.name
        old = before[node.base_name]
        out.rewired += _rewired(graph, old, node)
        altered = {what: (was, now) for what, was, now in _compared(graph, old, node, missing) if was != now}
        if altered:
            out.altered[node.name] = altered
    return out


def _rewired(graph: Graph, old: Node, new: Node) -> Iterator[Rewired]:
    if new.has_resolved_inputs and len(old.inputs) == len(new.inputs):
        for slot, (was, now) in enumerate(zip(old.inputs, new.inputs, strict=True)):
            before = format_input(graph.spell_base_name(was.node.name), was.index)
            if before != now.name:
                yield Rewired(new.name, slot, before, now.name)


def _compared(graph: Graph, old: Node, new: Node, gone: frozenset[str]) -> Iterator[tuple[str, Value, Value]]:
    """What may be different, what it was in the names that there are now, and what it is; GONE are names before."""
    yield "op", old.op, new.op
    yield "device", old.device, new.device
    if new.has_resolved_inputs:
        if len(old.inputs) != len(new.inputs):
            spelt = (format_input(graph.spell_base_name(read.node.name), read.index) for read in old.inputs)
            yield "inputs", tuple(spelt), tuple(read.name for read in new.inputs)
        yield "controls", _names(graph, old.controls), tuple(sorted(c.name for c in new.controls))
    for key in new.changed_attrs:
        if key != COLOCATION_ATTR:
            yield f"attr {key}", old.attr_bytes(key), new.attr_bytes(key)
    if new.has_resolved_colocations:
        # A colocation with what is gone, or never was there, is given up.
        kept = tuple(other for other in old.colocated if other.exists and other.name not in gone)
        now = tuple(sorted(other.name for other in new.colocated if other.name not in gone))
        yield "colocated", _names(graph, kept), now


def _names(graph: Graph, nodes: tuple[Node, ...]) -> tuple[str, ...]:
    return tuple(sorted(graph.spell_base_name(node.name) for node in nodes))


def _function_changes(before: Graph, graph: Graph) -> FunctionChanges:
    if graph.is_body or not graph.functions.is_changed:
        return FunctionChanges()
    old = {function.signature.name: function for function in before.functions}
    new = {function.signature.name: function for function in graph.functions}
    return FunctionChanges(
        added=[name for name in new if name not in old],
        removed=[name for name in old if name not in new],
        changed=[name for name, function in new.items() if name in old and old[name] != function],
    )
