"""The proof of edits that change no value (SameOutputs): what is compared, how nearly, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
from support.graphs import Builder, tensor
from support.same_outputs import (
    EDITS,
    claiming,
    in_function,
    model,
    node_of,
    numbers,
    renaming,
    without_comparable_outputs,
)
from support.spoiling import (
    Edit,
    caught,
    proven,
    said,
    spoilt,
    value,
)

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.control_edges import control_edges
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.select import Selection

pytestmark = pytest.mark.tensorflow


# -- what a claim says -----------------------------------------------------------------------------------------


ONES = Overrides({"x": "[1, 1]"})


def test_what_is_named_besides_is_compared_too(executor: Executor) -> None:
    """Nothing that is served tells: only the shape of `z` is looked at."""
    wrong = spoilt(renaming, value("k", [3.0, 4.0]), said("k"))
    assert proven(executor, numbers(), wrong).compared
    error = caught(executor, numbers(), claiming(wrong, also=("z",)))
    assert error.exit_code == 5
    assert [detail.split(":")[0] for detail in error.details] == ["inner"]
    proof = proven(executor, numbers(), claiming(renaming, also=("z", "hidden", "x", "z")))
    assert [o.after for o in proof.compared].count("inner") == 1


def test_what_is_named_besides_and_is_gone_is_left_out(executor: Executor) -> None:
    m = model()
    proof = proven(executor, m, claiming(EDITS["fuse-ops"], also=("t/scaled", "t/difference", "sum")))
    names = {o.before for o in proof.compared}
    assert "sum" in names and "t/scaled" not in names


def test_what_a_fusion_gives_inside_is_compared(executor: Executor) -> None:
    """The function's result is wrong, and by chance nothing that is served depends on it."""
    m = numbers()
    edit: Edit = lambda g: fuse_ops(g, Selection(nodes=("z", "k")), "f")  # noqa: E731

    def other(function: Any) -> None:
        node_of(function, "Const").attr["value"].ParseFromString(tensor([3.0, 4.0], "float32"))

    assert "z" in {o.before for o in proven(executor, m, edit).compared}
    error = caught(executor, m, spoilt(edit, in_function(other)))
    assert error.exit_code == 5


def test_a_tolerance_is_absolute_or_relative(executor: Executor) -> None:
    wrong = spoilt(renaming, value("one", [1.0, 1.5]), said("one"))  # 2.5 in the place of 2
    for passes in ({"atol": 0.5}, {"rtol": 0.2}, {"atol": 0.25, "rtol": 0.1}, {"rtol": 0.15, "atol": 0.15}):
        proof = proven(executor, numbers(), claiming(wrong, **passes), ONES)
        assert (proof.rtol, proof.atol) == (passes.get("rtol", 0), passes.get("atol", 0))
        assert proof.largest_difference == 0.5
        (output,) = [o for o in proof.compared if o.after == "served"]
        assert output.comparison is not None and output.comparison.close and not output.comparison.equal
    for fails in ({"atol": 0.49}, {"rtol": 0.19}, {"atol": 0.24, "rtol": 0.1}, {}):
        error = caught(executor, numbers(), claiming(wrong, **fails), ONES)
        assert error.exit_code == 5
        assert error.details == ("served: 1 of 2 elements differs, by up to 0.5 (would pass with rtol and atol 0.143)",)


