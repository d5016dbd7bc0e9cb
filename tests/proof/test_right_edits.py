"""Right edits that are proven although what they touch cannot be fetched, depends on chance, or is not run at all."""

from __future__ import annotations

import pytest
from support.desk import Desk
from support.graphs import BOOL, FLOAT, INT32, add, graph_bytes, identity, node, placeholder, scalar, tensor
from support.v1_control_flow import while_loop

pytestmark = pytest.mark.tensorflow


def check_proven(desk: Desk, *command: str, words: str = "bit-identical") -> None:
    """COMMAND, whose output is OUT, ends with 0 and says WORDS."""
    ran = desk.run(*command, "-o", "out.pb")
    assert ran.code == 0 and words in ran.err, ran.err


IDENTITIES = while_loop(
    identity("w/a", "w/v"),
    node("w/mul", "Mul", ["w/a", "w/three"], T=FLOAT),
    identity("w/b", "w/mul"),
    result="w/b",
)


@pytest.mark.parametrize("options", [("--exclude", "^out$"), ("--allow-outputs",)])
def test_identities_in_a_loop_are_bypassed(desk: Desk, options: tuple[str, ...]) -> None:
    desk.put("model.pb", graph_bytes(*IDENTITIES))
    check_proven(desk, "remove", "model.pb", "--op", "Identity", "--bypass", *options)


def test_the_read_of_a_variable_that_is_a_reference_is_bypassed(desk: Desk) -> None:
    variable = node("w", "VariableV2", dtype=FLOAT, shape=(4,), container="", shared_name="")
    mul = node("y", "Mul", ["x", "w/read"], T=FLOAT)
    desk.put("model.pb", graph_bytes(placeholder("x", FLOAT, (-1, 4)), variable, identity("w/read", "w"), mul))
    check_proven(desk, "remove", "model.pb", "--node", "w/read", "--bypass")


def dropout(x: str, scope: str, keep: bytes) -> list[bytes]:
    """x / keep * floor(uniform + keep), as TensorFlow writes it."""
    return [
        keep,
        node(f"{scope}/Shape", "Shape", [x], T=FLOAT),
        node(f"{scope}/uniform", "RandomUniform", [f"{scope}/Shape"], T=INT32, dtype=FLOAT),
        add(f"{scope}/add", f"{scope}/keep", f"{scope}/uniform"),
        node(f"{scope}/Floor", "Floor", [f"{scope}/add"], T=FLOAT),
        node(f"{scope}/div", "RealDiv", [x, f"{scope}/keep"], T=FLOAT),
        node(f"{scope}/mul", "Mul", [f"{scope}/div", f"{scope}/Floor"], T=FLOAT),
    ]


@pytest.mark.parametrize("options", [(), ("--bypass-input", "0")])
def test_dropout_is_bypassed(desk: Desk, options: tuple[str, ...]) -> None:
    """The original, given what takes the place of dropout, does not need what chance reads in it."""
    records = [placeholder("x", FLOAT, (-1, 4)), node("a", "Neg", ["x"], T=FLOAT)]
    records += dropout("a", "drop", scalar("drop/keep", 0.5))
    desk.put("model.pb", graph_bytes(*records, node("y", "Neg", ["drop/mul"], T=FLOAT)))
    check_proven(desk, "remove", "model.pb", "--scope", "drop", "--bypass", *options, words="drop/mul := a")


def conditional() -> list[bytes]:
    """y = -(dropout(x) where is_training, else x)."""
    return [
        placeholder("is_training", BOOL, ()),
        placeholder("x", FLOAT, (-1, 4)),
        node("c/Switch", "Switch", ["is_training", "is_training"], T=BOOL),
        identity("c/t", "c/Switch:1", kind=BOOL),
        node("c/xt", "Switch", ["x", "is_training"], T=FLOAT),
        node("c/xf", "Switch", ["x", "is_training"], T=FLOAT),
        *dropout("c/xt:1", "c", node("c/keep", "Const", ["^c/t"], dtype=FLOAT, value=tensor([0.5], FLOAT, ()))),
        identity("c/x", "c/xf"),
        node("c/Merge", "Merge", ["c/x", "c/mul"], T=FLOAT, N=2),
        node("y", "Neg", ["c/Merge"], T=FLOAT),
    ]


def test_chance_in_a_branch_that_is_not_taken_any_more_is_none(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(*conditional()))
    check_proven(desk, "freeze-input", "model.pb", "is_training=false")
    ran = desk.run("freeze-input", "model.pb", "is_training=true", "-o", "out.pb")
    assert ran.code == 7 and "random: c/uniform" in ran.err, ran.err


def test_inputs_and_constants_alone_are_imported(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(placeholder("x", FLOAT, (-1, 4)), node("y", "Neg", ["x"], T=FLOAT)))
    desk.put("input.pb", graph_bytes(placeholder("z", FLOAT, (-1, 4))))
    desk.put("constant.pb", graph_bytes(scalar("a", 3)))
    check_proven(desk, "import", "model.pb", "input.pb")
    check_proven(desk, "import", "model.pb", "constant.pb", words="constant.pb on its own: 2 outputs")
    check_proven(desk, "rename", "constant.pb", "a=b", words="returned b  float32 [] = 3")
