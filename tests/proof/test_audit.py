"""An edit that does more than it says, or less, is caught by what the graph itself keeps of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import add, const, function, graph, identity, library

from gdsurgeon.compare.comparison import compare_written
from gdsurgeon.compare.intent import FunctionChanges, Intent, Rewired
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.rename import rename
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.accounting import unaccounted

BESIDES: dict[str, tuple[Callable[[Graph], Any], str]] = {
    "an input": (lambda g: g.set_inputs(g["z"], [g["a"].output]), "input 0 of 'z' is 'a'"),
    "an input less": (lambda g: g.set_inputs(g["y"], [g["a"].output]), "'y' has 1 inputs, but had 2"),
    "a control input": (lambda g: g.set_controls(g["y"], []), "'y' has different control inputs"),
    "a colocation": (lambda g: g.set_colocated(g["z"], []), "'z' is colocated with different nodes"),
    "an attr": (lambda g: g.set_attr(g["z"], "T", type_value(2).SerializeToString()), "'z' has a different 'T'"),
    "an op": (lambda g: g.set_op(g["z"], "Snapshot"), "'z' is a Snapshot, but was an Identity"),
    "a device": (lambda g: g.set_device(g["z"], "/cpu:0"), "'z' has the device '/cpu:0', but had ''"),
    "a name": (lambda g: g.rename({g["z"]: "w"}), "'w' was added"),
    "a node more": (lambda g: g.add("n", "NoOp"), "'n' was added"),
    "a node less": (lambda g: g.remove([g["z"]]), "'z' was removed"),
    "a function more": (lambda g: g.functions.add(function("g")), "the function 'g' was added"),
    "a function less": (lambda g: g.functions.remove(["f"]), "the function 'f' was removed"),
    "another function": (lambda g: g.functions.replace(function("f", ret="x")), "the function 'f' was changed"),
}


def before() -> Graph:
    return graph(
        const("a", [1]), const("b", [1]), add("y", "a", "b", "^b"), identity("z", "y", _class=["loc:@a"]),
        const("c", [1]), library(function("f")),
    )  # fmt: skip


def faults(found: Graph, result: EditResult) -> list[str]:
    comparison = compare_written(found.pristine(), found.chunks(), result.intent.renamed)
    return list(unaccounted(comparison, result))


@pytest.mark.parametrize("what", BESIDES)
def test_what_an_edit_does_besides_is_found_without_its_help(what: str) -> None:
    found = before()
    result = rename(found, [("c", "d")])
    assert faults(found, result) == []
    change, said = BESIDES[what]
    change(found)
    assert len(faults(found, result)) == (2 if what == "a name" else 1)  # a removed node and a new one
    assert said in faults(found, result)[0]


@pytest.mark.parametrize(
    "intent",
    [
        Intent(renamed={"a": "b"}),
        Intent(added=["n"]),
        Intent(removed=["a"]),
        Intent(rewired=[Rewired("z", 0, "y", "a")]),
        Intent(functions=FunctionChanges(added=["g"])),
        Intent(functions=FunctionChanges(removed=["f"])),
    ],
    ids=["renamed", "added", "removed", "rewired", "function added", "function removed"],
)
def test_what_an_edit_says_and_has_not_done_is_found(intent: Intent) -> None:
    assert faults(before(), EditResult(intent))
