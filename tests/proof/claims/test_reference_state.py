"""The proof of graphs with random ops, variables, tables, branches and texts, for all kinds of edits."""

from __future__ import annotations

import pytest
from support.graphs import Builder, doubling_loop
from support.spoiling import Edit, Spoil, caught, exchanged, proven, reads, spoilt, value
from support.substituting import (
    named,
    negative,
)

import gdsurgeon as gds
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.control_edges import control_edges
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.insert import insert
from gdsurgeon.edits.remove import remove
from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.executor import Executor

pytestmark = pytest.mark.tensorflow


# -- chance ----------------------------------------------------------------------------------------------------


def dice(seed: int = 0, seed2: int = 0) -> Builder:
    """Random ops in the scope `t` and outside of it."""
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("shape", [2], "int32")
    m.node("noise", "RandomStandardNormal", ["shape"], T="int32", dtype="float32", seed=seed, seed2=seed2)
    m.node("noisy", "AddV2", ["x", "noise"], T="float32")
    m.node("t/draw", "RandomUniform", ["shape"], T="int32", dtype="float32", seed=seed, seed2=seed2)
    m.node("t/sum", "AddV2", ["noisy", "t/draw"], T="float32")
    m.node("t/result", "Sub", ["t/sum", "noise"], T="float32")
    m.node("y", "Neg", ["t/result"], T="float32")
    m.node("w", "Neg", ["noise"], T="float32")
    return m


DICE_EDITS: dict[str, Edit] = {
    "clone": lambda g: clone_scope(g, "t", "u"),
    "clone --map": lambda g: clone_scope(g, "t", "u", inputs=[("noisy", "x")]),
    "remove a draw": lambda g: remove(g, named("t/draw"), dangling="placeholder"),
    "bypass the sum": lambda g: remove(g, named("t/sum"), bypass=True, bypass_input=0),
    "bypass the other way": lambda g: remove(g, named("t/sum"), bypass=True, bypass_input=1),
    "extract": lambda g: extract(g, ["noisy"], ["y"]),
    "extract from a draw": lambda g: extract(g, ["t/draw"], ["y", "w"]),
    "import": lambda g: import_graph(g, dice().graph("part.pb"), scope="p"),
    "import --map": lambda g: import_graph(g, dice().graph("part.pb"), scope="p", connect=[("noise", "x")]),
    "insert": lambda g: insert(g, "noisy", dice_body().graph("body.pb")),
    "insert behind a draw": lambda g: insert(g, "t/draw", dice_body().graph("body.pb")),
    "freeze-input": lambda g: freeze_input(g, {"x": "[1, 2]"}),
    "rename": lambda g: rename(g, [("t/result", "r"), ("t/draw", "d")]),
    "fuse-ops next to a draw": lambda g: fuse_ops(g, named("t/sum"), "f"),
    "control-edges": lambda g: control_edges(g, add=[("t/draw", "^x")]),
    "add-preprocessing": lambda g: gds.add_preprocessing(g, negative("x", "x_preprocessed", 2).graph("pre.pb")),
    "add-postprocessing": lambda g: gds.add_postprocessing(g, negative("w", "w_postprocessed", 2).graph("post.pb")),
}


def dice_body() -> Builder:
    p = Builder()
    p.placeholder("in", "float32", (2,))
    p.const("size", [2], "int32")
    p.node("gamble", "RandomUniform", ["size"], T="int32", dtype="float32", seed=7)
    p.node("out", "AddV2", ["in", "gamble"], T="float32")
    return p


