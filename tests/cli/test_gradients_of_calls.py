"""add-gradients through functions: what TensorFlow differentiates as a whole, and what has to be inlined before."""

from __future__ import annotations

import pytest
from support.desk import Desk
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    call,
    const,
    define,
    dtypes,
    func,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
)

pytestmark = pytest.mark.tensorflow

STATE = {"i": INT32, "most": INT32, "v": FLOAT}
COND = define(
    "cond", STATE, {"more": (BOOL, "less:z:0")}, const("n", [3], INT32, ()),
    node("less", "Less", ["i", "n:output:0"], T=INT32),
)  # fmt: skip
BODY = define(
    "body", STATE, {"i2": (INT32, "next:z:0"), "most2": (INT32, "most"), "v2": (FLOAT, "square:y:0")},
    const("one", [1], INT32, ()), node("next", "AddV2", ["i", "one:output:0"], T=INT32),
    node("square", "Square", ["v"], T=FLOAT),
)  # fmt: skip


def loop(*inputs: str) -> bytes:
    return node("loop", "StatelessWhile", inputs, T=dtypes(INT32, INT32, FLOAT), cond=func("cond"), body=func("body"))


LOOPS = define(
    "loops", {"x": FLOAT}, {"out": (FLOAT, "loop:output:2")},
    const("zero", [0], INT32, ()), const("most", [9], INT32, ()), loop("zero:output:0", "most:output:0", "x"),
)  # fmt: skip
X = placeholder("x", FLOAT, (1, 4))
GRADIENTS = ("--ys", "y", "--xs", "x")


def test_a_loop_in_a_call_is_refused_until_the_call_is_inlined(desk: Desk) -> None:
    calling = call("c", "loops", ["x"], [FLOAT], [FLOAT])
    desk.put("model.pb", graph_bytes(X, calling, identity("y", "c"), library(LOOPS, COND, BODY)))
    desk.refused(4, "no-gradient", "add-gradients", "model.pb", *GRADIENTS, "-o", "out.pb", op="StatelessWhile")
    assert desk.run("inline", "model.pb", "-o", "inlined.pb").code == 0
    ran = desk.run("add-gradients", "inlined.pb", *GRADIENTS, "-o", "out.pb")
    assert ran.code == 0 and "bit-identical" in ran.err, ran
