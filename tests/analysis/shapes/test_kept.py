"""Shapes that are kept up while a graph is edited are those that would be inferred anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import FLOAT, INT32, add, const, graph, identity, node, placeholder
from support.v1_control_flow import LOOP, while_loop

from gdsurgeon.analysis.shapes import inference
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.edits.simplifying.draft import BITS, Draft
from gdsurgeon.graph.graph import Graph

X = placeholder("x", FLOAT, (-1, 6))
SHAPE = node("s", "Shape", ["i"], T=FLOAT, out_type=INT32)
RESHAPED = [X, identity("i", "x"), SHAPE, node("r", "Reshape", ["i", "s"], T=FLOAT, Tshape=INT32),
            placeholder("z", FLOAT, (2, 3)), identity("j", "z"), add("y", "r", "x"), add("beside", "x", "x"),
            const("to", [3, -1], INT32), node("q", "Reshape", ["y", "to"], T=FLOAT, Tshape=INT32)]  # fmt: skip


def draft_of(found: Graph) -> Draft:
    return Draft(found, [], keeps_checks=True)


def reads(draft: Draft, name: str, *inputs: str) -> None:
    """Has a node read others, in a draft and in its graph."""
    found, id_of = draft.graph, draft.topology.id_of
    draft.set_inputs(id_of(found[name]), [id_of(found[text]) << BITS for text in inputs])
    found.set_inputs(found[name], [found[text].output for text in inputs])


def check(draft: Draft) -> None:
    """What is kept is what is inferred of the graph anew."""
    shapes, anew = draft.shapes(), infer_shapes(draft.graph, use_stated=False)
    for each in draft.graph.nodes():
        for output in each.outputs:
            assert (shapes.shape(output), shapes.value(output)) == (anew.shape(output), anew.value(output)), output


EDITS: dict[str, Callable[[Draft], Any]] = {
    "another input": lambda draft: reads(draft, "i", "z"),
    "the same shape": lambda draft: reads(draft, "s", "x"),
    "what was not asked for": lambda draft: reads(draft, "y", "j", "j"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_an_edit_changes_is_inferred_again(edit: Callable[[Draft], Any]) -> None:
    draft = draft_of(graph(*RESHAPED))
    check(draft)
    edit(draft)
    draft.renew()
    check(draft)


def test_what_comes_round_a_loop_is_not_known_where_it_begins() -> None:
    draft = draft_of(graph(*LOOP, placeholder("v", FLOAT, (2, 3))))
    check(draft)
    reads(draft, "w/Enter_v", "v")
    draft.renew()
    check(draft)
    late = node("w/late", "Enter", ["v"], T=FLOAT, frame_name="w", is_constant=True, parallel_iterations=10)
    loop = while_loop(late, add("w/plus", "w/v", "w/three"), result="w/plus")
    draft = draft_of(graph(*loop, placeholder("v", FLOAT, (2, 3))))
    check(draft)
    for name, source in (("w/NextIteration_v", "w/late"), ("w/Enter_v", "v")):
        reads(draft, name, source)
        draft.renew()
        check(draft)


def test_what_is_behind_a_cycle_stays_unknown() -> None:
    cycle = [node("a", "Shape", ["b"], T=INT32, out_type=INT32), identity("b", "a", kind=INT32)]
    check(draft_of(graph(X, *cycle, identity("c", "b", kind=INT32))))


def test_nothing_is_inferred_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = graph(*RESHAPED)
    draft = draft_of(found)
    inferred = []
    infer = inference.Shapes.infer

    def noting(self: inference.Shapes, number: int) -> None:
        inferred.append(self.topology.name(number))
        infer(self, number)

    monkeypatch.setattr(inference.Shapes, "infer", noting)
    assert draft.shapes().shape(found["r"].output) == (-1, 6)
    assert sorted(inferred) == ["i", "r", "s", "x"]
    inferred.clear()
    reads(draft, "s", "x")
    draft.renew()
    assert draft.shapes().shape(found["r"].output) == (-1, 6)
    assert inferred == ["s"]  # what reads it reads the same as before
