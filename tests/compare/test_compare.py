"""What the comparison says of a graph and of what it is written as after a change: for each primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import FLOAT, add, const, function, graph, identity, library

from gdsurgeon.compare import comparison
from gdsurgeon.compare.comparison import compare_written
from gdsurgeon.compare.intent import Facts, FunctionChanges, Rewired
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Use

TYPE = type_value(2).SerializeToString()


def before() -> Graph:
    return graph(
        const("a", [1]), const("b", [1]), add("y", "a", "b", "^b"), identity("z", "y", _class=["loc:@a"]),
        library(function("f")),
    )  # fmt: skip


CHANGES: dict[str, tuple[Callable[[Graph], Any], Facts]] = {
    "nothing": (lambda g: None, Facts()),
    "written anew": (lambda g: g.touch(g["y"]), Facts()),
    "the same inputs": (lambda g: g.set_inputs(g["y"], g["y"].inputs), Facts()),
    "inputs": (
        lambda g: g.set_inputs(g["y"], [g["b"].output, g["a"].output]),
        Facts(rewired=[Rewired("y", 0, "a", "b"), Rewired("y", 1, "b", "a")]),
    ),
    "fewer inputs": (
        lambda g: g.set_inputs(g["y"], [g["a"].output]),
        Facts(altered={"y": {"inputs": (("a", "b"), ("a",))}}),
    ),
    "reroute": (lambda g: g.reroute([Use(g["z"], 0)], g["a"].output), Facts(rewired=[Rewired("z", 0, "y", "a")])),
    "control inputs": (lambda g: g.set_controls(g["y"], []), Facts(altered={"y": {"controls": (("b",), ())}})),
    "colocations": (
        lambda g: g.set_colocated(g["z"], [g["b"]]),
        Facts(altered={"z": {"colocated": (("a",), ("b",))}}),
    ),
    "an attr": (lambda g: g.set_attr(g["z"], "T", TYPE), Facts(altered={"z": {"attr T": (FLOAT, TYPE)}})),
    "an attr less": (lambda g: g.set_attr(g["z"], "T", None), Facts(altered={"z": {"attr T": (FLOAT, None)}})),
    "an op": (lambda g: g.set_op(g["z"], "Snapshot"), Facts(altered={"z": {"op": ("Identity", "Snapshot")}})),
    "a device": (lambda g: g.set_device(g["z"], "/cpu:0"), Facts(altered={"z": {"device": ("", "/cpu:0")}})),
    "a name": (lambda g: g.rename({g["a"]: "c"}), Facts(renamed={"a": "c"})),
    "names exchanged": (lambda g: g.rename({g["a"]: "b", g["b"]: "a"}), Facts(renamed={"a": "b", "b": "a"})),
    "a node more": (lambda g: g.add("n", "NoOp"), Facts(added=["n"])),
    "a copy": (lambda g: g.add_copy("c", g["a"]), Facts(added=["c"])),
    "a node less": (lambda g: g.remove([g["z"]]), Facts(removed=["z"])),
    "a function more": (
        lambda g: g.functions.add(function("g")),
        Facts(functions=FunctionChanges(added=["g"])),
    ),
    "a function less": (
        lambda g: g.functions.remove(["f"]),
        Facts(functions=FunctionChanges(removed=["f"])),
    ),
    "another function": (
        lambda g: g.functions.replace(function("f", ret="x")),
        Facts(functions=FunctionChanges(changed=["f"])),
    ),
}


def compared(found: Graph, **renamed: str) -> Facts:
    return compare_written(found.pristine(), found.chunks(), renamed).facts


@pytest.mark.parametrize("what", CHANGES)
def test_each_primitive_is_told(what: str) -> None:
    found = before()
    change, facts = CHANGES[what]
    change(found)
    assert compared(found, **facts.renamed) == facts


def test_what_comes_back_to_what_it_was_is_no_change() -> None:
    found = before()
    found.set_device(found["z"], "/cpu:0")
    found.set_device(found["z"], "")
    found.rename({found["a"]: "c"})
    found.rename({found["c"]: "a"})
    assert compared(found) == Facts()


def test_a_name_that_another_node_has_now() -> None:
    found = before()
    found.remove([found["z"]])
    found.add("z", "Identity", [found["y"].output], attrs={"T": FLOAT})
    assert compared(found) == Facts(altered={"z": {"colocated": (("a",), ())}})


def test_a_long_value_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte that an edit puts in the place of another is not held in memory to say that it is another."""
    monkeypatch.setattr(comparison, "_LONGEST", 16)
    model = graph(const("a", [float(i) for i in range(64)]), identity("y", "a"))
    other = graph(const("a", [float(i) for i in range(1, 65)]))
    model.rename({model["a"]: "old"})
    copy = model.add_copy("a", other["a"])
    model.reroute([Use(model["y"], 0)], copy.output)
    model.remove([model["old"]])
    facts = compare_written(model.pristine(), model.chunks()).facts
    (was, now) = facts.altered["a"]["attr value"]
    assert was != now
    assert all(isinstance(value, bytes) and len(value) < 64 and b" bytes, " in value for value in (was, now))