@pytest.mark.parametrize("seeds", [(0, 0), (1, 2)], ids=["unseeded", "seeded"])
@pytest.mark.parametrize("name", DICE_EDITS)
def test_random_ops_draw_the_same_for_both_graphs(name: str, seeds: tuple[int, int], executor: Executor) -> None:
    proof = proven(executor, dice(*seeds), DICE_EDITS[name])
    assert "y" in {o.after for o in proof.compared}


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("clone", exchanged("u/result")),
        ("clone", reads("u/sum", 1, "noise")),
        ("remove a draw", exchanged("t/result")),
        ("bypass the sum", reads("t/result", 0, "t/draw")),
        ("extract", exchanged("t/result")),
        ("import", exchanged("p/t/result")),
        ("insert", reads("t/sum", 0, "noisy")),
        ("freeze-input", exchanged("t/result")),
        ("rename", exchanged("r")),
        ("fuse-ops next to a draw", exchanged("t/result")),
        ("control-edges", exchanged("t/result")),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_wrong_edits_of_random_graphs_are_caught(name: str, spoil: Spoil, executor: Executor) -> None:
    error = caught(executor, dice(), spoilt(DICE_EDITS[name], spoil))
    assert error.exit_code == 5, error.message


def test_a_clone_that_shares_the_draw_of_the_original_is_caught(executor: Executor) -> None:
    """The clone of a random op is one of its own."""
    error = caught(executor, dice(), spoilt(DICE_EDITS["clone"], reads("u/sum", 1, "t/draw")))
    assert error.exit_code == 5


@pytest.mark.parametrize("seed", [0, 5], ids=["unseeded", "seeded"])
def test_a_draw_that_is_fused_has_one_seed_in_both_graphs(seed: int, executor: Executor) -> None:
    """Inside a function its value cannot be fed."""
    m = dice(seed)
    m.graph_def.node.pop()  # `w` would be compared instead of `y`
    edit: Edit = lambda g: fuse_ops(g, named("t/draw", "t/sum"), "f")  # noqa: E731
    assert "y" in {o.before for o in proven(executor, m, edit).compared}
    assert caught(executor, m, spoilt(edit, exchanged("t/result"))).exit_code in (5, 7)


def seeded_loop(seed: int) -> Builder:
    """A draw inside a while loop, from a seed, and so in a sequence that goes on from run to run."""
    m = Builder()
    m.placeholder("x", "float32", (2,))
    done = doubling_loop(m, "t/while", "x", rounds=2)
    m.node("t/while/done_i", "Exit", ["t/while/switch_i"], T="int32")
    m.const("t/while/shape", [2], "int32", controls=["^t/while/again"])
    m.node("t/while/draw", "RandomUniform", ["t/while/shape"], T="int32", dtype="float32", seed=seed, seed2=seed)
    for node in m.graph_def.node:
        if node.name == "t/while/less_s":
            node.input[1] = "t/while/draw"
        if node.op == "Enter":
            node.attr["parallel_iterations"].i = 1  # else they overlap, and draw in one order or another
    m.node("y", "Neg", [done], T="float32")
    m.placeholder("z", "float32", (2,))
    m.node("same", "Identity", ["z"], T="float32")
    m.node("w", "Sub", ["same", done], T="float32")
    return m


SEEDED_LOOP_EDITS: dict[str, Edit] = {
    "clone": lambda g: clone_scope(g, "t", "u"),
    "bypass": lambda g: remove(g, named("same"), bypass=True),
    "extract": lambda g: extract(g, ["same"], ["w"]),
    "import": lambda g: import_graph(g, seeded_loop(3).graph("part.pb"), scope="p"),
    "insert": lambda g: insert(g, "same", negative("in", "out", 2).graph("body.pb")),
    "insert behind the loop": lambda g: insert(g, "t/while/done", negative("in", "out", 2).graph("body.pb")),
    "freeze-input": lambda g: freeze_input(g, {"z": "[1, 2]"}),
}


@pytest.mark.parametrize("name", SEEDED_LOOP_EDITS)
def test_a_seeded_draw_in_a_loop_is_no_reason_to_refuse_a_right_edit(name: str, executor: Executor) -> None:
    """Its sequence goes on with each run: both graphs must have run as often, or it is not compared."""
    try:
        proof = proven(executor, seeded_loop(3), SEEDED_LOOP_EDITS[name])
    except NotValidatedError:
        return
    assert proof.compared


