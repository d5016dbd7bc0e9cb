"""Walks over the graph as integers, against naive ones over names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick, pick_some
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    add,
    const,
    g8,
    graph,
    identity,
    neg,
    node,
    placeholder,
    random_graphs,
    scalar,
    typed,
)
from support.paths import FIXTURES

from gdsurgeon.analysis.queries.deciding import MOST_SCORES, deciding_nodes
from gdsurgeon.analysis.traversal.control_flow import control_flow
from gdsurgeon.analysis.traversal.order import find_cycle, has_forward_edges, topological_order
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Rows, Table
from gdsurgeon.graph.load import from_bytes, load


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


def test_control_flow_of_a_graph_without_any() -> None:
    flow = control_flow(Topology(graph(*g8())))
    assert set(flow.frames) == set(flow.branches) == {0}


def test_the_topology_of_an_unedited_graph_does_not_count_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows, "__len__", None)  # counting a million names takes longer than the topology
    assert Topology(graph(*g8())).gone == frozenset()


def flow_of(found: Graph) -> dict[str, tuple[int, int]]:
    """(frames, branches) of each node."""
    topology = Topology(found)
    flow = control_flow(topology)
    return {topology.name(n): (flow.frames[n], flow.branches[n]) for n in topology.numbers()}


def cond(scope: str, data: str, condition: str, kind: bytes = FLOAT, *controls: str) -> list[bytes]:
    """A v1 conditional: DATA plus one where CONDITION holds, else DATA."""
    return [
        node(f"{scope}/pivot", "Switch", [condition, condition], T=BOOL),
        identity(f"{scope}/t", f"{scope}/pivot:1", kind=BOOL),
        node(f"{scope}/Switch", "Switch", [data, condition, *controls], T=kind),
        node(f"{scope}/one", "Const", [f"^{scope}/t"], dtype=kind, value=graphs.tensor([1], kind, ())),
        add(f"{scope}/Add", f"{scope}/Switch:1", f"{scope}/one", kind=kind),
        identity(f"{scope}/f", f"{scope}/Switch", kind=kind),
        node(f"{scope}/Merge", "Merge", [f"{scope}/f", f"{scope}/Add"], T=kind, N=2),
    ]


BEFORE = [placeholder("x", FLOAT, ()), placeholder("p", BOOL, ()), placeholder("q", BOOL, ())]


def test_a_conditional_in_another() -> None:
    inner = cond("c/in", "c/Switch:1", "q")
    outer = cond("c", "x", "p")
    outer[4] = add("c/Add", "c/in/Merge", "c/one")
    found = flow_of(graph(*BEFORE, *inner, *outer, identity("y", "c/Merge")))
    assert (found["c/in/Add"], found["c/in/Merge"], found["c/Add"], found["y"]) == ((0, 2), (0, 1), (0, 1), (0, 0))


def test_two_conditionals_one_after_the_other() -> None:
    found = flow_of(graph(*BEFORE, *cond("c", "x", "p"), *cond("d", "c/Merge", "q"), identity("y", "d/Merge")))
    assert (found["c/Merge"], found["d/Switch"], found["y"]) == ((0, 0), (0, 1), (0, 0))


def loop_around(body: list[bytes], result: str) -> list[bytes]:
    """The loop with BODY, which makes RESULT of w/Identity, in place of its addition."""
    records = [r for r in graphs.loop() if b"w/Add" not in r and b"w/one" not in r]
    return [*records, *body, node("w/NextIteration", "NextIteration", [result], T=INT32)]


def test_a_conditional_in_a_loop() -> None:
    condition = node("w/even", "MyCondition", ["w/Identity"])
    found = flow_of(graph(*loop_around([condition, *cond("w/c", "w/Identity", "w/even", INT32)], "w/c/Merge")))
    assert found["w/c/Add"][0] == found["w/c/Switch"][0] == found["w/c/Merge"][0] == 1
    assert found["w/c/Add"][1] > found["w/c/Merge"][1] == found["w/Identity"][1]
    assert found["w/Exit"] == found["out"] == (0, 0)


def test_the_fixture() -> None:
    graph_ = load(str(FIXTURES / "while_v1.pb"))
    topology = Topology(graph_)
    flow = control_flow(topology)
    once = {topology.name(n) for n in topology.numbers() if flow.runs_once(n)}
    assert {"n", "sum"} <= once
    ops = {topology.name(n): topology.op(n) for n in topology.numbers()}
    assert {ops[name] for name in ops if name not in once} >= {"Enter", "Merge", "Switch", "NextIteration", "LoopCond"}
    assert all(name in once for name, op in ops.items() if op == "Exit")


def test_fixtures_without_control_flow_run_once() -> None:
    for name in ("classifier.pb", "functions_tf2.pb", "control_edges.pb"):
        assert set(flow_of(load(str(FIXTURES / name))).values()) == {(0, 0)}


SCORES = [
    placeholder("x", FLOAT, (2, 4)), neg("logits", "x"), typed("Softmax", "scores", "logits"), scalar("axis", 1, INT32),
    typed("ArgMax", "class", "scores", "axis", Tidx=INT32, output_type="int64"),
]  # fmt: skip
LABELS = [
    node("wide", "Cast", ["class"], SrcT="int64", DstT=INT32), const("labels", [b"a", b"b", b"c", b"d"], STRING),
    scalar("zero", 0, INT32),
    node("label", "GatherV2", ["labels", "wide", "zero"], Tparams=STRING, Tindices=INT32, Taxis=INT32),
]  # fmt: skip
THRESHOLDS = [
    typed("Greater", "a", "scores", "logits"), typed("Less", "b", "logits", "scores"),
    node("both", "LogicalAnd", ["a", "b"]),
]  # fmt: skip


def deciding(records: list[bytes], *outputs: str) -> list[str]:
    found = graph(*records)
    return [each.name for each in deciding_nodes([found[name] for name in outputs])]


@pytest.mark.parametrize(
    ("more", "outputs", "expected"),
    [
        ([], ["class"], ["scores"]),
        (LABELS, ["label"], ["scores"]),
        ([], ["scores"], []),
        ([typed("Shape", "size", "scores", out_type=INT32)], ["size"], []),
        ([const("limit", [0.5] * 4), typed("Greater", "above", "x", "limit")], ["above"], []),
        (THRESHOLDS, ["both", "a"], ["scores", "logits"]),
    ],
    ids=["class", "nearest floats", "output of floats", "shape", "placeholder and constant", "two, each once"],
)
def test_the_floats_that_decided_an_output(more: list[bytes], outputs: list[str], expected: list[str]) -> None:
    assert deciding([*SCORES, *more], *outputs) == expected


def test_there_is_an_end_to_it() -> None:
    records, last = [placeholder("x", FLOAT, (2,))], ""
    for i in range(3 * MOST_SCORES):
        records += [neg(f"f{i}", "x"), typed("Greater", f"g{i}", f"f{i}", "x")]
        if last:
            records.append(node(f"h{i}", "LogicalAnd", [last, f"g{i}"]))
        last = f"h{i}" if last else f"g{i}"
    assert len(deciding(records, last)) == MOST_SCORES
