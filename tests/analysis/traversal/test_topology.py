"""Walks over the graph as integers, against naive ones over names."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick, pick_some
from support.graphs import FLOAT, g8, graph, identity, node, random_graphs

from gdsurgeon.analysis.traversal.control_flow import control_flow
from gdsurgeon.analysis.traversal.order import find_cycle, has_forward_edges, topological_order
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.load import from_bytes


def marked(topology: Topology, found: bytearray) -> set[str]:
    return {topology.name(n) for n in topology.numbers() if found[n]}


def cone(parsed: Any, start: set[str], *, down: bool) -> set[str]:
    reads = {n.name: {t.lstrip("^").split(":")[0] for t in n.input} for n in parsed.node}
    edges = {name: {other for other in reads if name in reads[other]} for name in reads} if down else reads
    out = set(start)
    while more := {e for name in out for e in edges[name]} - out:
        out |= more
    return out


@given(random_graphs(), st.data())
def test_cones(drawn: graphs.Drawn, data: st.DataObject) -> None:
    start = set(pick_some(data.draw, [n.name for n in drawn.message.node], 2, least=1, unique=True))
    found = from_bytes(drawn.data)
    check_cones(found, drawn.message, start)


def check_cones(found: Graph, parsed: Any, start: set[str]) -> None:
    topology = Topology(found)
    numbers = [topology.id_of(found[name]) for name in start]
    assert marked(topology, topology.upstream(numbers)) == cone(parsed, start, down=False)
    assert marked(topology, topology.downstream(numbers, topology.consumers())) == cone(parsed, start, down=True)


@given(random_graphs(), st.data())
def test_cones_after_edits(drawn: graphs.Drawn, data: st.DataObject) -> None:
    found = from_bytes(drawn.data)
    names = [n.name for n in drawn.message.node]
    first = pick(data.draw, names)
    found.rename({found[first]: "renamed"})
    added = found.add("added", "Identity", [found["renamed"].output], attrs={"T": FLOAT})
    last = found[pick(data.draw, [n for n in names if n != first] or ["added"])]
    if last is not added:
        found.set_inputs(last, [added.output])
    if not found.users(added) and not found.colocated_with(added):
        found.remove([added])
    parsed = graphs.parsed(found)
    start = set(pick_some(data.draw, [n.name for n in parsed.node], 2, least=1, unique=True))
    check_cones(found, parsed, start)
    topology = Topology(found)
    expected = {n.name for n in parsed.node} - {
        t.split(":")[0] for n in parsed.node for t in n.input if t[0] != "^"
    }  # fmt: skip
    assert {topology.name(n) for n in topology.unread()} == expected


@given(random_graphs())
def test_an_order_has_producers_first(drawn: graphs.Drawn) -> None:
    topology = Topology(from_bytes(drawn.data))
    order = topological_order(topology)
    assert sorted(order) == list(topology.numbers())
    place = {number: i for i, number in enumerate(order)}
    assert all(place[p] < place[n] for n in order for p in topology.producers(n))
    assert find_cycle(topology) == []
    names = [n.name for n in drawn.message.node]
    ahead = any(
        names.index(t.lstrip("^").split(":")[0]) >= i for i, n in enumerate(drawn.message.node) for t in n.input
    )
    assert has_forward_edges(topology) == ahead


def test_a_cycle_is_a_cycle() -> None:
    found = graph(*g8(), identity("p", "r"), identity("q", "p"), identity("r", "q"), identity("behind", "r"))
    topology = Topology(found)
    cycle = [topology.name(n) for n in find_cycle(topology)]
    assert sorted(cycle) == ["p", "q", "r"]
    reads = graphs.inputs(found)
    assert all(reads[b] == [a] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_a_loop_is_no_cycle_and_is_walked_through_on_request() -> None:
    found = graph(*graphs.loop())
    topology = Topology(found)
    assert find_cycle(topology) == []
    merge = topology.id_of(found["w/Merge"])
    assert "w/Add" in marked(topology, topology.upstream([merge]))
    assert marked(topology, topology.upstream([merge], through_loops=False)) == {"w/Merge", "w/Enter", "zero"}


def test_trying_an_edit_out_leaves_the_graph_alone() -> None:
    found = graph(*g8())
    topology = Topology(found)
    c, h = topology.id_of(found["foo/c"]), topology.id_of(found["foo/bar/h"])
    topology.set_inputs(c, [h << Table.PORT_BITS])
    assert find_cycle(topology)
    assert not found.is_changed
    assert find_cycle(Topology(found)) == []


def test_removed_nodes_are_gone() -> None:
    found = graph(*g8())
    found.remove([found["foo/bar/h"], found["foo/bar/f"]])
    topology = Topology(found)
    assert [topology.name(n) for n in topology.numbers()] == graphs.names(found)
    assert "foo/bar/f" not in marked(topology, topology.downstream([0], topology.consumers()))


def test_control_flow_of_a_graph_without_any() -> None:
    flow = control_flow(Topology(graph(*g8())))
    assert set(flow.frames) == set(flow.branches) == {0}


def test_inputs_that_name_nothing_are_passed_over() -> None:
    found = graph(identity("y", "gone"), node("n", "NoOp", ["^y", "^gone"]))
    topology = Topology(found)
    assert topology.producers(0) == []
    assert topology.producers(1) == [0]
    found.touch(found["y"])
    assert Topology(found).producers(0) == []