# -- variables and tables ----------------------------------------------------------------------------------------


def stateful() -> Builder:
    """A variable and a table under `t`, initialised elsewhere."""
    m = Builder()
    m.placeholder("key", "string", (1,))
    m.const("default", -1.0)
    m.node("t/table", "HashTableV2", key_dtype="string", value_dtype="float32", shared_name="t")
    m.const("keys", ["a", "b"], "string")
    m.const("values", [3.0, 4.0])
    m.node("init", "InitializeTableV2", ["t/table", "keys", "values"], Tkey="string", Tval="float32")
    m.node("t/found", "LookupTableFindV2", ["t/table", "key", "default"], Tin="string", Tout="float32")
    m.node("t/v", "VariableV2", shape=(1,), dtype="float32", container="", shared_name="v")
    m.const("start", [9.0])
    m.node("assign", "Assign", ["t/v", "start"], T="float32")
    m.node("t/result", "Sub", ["t/found", "t/v"], T="float32")
    m.node("y", "Neg", ["t/result"], T="float32")
    return m


STATEFUL_EDITS: dict[str, Edit] = {
    "clone": lambda g: clone_scope(g, "t", "u"),
    "remove --bypass": lambda g: remove(g, named("t/result"), bypass=True, bypass_input=0),
    "remove --dangling": lambda g: remove(g, named("t/result"), dangling="placeholder"),
    "extract": lambda g: extract(g, ["key"], ["t/result"]),
    "extract from the table": lambda g: extract(g, ["t/found"], ["y"]),
    "import": lambda g: import_graph(g, stateful().graph("part.pb"), scope="p"),
    "import --map": lambda g: import_graph(g, stateful().graph("part.pb"), scope="p", connect=[("key", "key")]),
    "insert": lambda g: insert(g, "t/found", negative().graph("body.pb")),
    "freeze-input": lambda g: freeze_input(g, {"key": "b"}),
    "rename": lambda g: rename(g, [("t/table", "words"), ("init", "begin"), ("t/v", "weights")]),
    "fuse-ops": lambda g: fuse_ops(g, named("y"), "f"),
    "control-edges": lambda g: control_edges(g, add=[("y", "^key")]),
}


@pytest.mark.parametrize("name", STATEFUL_EDITS)
def test_tables_and_variables_are_the_same_for_both_graphs(name: str, executor: Executor) -> None:
    proof = proven(executor, stateful(), STATEFUL_EDITS[name])
    assert proof.compared
    if name in ("freeze-input", "extract", "rename", "fuse-ops", "control-edges"):
        assert any("variable" in warning for warning in proof.warnings)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("clone", exchanged("u/result")),
        ("remove --bypass", value("values", [3.5, 4.5])),
        ("extract", exchanged("t/result")),
        ("extract", value("values", [3.5, 4.5])),
        ("import", value("p/values", [3.5, 4.5])),
        ("import", reads("p/t/result", 1, "t/v")),
        ("insert", exchanged("t/result")),
        ("freeze-input", value("values", [3.5, 4.5])),
        *((name, value("values", [3.5, 4.5])) for name in ("rename", "fuse-ops", "control-edges")),
        *((name, exchanged("t/result")) for name in ("rename", "fuse-ops", "control-edges")),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_wrong_edits_of_tables_and_variables_are_caught(name: str, spoil: Spoil, executor: Executor) -> None:
    error = caught(executor, stateful(), spoilt(STATEFUL_EDITS[name], spoil))
    assert error.exit_code == 5, error.message


def test_a_table_of_a_clone_has_its_own_content(executor: Executor) -> None:
    error = caught(executor, stateful(), spoilt(STATEFUL_EDITS["clone"], value("u/values", [3.5, 4.5])))
    assert error.exit_code == 5


