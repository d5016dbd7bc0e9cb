# ruff: noqa: E501 (a text of the source stands in one line here, too)
"""Mistakes planted in repair: the specification, or the check of what was changed, finds them before anything is run."""

from __future__ import annotations

import pytest
from support.graphs import FLOAT, add, const, graph, identity, node, placeholder
from support.mutants import Mutant, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.repair import repair
from gdsurgeon.graph.graph import Graph

EDIT, FOUND = "edits.repair", "analysis.queries.ailments"


def model() -> tuple[Graph, EditResult]:
    found = graph(
        placeholder("x", shape=(2,)),
        const("v", [1.0, 2.0]),
        node("a", "Assign", ["v", "x", "^x"], T=FLOAT, _note="a"),
        node("i", "IsVariableInitialized", ["v"], dtype=FLOAT),
        node("n", "AssignVariableOp", ["v", "x"], dtype=FLOAT),
        node("r", "RefIdentity", ["v"], T=FLOAT),
        node("t", "ApplyGradientDescent", ["v", "x", "x"], T=FLOAT),
        node("real", "VariableV2", dtype=FLOAT, shape=(2,)),
        node("s", "AssignSub", ["real", "x"], T=FLOAT),
        add("c", "a", "x", _class=["loc:@gone", "loc:@v"]),
        identity("y", "c"),
    )
    return found, repair(found)


MUTANTS = [
    Mutant("the other input is read", EDIT, 'inputs[1:] if old == "Assign"', 'inputs[:1] if old == "Assign"', model),
    Mutant("it is false", EDIT, "tensor_value(BOOL, (), [True])", "tensor_value(BOOL, (), [False])", model),
    Mutant("what it waits for is lost", EDIT, "*node.controls]", "*node.controls[:0]][:1]", model),
    Mutant("another op", EDIT, "_become(graph, node, each.becomes)\n", "_become(graph, node, each.becomes.replace('Identity', 'Snapshot'))\n", model),
    Mutant("all colocations go", EDIT, "for other in node.colocated if other.exists]", "for other in node.colocated[:0]]", model),
    Mutant("a variable's op goes", FOUND, "return not dtype or dtype > REF or", "return not dtype or", model),
    Mutant("another attr goes", EDIT, 'if key.startswith("_")}', 'if key.startswith("__")}', model),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
