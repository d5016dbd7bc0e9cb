"""What a graph says of what was changed: for each primitive that changes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import FLOAT, add, const, function, graph, identity, library

from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph, Use
from gdsurgeon.graph.journal import FunctionChanges, Journal, Rewired, journal_of

TYPE = type_value(2).SerializeToString()


def before() -> Graph:
    return graph(
        const("a", [1]), const("b", [1]), add("y", "a", "b", "^b"), identity("z", "y", _class=["loc:@a"]),
        library(function("f")),
    )  # fmt: skip


CHANGES: dict[str, tuple[Callable[[Graph], Any], Journal]] = {
    "nothing": (lambda g: None, Journal()),
    "written anew": (lambda g: g.touch(g["y"]), Journal()),
    "the same inputs": (lambda g: g.set_inputs(g["y"], g["y"].inputs), Journal()),
    "inputs": (
        lambda g: g.set_inputs(g["y"], [g["b"].output, g["a"].output]),
        Journal(rewired=[Rewired("y", 0, "a", "b"), Rewired("y", 1, "b", "a")]),
    ),
    "fewer inputs": (
        lambda g: g.set_inputs(g["y"], [g["a"].output]),
        Journal(altered={"y": {"inputs": (("a", "b"), ("a",))}}),
    ),
    "reroute": (lambda g: g.reroute([Use(g["z"], 0)], g["a"].output), Journal(rewired=[Rewired("z", 0, "y", "a")])),
    "control inputs": (lambda g: g.set_controls(g["y"], []), Journal(altered={"y": {"controls": (("b",), ())}})),
    "colocations": (
        lambda g: g.set_colocated(g["z"], [g["b"]]),
        Journal(altered={"z": {"colocated": (("a",), ("b",))}}),
    ),
    "an attr": (lambda g: g.set_attr(g["z"], "T", TYPE), Journal(altered={"z": {"attr T": (FLOAT, TYPE)}})),
    "an attr less": (lambda g: g.set_attr(g["z"], "T", None), Journal(altered={"z": {"attr T": (FLOAT, None)}})),
    "an op": (lambda g: g.set_op(g["z"], "Snapshot"), Journal(altered={"z": {"op": ("Identity", "Snapshot")}})),
    "a device": (lambda g: g.set_device(g["z"], "/cpu:0"), Journal(altered={"z": {"device": ("", "/cpu:0")}})),
    "a name": (lambda g: g.rename({g["a"]: "c"}), Journal(renamed={"a": "c"})),
    "names exchanged": (lambda g: g.rename({g["a"]: "b", g["b"]: "a"}), Journal(renamed={"a": "b", "b": "a"})),
    "a node more": (lambda g: g.add("n", "NoOp"), Journal(added=["n"])),
    "a copy": (lambda g: g.add_copy("c", g["a"]), Journal(added=["c"])),
    "a node less": (lambda g: g.remove([g["z"]]), Journal(removed=["z"])),
    "a function more": (
        lambda g: g.functions.add(function("g")),
        Journal(functions=FunctionChanges(added=["g"])),
    ),
    "a function less": (
        lambda g: g.functions.remove(["f"]),
        Journal(functions=FunctionChanges(removed=["f"])),
    ),
    "another function": (
        lambda g: g.functions.replace(function("f", ret="x")),
        Journal(functions=FunctionChanges(changed=["f"])),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_each_primitive_is_told(what: str) -> None:
    found = before()
    change, facts = CHANGES[what]
    change(found)
    assert journal_of(found) == facts


def test_what_comes_back_to_what_it_was_is_no_change() -> None:
    found = before()
    found.set_device(found["z"], "/cpu:0")
    found.set_device(found["z"], "")
    found.rename({found["a"]: "c"})
    found.rename({found["c"]: "a"})
    assert journal_of(found) == Journal()


def test_a_name_that_another_node_has_now() -> None:
    found = before()
    found.remove([found["z"]])
    found.add("z", "Identity", [found["y"].output], attrs={"T": FLOAT})
    assert journal_of(found) == Journal(added=["z"], removed=["z"])
