"""Proofs of edits that substitute values, and of graphs with state, for right and wrong edits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.desk import check_error
from support.graphs import Builder, const, neg, node, placeholder, typed
from support.operating import refused
from support.spoiling import Edit, Spoil, caught, claiming, exchanged, proven, reads, spoilt, value, without_controls
from support.substituting import (
    DIFFERS,
    EDITS,
    FAILS,
    model,
    named,
    negative,
    without_comparable_outputs,
)
from support.v1_control_flow import cond

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SamePart
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.control_edges import control_edges
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.parts import insert
from gdsurgeon.edits.remove import remove
from gdsurgeon.edits.rename import rename
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import FED
from gdsurgeon.proof.trial import DO_WITHOUT

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("name", EDITS)
def test_a_right_edit_passes(name: str, executor: Executor) -> None:
    proof = proven(executor, model(), EDITS[name])
    assert proof.compared and all(o.comparison is not None and o.comparison.equal for o in proof.compared)
    served = {"y", "apart"} if not name.startswith("extract") else {"y"}
    assert served <= {o.after for o in proof.compared}
    assert proof.samples == 2


@pytest.mark.parametrize(
    ("name", "spoil", "code"),
    [
        ("clone", lambda g, _: g.set_controls(g["u/while/one"], [g["t/while/again"]]), FAILS),
        ("extract output 1", reads("t/scaled", 0, "t/halves:1"), DIFFERS),
        ("insert into an input", reads("apart", 0, "z"), DIFFERS),
        ("insert into an input", without_controls("t/stored"), FAILS),
        ("insert several", reads("t/difference", 1, "t/scaled"), DIFFERS),
        ("insert several", reads("y", 1, "t/scaled/out"), DIFFERS),
        ("import", reads("apart", 1, "k_1"), DIFFERS),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_wrong_edit_is_caught(name: str, spoil: Spoil, code: str, executor: Executor) -> None:
    """Mistakes that `test_mutations` does not make."""
    error = caught(executor, model(), spoilt(EDITS[name], spoil))
    assert (error.exit_code, error.code) == (5, code), error.message
    assert code == FAILS or error.facts["tensors"]


def test_a_substitution_inside_a_loop_is_made_in_the_original_too(executor: Executor) -> None:
    """Its value differs in each iteration, and cannot be fetched."""

    def edit(graph: Graph) -> EditResult:
        return remove(graph, named("t/while/less_s"), bypass=True, bypass_input=0)

    assert proven(executor, model(), edit).compared
    error = caught(executor, model(), spoilt(edit, value("t/while/rounds", 2, "int32")))
    assert error.exit_code == 5 and error.code == DIFFERS


@pytest.mark.parametrize("name", EDITS)
def test_an_output_that_is_lost_is_caught(name: str, executor: Executor) -> None:
    """A missing output cannot be compared: the promise of the claim is enough."""
    lost = "y" if name.startswith("extract") else "apart"
    error = caught(executor, model(), spoilt(EDITS[name], lambda g, _: g.remove([g[lost]])))
    assert error.exit_code == 5, error.message
    assert any(lost in text for text in (str(error.facts), *error.details))


@pytest.mark.parametrize("name", ["clone", "remove --bypass", "remove --dangling", "insert", "freeze-input"])
def test_an_output_that_a_claim_does_not_list_is_not_given_up(name: str, executor: Executor) -> None:
    """Every claim includes that an output which the edit does not reach is bit-identical."""

    def listing_less(graph: Graph) -> EditResult:
        result = EDITS[name](graph)
        result.claims = tuple(
            replace(c, outputs=tuple(p for p in c.outputs if "apart" not in p)) if isinstance(c, SameGiven) else c
            for c in result.claims
        )
        return result

    assert proven(executor, model(), listing_less).compared
    assert caught(executor, model(), spoilt(listing_less, value("k", 5.00001))).exit_code == 5


# -- claims that say too much, or nothing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("clone --map", {"outputs": (("t/result", "u/stored"),)}),
        *((name, {"given": {}}) for name in ("remove --bypass", "insert", "freeze-input")),
    ],
)
def test_a_claim_of_another_tensor_or_without_the_substitution_is_caught(
    name: str, change: dict[str, Any], executor: Executor
) -> None:
    assert caught(executor, model(), claiming(EDITS[name], SameGiven, **change)).exit_code == 5


# -- nothing to compare ----------------------------------------------------------------------------------------


NOTHING = without_comparable_outputs("s/y")

QUIET_EDITS: dict[str, Edit] = {
    "clone": lambda g: clone_scope(g, "s", "u"),
    "remove --bypass": lambda g: remove(g, named("t/same"), bypass=True, allow_outputs=True),
    "extract": lambda g: extract(g, ["t/same"], ["s/y"]),
    "import": lambda g: import_graph(g, NOTHING["random"].graph("part.pb"), scope="p"),
    "insert": lambda g: insert(g, "t/same", negative(size=2).graph("body.pb")),
    "freeze-input": lambda g: freeze_input(g, {"x": "[1, 2]"}),
    "rename": lambda g: rename(g, [("s/y", "z")]),
    "control-edges": lambda g: control_edges(g, add=[("s/y", "^x")]),
    "fuse-ops": lambda g: fuse_ops(g, named("t/same"), "f"),
}


@pytest.mark.parametrize("name", QUIET_EDITS)
@pytest.mark.parametrize("what", NOTHING)
def test_where_nothing_can_be_compared_nothing_is_passed(what: str, name: str, executor: Executor) -> None:
    """`insert` compares what its body gives, and `fuse-ops` the fused tensors: no output of the model is compared."""
    if (name, what) == ("fuse-ops", "random"):
        proof = proven(executor, NOTHING[what], QUIET_EDITS[name])
        assert [o.before for o in proof.compared] == ["t/same"]
        assert "s/y" in {o.before for o in proof.outputs if o.comparison is None} | {s for s, _ in proof.skipped}
        return
    error = caught(executor, NOTHING[what], QUIET_EDITS[name])
    assert error.exit_code == 7, error.message
    assert {DO_WITHOUT, "structure-only", "other-feeds"} & {*error.advice} and "--validate" in (hint_of(error) or "")


@pytest.mark.parametrize(
    ("edit", "node"),
    [
        (lambda g: gds.add_preprocessing(g, negative("x", "x_preprocessed", 2).graph("pre.pb")), "x"),
        (lambda g: gds.add_postprocessing(g, negative("s/y", "s/y_postprocessed", 2).graph("post.pb")), "s/y"),
    ],
)
def test_a_graph_whose_results_no_output_shows_is_named(edit: Edit, node: str, executor: Executor) -> None:
    """Only the output of a different input is compared."""
    m = without_comparable_outputs("s/y")["random"]
    m.placeholder("other", "float32", (2,))
    m.typed("Neg", "y", "other")
    check_error(caught(executor, m, edit), "nothing-comparable", {"node": node})


@pytest.mark.parametrize("what", ["no output", "resource"])
def test_models_that_give_nothing_are_not_passed(what: str, tmp_path: Path) -> None:
    m = Builder(placeholder("x", "float32", (2,)), node("n", "NoOp", ["^x"]))
    if what == "resource":
        m.node("v", "VarHandleOp", dtype="float32", shape=(2,), shared_name="v")
    error = refused(tmp_path, m, QUIET_EDITS["freeze-input"])
    assert error.exit_code == 7
    assert {DO_WITHOUT, "structure-only", "other-feeds"} & {*error.advice}


# -- feeds by the user --------------------------------------------------------------------------------------------


def test_feeds_are_those_of_the_result(executor: Executor) -> None:
    z = "[[0, 0]]"
    for name, feeds, expected in (
        ("freeze-input", {"x": "[[1, 2, 3, 4]]"}, {"x"}),
        ("remove --dangling", {"t/scaled": "[[1, 2]]", "x": "[[1, 2, 3, 4]]", "z": z}, {"t/scaled", "x", "z"}),
        ("extract output 1", {"t/halves_1": "[[1, 2]]", "x": "[[1, 2, 3, 4]]", "z": z}, {"t/halves_1", "x", "z"}),
        ("insert", {"x": "[[1, 2, 3, 4]]", "z": z}, {"x", "z"}),
        ("clone --map", {"x2": "[[4, 3, 2, 1]]", "x": "[[1, 2, 3, 4]]", "z": z}, {"x", "x2", "z"}),
        ("import", {"in": "[[1, 2]]", "x": "[[1, 2, 3, 4]]", "z": z}, {"in", "x", "z"}),
    ):
        proof = proven(executor, model(), EDITS[name], Overrides(dict(feeds)))
        assert (proof.samples, set(proof.feeds)) == (1, expected), name


def test_a_reshape_is_taken_out_before_another_one(executor: Executor) -> None:
    """The replacement has a rank that the tensor of the original cannot have; this is allowed."""
    m = Builder(
        placeholder("x", "float32", (1, 2, 3)), const("flat/shape", [-1, 6], "int32"),
        typed("Reshape", "flat", "x", "flat/shape", Tshape="int32"), const("y/shape", [-1, 2, 3, 1], "int32"),
        typed("Reshape", "y", "flat", "y/shape", Tshape="int32"), neg("z", "y"),
    )  # fmt: skip
    proof = proven(executor, m, lambda g: remove(g, [g["flat"]], bypass=True))
    assert {o.after: o.comparison is not None for o in proof.outputs}["z"]
    assert "flat := x" in proof.statement and proof.samples == 2


@pytest.mark.parametrize(
    ("name", "feed"),
    [
        ("extract", "x"),
        ("extract", "x2"),
        ("extract", "t/halves"),
        ("import --map", "in"),
        ("import", "inn"),
        ("insert", "in"),
        ("remove --dangling", "t/scale"),
        ("freeze-input", "z"),
    ],
)
def test_feeds_of_what_is_no_input_of_the_result_are_refused(name: str, feed: str, executor: Executor) -> None:
    """They would be ignored in silence."""
    error = caught(executor, model(), EDITS[name], Overrides({feed: "[[1, 2]]"}))
    assert error.code in ("no-such-input", "shape-mismatch") and error.facts["node"] == feed
    assert error.exit_code == 2
    if error.code == "no-such-input" and feed in model().graph():
        assert error.message.startswith(f"'{feed}' is not an input of the result, because it was frozen or cut off; ")


def test_shapes_by_the_user(executor: Executor) -> None:
    m = Builder(placeholder("x", "float32", (-1, 2)), typed("Neg", "t/a", "x"), typed("Abs", "y", "t/a"))
    edits: dict[str, tuple[Edit, str]] = {
        "clone": (lambda g: clone_scope(g, "t", "u"), "x"),
        "extract": (lambda g: extract(g, ["t/a"], ["y"]), "t/a"),
        "remove": (lambda g: remove(g, named("t/a"), dangling="placeholder"), "t/a"),
    }
    for edit, name in edits.values():
        proof = proven(executor, m, edit, Overrides(shapes={name: (5, 2)}))
        assert {o.shape for o in proof.compared} == {(5, 2)}
        assert caught(executor, m, edit, Overrides(shapes={name: (5, 3)})).exit_code == 2


# -- parts that cannot be run ----------------------------------------------------------------------------------------


def test_a_part_that_does_not_run_on_its_own_is_told_from_one_that_was_spoilt(executor: Executor) -> None:
    p = Builder(
        placeholder("in", "float32", (1, 2)), const("message", "never", "string"), const("false", False, "bool"),
        node("check", "Assert", ["false", "message"], T=["string"], summarize=3),
        typed("Identity", "out", "in", "^check"),
    )  # fmt: skip
    for edit in (lambda g: import_graph(g, p.graph("part.pb")), lambda g: insert(g, "z", p.graph("part.pb"))):
        error = caught(executor, model(), edit)
        assert error.exit_code in (5, 7)
        assert error.code in ("does-not-run", "unfeedable", "nothing-comparable"), (error.code, error.message)


def test_a_part_with_a_table_that_cannot_be_initialised(executor: Executor) -> None:
    p = Builder(
        placeholder("in", "int64", (1,)), const("nothing", "?", "string"), const("file", "/nowhere/gone.txt", "string"),
        node("table", "HashTableV2", key_dtype="int64", value_dtype="string", shared_name="labels"),
        node("init", "InitializeTableFromTextFileV2", ["table", "file"], key_index=-1, value_index=-2, vocab_size=-1,
             delimiter="\t"),
        node("out", "LookupTableFindV2", ["table", "in", "nothing"], Tin="int64", Tout="string"),
    )  # fmt: skip
    error = caught(executor, model(), lambda g: import_graph(g, p.graph("part.pb")))
    assert error.exit_code == 7 and hint_of(error) is not None


def test_the_claim_of_a_part_is_checked_against_the_part(executor: Executor) -> None:
    for name, output in (("import", "twice"), ("import --map", "nowhere")):
        wrong = claiming(EDITS[name], SamePart, outputs=(("out", output),))
        error = caught(executor, model(), wrong)
        assert (error.exit_code, error.code) == (5, DIFFERS)


def test_a_journal_that_knows_no_copies_is_no_fault_of_the_graph(executor: Executor) -> None:
    """The placeholder `in` has its own name in the result: without a intent it is found by that."""
    silent = spoilt(EDITS["import"], lambda _, result: setattr(result, "intent", Intent(added=result.intent.added)))
    assert proven(executor, model(), silent).compared


SIZED: dict[str, Edit] = {
    "extract": lambda graph: extract(graph, ["a"], ["y"]),
    "remove": lambda graph: remove(graph, [graph["a"]], dangling="placeholder"),
}


@pytest.mark.parametrize("name", SIZED)
def test_a_tensor_that_is_cut_is_fed_in_a_size_that_all_of_the_model_takes(executor: Executor, name: str) -> None:
    b = Builder(
        node("x", "Placeholder", dtype="float32"), typed("Neg", "a", "x"), typed("Abs", "b", "x"),
        typed("AddV2", "sum", "a", "b"), typed("SpaceToDepth", "y", "sum" if name == "remove" else "a", block_size=7),
    )  # fmt: skip
    assert proven(executor, b, SIZED[name]).feeds["a"] == "float32 [1,224,224,3]"


# -- chance ----------------------------------------------------------------------------------------------------


def dice(seed: int = 0, seed2: int = 0) -> Builder:
    """Random ops in the scope `t` and outside of it."""
    return Builder(
        placeholder("x", "float32", (2,)), const("shape", [2], "int32"),
        typed("RandomStandardNormal", "noise", "shape", kind="int32", dtype="float32", seed=seed, seed2=seed2),
        typed("AddV2", "noisy", "x", "noise"),
        typed("RandomUniform", "t/draw", "shape", kind="int32", dtype="float32", seed=seed, seed2=seed2),
        typed("AddV2", "t/sum", "noisy", "t/draw"), typed("Sub", "t/result", "t/sum", "noise"),
        typed("Neg", "y", "t/result"), typed("Neg", "w", "noise"),
    )  # fmt: skip


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
    return Builder(
        placeholder("in", "float32", (2,)), const("size", [2], "int32"),
        typed("RandomUniform", "gamble", "size", kind="int32", dtype="float32", seed=7),
        typed("AddV2", "out", "in", "gamble"),
    )  # fmt: skip


@pytest.mark.parametrize("seeds", [(0, 0), (1, 2)], ids=["unseeded", "seeded"])
@pytest.mark.parametrize("name", DICE_EDITS)
def test_random_ops_draw_the_same_for_both_graphs(name: str, seeds: tuple[int, int], executor: Executor) -> None:
    proof = proven(executor, dice(*seeds), DICE_EDITS[name])
    assert "y" in {o.after for o in proof.compared}


SAMPLING_EDITS = {"add-preprocessing": "t/rate", "freeze-input": "t/rate", "clone": "u/rate", "import": "p/t/rate"}
"""Some of `DICE_EDITS`, and the input of the random op."""


def sampling() -> Builder:
    """A random op that reads a computed tensor."""
    return Builder(
        placeholder("x", "float32", (2,)), const("t/one", [1.0, 1.0]),
        node("t/rate", "Sub", ["x", "t/one"], T="float32"), const("size", [3], "int32"),
        node("t/sample", "RandomGamma", ["size", "t/rate"], S="int32", T="float32"),
        node("y", "Neg", ["t/sample"], T="float32"),
    )  # fmt: skip


@pytest.mark.parametrize("name", SAMPLING_EDITS)
def test_inputs_of_random_ops_are_compared(name: str, executor: Executor) -> None:
    """Both graphs get the same random values, so that no output shows a wrong input of the random op."""
    rate, sampled = SAMPLING_EDITS[name], sampling()
    edit = DICE_EDITS[name] if name != "import" else lambda g: import_graph(g, sampled.graph("part.pb"), scope="p")
    proof = proven(executor, sampled, edit)
    assert rate in {o.after for o in proof.compared}
    assert FED in proof.random_nodes.values()
    assert caught(executor, sampled, spoilt(edit, exchanged(rate))).exit_code == 5


@pytest.mark.parametrize("seed", [0, 5], ids=["unseeded", "seeded"])
def test_a_draw_that_is_fused_has_one_seed_in_both_graphs(seed: int, executor: Executor) -> None:
    """Inside a function its value cannot be fed."""
    m = dice(seed)
    m.graph_def.node.pop()  # `w` would be compared instead of `y`
    edit: Edit = lambda g: fuse_ops(g, named("t/draw", "t/sum"), "f")  # noqa: E731
    assert "y" in {o.before for o in proven(executor, m, edit).compared}
    assert caught(executor, m, spoilt(edit, exchanged("t/result"))).exit_code in (5, 7)


# -- variables and tables ----------------------------------------------------------------------------------------


def stateful() -> Builder:
    """A variable and a table under `t`, initialised elsewhere."""
    return Builder(
        placeholder("key", "string", (1,)), const("default", -1.0),
        node("t/table", "HashTableV2", key_dtype="string", value_dtype="float32", shared_name="t"),
        const("keys", ["a", "b"], "string"), const("values", [3.0, 4.0]),
        node("init", "InitializeTableV2", ["t/table", "keys", "values"], Tkey="string", Tval="float32"),
        node("t/found", "LookupTableFindV2", ["t/table", "key", "default"], Tin="string", Tout="float32"),
        node("t/v", "VariableV2", shape=(1,), dtype="float32", container="", shared_name="v"), const("start", [9.0]),
        typed("Assign", "assign", "t/v", "start"), typed("Sub", "t/result", "t/found", "t/v"),
        typed("Neg", "y", "t/result"),
    )  # fmt: skip


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


VALUES = value("values", [3.5, 4.5])
"""Other values of the table."""


@pytest.mark.parametrize(
    ("make", "name", "spoil"),
    [
        *(
            (dice, name, spoil)
            for name, spoil in [
                ("clone", exchanged("u/result")),
                ("clone", reads("u/sum", 1, "noise")),
                ("clone", reads("u/sum", 1, "t/draw")),  # the clone of a random op is one of its own
                ("bypass the sum", reads("t/result", 0, "t/draw")),
                ("import", exchanged("p/t/result")),
                ("insert", reads("t/sum", 0, "noisy")),
                ("rename", exchanged("r")),
                *(
                    (name, exchanged("t/result"))
                    for name in ("remove a draw", "extract", "freeze-input", "fuse-ops next to a draw", "control-edges")
                ),
            ]
        ),
        *(
            (stateful, name, spoil)
            for name, spoil in [
                ("clone", exchanged("u/result")),
                ("clone", value("u/values", [3.5, 4.5])),  # the table of a clone has its own content
                ("import", value("p/values", [3.5, 4.5])),
                ("import", reads("p/t/result", 1, "t/v")),
                *((name, VALUES) for name in ("remove --bypass", "freeze-input")),
                ("insert", exchanged("t/result")),
                *(
                    (name, spoil)
                    for name in ("extract", "rename", "fuse-ops", "control-edges")
                    for spoil in (VALUES, exchanged("t/result"))
                ),
            ]
        ),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_wrong_edits_of_random_graphs_tables_and_variables_are_caught(
    make: Callable[[], Builder], name: str, spoil: Spoil, executor: Executor
) -> None:
    edit = (DICE_EDITS if make is dice else STATEFUL_EDITS)[name]
    error = caught(executor, make(), spoilt(edit, spoil))
    assert error.exit_code == 5, error.message


@pytest.mark.parametrize("kind", ["placeholder", "variable"])
def test_an_input_of_one_name_in_both_graphs_is_not_one_input(kind: str, executor: Executor) -> None:
    """The part reads its own, which is called otherwise in the result, and not the model's of the same name."""
    variable = node("x", "VariableV2", shape=(2,), dtype="float32", container="", shared_name="")
    both = Builder(placeholder("x", "float32", (2,)) if kind == "placeholder" else variable, neg("y", "x"))
    edit: Edit = lambda g: import_graph(g, both.graph("part.pb"), scope="p")  # noqa: E731
    assert len(proven(executor, both, edit).compared) == 2
    assert caught(executor, both, spoilt(edit, reads("p/y", 0, "x"))).exit_code == 5


# -- branches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", ["two", "ten"])
def test_both_sides_of_a_conditional_are_proven(constant: str, executor: Executor) -> None:
    """Two samples, and a predicate that is not fed by the user: one sample for each side."""
    m = Builder(*cond())
    for edit, name in ((lambda g: clone_scope(g, "c", "u"), f"u/{constant}"),
                       (lambda g: import_graph(g, negative().graph("part.pb")), f"c/{constant}")):  # fmt: skip
        assert proven(executor, m, edit).compared
        assert caught(executor, m, spoilt(edit, value(name, 7.0))).exit_code == 5


# -- values that are no numbers ------------------------------------------------------------------------------------
