"""gdsurgeon add-gradients on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.desk import Desk
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    add,
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
from support.meta_graphs import put, serving

MODEL = "model.pb"
STEPS = 12
YX = ("--ys", "y", "--xs", "x")
CALL = ("add-gradients", MODEL, *YX)


def model() -> bytes:
    """A chain of Tanh with a weight, a class output, and unused nodes."""
    chain = [node(f"tanh_{i}", "Tanh", [f"tanh_{i - 1}" if i else "sum"], T=FLOAT) for i in range(STEPS)]
    return graph_bytes(
        placeholder("x", FLOAT, (-1, 4096)), const("w", [0.5] * 4096), add("sum", "x", "w"), *chain,
        identity("y", f"tanh_{STEPS - 1}"), placeholder("z", FLOAT, (2,)), node("other", "Neg", ["z"], T=FLOAT),
    )  # fmt: skip


@pytest.fixture
def there(desk: Desk) -> Desk:
    desk.put(MODEL, model())
    return desk


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        (("--ys", "y"), "missing-option", {"option": "--xs"}),
        (("--ys", "", "--xs", "x"), "bad-value", {"option": "--ys"}),
        (("--ys", "y", "--xs", ""), "bad-value", {"option": "--xs"}),
        ((*YX, "--budget", "3", "--checkpoints", "memory"), "conflicting-options", {"option": "--budget"}),
        ((*YX, "--budget", "3", "--checkpoints", "none"), "conflicting-options", {"option": "--budget"}),
        ((*YX, "--budget", "0"), "bad-value", {"option": "--budget"}),
        ((*YX, "--unconnected", "maybe"), "bad-value", {"option": "--unconnected"}),
        ((*YX, "--threads", "0"), "bad-value", {"option": "--threads"}),
        ((*YX, "--threads", "2"), "missing-option", {"option": "--threads"}),
        ((*YX, "--grad-ys", ","), "bad-value", {"option": "--grad-ys"}),
        ((*YX, "--names", ""), "bad-value", {"option": "--names"}),
        ((*YX, "--prefix", ""), "bad-value", {"option": "--prefix"}),
        ((*YX, "--prefix", "/"), "bad-value", {"option": "--prefix"}),
        ((*YX, "--checkpoints", ""), "bad-value", {"option": "--checkpoints"}),
        ((*YX, "--checkpoints", "memory", "--checkpoints", "sum"), "bad-value", {"option": "--checkpoints"}),
    ],
)
def test_a_call_that_makes_no_sense(options: tuple[str, ...], code: str, facts: dict[str, str], there: Desk) -> None:
    there.refused(2, code, "add-gradients", MODEL, *options, "-o", "out.pb", **facts)


@pytest.mark.tensorflow
def test_the_plan_is_told_and_reported(there: Desk) -> None:
    ran = there.done(
        *CALL, *"--weights --checkpoints memory --shape x=256,4096 --threads 2 -o out.pb --report report.json".split()
    )
    lines = [line.split()[0] for line in ran.err.splitlines() if line.startswith("  ")]
    assert {"gradient", "plan", "recomputed", "memory", "proven"} <= set(lines)
    report = json.loads((there.folder / "report.json").read_text())
    gradients = report["edit"]["gradients"]
    assert gradients["results"] == {"x": "gradients/x", "w": "gradients/w"}
    assert gradients["by"] == "reverse walk"
    plan = gradients["plan"]
    assert plan["recomputed"] and set(plan["recomputed"]) <= {f"tanh_{i}" for i in range(STEPS)} | {"sum"}
    assert plan["predicted_peak_bytes"] < plan["predicted_plain_peak_bytes"]


@pytest.mark.tensorflow
def test_that_a_budget_is_met_is_measured(there: Desk) -> None:
    ran = there.done(*CALL, "--budget", "8", "--shape", "x=64,4096", "-o", "out.pb", "--report", "report.json")
    report = json.loads((there.folder / "report.json").read_text())
    memory, plan = report["proof"]["memory"], report["edit"]["gradients"]["plan"]
    assert abs(memory["edited"] / plan["predicted_peak_bytes"] - 1) < 0.15
    assert memory["edited"] <= memory["budget"] == 8 << 20
    assert "of a budget of 8.0 MiB" in ran.err


@pytest.mark.tensorflow
def test_the_plan_knows_the_shapes_of_what_is_fed(there: Desk) -> None:
    np.save(there.folder / "x.npy", np.ones((256, 4096), np.float32))
    for option in (("--shape", "x=256,4096"), ("--feed", "x=@x.npy")):
        report = there.report(*CALL, "--checkpoints", "memory", *option, "-n", "--validate", "structure")
        assert not report["warnings"]
        assert report["edit"]["gradients"]["plan"]["predicted_plain_peak_bytes"] > STEPS * (4 << 20)


@pytest.mark.tensorflow
def test_names_a_scope_and_zeros(there: Desk) -> None:
    line = "--xs x,z --names saliency,nothing --prefix backward --unconnected zero"
    ran = there.done("add-gradients", MODEL, "--ys", "y", *line.split(), "-o", "out.pb")
    assert "  gradient saliency  of x" in ran.err and "  zeros    no gradient reaches: z" in ran.err
    seen = json.loads(there.run("inspect", "out.pb", "--json").out)
    assert {tensor["name"] for tensor in seen["outputs"]} == {"saliency", "nothing", "other"}
    assert "it can still be fetched" in ran.err
    names = there.run("select", "out.pb", "--scope", "backward").out.decode().split()
    assert names and all(name.startswith("backward/") for name in names)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("ys", "xs", "code", "facts"), [("y", "x", "", {}), ("c", "x", "no-gradient", {"op": "StatefulPartitionedCall"})]
)
def test_variables_that_no_tensor_asked_for_depends_on(
    desk: Desk, ys: str, xs: str, code: str, facts: dict[str, str]
) -> None:
    """The model is restored; a variable that nothing restores stops only what depends on it."""
    inner = define("inner", {"x": FLOAT}, {"y": (FLOAT, "n:y:0")}, node("n", "Neg", ["x"], T=FLOAT))
    called = node("c", "StatefulPartitionedCall", ["x"], Tin=["float32"], Tout=["float32"], f=func("outer"))
    nested = node("c", "StatefulPartitionedCall", ["x"], Tin=["float32"], Tout=["float32"], f=func("inner"))
    outer = define("outer", {"x": FLOAT}, {"y": (FLOAT, "c:output:0")}, nested)
    count = node("count", "VarHandleOp", dtype=FLOAT, shape=(), shared_name="count")
    more = (called, count, node("read", "ReadVariableOp", ["count"], dtype=FLOAT), library(inner, outer))
    put(desk.folder / "model", serving({"x": "x:0"}, {"y": "y:0", "c": "c:0"}, *more))
    command = ("add-gradients", "model", "--ys", ys, "--xs", xs, "-o", "out")
    if code:
        desk.refused(4, code, *command, **facts)
        return
    outputs = {output["edited"]: output for output in desk.report(*command)["proof"]["outputs"]}
    assert outputs["gradients/x"]["value"] == "[1.5, 2.5]"


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


@pytest.mark.tensorflow
def test_a_loop_in_a_call_is_refused_until_the_call_is_inlined(desk: Desk) -> None:
    calling = call("c", "loops", ["x"], [FLOAT], [FLOAT])
    desk.put("model.pb", graph_bytes(X, calling, identity("y", "c"), library(LOOPS, COND, BODY)))
    desk.refused(4, "no-gradient", "add-gradients", "model.pb", *GRADIENTS, "-o", "out.pb", op="StatelessWhile")
    desk.done("inline", "model.pb", "-o", "inlined.pb")
    ran = desk.done("add-gradients", "inlined.pb", *GRADIENTS, "-o", "out.pb")
    assert "bit-identical" in ran.err, ran