@pytest.mark.parametrize("kind", ["placeholder", "variable"])
def test_an_input_of_one_name_in_both_graphs_is_not_one_input(kind: str, executor: Executor) -> None:
    """The part reads its own, which is called otherwise in the result, and not the model's of the same name."""

    def both() -> Builder:
        b = Builder()
        if kind == "placeholder":
            b.placeholder("x", "float32", (2,))
        else:
            b.node("x", "VariableV2", shape=(2,), dtype="float32", container="", shared_name="")
        b.node("y", "Neg", ["x"], T="float32")
        return b

    edit: Edit = lambda g: import_graph(g, both().graph("part.pb"), scope="p")  # noqa: E731
    assert len(proven(executor, both(), edit).compared) == 2
    assert caught(executor, both(), spoilt(edit, reads("p/y", 0, "x"))).exit_code == 5


# -- branches --------------------------------------------------------------------------------------------------


def conditional() -> Builder:
    """x + 10 where p, else x - 1."""
    m = Builder()
    m.placeholder("p", "bool", ())
    m.placeholder("x", "float32", (2,))
    m.node("t/switch", "Switch", ["x", "p"], T="float32")
    m.node("t/pivot", "Switch", ["p", "p"], T="bool")
    m.node("t/pivot_t", "Identity", ["t/pivot:1"], T="bool")
    m.node("t/pivot_f", "Identity", ["t/pivot"], T="bool")
    m.const("t/ten", 10.0, controls=["^t/pivot_t"])
    m.const("t/one", 1.0, controls=["^t/pivot_f"])
    m.node("t/more", "AddV2", ["t/switch:1", "t/ten"], T="float32")
    m.node("t/less", "Sub", ["t/switch", "t/one"], T="float32")
    m.node("t/merge", "Merge", ["t/less", "t/more"], T="float32", N=2)
    m.node("y", "Neg", ["t/merge"], T="float32")
    return m


@pytest.mark.parametrize("constant", ["ten", "one"])
def test_both_sides_of_a_conditional_are_proven(constant: str, executor: Executor) -> None:
    """Two samples, and a predicate that is not fed by the user: one sample for each side."""
    for edit, name in ((lambda g: clone_scope(g, "t", "u"), f"u/{constant}"),
                       (lambda g: import_graph(g, negative().graph("part.pb")), f"t/{constant}")):  # fmt: skip
        wrong = spoilt(edit, value(name, 7.0))
        assert proven(executor, conditional(), edit).compared
        assert caught(executor, conditional(), wrong).exit_code == 5


# -- values that are no numbers ------------------------------------------------------------------------------------


def texts(op: str = "StringJoin") -> Builder:
    m = Builder()
    m.placeholder("x", "string", (2,))
    m.placeholder("z", "string", (2,))
    m.node("t/join", op, ["x", "z"], N=2, separator="-")
    m.node("y", "Identity", ["t/join"], T="string")
    return m


TEXT_EDITS: dict[str, Edit] = {
    "clone": lambda g: clone_scope(g, "t", "u"),
    "extract": lambda g: extract(g, ["t/join"], ["y"]),
    "freeze-input": lambda g: freeze_input(g, {"z": '["a", "b"]'}),
    "insert": lambda g: insert(g, "z", upper().graph("upper.pb")),
}


def upper() -> Builder:
    p = Builder()
    p.placeholder("in", "string", (2,))
    p.node("out", "StringUpper", ["in"], encoding="")
    return p


@pytest.mark.parametrize("name", TEXT_EDITS)
def test_texts_are_compared(name: str, executor: Executor) -> None:
    overrides = Overrides({"x": '["p", "q"]'}) if name != "extract" else None
    assert proven(executor, texts(), TEXT_EDITS[name], overrides).compared
    if name != "extract":
        spoil = exchanged("u/join" if name == "clone" else "t/join")
        error = caught(executor, texts(), spoilt(TEXT_EDITS[name], spoil), overrides)
        assert error.exit_code == 5
        assert all("2 of 2 elements differ" in detail for detail in error.details)
