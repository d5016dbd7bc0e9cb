"""The facts about a graph, made once for each version; and the statement of a proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.desk import Desk
from support.graphs import Builder

from gdsurgeon.analysis.queries import signature
from gdsurgeon.analysis.shapes import inference
from gdsurgeon.analysis.traversal import control_flow
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.plan import Planner
from gdsurgeon.proof.proof import stated

COMMANDS = {
    "insert": ("insert", "m.pb", "--at", "b", "body.pb", "--prefix", "new"),
    "fuse-ops": ("fuse-ops", "m.pb", "--node", "a", "--node", "b", "--name", "ab"),
    "fuse-ops --with": ("fuse-ops", "m.pb", "--node", "b", "--with", "body.pb", "--name", "ab"),
    "rename": ("rename", "m.pb", "b=c"),
    "validate": ("validate", "m.pb", "other.pb"),
}


def model() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.typed("Neg", "a", "x")
    m.typed("Neg", "b", "a")
    m.typed("Relu", "y", "b")
    m.typed("ArgMax", "class", "y", m.const("axis", 0, "int32"), Tidx="int32", output_type="int64")
    return m


def body() -> Builder:
    m = Builder()
    m.placeholder("given", "float32", (2,))
    m.typed("Neg", "made", "given")
    return m


class Counted:
    """How often each fact was made of each version of each graph."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: Counter[tuple[str, int, int]] = Counter()
        self.graphs: list[Graph] = []  # kept, so that no two have one id
        self.monkeypatch = monkeypatch

    def note(self, fact: str, graph: Graph) -> None:
        self.graphs.append(graph)
        self.made[fact, id(graph), graph.version] += 1

    def constructor(self, kind: type[Any]) -> None:
        original = kind.__init__

        def init(self_: Any, graph: Graph, *rest: Any) -> None:
            self.note(kind.__name__, graph)
            original(self_, graph, *rest)

        self.monkeypatch.setattr(kind, "__init__", init)

    def function(self, module: Any, name: str, graph_of: Callable[[Any], Graph] = lambda graph: graph) -> None:
        original = getattr(module, name)

        def counted(first: Any, *rest: Any, **options: Any) -> Any:
            if not rest and not options:
                self.note(name, graph_of(first))
            return original(first, *rest, **options)

        self.monkeypatch.setattr(module, name, counted)


@pytest.mark.tensorflow
@pytest.mark.parametrize("command", COMMANDS)
def test_each_fact_is_made_once_for_a_version(command: str, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.put("m.pb", model().bytes())
    desk.put("other.pb", model().bytes())
    desk.put("body.pb", body().bytes())
    monkeypatch.chdir(desk.folder)
    counted = Counted(monkeypatch)
    counted.constructor(Topology)
    counted.constructor(Planner)
    counted.function(signature, "_signature")
    counted.function(signature, "_output_nodes")
    counted.function(inference, "infer_shapes")
    counted.function(control_flow, "control_flow", lambda topology: topology.graph)
    options = () if command == "validate" else ("-o", "out.pb")
    desk.done(*COMMANDS[command], *options)
    made = {fact for fact, _, _ in counted.made}
    assert made >= {"Topology", "Planner", "_output_nodes"}
    assert {what: count for what, count in counted.made.items() if count > 1} == {}
    versions = Counter(fact for fact, _, _ in counted.made)
    assert versions["Planner"] <= 3  # before, after, and what was inserted


SAME, GIVEN = "edited(x) == original(x)", "edited(x) == original(x, a := b)"


@pytest.mark.parametrize(
    ("equations", "parts", "wanted"),
    [
        ([], [], ""),
        (["", SAME, SAME], [], SAME),
        ([SAME, f"{SAME} under the new names"], [], f"{SAME}, {SAME} under the new names"),
        ([SAME, GIVEN], [], GIVEN),
        ([GIVEN, f"{SAME} under the new names", "copy(x) == net(x)"], [], f"{GIVEN}, copy(x) == net(x)"),
        (["edited(x, b := a) == original(x)", SAME], [], f"edited(x, b := a) == original(x), {SAME}"),
        ([SAME], ["a.pb"], f"{SAME}, a.pb in place == a.pb in isolation"),
        ([""], ["the steps", "the steps"], "the steps in place == the steps in isolation"),
        ([], ["a.pb", "the steps"], "a.pb and the steps in place == each in isolation"),
        ([], ["a", "b", "c", "d"], "a, b, c and d in place == each in isolation"),
        ([], ["a", "b", "c", "d", "e", "f"], "a, b, c, d and 2 more in place == each in isolation"),
    ],
)
def test_each_is_said_once(equations: list[str], parts: list[str], wanted: str) -> None:
    assert stated(equations, parts) == wanted
