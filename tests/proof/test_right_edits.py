"""Right edits that are proven although what they touch cannot be fetched, depends on chance, or is not run at all."""

from __future__ import annotations

import pytest
from support.desk import Desk
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    VERSIONS,
    add,
    attr,
    call,
    const,
    define,
    doubling_loop,
    graph,
    graph_bytes,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    tensor,
    typed,
)
from support.v1_control_flow import LOOP, cond, while_loop

from gdsurgeon.edits.parts import insert
from gdsurgeon.errors import ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.wire.write import read_chunks

pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]


def check_proven(desk: Desk, *command: str, words: str = "bit-identical") -> None:
    """COMMAND, whose output is OUT, ends with 0 and says WORDS."""
    ran = desk.done(*command, "-o", "out.pb")
    assert words in ran.err, ran.err


@pytest.mark.parametrize("options", [("--exclude", "^out$"), ("--allow-outputs",)])
def test_identities_in_a_loop_are_bypassed(desk: Desk, options: tuple[str, ...]) -> None:
    tripled = typed("Mul", "w/mul", "w/a", "w/three")
    loop = while_loop(identity("w/a", "w/v"), tripled, identity("w/b", "w/mul"), result="w/b")
    desk.put("model.pb", graph_bytes(*loop))
    check_proven(desk, "remove", "model.pb", "--op", "Identity", "--bypass", *options)


def test_the_read_of_a_variable_that_is_a_reference_is_bypassed(desk: Desk) -> None:
    variable = node("w", "VariableV2", dtype=FLOAT, shape=(4,), container="", shared_name="")
    mul = typed("Mul", "y", "x", "w/read")
    desk.put("model.pb", graph_bytes(placeholder("x", FLOAT, (-1, 4)), variable, identity("w/read", "w"), mul))
    check_proven(desk, "remove", "model.pb", "--node", "w/read", "--bypass")


def dropout(x: str, scope: str, keep: bytes) -> list[bytes]:
    """x / keep * floor(uniform + keep), as TensorFlow writes it."""
    return [
        keep,
        typed("Shape", f"{scope}/Shape", x),
        typed("RandomUniform", f"{scope}/uniform", f"{scope}/Shape", kind=INT32, dtype=FLOAT),
        add(f"{scope}/add", f"{scope}/keep", f"{scope}/uniform"),
        typed("Floor", f"{scope}/Floor", f"{scope}/add"),
        typed("RealDiv", f"{scope}/div", x, f"{scope}/keep"),
        typed("Mul", f"{scope}/mul", f"{scope}/div", f"{scope}/Floor"),
    ]


@pytest.mark.parametrize("options", [(), ("--bypass-input", "0")])
def test_dropout_is_bypassed(desk: Desk, options: tuple[str, ...]) -> None:
    """The original, given what takes the place of dropout, does not need what chance reads in it."""
    records = [placeholder("x", FLOAT, (-1, 4)), neg("a", "x")]
    records += dropout("a", "drop", scalar("drop/keep", 0.5))
    desk.put("model.pb", graph_bytes(*records, neg("y", "drop/mul")))
    check_proven(desk, "remove", "model.pb", "--scope", "drop", "--bypass", *options, words="drop/mul := a")


def conditional() -> list[bytes]:
    """y = -(dropout(x) where is_training, else x)."""
    return [
        placeholder("is_training", BOOL, ()),
        placeholder("x", FLOAT, (-1, 4)),
        typed("Switch", "c/Switch", "is_training", "is_training", kind=BOOL),
        identity("c/t", "c/Switch:1", kind=BOOL),
        typed("Switch", "c/xt", "x", "is_training"),
        typed("Switch", "c/xf", "x", "is_training"),
        *dropout("c/xt:1", "c", node("c/keep", "Const", ["^c/t"], dtype=FLOAT, value=tensor([0.5], FLOAT, ()))),
        identity("c/x", "c/xf"),
        typed("Merge", "c/Merge", "c/x", "c/mul", N=2),
        neg("y", "c/Merge"),
    ]


