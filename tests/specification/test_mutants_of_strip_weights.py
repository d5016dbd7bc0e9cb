# ruff: noqa: E501 (a text of the source stands in one line here, too)
"""Mistakes planted in strip-weights: the specification finds them before anything is run."""

from __future__ import annotations

import pytest
from support.graphs import FLOAT, INT32, add, const, function, graph, library, node, placeholder
from support.mutants import Mutant, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.strip_weights import strip_weights
from gdsurgeon.graph.graph import Graph

EDIT = "edits.strip_weights"


def model() -> Graph:
    body = function("F", const("w", [1.0] * 32), add("y", "x", "w:output:0"))
    return graph(
        placeholder("x", shape=(1, 8)),
        const("w", [0.5] * 32, shape=(8, 4), _note="a"),
        const("rows", [0] * 2000, INT32),
        const("axis", [0], INT32, ()),
        node("y", "MatMul", ["x", "w"], T=FLOAT),
        node("z", "GatherV2", ["y", "rows", "axis"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32),
        const("large", [0.5] * 32),
        node("r", "Range", ["large", "large", "large"], Tidx=FLOAT),
        node("call", "F", ["z"]),
        trailer=library(body),
    )


def plain() -> tuple[Graph, EditResult]:
    found = model()
    return found, strip_weights(found)


def keeping() -> tuple[Graph, EditResult]:
    found = model()
    return found, strip_weights(found, keep="^w$")


MUTANTS = [
    Mutant("a value stays", EDIT, 'graph.set_attr(graph[name], "value", value)', 'graph.set_attr(graph[name], "_note", None)', plain),
    Mutant("the value is not 0", EDIT, "False if dtype == BOOL else 0", "False if dtype == BOOL else 1", plain),
    Mutant("the shape is another", EDIT, "value = raw_value(dtype, shape)", "value = raw_value(dtype, shape[::-1])", plain),
    Mutant("many whole numbers stay", EDIT, "MOST_WHOLE if dtype.is_integer", "9999 if dtype.is_integer", plain),
    Mutant("many floats stay", EDIT, "else MOST_FLOATS)", "else 9999)", plain),
    Mutant("functions stay", EDIT, "if value is not None:\n                    values[place]", "if value is None:\n                    values[place]", plain),
    Mutant("what is to stay goes", EDIT, "if self.keep.holds(found.name):\n            return None", "self.keep.holds(found.name)", keeping),
    Mutant("another attr is set", EDIT, "graph.set_attr(graph[name], \"value\", value)",
           "graph.set_attr(graph[name], \"value\", value), graph.set_attr(graph[name], \"_note\", value)", plain),
    Mutant("a function gets another op", EDIT, "copy.CopyFrom(function)", "copy.CopyFrom(function), setattr(copy.node_def[1], 'op', 'Sub')", plain),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
