"""The proof: right edits pass, and for every claim the wrong ones are caught."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.desk import check_error
from support.failing import renaming as renamed
from support.graphs import Builder, const, node, placeholder, typed
from support.operating import operated, refused
from support.patience import LONG_ENOUGH
from support.proving import model, other_op, postprocessing, renaming
from support.spoiling import Edit, exchanged, reads, spoilt, value

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.parts import Mapped
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.edit import Outcome

pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]


# -- what is done wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "code"), [("total", "differs"), ("nowhere", "does-not-run")])
def test_a_wrong_name_in_the_intent_is_caught(name: str, code: str, tmp_path: Path) -> None:
    misleading = spoilt(renaming, lambda _, result: result.intent.renamed.update(stored=name))
    error = refused(tmp_path, model(), misleading)
    assert (error.exit_code, error.code) == (5, code), error.message


def test_outputs_that_a_reroute_does_not_reach_are_compared(tmp_path: Path) -> None:
    def rerouting(graph: Graph) -> EditResult:
        return gds.reroute(graph, [("scaled", "halves")], only="^difference$")

    m = model()
    m.const("apart", 1.0)
    m.typed("Neg", "other", "apart")
    for spoil in (other_op("other", "Abs"), value("apart", 1.000002)):
        error = refused(tmp_path, m, spoilt(rerouting, spoil))
        assert (error.exit_code, error.code) == (5, "differs") and all("differ" in detail for detail in error.details)
    proof = operated(tmp_path, m, rerouting).proof
    assert {o.after: o.reason for o in proof.outputs if o.comparison is None} == {
        "total": "downstream of the edit",
        "stored": "downstream of the edit",
        "scaled": "not an output before",
    }
    assert [o.after for o in proof.compared] == ["other"] and proof.samples == 2


def test_the_served_value_has_another_dtype(tmp_path: Path) -> None:
    text = Builder(placeholder("y", "float32", (1, 2)), node("y_postprocessed", "AsString", ["y"], T="float32"))
    right: Edit = lambda g: gds.add_postprocessing(g, text.graph("text.pb"))  # noqa: E731
    (output, *_) = operated(tmp_path, model(), right).proof.outputs
    assert (output.dtype, output.after) == (7, "y")
    (tmp_path / "out.pb").unlink()
    error = refused(tmp_path, model(), spoilt(right, other_op("y", "Identity")))
    assert (error.exit_code, error.details[0]) == (5, "y: dtypes string and float32")


def test_only_the_outputs_that_differ_are_named(tmp_path: Path) -> None:
    m = model()
    m.typed("Neg", "fine", "halves:1")
    error = refused(tmp_path, m, spoilt(renaming, exchanged("total")))
    check_error(error, "differs", {"sample": 1, "wrong": 1, "compared": 3, "tensors": ["total"]})


# -- samples -----------------------------------------------------------------------------------------------


def integers() -> Builder:
    return Builder(placeholder("x", "int32", (12,)), typed("Neg", "y", "x", kind="int32"))


@pytest.mark.parametrize("samples", [1, 3])
def test_as_many_samples_are_run_as_asked_for(samples: int, tmp_path: Path) -> None:
    assert operated(tmp_path, integers(), renamed, samples=samples).proof.samples == samples


def test_one_sample_is_enough_where_nothing_varies(tmp_path: Path) -> None:
    feed = Overrides({"x": str(list(range(12)))})
    outcome = operated(tmp_path, integers(), renamed, overrides=feed, samples=5)
    assert outcome.proof.samples == 1
    assert outcome.proof.outputs[0].value == "[0, -1, -2, -3, -4, -5, ...]"


def test_equal_seeds_give_equal_feeds_and_others_others(tmp_path: Path) -> None:
    first, same, other = (
        operated(tmp_path, integers(), renamed, seed=seed, samples=1).proof.outputs[0].value for seed in (0, 0, 1)
    )
    assert first == same != other


# -- repairs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [typed("Neg", "y", "x", _class=["loc:@nowhere"]), typed("Neg", "y", "^one", "x")])
def test_a_graph_that_is_repaired_on_the_way_is_proven(y: bytes, tmp_path: Path) -> None:
    """TensorFlow does not load the file as it is; a repair announced by a warning must not end in an error."""
    m = Builder(placeholder("x", "float32", (1, 3)), const("one", 1.0), y)
    outcome = operated(tmp_path, m, renamed)
    assert outcome.warnings
    assert [o.after for o in outcome.proof.compared] == ["z"]


# -- what reads and serves in unusual ways -----------------------------------------------------------------


def test_an_added_graph_with_several_ends(tmp_path: Path) -> None:
    """Two inputs, one of whose results is output 1 of a node; and a mapped name."""
    m = Builder(placeholder("a", "float32", (1, 2)), placeholder("b", "float32", (1, 2)), typed("Sub", "y", "a", "b"))
    p = Builder(
        placeholder("a", "float32", (1, 4)), placeholder("raw", "float32", (1, 2)), const("axis", 1, "int32"),
        typed("Split", "halves", "axis", "a", num_split=2), typed("Neg", "negative", "raw"),
    )  # fmt: skip
    mapped = [Mapped("a", "a", "halves:1"), Mapped("b", "raw", "negative")]
    edit: Edit = lambda g: gds.add_preprocessing(g, p.graph("pre.pb"), mapped=mapped)  # noqa: E731
    feeds = Overrides({"a": "[[1, 2, 3, 4]]", "b": "[[10, 20]]"})
    outcome = operated(tmp_path, m, edit, overrides=feeds)
    found = [(o.after, o.value) for o in outcome.proof.compared if not o.inside]
    assert found == [("halves", "[1, 2]"), ("y", "[13, 24]")]
    assert outcome.proof.feeds == {"a": "float32 [1,4]", "b": "float32 [1,2]"}
    (tmp_path / "out.pb").unlink()
    error = refused(tmp_path, m, spoilt(edit, reads("y", 0, "halves")), overrides=feeds)
    assert error.exit_code == 5


@pytest.mark.parametrize("how", ["feed", "archive"])
def test_a_feed_for_a_mapped_input_goes_by_the_name_of_the_input(how: str, tmp_path: Path) -> None:
    m = Builder(placeholder("a", "float32", (-1, 2)), typed("Neg", "y", "a"))
    p = Builder(placeholder("raw", "float32", (-1, 2)), typed("Square", "square", "raw"))
    np.savez(tmp_path / "feeds.npz", a=np.array([[3.0, 4.0]], "float32"))
    overrides = Overrides({"a": "[[3, 4]]"}) if how == "feed" else Overrides(archive=str(tmp_path / "feeds.npz"))
    edit: Edit = lambda g: gds.add_preprocessing(g, p.graph(), mapped=[Mapped("a", "raw", "square")])  # noqa: E731
    proof = operated(tmp_path, m, edit, overrides=overrides).proof
    assert [(o.after, o.value) for o in proof.compared if not o.inside] == [("y", "[-9, -16]")]


def test_names_that_clash_are_proven_too(tmp_path: Path) -> None:
    p = Builder(
        placeholder("x", "float32", (1, 4)), const("scale", 5.0), typed("Mul", "scaled", "x", "scale"),
        typed("Neg", "x_preprocessed", "scaled"),
    )  # fmt: skip
    outcome: Outcome = operated(tmp_path, model(), lambda g: gds.add_preprocessing(g, p.graph("pre.pb")))
    assert outcome.proof.compared
    assert len(outcome.result.notes) == 2
    graph = gds.load(str(tmp_path / "out.pb"))
    assert graph["scale"].op == "Const" and graph["difference"].inputs[1].name == "scaled"


def test_outputs_without_elements_prove_nothing(tmp_path: Path) -> None:
    """Two empty tensors are equal whatever the edit does."""
    m = Builder(placeholder("x", "float32", (0,)), typed("Neg", "y", "x"))
    error = refused(tmp_path, m, renamed)
    assert error.exit_code == 7 and error.code == "nothing-comparable" and error.facts["tensors"]


def test_that_one_output_has_no_elements_is_said(tmp_path: Path) -> None:
    m = Builder(
        placeholder("x", "float32", (0,)), placeholder("w", "float32", (2,)), typed("Neg", "y", "x"),
        typed("Neg", "v", "w"),
    )  # fmt: skip
    outcome = operated(tmp_path, m, renamed)
    assert any("z has no elements" in warning for warning in outcome.warnings)


def test_an_output_that_is_only_read_by_a_loop_or_a_branch_is_served_otherwise(tmp_path: Path) -> None:
    """Its readers are not fetched; it is, since it is asked for by name."""
    m = Builder(
        placeholder("x", "float32", (1, 2)), typed("Neg", "y", "x"), const("which", True, "bool"),
        typed("Switch", "switch", "y", "which"), typed("Abs", "in_branch", "switch"),
    )  # fmt: skip
    proof = operated(tmp_path, m, postprocessing).proof
    assert {o.after for o in proof.compared} == {"y", "y_raw"}
    assert [name for name, _ in proof.skipped] == ["in_branch"]


# -- chance ------------------------------------------------------------------------------------------------


def test_a_seeded_op_draws_the_same_after_feeds_that_did_not_fit(tmp_path: Path) -> None:
    """Each run goes on in the sequence of a seed, those that fail included."""
    m = Builder(
        placeholder("x", "float32", (-1, -1)), const("shape", [1, 1], "int32"),
        typed("RandomUniform", "draw", "shape", kind="int32", dtype="float32", seed=1, seed2=2),
        const("axis", 1, "int32"), typed("Split", "parts", "axis", "x", num_split=16),
        typed("AddV2", "y", "parts:15", "draw"),
    )  # fmt: skip
    outcome = operated(tmp_path, m, renamed)
    assert outcome.proof.compared


def test_a_random_part_is_not_compared(tmp_path: Path) -> None:
    p = Builder(
        placeholder("y", "float32", (1, 3)), const("shape", [1, 3], "int32"),
        typed("RandomUniform", "draw", "shape", kind="int32", dtype="float32"),
        typed("AddV2", "y_postprocessed", "y", "draw"),
    )  # fmt: skip
    m = Builder(placeholder("x", "float32", (1, 3)), typed("Neg", "y", "x"))
    error = refused(tmp_path, m, lambda g: gds.add_postprocessing(g, p.graph("dice.pb")))
    assert error.exit_code == 7
    assert error.code == "random-output"


# -- reroute: dependencies that the edit adds -----------------------------------------------------------------


@pytest.mark.parametrize("used", [True, False], ids=["used", "unused"])
def test_an_input_that_the_reroute_brings_into_use_is_fed(used: bool, tmp_path: Path) -> None:
    other = [typed("Exp", "other", "b")] if used else []
    m = Builder(
        placeholder("a", "float32", (1, 3)), placeholder("b", "float32", (1, 3)), typed("Neg", "y", "a"), *other
    )
    outcome = operated(tmp_path, m, lambda g: gds.reroute(g, [("a", "b")]))
    assert "b" in outcome.proof.feeds
    assert [o.after for o in outcome.proof.outputs] == (["y", "other"] if used else ["y"])


def test_a_reroute_does_not_run_what_reaches_outside(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("private")
    m = Builder(
        const("file", str(secret), "string"), node("content", "ReadFile", ["file"]),
        const("text", "harmless", "string"), typed("Identity", "y", "text", kind="string"), const("one", 1.0),
        typed("Neg", "other", "one"),
    )  # fmt: skip
    error = refused(tmp_path, m, lambda g: gds.reroute(g, [("text", "content")]))
    check_error(error, "reaches-outside", {"output": ["content", "y"]})
    assert error.exit_code == 7


def test_a_reroute_that_leads_to_a_queue_does_not_wait_for_it(tmp_path: Path) -> None:
    m = Builder(
        node("queue", "FIFOQueueV2", component_types=["float32"], shapes=[()]),
        node("next", "QueueDequeueV2", ["queue"], component_types=["float32"]), const("one", 1.0),
        typed("Identity", "y", "one"), typed("Neg", "other", "one"),
    )  # fmt: skip
    outcome = operated(tmp_path, m, lambda g: gds.reroute(g, [("one", "next")], only="^y$"), timeout=LONG_ENOUGH)
    assert "y" in {name for name, _ in outcome.proof.skipped}


def test_a_table_that_the_reroute_brings_into_use_is_initialised(tmp_path: Path) -> None:
    """There are two tables; only the first is looked up for `y`."""
    m = Builder(placeholder("key", "string", (1,)), const("default", -1, "int64"), const("keys", ["a"], "string"))
    for i, number in enumerate((5, 6)):
        parts = [f"table_{i}", "keys", m.const(f"values_{i}", [number], "int64")]
        m.node(f"table_{i}", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name=f"t{i}")
        m.node(f"initialise_{i}", "InitializeTableV2", parts, Tkey="string", Tval="int64")
    m.node("found", "LookupTableFindV2", ["table_0", "key", "default"], Tin="string", Tout="int64")
    m.typed("Neg", "y", "found", kind="int64")
    edit: Edit = lambda g: gds.reroute(g, [("table_0", "table_1")], only="^found$")  # noqa: E731
    outcome = operated(tmp_path, m, edit, overrides=Overrides({"key": "a"}))
    assert [(o.after, o.value) for o in outcome.proof.outputs] == [("y", "[-6]")]
