"""fuse-ops and inline undo each other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick_some
from support.expecting import sound
from support.fusing import chain, split
from support.graphs import X, graph, graph_bytes, neg
from support.inlining import functions_of
from support.random_records import conditionals, dags
from support.running import outcome, outcomes

from gdsurgeon.analysis.traversal.topology import Topology, escape
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.inline import inline
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection


def as_dict(what: Graph | bytes) -> dict[str, Any]:
    return {n.name: n for n in graphs.parsed(what).node}


@pytest.mark.parametrize(
    ("records", "chosen"),
    [
        (chain(), ["sum", "neg", "mul"]),
        (chain(), ["one", "sum", "neg", "mul"]),
        (chain(), ["neg"]),
        (split(), ["axis", "s", "sum"]),
        (split(), ["s"]),
        (graphs.g8(), ["foo/bar/f", "foo/bar/g"]),
        (graphs.g8(), ["foo/c"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0], str) else "",
)
def test_fusing_and_inlining_gives_the_same_graph_back(records: list[bytes], chosen: list[str]) -> None:
    found = graph(*records)
    fuse_ops(found, Selection(nodes=tuple(chosen)), "call")
    for again in (found, from_bytes(graphs.written(found))):
        inline(again, keep_names=True)
        assert as_dict(again) == as_dict(graphs.graph_bytes(*records))
        assert functions_of(again) == []


def test_fusing_and_inlining_keeps_the_names_of_outputs() -> None:
    """Where the name stands on an Identity, the node itself takes another."""
    records = [X, neg("a", "x"), neg("y", "a")]
    found = graph(*records)
    fuse_ops(found, Selection(nodes=("a", "y")), "call")
    inline(found, keep_names=True)
    nodes = as_dict(found)
    assert nodes["y"].op == "Identity" and list(nodes["a"].input) == ["x"] and len(nodes) == 4


def convex(found: Graph, chosen: set[str]) -> list[str]:
    """CHOSEN, and what lies on paths between them."""
    topology = Topology(found)
    inside = bytearray(topology.size)
    for name in chosen:
        inside[topology.id_of(found[name])] = 1
    while path := escape(topology, inside):
        for number in path:
            inside[number] = 1
    return [topology.name(n) for n in topology.numbers() if inside[n] and topology.op(n) != "Placeholder"]


@pytest.mark.slow
@pytest.mark.tensorflow
@given(dags(), st.data())
def test_random_selections_fused_and_inlined(case: tuple[list[bytes], list[str]], data: st.DataObject) -> None:
    records, names = case
    original = graph_bytes(*records)
    found = from_bytes(original)
    chosen = convex(found, set(pick_some(data.draw, sorted(set(names) - {"x"}), 6, least=1, unique=True)))
    outputs = [n.name for n in found.nodes() if n.op != "NoOp" and not any(
        read.node is n for user in found.users(n) for read in user.inputs)]  # fmt: skip
    before = outcome(original, *outputs, x=[0.75, -2.0])
    assert isinstance(before, list)

    fused = fuse_ops(found, Selection(nodes=tuple(chosen)), "call", inline=data.draw(st.booleans()))
    check_journal(original, found, fused)
    assert outcome(found, *outputs, x=[0.75, -2.0]) == before
    middle = graphs.written(found)

    again = from_bytes(middle)
    result = inline(again, keep_names=data.draw(st.booleans()))
    check_journal(middle, again, result)
    assert outcome(again, *outputs, x=[0.75, -2.0]) == before
    assert functions_of(again) == []


@pytest.mark.slow
@pytest.mark.tensorflow
@settings(max_examples=30)
@given(conditionals(), st.data())
def test_random_selections_among_conditionals(
    case: tuple[list[bytes], list[str], list[str]], data: st.DataObject
) -> None:
    """Dead nodes stay dead and others stay alive for every decision; or the selection is refused."""
    records, nodes, ends = case
    if not nodes:
        return
    original = graph_bytes(*records)
    found = from_bytes(original)
    chosen = set(pick_some(data.draw, nodes, 3, least=1, unique=True))
    try:
        fuse_ops(found, [found[name] for name in convex(found, chosen)], "call")
    except EditError as error:
        assert error.code in ("crosses-branch", "control-flow"), error.message
        return
    again = from_bytes(graphs.written(found))
    inline(again)
    feeds = [{"p": p, "q": q, "x": [0.75, -2.0]} for p in (True, False) for q in (True, False)]
    before = outcomes(original, ends, feeds)
    assert outcomes(found, ends, feeds) == before
    assert outcomes(again, ends, feeds) == before


def check_journal(before: bytes, found: Graph, result: EditResult) -> None:
    """The graph is sound, and the intent says what has happened to its names."""
    assert sound(found)
    old, new = set(graphs.names(before)), set(graphs.names(found))
    intent = result.intent
    assert new - old <= set(intent.added) <= new
    assert old - new == set(intent.removed)
    ports = {f"{n.name}:{i}" if i else n.name for n in found.nodes() for i in range(len(n.output_dtypes or ()))}
    assert set(intent.moved.values()) <= ports
    inputs = {n.name: [r.name for r in n.inputs] for n in found.nodes()}
    for change in intent.rewired:
        assert inputs[change.node][change.slot] == change.new