def test_a_tolerance_is_none_for_integers_texts_and_what_is_no_number(executor: Executor) -> None:
    loose = {"rtol": 1e9, "atol": 1e9}
    m = Builder()
    m.placeholder("x", "int32", (2,))
    m.const("k", [1, 2], "int32")
    m.node("y", "AddV2", ["x", "k"], T="int32")
    edit: Edit = lambda g: rename(g, [("y", "z")])  # noqa: E731
    error = caught(executor, m, claiming(spoilt(edit, value("k", [1, 3], "int32")), **loose))
    assert error.exit_code == 5 and "tolerance" not in error.details[0]
    m = Builder()
    m.placeholder("x", "string", (2,))
    m.const("k", ["a", "b"], "string")
    m.node("y", "StringJoin", ["x", "k"], N=2, separator="")
    error = caught(executor, m, claiming(spoilt(edit, value("k", ["a", "c"], "string")), **loose))
    assert error.exit_code == 5 and error.details == ("z: 1 of 2 elements differs",)
    m = numbers()
    error = caught(executor, m, claiming(spoilt(renaming, value("one", [1.0, float("nan")])), **loose))
    assert error.exit_code == 5 and "inf" in error.details[0] and "tolerance" not in error.details[0]
    error = caught(executor, m, claiming(spoilt(renaming, value("one", [1.0, float("inf")])), **loose))
    assert error.exit_code == 5


def test_other_shapes_and_dtypes_are_never_equal(executor: Executor) -> None:
    loose = {"rtol": 1e9, "atol": 1e9}
    error = caught(executor, numbers(), claiming(spoilt(renaming, value("one", [[1.0, 1.0]])), **loose))
    assert (error.exit_code, error.details) == (5, ("served: shapes [2] and [1,2]",))


def test_bit_for_bit_tells_the_two_zeros_apart(executor: Executor) -> None:
    """Without a tolerance the summary says that the outputs are bit-identical."""
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("k", [0.0, 0.0])
    m.node("y", "Mul", ["x", "k"], T="float32")
    wrong = spoilt(lambda g: rename(g, [("y", "z")]), value("k", [-0.0, -0.0]), said("k"))
    assert caught(executor, m, wrong).exit_code == 5
    assert proven(executor, m, claiming(wrong, atol=1e-9)).compared


def test_an_output_that_is_excepted_is_run_and_not_compared(executor: Executor) -> None:
    wrong = claiming(spoilt(renaming, value("one", [1.0, 1.5]), said("one")), except_for={"y": "it is meant to differ"})
    proof = proven(executor, numbers(), wrong)
    assert [(o.after, o.reason) for o in proof.outputs if o.comparison is None] == [("served", "it is meant to differ")]
    assert [o.after for o in proof.compared] == ["size"]


def test_where_all_outputs_are_excepted_nothing_is_passed(executor: Executor) -> None:
    edit = claiming(renaming, except_for={"y": "it is meant to differ", "size": "so is this"})
    error = caught(executor, numbers(), edit)
    assert error.exit_code == 7
    assert error.code == "nothing-comparable"


def test_a_claim_that_is_not_of_this_journal_is_not_passed(executor: Executor) -> None:
    """The intent speaks of a node that is not there."""

    def wrong(graph: Graph) -> EditResult:
        result = renaming(graph)
        result.intent = Intent(renamed={"y": "nowhere", "z": "inner"})
        return result

    assert caught(executor, numbers(), wrong).exit_code == 5


# -- nothing to compare ----------------------------------------------------------------------------------------


NOTHING = without_comparable_outputs("y")

SMALL_EDITS: dict[str, Edit] = {
    "rename": lambda g: rename(g, [("y", "z")]),
    "fuse-ops": lambda g: fuse_ops(g, Selection(nodes=("t/same",)), "f"),
    "control-edges": lambda g: control_edges(g, add=[("y", "^x")]),
    "clone-scope": lambda g: clone_scope(g, "t", "u"),
}


@pytest.mark.parametrize("name", SMALL_EDITS)
@pytest.mark.parametrize("what", NOTHING)
def test_where_no_output_can_be_compared_nothing_is_passed(what: str, name: str, executor: Executor) -> None:
    """What was fused is compared, and its clone; of what the model gives nothing is."""
    try:
        proof = proven(executor, NOTHING[what], SMALL_EDITS[name])
    except GdsurgeonError as error:
        assert error.exit_code == 7, error.message
        assert hint_of(error) is not None and "--validate" in hint_of(error)
    else:
        assert name == "fuse-ops" and [o.before for o in proof.compared] == ["t/same"]
        assert "y" in {o.before for o in proof.outputs if o.comparison is None} | {s for s, _ in proof.skipped}
