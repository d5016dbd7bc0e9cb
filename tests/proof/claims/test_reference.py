"""The proof of edits that substitute values (SameGiven, SamePart): right ones pass, and wrong ones are caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.graphs import Builder
from support.operating import refused
from support.same_outputs import without_comparable_outputs
from support.spoiling import Edit, Spoil, caught, exchanged, next_output, proven, reads, spoilt, value, without_controls
from support.substituting import (
    DIFFERS,
    EDITS,
    FAILS,
    MODEL_SPOILS,
    model,
    named,
    negative,
)

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SamePart
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.freeze_input import freeze_input
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.insert import insert
from gdsurgeon.edits.remove import remove
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.trial import DO_WITHOUT

pytestmark = pytest.mark.tensorflow


# -- what is done wrong ----------------------------------------------------------------------------------------


def text_attr(key: str, text: str, *names: str) -> Spoil:
    def spoil(graph: Graph, _: EditResult) -> None:
        for name in names:
            assert graph[name].plain_attr(key) != text.encode()
            graph.set_attr(graph[name], key, string_value(text).SerializeToString())

    return spoil


LOOP = ("enter_i", "enter_s", "limit")


CLONE_SPOILS: dict[str, tuple[Spoil, str]] = {
    "inputs exchanged": (exchanged("u/difference"), DIFFERS),
    "the next output": (next_output("u/scaled", 0), DIFFERS),
    "a weight": (value("u/scale", [2.0, 3.000002]), DIFFERS),
    "a control edge": (without_controls("u/stored"), FAILS),
    "a constant that waits for the original's loop": (
        lambda g, _: g.set_controls(g["u/while/one"], [g["t/while/again"]]), FAILS
    ),
    "rounds of the loop": (value("u/while/rounds", 2, "int32"), DIFFERS),
    "the frame of the original": (text_attr("frame_name", "t/while/frame", *(f"u/while/{n}" for n in LOOP)), ""),
    "one Enter in the frame of the original": (text_attr("frame_name", "t/while/frame", "u/while/limit"), FAILS),
    "it reads the original": (reads("u/result", 0, "t/while/done"), ""),
}  # fmt: skip


def of_model(*without: str) -> dict[str, tuple[Spoil, str]]:
    return {what: spoil for what, spoil in MODEL_SPOILS.items() if what not in without}


WRONG: dict[str, dict[str, tuple[Spoil, str]]] = {
    "clone": {
        **of_model("a weight of the model", "the next output", "rounds of a loop"),
        **{what: spoil for what, spoil in CLONE_SPOILS.items() if what != "it reads the original"},
        "the clone's input is another": (reads("u/halves", 1, "x2"), ""),
    },
    "clone --map": {
        **MODEL_SPOILS,
        **CLONE_SPOILS,
        "the clone reads the old input": (reads("u/halves", 1, "x"), DIFFERS),
        "it reads the original's loop": (reads("u/write", 2, "t/while/done"), DIFFERS),
        "the original reads the new input": (reads("t/halves", 1, "x2"), ""),
    },
    "remove --bypass": {
        **of_model("a weight of the model", "the next output"),
        "what it reads instead is another": (reads("t/halves", 1, "x2"), ""),
        "it reads the other output": (next_output("t/difference", 1), DIFFERS),
        "one of two readers reads another tensor": (reads("t/result", 1, "t/halves"), DIFFERS),
    },
    "remove --dangling": {
        **of_model("a weight of the model"),
        "one of two readers reads another input": (reads("t/result", 1, "z"), DIFFERS),
    },
    "extract": {
        **of_model("a weight of the model", "an output beside it"),
        "an input in the place of another": (reads("y", 1, "t/scaled"), DIFFERS),
    },
    "extract output 1": {
        **{what: MODEL_SPOILS[what] for what in ("inputs of the model exchanged", "a weight of the model")},
        "the node instead of the input": (reads("t/scaled", 0, "t/halves:1"), DIFFERS),
    },
    "import": {
        **MODEL_SPOILS,
        "inputs of the part exchanged": (exchanged("out"), DIFFERS),
        "a constant of the part": (value("k_1", 7.000002), DIFFERS),
        "the model's constant in the part": (reads("out", 1, "k"), DIFFERS),
        "the part's constant in the model": (reads("apart", 1, "k_1"), DIFFERS),
    },
    "import --map": {
        **MODEL_SPOILS,
        "inputs of the part exchanged": (exchanged("p/out"), DIFFERS),
        "a constant of the part": (value("p/k", 7.000002), DIFFERS),
        "connected to another tensor": (reads("p/twice", 0, "apart"), DIFFERS),
        "the model reads what came": (reads("apart", 0, "p/out"), DIFFERS),
    },
    "insert": {
        **MODEL_SPOILS,
        "inputs of the body exchanged": (exchanged("out"), DIFFERS),
        "a constant of the body": (value("k_1", 7.000002), DIFFERS),
        "the model's constant in the body": (reads("out", 1, "k"), DIFFERS),
        "a reader that reads the tensor itself": (reads("t/result", 1, "t/scaled"), DIFFERS),
        "a reader that reads the body's inner tensor": (reads("t/difference", 1, "twice"), DIFFERS),
        "the body reads another tensor": (reads("twice", 0, "t/halves:1"), DIFFERS),
    },
    "insert into an input": {
        **MODEL_SPOILS,
        "a reader that reads the input itself": (reads("apart", 0, "z"), DIFFERS),
        "a constant of the body": (value("p/two", -2.0), DIFFERS),
    },
    "insert several": {
        **MODEL_SPOILS,
        "a constant of a body": (value("t/difference/k", 7.000002), DIFFERS),
        "a reader that reads a tensor itself": (reads("t/result", 1, "t/scaled"), DIFFERS),
        "a tensor that is computed past a body": (reads("t/difference", 1, "t/scaled"), DIFFERS),
        "a body reads another tensor": (reads("z/twice", 0, "t/scaled"), DIFFERS),
        "a reader of another body": (reads("y", 1, "t/scaled/out"), DIFFERS),
    },
    "freeze-input": {
        **MODEL_SPOILS,
        "another value": (value("z", [[1.0, -2.0000002]]), ""),  # what was asked for is part of what is promised
        "a reader that reads something else": (reads("apart", 0, "t/scaled"), DIFFERS),
    },
}


CASES = [(edit, what) for edit, spoils in WRONG.items() for what in spoils]


@pytest.mark.parametrize("name", EDITS)
def test_a_right_edit_passes(name: str, executor: Executor) -> None:
    proof = proven(executor, model(), EDITS[name])
    assert proof.compared and all(o.comparison is not None and o.comparison.equal for o in proof.compared)
    served = {"y", "apart"} if not name.startswith("extract") else {"y"}
    assert served <= {o.after for o in proof.compared}
    assert proof.samples == 2


@pytest.mark.parametrize(("name", "what"), CASES, ids=[f"{n}: {w}" for n, w in CASES])
def test_a_wrong_edit_is_caught(name: str, what: str, executor: Executor) -> None:
    spoil, code = WRONG[name][what]
    error = caught(executor, model(), spoilt(EDITS[name], spoil))
    if code == FAILS and error.exit_code == 7:  # a new input: it may be that no feed that fits is known
        assert name in ("remove --dangling", "extract")
        return
    assert error.exit_code == 5, error.message
    if code == FAILS and error.code == "undeclared-change":
        return  # it does not run, and the intent tells why
    assert code in ("", error.code), error.message
    if code == DIFFERS:
        assert error.facts["tensors"]


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
    error = caught(executor, model(), spoilt(listing_less, value("k", 5.00001)))
    assert error.exit_code == 5


# -- claims that say too much, or nothing ------------------------------------------------------------------------


def claiming(edit: Edit, change: Callable[[SameGiven], SameGiven]) -> Edit:
    def claimed(graph: Graph) -> EditResult:
        result = edit(graph)
        result.claims = tuple(change(c) if isinstance(c, SameGiven) else c for c in result.claims)
        return result

    return claimed


def test_a_claim_of_another_tensor_is_caught(executor: Executor) -> None:
    def change(claim: SameGiven) -> SameGiven:
        return SameGiven(claim.given, (("t/result", "u/stored"),), claim.statement, claim.copies)

    assert caught(executor, model(), claiming(EDITS["clone --map"], change)).exit_code == 5


def test_a_claim_of_nothing_leaves_nothing_out(executor: Executor) -> None:
    """Outputs that the claim does not list are compared as well."""
    edit = claiming(EDITS["freeze-input"], lambda c: SameGiven(c.given, (), c.statement))
    assert proven(executor, model(), edit).compared
    wrong = claiming(spoilt(EDITS["freeze-input"], value("k", 9.0)), lambda c: SameGiven(c.given, (), c.statement))
    assert caught(executor, model(), wrong).exit_code == 5


def test_a_substitution_that_the_edit_forgot_is_caught(executor: Executor) -> None:
    for name in ("remove --bypass", "insert", "freeze-input"):
        edit = claiming(EDITS[name], lambda c: SameGiven({}, c.outputs, c.statement, c.copies))
        assert caught(executor, model(), edit).exit_code == 5


# -- nothing to compare ----------------------------------------------------------------------------------------


NOTHING = without_comparable_outputs("s/y")

QUIET_EDITS: dict[str, Edit] = {
    "clone": lambda g: clone_scope(g, "s", "u"),
    "remove --bypass": lambda g: remove(g, named("t/same"), bypass=True, allow_outputs=True),
    "extract": lambda g: extract(g, ["t/same"], ["s/y"]),
    "import": lambda g: import_graph(g, NOTHING["random"].graph("part.pb"), scope="p"),
    "insert": lambda g: insert(g, "t/same", negative(size=2).graph("body.pb")),
    "freeze-input": lambda g: freeze_input(g, {"x": "[1, 2]"}),
}


@pytest.mark.parametrize("name", QUIET_EDITS)
@pytest.mark.parametrize("what", NOTHING)
def test_where_nothing_can_be_compared_nothing_is_passed(what: str, name: str, executor: Executor) -> None:
    """`insert` compares what its body gives, and not what the model makes of it: that is no proof of the insertion."""
    error = caught(executor, NOTHING[what], QUIET_EDITS[name])
    assert error.exit_code == 7, error.message
    assert {DO_WITHOUT, "structure-only", "other-feeds"} & {*error.advice}


@pytest.mark.parametrize("what", ["no output", "resource"])
def test_models_that_give_nothing_are_not_passed(what: str, tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.node("n", "NoOp", ["^x"])
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


def reshaping(last: tuple[int, ...]) -> Builder:
    """What takes [1,2,3] apart into [1,6], and has a Reshape to LAST read that, or [1,2,3] itself."""
    m = Builder()
    m.placeholder("x", "float32", (1, 2, 3))
    for name, read, shape in (("flat", "x", (-1, 6)), ("y", "flat", last)):
        m.const(f"{name}/shape", shape, "int32")
        m.node(name, "Reshape", [read, f"{name}/shape"], T="float32", Tshape="int32")
    m.node("z", "Neg", ["y"], T="float32")
    return m


def test_a_reshape_is_taken_out_before_another_one(executor: Executor) -> None:
    """The replacement has a rank that the tensor of the original cannot have; this is allowed."""
    proof = proven(executor, reshaping((-1, 2, 3, 1)), lambda g: remove(g, [g["flat"]], bypass=True))
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


def test_shapes_by_the_user(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "float32", (-1, 2))
    m.node("t/a", "Neg", ["x"], T="float32")
    m.node("y", "Abs", ["t/a"], T="float32")
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
    p = Builder()
    p.placeholder("in", "float32", (1, 2))
    p.const("message", "never", "string")
    p.const("false", False, "bool")
    p.node("check", "Assert", ["false", "message"], T=["string"], summarize=3)
    p.node("out", "Identity", ["in", "^check"], T="float32")
    for edit in (lambda g: import_graph(g, p.graph("part.pb")), lambda g: insert(g, "z", p.graph("part.pb"))):
        error = caught(executor, model(), edit)
        assert error.exit_code in (5, 7)
        assert error.code in ("does-not-run", "unfeedable", "nothing-comparable"), (error.code, error.message)


def test_a_part_with_a_table_that_cannot_be_initialised(executor: Executor) -> None:
    p = Builder()
    p.placeholder("in", "int64", (1,))
    p.const("nothing", "?", "string")
    p.node("table", "HashTableV2", key_dtype="int64", value_dtype="string", shared_name="labels")
    p.const("file", "/nowhere/gone.txt", "string")
    p.node("init", "InitializeTableFromTextFileV2", ["table", "file"], key_index=-1, value_index=-2, vocab_size=-1,
           delimiter="\t")  # fmt: skip
    p.node("out", "LookupTableFindV2", ["table", "in", "nothing"], Tin="int64", Tout="string")
    error = caught(executor, model(), lambda g: import_graph(g, p.graph("part.pb")))
    assert error.exit_code == 7
    assert hint_of(error) is not None


def test_the_claim_of_a_part_is_checked_against_the_part(executor: Executor) -> None:
    def wrong(graph: Graph) -> EditResult:
        result = EDITS["import"](graph)
        (claim,) = [c for c in result.claims if isinstance(c, SamePart)]
        result.claims = (SamePart(claim.part, claim.inputs, (("out", "twice"),), claim.copies),)
        return result

    assert caught(executor, model(), wrong).exit_code == 5


def test_a_journal_that_knows_no_copies_is_no_fault_of_the_graph(executor: Executor) -> None:
    """The placeholder `in` has its own name in the result: without a intent it is found by that."""

    def silent(graph: Graph) -> EditResult:
        result = EDITS["import"](graph)
        result.intent = Intent(added=result.intent.added)
        return result

    assert proven(executor, model(), silent).compared


SIZED: dict[str, Edit] = {
    "extract": lambda graph: extract(graph, ["a"], ["y"]),
    "remove": lambda graph: remove(graph, [graph["a"]], dangling="placeholder"),
}


@pytest.mark.parametrize("name", SIZED)
def test_a_tensor_that_is_cut_is_fed_in_a_size_that_all_of_the_model_takes(executor: Executor, name: str) -> None:
    b = Builder()
    b.placeholder("x", "float32", None)
    b.node("a", "Neg", ["x"], T="float32")
    b.node("b", "Abs", ["x"], T="float32")
    b.node("sum", "AddV2", ["a", "b"], T="float32")
    b.node("y", "SpaceToDepth", ["sum" if name == "remove" else "a"], T="float32", block_size=7)
    assert proven(executor, b, SIZED[name]).feeds["a"] == "float32 [1,224,224,3]"
