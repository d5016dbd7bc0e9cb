"""The selection language: order, levels, size and convexity, and what naive walks say."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick, pick_some, shuffled
from support.graphs import FLOAT, const, g8, graph, identity, node, placeholder, tensor
from support.selecting import names, short

from gdsurgeon.analysis.traversal.order import levels
from gdsurgeon.analysis.traversal.topology import Topology, between, escape, forward_walk, members
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection, selected, selected_nodes
from gdsurgeon.specification.nodes import selected as meant

# -- order and edits ---------------------------------------------------------------------------------------


def test_nodes_in_any_order() -> None:
    found = graph(*reversed(g8()))
    assert names(found, between=((("foo/c",), ("foo/bar/h",)),)) == short("hgf")
    assert names(found, ops=("Const",)) == short("dba")


def naive_walk(seeds: set[str], edges: dict[str, set[str]]) -> set[str]:
    out, pending = set(seeds), list(seeds)
    while pending:
        for other in edges.get(pending.pop(), set()) - out:
            out.add(other)
            pending.append(other)
    return out


def naive_edges(parsed: Any, control: bool) -> dict[str, set[str]]:
    """Consumers of each node."""
    out: dict[str, set[str]] = {}
    for n in parsed.node:
        for text in n.input:
            if control or text[0] != "^":
                out.setdefault(text.lstrip("^").split(":")[0], set()).add(n.name)
    return out


@given(graphs.random_graphs(), st.data(), st.booleans())
def test_walks_against_naive_ones(drawn: graphs.Drawn, data: st.DataObject, control: bool) -> None:
    parsed = drawn.message
    tensors = sorted({t for n in parsed.node for t in n.input if t[0] != "^"})
    if not tensors:
        return
    sources = pick_some(data.draw, tensors, 2, least=1, unique=True)
    targets = pick_some(data.draw, tensors, 2, least=1, unique=True)
    down = naive_edges(parsed, control)
    up: dict[str, set[str]] = {}
    for producer, consumers in down.items():
        for consumer in consumers:
            up.setdefault(consumer, set()).add(producer)
    nodes = lambda texts: {t.split(":")[0] for t in texts}  # noqa: E731
    readers = {n.name for n in parsed.node if any(t in sources for t in n.input)}
    expected = naive_walk(readers, down) & naive_walk(nodes(targets), up)
    found = from_bytes(drawn.data)
    try:
        assert set(names(found, between=((tuple(sources), tuple(targets)),), control=control)) == expected
    except EditError:
        assert not expected
    assert set(names(found, forward=tuple(sources), control=control)) == naive_walk(nodes(sources), down)
    assert set(names(found, backward=tuple(sources), control=control)) == naive_walk(nodes(sources), up)


@given(graphs.random_graphs(), st.data())
def test_an_edited_graph_is_selected_from_as_the_same_graph_loaded(drawn: graphs.Drawn, data: st.DataObject) -> None:
    found = from_bytes(drawn.data)
    all_names = [n.name for n in drawn.message.node]
    found.rename({found[pick(data.draw, all_names)]: "renamed/x"})
    givers = [n for n in found.nodes() if n.output_dtypes]
    if givers:
        source = pick(data.draw, givers)
        found.add("added/y", "Identity", [source.output], attrs={"T": FLOAT})
    ends = [n for n in found.nodes() if not found.users(n) and not found.colocated_with(n) and n.name != "added/y"]
    if ends:
        found.remove([pick(data.draw, ends)])
    again = from_bytes(graphs.written(found))
    some = [n.name for n in found.nodes() if n.output_dtypes]
    for selection in (
        Selection(exclude=("nothing",)),
        Selection(regexes=("[ab]",), exclude=("x",)),
        Selection(scopes=("a", "renamed")),
        Selection(ops=("Identity", "Const"), constants=True),
        *(Selection(forward=(n,), control=True) for n in some[:3]),
        *(Selection(backward=(n,), constants=True) for n in some[-3:]),
    ):
        got = [outcome(g, selection) for g in (found, again)]
        assert got[0] == got[1]
        assert isinstance(got[1], str) or got[1] == set(meant(again, selection))
    top, top_again = Topology(found), Topology(again)
    assert [{top.name(n) for n in level} for level in levels(top)] == [
        {top_again.name(n) for n in level} for level in levels(top_again)
    ]


def outcome(found: Graph, selection: Selection) -> set[str] | str:
    try:
        return {n.name for n in selected_nodes(found, selection)}
    except EditError as error:
        return error.message


# -- levels ------------------------------------------------------------------------------------------------


def level_names(found: Graph, **selection: Any) -> list[list[str]]:
    topology = Topology(found)
    inside = selected(topology, Selection(**selection)) if selection else None
    return [[topology.name(n) for n in level] for level in levels(topology, inside)]


def test_levels() -> None:
    assert level_names(graph(*g8())) == [short("abd"), short("c"), short("efg"), short("h")]
    assert level_names(graph(*reversed(g8()))) == [short("dba"), short("c"), short("gfe"), short("h")]


def test_levels_of_a_selection_count_only_what_is_selected() -> None:
    assert level_names(graph(*g8()), scopes=("foo/bar",)) == [short("efg"), short("h")]
    assert level_names(graph(*g8()), nodes=("a", "foo/bar/h")) == [["a", "foo/bar/h"]]


def test_levels_of_a_loop_leave_out_the_edge_that_closes_it() -> None:
    found = level_names(graph(*graphs.loop()))
    place = {name: i for i, level in enumerate(found) for name in level}
    assert place["n"] == place["zero"] == 0 and place["w/Merge"] == 2
    assert place["w/NextIteration"] > place["w/Add"] > place["w/Identity"] > place["w/Switch"] > place["w/LoopCond"]
    assert sum(map(len, found)) == len(graphs.loop())


def random_edges(data: st.DataObject) -> tuple[list[bytes], dict[str, set[str]]]:
    """A random graph of Adds and NoOps with control edges, in any order, and the producers of each node."""
    count = data.draw(st.integers(1, 24))
    producers: dict[str, set[str]] = {}
    records = []
    for i in range(count):
        name = f"n{i}"
        earlier = [f"n{j}" for j in range(i)]
        reads = pick_some(data.draw, earlier, 3) if earlier else []
        waits = pick_some(data.draw, earlier, 2) if earlier else []
        producers[name] = {*reads, *waits}
        if reads:
            records.append(node(name, "AddN", [*reads, *(f"^{w}" for w in waits)], T=FLOAT, N=len(reads)))
        else:
            records.append(node(name, "Const", [f"^{w}" for w in waits], dtype=FLOAT, value=tensor([1])))
    return shuffled(data.draw, records), producers


@given(st.data())
def test_each_node_is_in_the_earliest_level_that_there_is_for_it(data: st.DataObject) -> None:
    records, producers = random_edges(data)
    chosen = set(pick_some(data.draw, sorted(producers), least=1, unique=True))
    for inside, given_ in ((set(producers), {}), (chosen, {"nodes": tuple(chosen)})):
        longest: dict[str, int] = {}
        for name in producers:  # producers come first here
            if name in inside:
                longest[name] = 1 + max((longest[p] for p in producers[name] if p in inside), default=-1)
        found = level_names(graph(*records), **given_)
        assert {name: i for i, level in enumerate(found) for name in level} == longest
        assert sum(map(len, found)) == len(longest)


# -- size --------------------------------------------------------------------------------------------------


LONG = 20_000


@pytest.fixture(scope="module")
def chain() -> Graph:
    """Nodes that each read the one before."""
    records = [placeholder("n0", FLOAT, (1,))]
    records += [node(f"n{i}", "Neg", [f"n{i - 1}"], T=FLOAT) for i in range(1, LONG)]
    return graph(*records)


@pytest.mark.parametrize(
    "selection",
    [
        {"forward": ("n0",)},
        {"backward": (f"n{LONG - 1}",)},
        {"between": ((("n0",), (f"n{LONG - 1}",)),), "control": True},
        {"exclude": ("^n0$",)},
        {"regexes": ("n",), "constants": True},
        {"ops": ("Neg",)},
    ],
)
def test_a_long_chain_is_selected_quickly_and_without_recursion(chain: Graph, selection: dict[str, Any]) -> None:
    topology = Topology(chain)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        count = sum(selected(topology, Selection(**selection)))
    finally:
        sys.setrecursionlimit(limit)
    assert count in (LONG, LONG - 1)


def test_a_long_chain_in_levels(chain: Graph) -> None:
    assert len(levels(Topology(chain))) == LONG


def test_a_hub_and_a_fan() -> None:
    """A node with very many consumers, all read by one."""
    count = 10_000
    records = [const("hub", [1])]
    records += [identity(f"i{i}", "hub") for i in range(count)]
    records.append(node("sum", "AddN", [f"i{i}" for i in range(count)], T=FLOAT, N=count))
    found = graph(*records)
    topology = Topology(found)
    hub, end = topology.id_of(found["hub"]), topology.id_of(found["sum"])
    assert sum(between(topology, [(hub, 0)], [end])) == count + 1
    assert sum(forward_walk(topology, [hub])) == sum(topology.upstream([end], control=False)) == count + 2
    assert sum(selected(topology, Selection(nodes=("sum",), constants=True))) == count + 2
    assert [len(level) for level in levels(topology)] == [1, count, 1]


# -- convexity ---------------------------------------------------------------------------------------------


def escaped(records: list[bytes], *inside: str) -> list[str]:
    found = graph(*records)
    topology = Topology(found)
    flags = bytearray(topology.size)
    for name in inside:
        flags[topology.id_of(found[name])] = 1
    return [topology.name(n) for n in escape(topology, flags)]


def test_a_path_that_leaves_and_comes_back() -> None:
    assert escaped(g8(), *short("ch")) in (short("cfh"), short("cgh"))
    assert escaped(g8(), *short("efgh")) == []
    assert escaped(g8(), *short("ae")) == short("ace")
    assert escaped(g8(), *short("ef")) == []


def test_a_path_by_control_edges() -> None:
    records = [const("a", [1]), node("w", "NoOp", ["^a"]), const("b", [1]), identity("c", "b", "^w")]
    assert escaped(records, "a", "c") == ["a", "w", "c"]


def test_the_edge_that_closes_a_loop_is_no_path() -> None:
    assert escaped(graphs.loop(), "w/Identity", "w/one", "w/Add") == []
    assert escaped(graphs.loop(), "w/Add") == []
    assert escaped(graphs.loop(), "w/Less", "w/Add")[::4] == ["w/Less", "w/Add"]


@given(st.data())
def test_escape_against_a_naive_one(data: st.DataObject) -> None:
    records, producers = random_edges(data)
    inside = set(pick_some(data.draw, sorted(producers), 5, least=1, unique=True))
    down: dict[str, set[str]] = {}
    for name, found in producers.items():
        for producer in found:
            down.setdefault(producer, set()).add(name)
    left = {c for name in inside for c in down.get(name, set()) if c not in inside}
    reached = naive_walk(left, {n: c - inside for n, c in down.items() if n not in inside})
    convex = not any(down.get(n, set()) & inside for n in reached)
    path = escaped(records, *inside)
    assert (path == []) is convex
    if path:
        assert path[0] in inside and path[-1] in inside and len(path) > 2
        assert not inside & set(path[1:-1])
        assert all(b in down[a] for a, b in pairwise(path))


def test_members() -> None:
    assert members(bytearray(b"\1\0\0\1\1")) == [0, 3, 4]