def test_chance_in_a_branch_that_is_not_taken_any_more_is_none(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(*conditional()))
    check_proven(desk, "freeze-input", "model.pb", "is_training=false")
    ran = desk.run("freeze-input", "model.pb", "is_training=true", "-o", "out.pb")
    assert ran.code == 7 and "random: c/uniform" in ran.err, ran.err


def test_inputs_and_constants_alone_are_imported(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(placeholder("x", FLOAT, (-1, 4)), neg("y", "x")))
    desk.put("input.pb", graph_bytes(placeholder("z", FLOAT, (-1, 4))))
    desk.put("constant.pb", graph_bytes(scalar("a", 3)))
    check_proven(desk, "import", "model.pb", "input.pb")
    check_proven(desk, "import", "model.pb", "constant.pb", words="constant.pb in place == constant.pb in isolation")
    check_proven(desk, "rename", "constant.pb", "a=b", words="returned b  float32 [] = 3")


EXP = graph_bytes(placeholder("z", FLOAT), typed("Exp", "e", "z"))


THOUSANDS = graph_bytes(
    placeholder("x", INT32, (-1,)), scalar("k", 1000, INT32), add("big", "x", "k", kind=INT32),
    neg("y", "big", kind=INT32),
)  # fmt: skip
ROWS = graph_bytes(
    placeholder("ids", INT32, (-1,)), const("table", [5, 6, 7], INT32), scalar("axis", 0, INT32),
    node("row", "GatherV2", ["table", "ids", "axis"], Tparams=INT32, Tindices=INT32, Taxis=INT32, batch_dims=0),
)  # fmt: skip


@pytest.mark.parametrize(
    ("records", "command", "words"),
    [
        (LOOP, "freeze-input model.pb w/two=3", "original(x, w/two := its value): 2 outputs"),
        (LOOP, "remove model.pb --node w/double --bypass", "w/double := w/v"),
        (cond(), "remove model.pb --node c/neg --bypass", "c/neg := c/x_f"),
        (LOOP, "insert model.pb --at w/double part.pb", "edited(x, e := w/double) == original(x)"),
        (cond(), "insert model.pb --at c/mul part.pb", "edited(x, e := c/mul) == original(x)"),
        (cond(), "import model.pb part.pb --map c/mul=z", "in isolation on any inputs"),
    ],
)
def test_what_is_in_a_loop_or_a_branch_is_edited(desk: Desk, records: list[bytes], command: str, words: str) -> None:
    """An inserted graph is run apart, on any feeds; without it the result is what the original is."""
    desk.put("model.pb", graph_bytes(*records))
    desk.put("part.pb", EXP)
    check_proven(desk, *command.split(), words=words)


def test_a_part_that_does_not_take_what_the_model_gives_is_run_apart(desk: Desk) -> None:
    """It is refused where the outputs depend on it."""
    desk.put("model.pb", THOUSANDS)
    desk.put("part.pb", ROWS)
    words = "Warning: part.pb cannot run on the values of 'big' from these feeds"
    check_proven(desk, "import", "model.pb", "part.pb", "--map", "big=ids", words=words)
    ran = desk.run("insert", "model.pb", "--at", "big", "part.pb", "-o", "out.pb")
    assert ran.code == 4 and "the new node 'row' cannot run on the values of 'big'" in ran.err, ran.err


def test_a_result_must_load_also_if_a_rewired_graph_runs(executor: Executor) -> None:
    found = graph(*LOOP)
    result = insert(found, "w/double", from_bytes(EXP))
    result.claims = result.claims[-1:]
    executor.load_graph(ORIGINAL, found.pristine())
    executor.load(EDITED, graph_bytes(*LOOP, neg("broken", "nowhere")))
    with pytest.raises(ValidationError, match="TensorFlow does not load the result"):
        prove(executor, Change(found.pristine(), found, result), Overrides())


