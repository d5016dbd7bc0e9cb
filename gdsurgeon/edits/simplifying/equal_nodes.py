"""Equal nodes once: who reads the second of two that compute the same reads the first."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from gdsurgeon.edits.simplifying.draft import BITS, CONTROL, Draft
from gdsurgeon.graph.constants import constant_span
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import PLACEHOLDERS

UNSAYING = frozenset(("_class", "_output_shapes"))
"""Attrs that say nothing of what a node gives."""
_NEVER = PLACEHOLDERS | {"NoOp"}
_STEP = 1 << 20
"""Bytes of a value that are read at a time."""

_Key = tuple[object, ...]


def equal_nodes(draft: Draft) -> None:
    """Nodes of one op that read the same, with the same attrs, on the same device."""
    top = draft.topology
    alone: dict[_Key, int] = {}  # of nodes that nothing was compared with yet
    found: dict[_Key, int] = {}
    seen: set[_Key] = set()
    is_other_order = False
    for number in draft.order():
        op = top.op(number)
        if op in _NEVER or number in draft.merges or not draft.is_pure(number):
            continue
        node = top.node(number)
        definition = node.op_def
        if definition is None or definition.takes_functions or op in draft.graph.functions:
            continue
        rough = (op, node.device, *_read(draft, number), *_size(node))
        if rough not in seen:
            seen.add(rough)
            alone[rough] = number
            continue
        if rough in alone:
            other = alone.pop(rough)
            found[rough, _attrs(top.node(other))] = other
        key = (rough, _attrs(node))
        first = found.setdefault(key, number)
        if first == number:
            continue
        if not draft.is_named(number):
            draft.stand_in(number, first)
        elif not draft.is_named(first):
            draft.stand_in(first, number)
            found[key] = number
            is_other_order = True
    draft.settle("equal-nodes")
    if is_other_order:
        draft.refresh()


def _read(draft: Draft, number: int) -> Iterator[int]:
    """What a node reads, in order, and what it waits for."""
    yield from draft.data(number)
    waits = {code for code in draft.topology.inputs(number) if code & CONTROL == CONTROL}
    yield from sorted(code >> BITS << BITS | CONTROL for code in waits)


def _size(node: Node) -> tuple[object, ...]:
    """Of a constant what can be said without reading its value."""
    if node.op != "Const":
        return ()
    span = constant_span(node)
    return (node.attr_bytes("dtype"), None if span is None else span.end - span.start)


def _attrs(node: Node) -> _Key:
    return tuple((key, _value(node, key)) for key in sorted(node.attr_keys) if key not in UNSAYING)


def _value(node: Node, key: str) -> bytes | None:
    """What an attr holds; of a constant's value, which may be large, what tells it from others."""
    span = constant_span(node) if (node.op, key) == ("Const", "value") else None
    if span is None:
        return node.attr_bytes(key)
    summed = blake2b()
    for start in range(span.start, span.end, _STEP):
        summed.update(span.source.read(start, min(_STEP, span.end - start)))
    return summed.digest()
