"""inline: calls in loops and in branches of version 1."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    X,
    add,
    call,
    const,
    define,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
)
from support.inlining import F1, same
from support.running import run
from support.v1_control_flow import LOOP, while_loop

from gdsurgeon.edits.inline import inline

STEP = define("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, "t:z:0")}, scalar("one", 1),
                add("s", "v", "one:output:0"), node("t", "Mul", ["s:z:0", "k"], T=FLOAT))  # fmt: skip


IGNORING = define("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "k"))


PASSING = define("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, "k")})


CONSTANT = define("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, "c:output:0")}, scalar("c", 7))


BODIES = pytest.mark.parametrize(
    "made", [STEP, IGNORING, PASSING, CONSTANT], ids=["of all", "ignoring", "passing", "constant"]
)


@pytest.mark.tensorflow
@BODIES
@pytest.mark.parametrize("keep_names", [True, False])
def test_a_call_in_a_loop(made: Any, keep_names: bool) -> None:
    """Everything in the body belongs to the iteration; what does not hang on it runs once more than it should."""
    records = while_loop(call("w/call", "step", ["w/v", "w/three"], F1 * 2, F1), result="w/call")
    same([*records, library(made)], "out", feeds=[{"n": n} for n in (0, 1, 3)], keep_names=keep_names)


@pytest.mark.tensorflow
@BODIES
def test_a_call_in_a_loop_that_waits(made: Any) -> None:
    records = while_loop(call("w/call", "step", ["w/v", "w/three", "^w/i"], F1 * 2, F1), result="w/call")
    same([*records, library(made)], "out", feeds=[{"n": n} for n in (0, 1, 3)])


def branch(*controls: str) -> list[bytes]:
    """A call that runs where p holds and is read by nobody else."""
    return [placeholder("p", BOOL, ()), X, placeholder("k", FLOAT, (2,)), neg("outer", "x"),
            node("switch", "Switch", ["x", "p"], T=FLOAT),
            call("call", "step", ["switch:1", "k", *controls], F1 * 2, F1), identity("y", "call")]  # fmt: skip


BRANCHES = [{"p": p, "x": [1.0, 2.0], "k": [5.0, 6.0]} for p in (True, False)]


@pytest.mark.tensorflow
@BODIES
@pytest.mark.parametrize("controls", [(), ("^outer",), ("^switch",)], ids=["alone", "waiting", "waiting for a branch"])
def test_a_call_in_a_branch(made: Any, controls: tuple[str, ...]) -> None:
    """What would be dead is dead: otherwise both sides of a conditional give a value."""
    controls = tuple("^pivot" if c == "^switch" else c for c in controls)
    pivot = [identity("pivot", "switch:1")] if controls == ("^pivot",) else []
    same([*branch(*controls), *pivot, library(made)], "y", feeds=BRANCHES)


@pytest.mark.tensorflow
@pytest.mark.parametrize("body", ["constant", "passing", "of it"])
@pytest.mark.parametrize("controls", [[], ["^outer"], ["^outer", "^pivot"]], ids=str)
def test_a_call_of_one_argument_in_a_branch(body: str, controls: list[str]) -> None:
    result, nodes = {
        "constant": ("k:output:0", [const("k", [7, 7])]), "passing": ("a", []), "of it": ("n:y:0", [neg("n", "a")])
    }[body]  # fmt: skip
    made = define("f", {"a": FLOAT}, {"o": (FLOAT, result)}, *nodes)
    records = [placeholder("p", BOOL, ()), X, neg("outer", "x"), node("switch", "Switch", ["x", "p"], T=FLOAT),
               identity("pivot", "switch:1"), call("call", "f", ["switch:1", *controls], F1, F1), identity("y", "call"),
               identity("z", "x", "^call"), library(made)]  # fmt: skip
    for fetch in ("y", "z"):
        same(records, fetch, feeds=[{"p": p, "x": [1.0, 2.0]} for p in (True, False)])


@pytest.mark.tensorflow
def test_a_call_behind_two_conditionals() -> None:
    """It runs where both are taken, whatever its body needs."""
    for made in (STEP, IGNORING, PASSING, CONSTANT):
        records = [placeholder("p", BOOL, ()), placeholder("q", BOOL, ()), X,
                   node("where_p", "Switch", ["x", "p"], T=FLOAT), node("where_q", "Switch", ["x", "q"], T=FLOAT),
                   call("call", "step", ["where_p:1", "where_q:1"], F1 * 2, F1), identity("y", "call"),
                   library(made)]  # fmt: skip
        same(records, "y", feeds=[{"p": p, "q": q, "x": [1.0, 2.0]} for p in (True, False) for q in (True, False)])


@pytest.mark.tensorflow
def test_a_loop_in_a_body_has_a_frame_of_its_own() -> None:
    """Two calls of a function with a v1 loop in it run side by side."""
    loop = graphs.proto(*LOOP, trailer=b"")
    made = define("f", {"n": INT32}, {"o": (FLOAT, "out:output:0")})
    outputs = {"Enter": "output", "Merge": "output", "Switch": "output_false", "Exit": "output", "Less": "z",
               "LoopCond": "output", "Identity": "output", "Const": "output", "AddV2": "z", "Mul": "z",
               "NextIteration": "output"}  # fmt: skip
    ops = {n.name: n.op for n in loop.node}
    for n in loop.node:
        if n.op == "Placeholder":
            continue
        copy = made.node_def.add()
        copy.CopyFrom(n)
        for i, text in enumerate(n.input):
            name, _, port = text.partition(":")
            if name[0] != "^" and ops[name] != "Placeholder":
                copy.input[i] = f"{name}:{'output_true' if port == '1' else outputs[ops[name]]}:0"
    records = [placeholder("n", INT32, ()), call("c", "f", ["n"], [INT32], F1), call("d", "f", ["n"], [INT32], F1),
               add("y", "c", "d"), library(made)]  # fmt: skip
    for keep_names in (True, False):
        found = graph(*records)
        inline(found, keep_names=keep_names)
        frames = {n.name: n.attr["frame_name"].s for n in graphs.parsed(found).node if n.op == "Enter"}
        assert len(set(frames.values())) == 2
        assert [run(found, "y", n=n) for n in (0, 1, 3)] == [[2.0], [10.0], [58.0]]
