"""inline: effects of functions, and what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support import graphs
from support.counting import is_linear
from support.graphs import BOOL, FLOAT, X, call, const, define, dtypes, graph, identity, library, neg, node, placeholder
from support.inlining import F1, LESS_ONE, same
from support.running import run

from gdsurgeon.edits.inline import inline

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
PASSING = define("f", {"a": FLOAT}, {"o": (FLOAT, "a")})
IGNORING = define("f", {"a": FLOAT}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 7]))
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
    "a call that waits, whose result is an argument": ([*WAITING, Y, library(PASSING)], ["y"]),
    "the same, as an output": ([*WAITING, library(PASSING)], ["c"]),
    "what waits for a call waits for what that waits for": (
        [X, OK, CHECK, call("c", "f", ["^check"], [], []), AFTER, library(EMPTY)], ["y"]),
    "and for what that is given": ([X, OK, CHECK, LATE, call("c", "f", ["late"], F1, F1), AFTER, library(IGNORING)],
                                   ["y"]),
    "and for both": ([X, OK, CHECK, LATE, neg("other", "x"), call("c", "f", ["late", "^other"], F1, F1), AFTER,
                      library(IGNORING)], ["y"]),
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
