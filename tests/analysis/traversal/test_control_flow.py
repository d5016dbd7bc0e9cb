"""Which nodes lie in while frames and in branches that may not be taken."""

from __future__ import annotations

from support import graphs
from support.graphs import BOOL, FLOAT, INT32, Builder, add, graph, identity, node, placeholder
from support.paths import FIXTURES

from gdsurgeon.analysis.queries.deciding import MOST_SCORES, deciding_nodes
from gdsurgeon.analysis.traversal.control_flow import control_flow
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import load


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


def test_a_conditional() -> None:
    found = flow_of(graph(*BEFORE, *cond("c", "x", "p"), identity("y", "c/Merge")))
    inside = {"c/pivot", "c/t", "c/Switch", "c/one", "c/Add", "c/f"}
    assert {name for name, (_, branches) in found.items() if branches} == inside
    assert found["y"] == found["c/Merge"] == (0, 0)
    assert all(frames == 0 for frames, _ in found.values())


def test_a_conditional_in_another() -> None:
    inner = cond("c/in", "c/Switch:1", "q")
    outer = cond("c", "x", "p")
    outer[4] = add("c/Add", "c/in/Merge", "c/one")
    found = flow_of(graph(*BEFORE, *inner, *outer, identity("y", "c/Merge")))
    assert (found["c/in/Add"], found["c/in/Merge"], found["c/Add"], found["y"]) == ((0, 2), (0, 1), (0, 1), (0, 0))


def test_two_conditionals_one_after_the_other() -> None:
    found = flow_of(graph(*BEFORE, *cond("c", "x", "p"), *cond("d", "c/Merge", "q"), identity("y", "d/Merge")))
    assert (found["c/Merge"], found["d/Switch"], found["y"]) == ((0, 0), (0, 1), (0, 0))


def test_a_loop() -> None:
    for order in (1, -1):
        found = flow_of(graph(*graphs.loop()[::order]))
        inside = {name for name, (frames, _) in found.items() if frames}
        assert inside == {name for name in found if name.startswith("w/")} - {"w/Exit"}
        assert found["w/Exit"] == found["out"] == found["n"] == (0, 0)


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


def test_a_loop_in_a_loop() -> None:
    inner = [
        node("w/v/Enter", "Enter", ["w/Identity"], T=INT32, frame_name="w/v"),
        node("w/v/Merge", "Merge", ["w/v/Enter", "w/v/NextIteration"], T=INT32, N=2),
        node("w/v/LoopCond", "LoopCond", ["w/v/less"]),
        node("w/v/less", "MyCondition", ["w/v/Merge"]),
        node("w/v/Switch", "Switch", ["w/v/Merge", "w/v/LoopCond"], T=INT32),
        identity("w/v/Identity", "w/v/Switch:1", kind=INT32),
        node("w/v/NextIteration", "NextIteration", ["w/v/Identity"], T=INT32),
        node("w/v/Exit", "Exit", ["w/v/Switch"], T=INT32),
    ]
    found = flow_of(graph(*loop_around(inner, "w/v/Exit")))
    assert (found["w/v/Identity"][0], found["w/v/Exit"][0], found["w/Identity"][0]) == (2, 1, 1)
    assert found["w/v/Exit"] == found["w/Identity"]
    assert found["out"] == (0, 0)


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


def names(m: Builder, *outputs: str) -> list[str]:
    graph = m.graph()
    return [node.name for node in deciding_nodes([graph[name] for name in outputs])]


def scores() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2, 4))
    m.node("logits", "Neg", ["x"], T="float32")
    m.node("scores", "Softmax", ["logits"], T="float32")
    m.const("axis", 1, "int32")
    m.node("class", "ArgMax", ["scores", "axis"], T="float32", Tidx="int32", output_type="int64")
    return m


def test_a_class_was_decided_by_its_scores() -> None:
    assert names(scores(), "class") == ["scores"]


def test_the_nearest_floats_count_and_not_those_above_them() -> None:
    m = scores()
    m.node("wide", "Cast", ["class"], SrcT="int64", DstT="int32")
    m.const("labels", [b"a", b"b", b"c", b"d"], "string")
    m.const("zero", 0, "int32")
    m.node("label", "GatherV2", ["labels", "wide", "zero"], Tparams="string", Tindices="int32", Taxis="int32")
    assert names(m, "label") == ["scores"]


def test_an_output_of_floats_speaks_for_itself() -> None:
    assert names(scores(), "scores") == []


def test_a_shape_was_decided_by_no_values() -> None:
    m = scores()
    m.node("size", "Shape", ["scores"], T="float32", out_type="int32")
    assert names(m, "size") == []


def test_placeholders_and_constants_decide_nothing_that_could_differ() -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("limit", [0.5, 0.5], "float32")
    m.node("above", "Greater", ["x", "limit"], T="float32")
    assert names(m, "above") == []


def test_two_thresholds_have_two_sources_each_once() -> None:
    m = scores()
    m.node("a", "Greater", ["scores", "logits"], T="float32")
    m.node("b", "Less", ["logits", "scores"], T="float32")
    m.node("both", "LogicalAnd", ["a", "b"])
    assert names(m, "both", "a") == ["scores", "logits"]


def test_there_is_an_end_to_it() -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    last = ""
    for i in range(3 * MOST_SCORES):
        m.node(f"f{i}", "Neg", ["x"], T="float32")
        m.node(f"g{i}", "Greater", [f"f{i}", "x"], T="float32")
        if last:
            m.node(f"h{i}", "LogicalAnd", [last, f"g{i}"])
        last = f"h{i}" if last else f"g{i}"
    assert len(names(m, last)) == MOST_SCORES
