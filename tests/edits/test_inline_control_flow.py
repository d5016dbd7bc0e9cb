"""inline: calls in loops and branches of version 1, effects of functions, and what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    dtypes,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
)
from support.inlining import F1, LESS_ONE, same
from support.running import run
from support.system import is_linear
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
@pytest.mark.parametrize(("controls", "keep_names"), [([], True), ([], False), (["^w/i"], False)])
def test_a_call_in_a_loop(made: Any, controls: list[str], keep_names: bool) -> None:
    """Everything in the body belongs to the iteration; what does not hang on it runs once more than it should."""
    records = while_loop(call("w/call", "step", ["w/v", "w/three", *controls], F1 * 2, F1), result="w/call")
    same([*records, library(made)], "out", feeds=[{"n": n} for n in (0, 1, 3)], keep_names=keep_names)


@pytest.mark.tensorflow
@BODIES
@pytest.mark.parametrize("controls", [[], ["^outer"], ["^pivot"], ["^outer", "^pivot"]], ids=str)
@pytest.mark.parametrize("k", ["k", "switch:1"])
def test_a_call_in_a_branch(made: Any, k: str, controls: list[str]) -> None:
    """A call runs where p holds. What would be dead is dead: otherwise both sides of a conditional give a value."""
    records = [placeholder("p", BOOL, ()), X, placeholder("k", FLOAT, (2,)), neg("outer", "x"),
               node("switch", "Switch", ["x", "p"], T=FLOAT), identity("pivot", "switch:1"),
               call("call", "step", ["switch:1", k, *controls], F1 * 2, F1), identity("y", "call"),
               identity("z", "x", "^call"), library(made)]  # fmt: skip
    for fetch in ("y", "z"):
        same(records, fetch, feeds=[{"p": p, "x": [1.0, 2.0], "k": [5.0, 6.0]} for p in (True, False)])


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


CHECKED = [{"x": [1.0, 2.0], "ok": ok} for ok in (True, False)]


OK = placeholder("ok", BOOL, ())


def asserted(name: str, source: str, *controls: str) -> bytes:
    return node(name, "Assert", ["ok", source, *controls], T=dtypes(FLOAT), summarize=3)


def checked(name: str, *body: bytes, **outputs: str) -> Any:
    """A function with an Assert in it, which runs with every call."""
    return define(name, {"x": FLOAT, "ok": BOOL}, {k: (FLOAT, v) for k, v in outputs.items()}, asserted("check", "x"),
                    *body, effects=["check"], stateful=True)  # fmt: skip


def checked_call(given_: Sequence[bytes], *controls: str) -> bytes:
    return call("c", "f", ["x", "ok", *controls], [FLOAT, BOOL], given_, stateful=True)


NEGATING = checked("f", neg("n", "x"), o="n:y:0")
Y, AFTER = identity("y", "c"), identity("y", "x", "^c")
RETURNING = define("f", {"a": FLOAT}, {"o": (FLOAT, "a")})
DROPPING = define("f", {"a": FLOAT}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 7]))
EMPTY = define("f", {}, {}, node("n", "NoOp"))
CHECK, LATE = asserted("check", "x"), identity("late", "x", "^check")
WAITING = [X, OK, CHECK, call("c", "f", ["x", "^check"], F1, F1)]
INNER = call("inner", "f", ["x", "ok"], [FLOAT, BOOL], F1, stateful=True)
NESTED = define("outer", {"x": FLOAT, "ok": BOOL}, {"o": (FLOAT, "m:y:0")}, INNER, neg("m", "x"), effects=["inner"],
                stateful=True)  # fmt: skip
OUTER_CALL = call("c", "outer", ["x", "ok"], [FLOAT, BOOL], F1, stateful=True)

CASES = {
    "done though the results do not need it": ([X, OK, checked_call(F1), Y, library(NEGATING)], ["y"]),
    "done though the call is an output": ([X, OK, checked_call(F1), library(NEGATING)], ["c"]),
    "done before what waits for a call without results": (
        [X, OK, checked_call([]), AFTER, library(checked("f"))], ["y"]),
    "done before what waits for the call": (
        [X, OK, checked_call(F1), AFTER, identity("z", "c"), library(NEGATING)], ["y", "z"]),
    "a result that is an argument": ([X, OK, checked_call(F1), Y, library(checked("f", o="x"))], ["y"]),
    "a call that waits, whose result is an argument": ([*WAITING, Y, library(RETURNING)], ["y"]),
    "the same, as an output": ([*WAITING, library(RETURNING)], ["c"]),
    "what waits for a call waits for what that waits for": (
        [X, OK, CHECK, call("c", "f", ["^check"], [], []), AFTER, library(EMPTY)], ["y"]),
    "and for what that is given": ([X, OK, CHECK, LATE, call("c", "f", ["late"], F1, F1), AFTER, library(DROPPING)],
                                   ["y"]),
    "and for both": ([X, OK, CHECK, LATE, neg("other", "x"), call("c", "f", ["late", "^other"], F1, F1), AFTER,
                      library(DROPPING)], ["y"]),
    "effects of calls in bodies": ([X, OK, OUTER_CALL, Y, identity("z", "x", "^c"), library(NESTED, NEGATING)],
                                   ["y", "z"]),
}  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("case", CASES)
def test_what_a_function_does_is_done(case: str) -> None:
    records, fetches = CASES[case]
    for fetch in fetches:
        same(records, fetch, feeds=CHECKED)


@pytest.mark.tensorflow
def test_what_a_call_without_outputs_is_run_for_can_be_run_under_its_name() -> None:
    """A call that is there for what it does, such as an init or a train op, is what is run by name."""
    found = graph(X, OK, checked_call([]), identity("y", "x"), library(checked("f")))
    inline(found)
    assert "c" in found
    run(found, targets=["c"], **CHECKED[0])
    with pytest.raises(Exception, match="assertion failed"):
        run(found, targets=["c"], **CHECKED[1])


@pytest.mark.tensorflow
def test_what_a_call_waits_for_comes_before_all_in_it() -> None:
    records = [X, OK, asserted("check", "x"), call("c", "less_one", ["x", "^check"], F1, F1), identity("y", "c"),
               library(LESS_ONE)]  # fmt: skip
    found = same(records, "y", feeds=CHECKED)
    assert graphs.inputs(found)["c/k"] == ["^check"]


def test_calls_that_wait_for_each_other_take_linear_time() -> None:
    def inlining(count: int) -> Callable[[], object]:
        made = [call(f"c{i}", "less_one", ["x", *([f"^c{i - 1}"] if i else [])], F1, F1) for i in range(count)]
        found = graph(X, *made, library(LESS_ONE))
        return lambda: inline(found)

    assert is_linear(inlining, 50, 400)


@pytest.mark.tensorflow
def test_control_edges_inside_a_body() -> None:
    made = define("f", {"x": FLOAT, "ok": BOOL}, {"o": (FLOAT, "m:y:0")}, asserted("check", "x"),
                    node("group", "NoOp", ["^check", "^x"]), neg("n", "x", "^group"),
                    neg("m", "n:y:0", "^n"))  # fmt: skip
    found = same([X, OK, checked_call(F1), identity("y", "c"), library(made)], "y", feeds=CHECKED)
    assert graphs.inputs(found)["c/n"] == ["x", "^c/group"] and graphs.inputs(found)["c/m"] == ["c/n", "^c/n"]


@pytest.mark.tensorflow
def test_several_things_that_are_waited_for() -> None:
    made = define("f", {"x": FLOAT, "ok": BOOL}, {"o": (FLOAT, "n:y:0")}, neg("n", "x"), asserted("a", "x"),
                    asserted("b", "x", "^a"), effects=["a", "b"], stateful=True)  # fmt: skip
    records = [X, OK, checked_call(F1), identity("y", "x", "^c"), neg("z", "x", "^c", "^x"), library(made)]
    found = same(records, "y", "z", feeds=CHECKED)
    assert graphs.inputs(found)["z"] == [*graphs.inputs(found)["y"], "^x"]
