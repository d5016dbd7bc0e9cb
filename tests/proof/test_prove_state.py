"""The proof of graphs with chance, tables and variables, and of what a reroute brings into use."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.desk import check_error
from support.graphs import Builder, body_node, func, tensor
from support.operating import operated, refused
from support.patience import LONG_ENOUGH
from support.spoiling import Edit, exchanged, spoilt

import gdsurgeon as gds
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph

pytestmark = pytest.mark.tensorflow


# -- chance ------------------------------------------------------------------------------------------------


def random_in_a_function(*, seedless: bool = False) -> Builder:
    m = Builder()
    function = m.function("noise", {"shape": "int32"}, {"out": "float32"})
    if seedless:
        body_node(function, "bits", "NonDeterministicInts", ["shape"], shape_dtype="int32", dtype="int32")
        body_node(function, "draw", "Cast", ["bits:output:0"], SrcT="int32", DstT="float32")
    else:
        body_node(function, "draw", "RandomUniform", ["shape"], T="int32", dtype="float32", seed=0, seed2=0)
    function.ret["out"] = "draw:y:0" if seedless else "draw:output:0"
    function.signature.is_stateful = True
    m.const("shape", [3], "int32")
    m.node(
        "y",
        "StatefulPartitionedCall",
        ["shape"],
        Tin=["int32"],
        Tout=["float32"],
        f=func("noise"),
        config="",
        config_proto="",
        executor_type="",
    )
    return m


def test_what_depends_on_chance_alone_is_not_passed(tmp_path: Path) -> None:
    error = refused(tmp_path, random_in_a_function(seedless=True), lambda g: gds.rename(g, [("y", "z")]))
    assert error.exit_code == 7
    assert error.code == "nothing-comparable"
    assert hint_of(error) == "--validate structure does not run it"


def test_what_depends_on_chance_is_said_beside_what_was_compared(tmp_path: Path) -> None:
    m = random_in_a_function()
    m.const("one", 1.0)
    m.node("fixed", "Neg", ["one"], T="float32")
    outcome = operated(tmp_path, m, lambda g: gds.rename(g, [("y", "z")]))
    assert [(o.after, o.reason) for o in outcome.proof.outputs if o.comparison is None] == [("z", "random: y")]
    assert [o.after for o in outcome.proof.compared] == ["fixed"]


def drawn(seed: int = 0, seed2: int = 0) -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (1, 3))
    m.const("shape", [1, 3], "int32")
    m.node("draw", "RandomUniform", ["shape"], T="int32", dtype="float32", seed=seed, seed2=seed2)
    m.node("y", "Sub", ["x", "draw"], T="float32")
    return m


def test_a_seeded_op_draws_the_same_after_feeds_that_did_not_fit(tmp_path: Path) -> None:
    """Each run goes on in the sequence of a seed, those that fail included."""
    m = Builder()
    m.placeholder("x", "float32", (-1, -1))
    m.const("shape", [1, 1], "int32")
    m.node("draw", "RandomUniform", ["shape"], T="int32", dtype="float32", seed=1, seed2=2)
    m.const("axis", 1, "int32")
    m.node("parts", "Split", ["axis", "x"], T="float32", num_split=16)
    m.node("y", "AddV2", ["parts:15", "draw"], T="float32")
    outcome = operated(tmp_path, m, lambda g: gds.rename(g, [("y", "z")]))
    assert outcome.proof.compared


def test_what_a_random_op_reads_is_compared_too(tmp_path: Path) -> None:
    """Its value is fed, so that nothing downstream would tell."""
    m = drawn()
    m.placeholder("n", "int32", ())
    m.const("one", 1, "int32")
    m.node("rows", "Sub", ["n", "one"], T="int32")
    m.node("shape_now", "Pack", ["rows", "one"], T="int32", N=2)
    m.node("more", "RandomUniform", ["shape_now"], T="int32", dtype="float32")
    m.node("w", "Neg", ["more"], T="float32")
    edit: Edit = lambda g: gds.rename(g, [("w", "v")])  # noqa: E731
    right = operated(tmp_path, m, edit, overrides=Overrides({"n": "4"}))
    assert "shape_now" in {o.after for o in right.proof.compared}
    (tmp_path / "out.pb").unlink()
    error = refused(tmp_path, m, spoilt(edit, exchanged("rows")), overrides=Overrides({"n": "4"}))
    assert error.exit_code == 5


def test_a_random_part_is_not_compared(tmp_path: Path) -> None:
    p = Builder()
    p.placeholder("y", "float32", (1, 3))
    p.const("shape", [1, 3], "int32")
    p.node("draw", "RandomUniform", ["shape"], T="int32", dtype="float32")
    p.node("y_postprocessed", "AddV2", ["y", "draw"], T="float32")
    m = Builder()
    m.placeholder("x", "float32", (1, 3))
    m.node("y", "Neg", ["x"], T="float32")
    error = refused(tmp_path, m, lambda g: gds.add_postprocessing(g, p.graph("dice.pb")))
    assert error.exit_code == 7
    assert error.code == "random-output"


# -- reroute: what the edit makes necessary ----------------------------------------------------------------


def two_inputs(used: bool) -> Builder:
    m = Builder()
    m.placeholder("a", "float32", (1, 3))
    m.placeholder("b", "float32", (1, 3))
    m.node("y", "Neg", ["a"], T="float32")
    if used:
        m.node("other", "Exp", ["b"], T="float32")
    return m


@pytest.mark.parametrize("used", [True, False], ids=["used", "unused"])
def test_an_input_that_the_reroute_brings_into_use_is_fed(used: bool, tmp_path: Path) -> None:
    outcome = operated(tmp_path, two_inputs(used), lambda g: gds.reroute(g, [("a", "b")]))
    assert "b" in outcome.proof.feeds
    assert [o.after for o in outcome.proof.outputs] == (["y", "other"] if used else ["y"])


def test_a_reroute_does_not_run_what_reaches_outside(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("for nobody")
    m = Builder()
    m.const("file", str(secret), "string")
    m.node("content", "ReadFile", ["file"])
    m.const("text", "harmless", "string")
    m.node("y", "Identity", ["text"], T="string")
    m.const("one", 1.0)
    m.node("other", "Neg", ["one"], T="float32")
    error = refused(tmp_path, m, lambda g: gds.reroute(g, [("text", "content")]))
    check_error(error, "reaches-outside", {"output": ["content", "y"]})
    assert error.exit_code == 7


def test_a_reroute_that_leads_to_a_queue_does_not_wait_for_it(tmp_path: Path) -> None:
    m = Builder()
    m.node("queue", "FIFOQueueV2", component_types=["float32"], shapes=[()])
    m.node("next", "QueueDequeueV2", ["queue"], component_types=["float32"])
    m.const("one", 1.0)
    m.node("y", "Identity", ["one"], T="float32")
    m.node("other", "Neg", ["one"], T="float32")
    outcome = operated(tmp_path, m, lambda g: gds.reroute(g, [("one", "next")], only="^y$"), timeout=LONG_ENOUGH)
    assert "y" in {name for name, _ in outcome.proof.skipped}


def tables(value: int, second: int) -> Builder:
    """Two tables; only the first is looked up for `y`."""
    m = Builder()
    m.placeholder("key", "string", (1,))
    m.const("default", -1, "int64")
    for i, number in enumerate((value, second)):
        m.node(f"table_{i}", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name=f"t{i}")
        m.const(f"keys_{i}", ["a"], "string")
        m.const(f"values_{i}", [number], "int64")
        m.node(
            f"initialise_{i}",
            "InitializeTableV2",
            [f"table_{i}", f"keys_{i}", f"values_{i}"],
            Tkey="string",
            Tval="int64",
        )
    m.node("found", "LookupTableFindV2", ["table_0", "key", "default"], Tin="string", Tout="int64")
    m.node("y", "Neg", ["found"], T="int64")
    return m


def test_a_table_that_the_reroute_brings_into_use_is_initialised(tmp_path: Path) -> None:
    outcome = operated(
        tmp_path,
        tables(5, 6),
        lambda g: gds.reroute(g, [("table_0", "table_1")], only="^found$"),
        overrides=Overrides({"key": "a"}),
    )
    assert [(o.after, o.value) for o in outcome.proof.outputs] == [("y", "[-6]")]


def label_table() -> Builder:
    """Numbers to words, with a table of its own."""
    p = Builder()
    p.placeholder("y", "int64", (1,))
    p.const("nothing", "?", "string")
    p.node("table", "HashTableV2", key_dtype="int64", value_dtype="string", shared_name="labels")
    p.const("numbers", [-5, -6], "int64")
    p.const("words", ["five", "six"], "string")
    p.node("initialise", "InitializeTableV2", ["table", "numbers", "words"], Tkey="int64", Tval="string")
    p.node("y_postprocessed", "LookupTableFindV2", ["table", "y", "nothing"], Tin="int64", Tout="string")
    return p


def test_the_tables_of_an_added_graph_are_initialised(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("key", "int64", (1,))
    m.node("y", "Neg", ["key"], T="int64")
    edit: Edit = lambda g: gds.add_postprocessing(g, label_table().graph("labels.pb"))  # noqa: E731
    outcome = operated(tmp_path, m, edit, overrides=Overrides({"key": "[6]"}))
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[six]"), ("y_raw", "[-6]")]
    (tmp_path / "out.pb").unlink()

    def wrong(graph: Graph) -> EditResult:
        result = edit(graph)
        graph.set_attr(graph["words"], "value", tensor(["six", "five"], "string"))
        return result

    assert refused(tmp_path, m, wrong, overrides=Overrides({"key": "[6]"})).details == ("y: 1 of 1 elements differs",)
