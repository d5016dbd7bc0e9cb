"""Shapes that are kept up while a graph is edited are those that would be inferred anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import FLOAT, INT32, add, const, graph, identity, node, placeholder
from support.v1_control_flow import LOOP, while_loop

from gdsurgeon.analysis.shapes import inference
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.edits.simplifying.graph_view import BITS, GraphView
from gdsurgeon.graph.graph import Graph

X = placeholder("x", FLOAT, (-1, 6))
SHAPE = node("s", "Shape", ["i"], T=FLOAT, out_type=INT32)
RESHAPED = [X, identity("i", "x"), SHAPE, node("r", "Reshape", ["i", "s"], T=FLOAT, Tshape=INT32),
            placeholder("z", FLOAT, (2, 3)), identity("j", "z"), add("y", "r", "x"), add("beside", "x", "x"),
            const("to", [3, -1], INT32), node("q", "Reshape", ["y", "to"], T=FLOAT, Tshape=INT32)]  # fmt: skip


def view_of(found: Graph) -> GraphView:
    return GraphView(found, [], keeps_checks=True)


def reads(view: GraphView, name: str, *inputs: str) -> None:
    """Has a node read others, in a view and in its graph."""
    found, id_of = view.graph, view.topology.id_of
    view.set_inputs(id_of(found[name]), [id_of(found[text]) << BITS for text in inputs])
    found.set_inputs(found[name], [found[text].output for text in inputs])


def check(view: GraphView) -> None:
    """What is kept is what is inferred of the graph anew."""
    shapes, anew = view.shapes(), infer_shapes(view.graph, use_stated=False)
    for each in view.graph.nodes():
        for output in each.outputs:
            assert (shapes.shape(output), shapes.value(output)) == (anew.shape(output), anew.value(output)), output


EDITS: dict[str, Callable[[GraphView], Any]] = {
    "another input": lambda view: reads(view, "i", "z"),
    "the same shape": lambda view: reads(view, "s", "x"),
    "what was not asked for": lambda view: reads(view, "y", "j", "j"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_an_edit_changes_is_inferred_again(edit: Callable[[GraphView], Any]) -> None:
    view = view_of(graph(*RESHAPED))
    check(view)
    edit(view)
    view.renew()
    check(view)


def test_what_comes_round_a_loop_is_not_known_where_it_begins() -> None:
    view = view_of(graph(*LOOP, placeholder("v", FLOAT, (2, 3))))
    check(view)
    reads(view, "w/Enter_v", "v")
    view.renew()
    check(view)
    late = node("w/late", "Enter", ["v"], T=FLOAT, frame_name="w", is_constant=True, parallel_iterations=10)
    loop = while_loop(late, add("w/plus", "w/v", "w/three"), result="w/plus")
    view = view_of(graph(*loop, placeholder("v", FLOAT, (2, 3))))
    check(view)
    for name, source in (("w/NextIteration_v", "w/late"), ("w/Enter_v", "v")):
        reads(view, name, source)
        view.renew()
        check(view)


def test_what_is_behind_a_cycle_stays_unknown() -> None:
    cycle = [node("a", "Shape", ["b"], T=INT32, out_type=INT32), identity("b", "a", kind=INT32)]
    check(view_of(graph(X, *cycle, identity("c", "b", kind=INT32))))


def test_nothing_is_inferred_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = graph(*RESHAPED)
    view = view_of(found)
    inferred = []
    infer = inference.Shapes.infer

    def noting(self: inference.Shapes, number: int) -> None:
        inferred.append(self.topology.name(number))
        infer(self, number)

    monkeypatch.setattr(inference.Shapes, "infer", noting)
    assert view.shapes().shape(found["r"].output) == (-1, 6)
    assert sorted(inferred) == ["i", "r", "s", "x"]
    inferred.clear()
    reads(view, "s", "x")
    view.renew()
    assert view.shapes().shape(found["r"].output) == (-1, 6)
    assert inferred == ["s"]  # what reads it reads the same as before