@pytest.mark.parametrize(("name", "op"), [("e", "Neg"), ("w/plus", "Sub"), ("out", "Neg")])
def test_what_was_spoilt_in_a_loop_is_found(executor: Executor, name: str, op: str) -> None:
    """The part itself, its consumers, and unrelated nodes."""
    found = graph(*LOOP)
    result = insert(found, "w/double", from_bytes(EXP))
    found.set_op(found[name], op)
    executor.load_graph(ORIGINAL, found.pristine())
    executor.load(EDITED, read_chunks(found.chunks()))
    with pytest.raises(ValidationError, match="does not hold for"):
        prove(executor, Change(found.pristine(), found, result), Overrides())


PLAIN = attr("")


def test_functions_that_tensorflow_would_optimise_are_inlined(desk: Desk) -> None:
    """Of 0.1 * (0.3 * x) its optimiser makes 0.03 * x, which rounds differently."""
    body = define(
        "f", {"x": FLOAT}, {"out": (FLOAT, "y:z:0")},
        scalar("a", 0.1), scalar("b", 0.3), typed("Mul", "m", "x", "a:output:0"),
        typed("Mul", "y", "m:z:0", "b:output:0"),
    )  # fmt: skip
    outer = define("g", {"x": FLOAT}, {"out": (FLOAT, "c:output:0")},
                     call("c", "f", ["x"], [FLOAT], [FLOAT], config_proto=PLAIN))  # fmt: skip
    records = [placeholder("x", FLOAT, (-1, 64)), call("c", "g", ["x"], [FLOAT], [FLOAT], config_proto=PLAIN)]
    desk.put("model.pb", graph_bytes(*records, identity("y", "c"), trailer=library(body, outer) + VERSIONS))
    check_proven(desk, "inline", "model.pb")


def looped(less: float) -> bytes:
    """What `doubling_loop` comes to where LESS is 7: 8 x - LESS."""
    records = [placeholder("x", FLOAT, (-1, 64)), scalar("k", 8), typed("Mul", "times", "x", "k"), scalar("l", less)]
    return graph_bytes(*records, typed("Sub", "done", "times", "l"))


def test_another_body_takes_the_place_of_a_loop(desk: Desk) -> None:
    """Removed nodes need not be valid in a function."""
    records = [placeholder("x", FLOAT, (-1, 64)), *doubling_loop("w", "x"), neg("y", "w/done")]
    desk.put("model.pb", graph_bytes(*records))
    parts = [f"--node=w/{name}" for name in "switch_s one add_i twice shift less_s next_s done".split()]
    for less, selected, codes in (
        (7, ["--scope", "w"], (0,)),
        (6.5, ["--scope", "w"], (5,)),
        (6.5, ["--node", "w/twice"], (4, 5)),
        (6.5, parts, (4,)),
    ):
        desk.put("body.pb", looped(less))
        ran = desk.run("fuse-ops", "model.pb", *selected, "--name", "call", "--with", "body.pb", "-o", "out.pb")
        assert ran.code in codes, ran.err
        assert ran.code or "bit-identical" in ran.err


def test_a_constant_of_equal_name_takes_the_place_of_a_result(desk: Desk) -> None:
    pair = add("s/sum", "s/a", "s/b")
    records = [placeholder("x", FLOAT, (-1, 64)), scalar("s/a", 1), scalar("s/b", 2), pair,
               neg("s/neg", "x"), typed("Mul", "y", "s/neg", "s/sum")]  # fmt: skip
    desk.put("model.pb", graph_bytes(*records))
    desk.put("body.pb", graph_bytes(placeholder("x", FLOAT), neg("s/neg", "x"), scalar("s/sum", 3)))
    check_proven(desk, "fuse-ops", "model.pb", "--scope", "s", "--name", "call", "--with", "body.pb")
