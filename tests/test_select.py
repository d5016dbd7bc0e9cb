"""The selection language: nodes by name, by op, by paths."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.graphs import BOOL, FLOAT, INT32, add, const, g8, graph, identity, node, placeholder, scalar, tensor
from support.selecting import picked, refused, short, split

from gdsurgeon.edits.reroute import reroute

SCOPES = [const(n, [1]) for n in ("s", "s/x", "s_1", "s_1/x", "st/x", "r/s", "r/s/x", "S/x")]
DOTS = [const(n, [1]) for n in ("a.b/y", "axb/y", "a.b", "axb", "c-d/y")]
WAITING = [const("x", [1]), identity("a", "x"), const("k", [1]), identity("y", "k", "^a"), identity("z", "y")]
WAITING_FOR_X = [const("x", [1]), const("k", [1]), identity("y", "k", "^x"), identity("z", "y")]
CONTROLS = [const("a", [1]), const("b", [1], _x=1), identity("c", "b", "^a"), node("d", "NoOp", ["^c"])]
LOOP_BODY = "w/Merge w/Less w/LoopCond w/Switch w/Identity w/Add w/NextIteration"
WEIGHTS = [
    placeholder("x"), const("w1", [1, 2]), const("w2", [3, 4]), add("w", "w1", "w2"),
    node("mul", "Mul", ["x", "w"], T=FLOAT), const("bias", [1, 1]), add("y", "mul", "bias"), add("z", "mul", "bias"),
    const("unread", [1]),
]  # fmt: skip
"""x * (w1 + w2) + bias, where the bias is read twice."""
NO_CONSTANTS = [
    const("shape", [2], INT32), node("random", "RandomUniform", ["shape"], T=INT32, dtype=FLOAT, seed=1, seed2=2),
    const("c", [1, 2]), node("fed", "PlaceholderWithDefault", ["c"], dtype=FLOAT, shape=(2,)),
    add("y", "random", "fed"),
]  # fmt: skip
"""Nodes with state, and fed nodes, are no constants."""
LATE = [placeholder("x"), identity("i", "x"), node("k", "Const", ["^i"], dtype=FLOAT, value=tensor([1])),
        add("y", "i", "k")]  # fmt: skip
WEIGHT_IN_LOOP = [
    *graphs.loop(),
    const("weight", [2], INT32, ()),
    node("w/weight", "Enter", ["weight"], T=INT32, frame_name="w", is_constant=True, parallel_iterations=10),
    node("w/Mul", "Mul", ["w/Identity", "w/weight"], T=INT32),
]
"""An Enter forwards a weight into a loop: it is part of the loop and not of its consumer."""


def between(*ends: str) -> dict[str, Any]:
    """Returns a selection by texts ``a,b=c``."""
    sides = ([tuple(side.split(",")) for side in text.split("=")] for text in ends)
    return {"between": tuple((starts, stops) for starts, stops in sides)}


G8, SPLIT, LOOP = g8(), split(), graphs.loop()
SELECTED: list[tuple[list[bytes], dict[str, Any], str]] = [
    # By name: in the order of the file, and once. Patterns are searched and not anchored.
    (G8, {"nodes": ("foo/d", "a", "foo/d")}, "ad"),
    (G8, {"nodes": ("foo/d",), "regexes": ("d$",), "ops": ("Const",)}, "abd"),
    (G8, {"regexes": ("a",)}, "aefgh"),
    (G8, {"regexes": ("^foo/",)}, "bcdefgh"),
    (G8, {"regexes": ("^foo/bar/",)}, "efgh"),
    (G8, {"regexes": ("^foo/bar/", "^a$")}, "aefgh"),
    (G8, {"regexes": (r"^.*\b[abc]$",)}, "abc"),
    (G8, {"ops": ("Const",)}, "abd"),
    (G8, {"ops": ("AddV2",)}, "cefgh"),
    (G8, {"ops": ("AddV2", "Const")}, "abcdefgh"),
    # Scopes are literal, and contain the node with their name.
    (G8, {"scopes": ("foo",)}, "bcdefgh"),
    (G8, {"scopes": ("foo/",)}, "bcdefgh"),
    (G8, {"scopes": ("foo/bar",)}, "efgh"),
    (G8, {"scopes": ("foo/bar/",)}, "efgh"),
    (G8, {"scopes": ("foo/bar", "a")}, "aefgh"),
    (G8, {"scopes": ("foo/b",)}, "b"),
    (SCOPES, {"scopes": ("s",)}, "s s/x"),
    (SCOPES, {"scopes": ("r/s",)}, "r/s r/s/x"),
    (DOTS, {"scopes": ("a.b",)}, "a.b/y a.b"),
    # Between: with the ends and without the beginnings, except for a beginning on a path from another one.
    (G8, between("foo/c=foo/bar/h"), "fgh"),
    (G8, between("a=foo/bar/h"), "cfgh"),
    (G8, between("a=foo/c"), "c"),
    (G8, between("foo/c,foo/d=foo/bar/e,foo/bar/g"), "eg"),
    (G8, between("a=foo/c", "foo/d=foo/bar/e"), "ce"),
    (G8, between("a,foo/c=foo/bar/f"), "cf"),
    (G8, between("foo/d=foo/bar/e,foo/bar/g"), "e"),
    (WAITING, between("x=z") | {"control": True}, "a y z"),
    (SPLIT, between("s:1=z"), "r z"),
    (SPLIT, between("s=z"), "p z"),
    (SPLIT, between("s:0=z"), "p z"),
    (SPLIT, between("s:1=z,q"), "q r z"),
    (SPLIT, between("v=s:2"), "s"),
    # Walks, also from an end without outputs: an init op, a train op, an Assert.
    (G8, {"forward": ("foo/bar/f",), "backward": ("foo/bar/g",)}, "abcfgh"),
    (G8, {"forward": ("a",), "backward": ("foo/bar/f",)}, "abcdefgh"),
    (G8, {"forward": ("foo/d",)}, "defh"),
    (G8, {"backward": ("foo/bar/g",)}, "abcg"),
    (G8, {"forward": ("foo/bar/e", "foo/bar/g")}, "egh"),
    (SPLIT, {"backward": ("w",), "control": True}, "axis v s w"),
    (SPLIT, {"backward": ("w",)}, "w"),
    (CONTROLS, {"forward": ("a",)}, "a"),
    (CONTROLS, {"forward": ("a",), "control": True}, "a c d"),
    (CONTROLS, {"backward": ("c",)}, "b c"),
    (CONTROLS, {"backward": ("c",), "control": True}, "a b c"),
    (LOOP, {"forward": ("w/Add",)}, f"{LOOP_BODY} w/Exit out"),
    (LOOP, {"backward": ("w/Less",)}, f"{LOOP_BODY} w/Enter w/Limit w/one zero n"),
    (LOOP, between("w/Identity=w/NextIteration"), LOOP_BODY),
    # Exclusion follows the union.
    (G8, {"scopes": ("foo/bar",), "nodes": ("foo/bar/e", "a"), "exclude": ("/[ef]$",)}, "agh"),
    (G8, {"ops": ("Const",), "regexes": ("h$",), "exclude": ("^a$", "d")}, "bh"),
    (G8, {"exclude": ("bar",)}, "abcd"),
    (G8, {"ops": ("Const",), "exclude": ("nothing",)}, "abd"),
    ([placeholder("p", BOOL, ()), scalar("s", 1)], {"exclude": ("s",)}, "p"),
    # Constants whose only consumers are selected.
    (WEIGHTS, {"nodes": ("mul",)}, "mul"),
    (WEIGHTS, {"nodes": ("mul",), "constants": True}, "w1 w2 w mul"),
    (WEIGHTS, {"nodes": ("y",), "constants": True}, "y"),
    (WEIGHTS, {"nodes": ("y", "z"), "constants": True}, "bias y z"),
    (WEIGHTS, {"nodes": ("mul",), "constants": True, "exclude": ("w1",)}, "w2 w mul"),
    (NO_CONSTANTS, {"nodes": ("y",), "constants": True}, "y"),
    (LATE, {"nodes": ("y",), "constants": True}, "k y"),
    (WEIGHT_IN_LOOP, {"nodes": ("w/Mul",), "constants": True}, "w/Mul"),
    (WEIGHT_IN_LOOP, {"nodes": ("w/Add",), "constants": True}, "w/one w/Add"),
]


@pytest.mark.parametrize(("records", "selection", "names"), SELECTED, ids=str)
def test_selected(records: list[bytes], selection: dict[str, Any], names: str) -> None:
    found = picked(records, **selection)
    if records is LOOP:
        assert (sorted(found), len(found)) == (sorted(names.split()), len(set(found)))
    else:
        assert found == (short(names) if records is G8 else names.split())


NEAR = {"Add": "AddV2", "Addv2": "AddV2", "Conv2D": None, "const": "Const", "AddV2 ": "AddV2", "Add.*": None}
REFUSED: list[tuple[list[bytes], str, dict[str, Any], dict[str, Any]]] = [
    *((G8, "no-such-node", {"node": name, "near": near}, {"nodes": (name,)})
      for name, near in (("foo/bra/e", "foo/bar/e"), ("foo/c:0", "foo/c"), ("", None))),
    (G8, "nothing-matched", {"argument": "regexes", "value": "^bar"}, {"regexes": ("a", "^bar")}),
    (G8, "bad-pattern", {"value": "("}, {"regexes": ("(",)}),
    (G8, "bad-pattern", {"value": "("}, {"exclude": ("(",)}),
    *((G8, "nothing-matched", {"argument": "ops", "value": op, "near": near}, {"ops": (op,)})
      for op, near in NEAR.items()),
    (DOTS, "nothing-matched", {"argument": "scopes", "value": "a."}, {"scopes": ("a.",)}),
    (DOTS, "nothing-matched", {}, {"scopes": (".*",)}),
    (G8, "nothing-matched", {"near": "foo/bar"}, {"scopes": ("foo/baz",)}),
    (G8, "nothing-matched", {"argument": "between", "value": "foo/d=foo/bar/g"}, between("foo/d=foo/bar/g")),
    (G8, "nothing-matched", {}, between("foo/bar/h=foo/c")),
    (WAITING, "nothing-matched", {}, between("x=z")),
    (WAITING_FOR_X, "nothing-matched", {}, between("x=z")),
    *((SPLIT, code, facts, between(*ends)) for name, code, facts in (
        ("s:3", "no-such-tensor", {"tensor": "s:3", "op": "Split", "count": 3}),
        ("w", "no-such-tensor", {"tensor": "w", "op": "NoOp", "count": 0}),
        ("^s", "bad-tensor-name", {"tensor": "^s"}),
        ("s:01", "bad-tensor-name", {"tensor": "s:01"}),
        ("axi", "no-such-node", {"node": "axi", "near": "axis"}),
    ) for ends in ([f"{name}=z"], [f"v={name}"])),
    (G8, "all-excluded", {}, {"ops": ("Const",), "exclude": (".",)}),
    (G8, "nothing-selected", {}, {}),
    (G8, "nothing-selected", {}, {"control": True, "constants": True}),
]  # fmt: skip


@pytest.mark.parametrize(("records", "code", "facts", "selection"), REFUSED, ids=str)
def test_refused(records: list[bytes], code: str, facts: dict[str, Any], selection: dict[str, Any]) -> None:
    refused(records, code, facts, **selection)


def test_reroute_and_select_agree_on_what_a_pattern_is() -> None:
    found = graph(*g8())
    result = reroute(found, [("foo/c", "foo/d")], only="bar/[ef]$")
    assert {r.node for r in result.intent.rewired} == set(picked(g8(), regexes=("bar/[ef]$",)))
