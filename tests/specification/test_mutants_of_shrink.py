# ruff: noqa: E501 (a text of the source stands in one line here, too)
"""Mistakes planted in shrink: the specification finds them before anything is run."""

from __future__ import annotations

import pytest
from support.graphs import FLOAT, add, const, function, graph, library, node, placeholder, tensor
from support.mutants import Mutant, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.shrink import shrink
from gdsurgeon.graph.graph import Graph

EDIT, FORMS = "edits.shrink", "edits.smaller"
VALUES = [0.37 * (i % 61) + i for i in range(1024)]


def model() -> Graph:
    body = function("F", const("w", VALUES), add("y", "x", "w:output:0"))
    return graph(
        placeholder("x", shape=(1, 32)),
        const("a", [1.0]),
        node("w", "Const", ["^a"], dtype=FLOAT, value=tensor(VALUES, FLOAT, (32, 32)), device="/cpu:0", _note="a"),
        node("y", "MatMul", ["x", "w"], T=FLOAT),
        const("kept", VALUES),
        const("short", VALUES[:300]),
        add("z", "kept", "y"),
        node("call", "F", ["z"]),
        trailer=library(body),
    )


def to_half() -> tuple[Graph, EditResult]:
    found = model()
    return found, shrink(found, "float16", keep="^kept$", least=512)


def to_brain() -> tuple[Graph, EditResult]:
    found = model()
    return found, shrink(found, "bfloat16", keep="^kept$")


def to_whole() -> tuple[Graph, EditResult]:
    found = model()
    return found, shrink(found, "int8", keep="^kept$")


MUTANTS = [
    Mutant("elements are off by a bit", FORMS, "parts.append(small.tobytes())", "parts.append((small + 1).tobytes())", to_brain),
    Mutant("elements are another's", FORMS, "parts.append(small.tobytes())", "parts.append(small[::-1].tobytes())", to_half),
    Mutant("the scale is another", FORMS, "array.dtype.type(LARGEST)).astype", "array.dtype.type(255)).astype", to_whole),
    Mutant("it is cut off", FORMS, "np.rint(array / np", "np.trunc(array / np", to_whole),
    Mutant("it no longer waits", EDIT, '"Const", (), controls, attrs', '"Const", (), (), attrs', to_half),
    Mutant("it is elsewhere", EDIT, 'attrs=attrs, device=node.device, after=node', 'attrs=attrs, after=node', to_half),
    Mutant("the Cast is elsewhere", EDIT, "attrs=cast, device=node.device, after=node", "attrs=cast, after=node", to_whole),
    Mutant("the node waits as well", EDIT, "graph.set_controls(node, [])", "pass", to_half),
    Mutant("the value stays", EDIT, 'graph.set_attr(node, "value", None)', "pass", to_half),
    Mutant("what is kept is not", EDIT, '"kept" if is_kept else', '"" if is_kept else', to_half),
    Mutant("small ones go", EDIT, "header.elements < max(self.least, 1)", "header.elements < 1", to_half),
    Mutant("it is a sum", EDIT, 'node, "Mul", [inner, scale]', 'node, "AddV2", [inner, scale]', to_whole),
    Mutant("inputs change places", EDIT, 'node, "Mul", [inner, scale]', 'node, "Mul", [scale, inner]', to_whole),
    Mutant("another attr goes", EDIT, 'graph.set_attr(node, "dtype", None)', 'graph.set_attr(node, "dtype", None), graph.set_attr(node, "_note", None)', to_half),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)
