"""The proof of edits that change no value (SameOutputs): right ones pass, and wrong ones are caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.every_edit import EDITS, model
from support.failing import renaming as renamed
from support.graphs import Builder, const, node, placeholder, tensor, typed
from support.spoiling import Edit, Spoil, caught, claiming, proven, said, spoilt, value

from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.control_edges import control_edges
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.select import Selection
from gdsurgeon.values import Tolerance

pytestmark = pytest.mark.tensorflow


def tolerant(edit: Edit, rtol: float = 0.0, atol: float = 0.0) -> Edit:
    return claiming(edit, SameOutputs, tolerance=Tolerance(rtol, atol))


def in_function(change: Callable[[Any], None]) -> Spoil:
    """Returns a change of the function that the edit has added."""

    def spoil(graph: Graph, result: EditResult) -> None:
        found = graph.functions.get(result.intent.functions.added[0])
        copy = type(found)()
        copy.CopyFrom(found)
        change(copy)
        assert copy != found
        graph.functions.replace(copy)

    return spoil


def numbers() -> Builder:
    """y = x + 1, z = x k; only `y` is an output."""
    return Builder(
        placeholder("x", "float32", (2,)), const("one", [1.0, 1.0]), const("k", [3.0, 3.0]),
        typed("Mul", "z", "x", "k"), typed("Shape", "hidden", "z", out_type="int32"), typed("AddV2", "y", "x", "one"),
        typed("Neg", "size", "hidden", kind="int32"),
    )  # fmt: skip


def renaming(graph: Graph) -> EditResult:
    return rename(graph, [("y", "served"), ("z", "inner")])


def test_an_intent_that_forgets_is_caught(executor: Executor) -> None:
    def forgets(_: Graph, result: EditResult) -> None:
        assert result.intent.renamed
        result.intent.renamed.clear()
        result.intent.moved.clear()

    assert caught(executor, model(), spoilt(EDITS["rename"], forgets)).exit_code == 5


def test_a_dropped_control_edge_is_caught_where_it_matters(executor: Executor) -> None:
    """`control-edges --remove` itself is such an edit: it promises that the outputs stay, and here they do not."""
    error = caught(executor, model(), lambda g: control_edges(g, remove=[("t/stored", "^t/write")]))
    assert error.exit_code == 5 and error.code == "does-not-run"


# -- inputs ----------------------------------------------------------------------------------------------------


def relu() -> Builder:
    """For a positive `x` the same as `x`."""
    return Builder(
        placeholder("x", "float32", (3,)), typed("Relu", "t/positive", "x"), typed("AddV2", "y", "t/positive", "x"),
    )  # fmt: skip


@pytest.mark.parametrize("op", ["Identity", "Abs"])
def test_what_differs_below_zero_is_caught(op: str, executor: Executor) -> None:
    """A lost or exchanged activation is the most frequent mistake: numbers between 0 and 1 do not show it."""
    wrong = spoilt(renamed, lambda g, _: g.set_op(g["t/positive"], op))
    assert caught(executor, relu(), wrong).exit_code == 5


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_scalars_differ_from_sample_to_sample(dtype: str, executor: Executor) -> None:
    """A value that is baked in shows with the second feed."""
    m = Builder(placeholder("setting", dtype, ()), typed("Identity", "y", "setting", kind=dtype))
    first = proven(executor, m, renamed).outputs[0].value
    number = first == "True" if dtype == "bool" else float(first)

    def bake(graph: Graph, _: EditResult) -> None:
        attrs = {"dtype": graph["setting"].attr_bytes("dtype"), "value": tensor(number, dtype)}
        baked = graph.add("baked", "Const", attrs=attrs)  # type: ignore[arg-type]
        graph.set_inputs(graph["z"], [baked.output])

    error = caught(executor, m, spoilt(renamed, bake))
    assert error.exit_code == 5
    assert error.facts["sample"] == 2 or dtype == "float32"


@pytest.mark.parametrize("name", ["x", "image"])
def test_feeds_by_the_names_before_and_after(name: str, executor: Executor) -> None:
    edit: Edit = lambda g: rename(g, [("x", "image"), ("y", "served")])  # noqa: E731
    proof = proven(executor, numbers(), edit, Overrides({name: "[1, 2]"}))
    assert proof.feeds == {"image": "float32 [2]"}
    assert [o.value for o in proof.compared if o.after == "served"] == ["[2, 3]"]
    for spelt in ("imag", "y", "served"):
        assert caught(executor, numbers(), edit, Overrides({spelt: "[1, 2]"})).exit_code == 2


def test_feeds_where_names_are_exchanged(executor: Executor) -> None:
    """After `a=b b=a` the name `a` means a different input: the input of the result, or an error explains it."""
    m = Builder(
        placeholder("a", "float32", (2,)), placeholder("b", "float32", (3,)), typed("Neg", "y", "a"),
        typed("Neg", "z", "b"),
    )  # fmt: skip
    edit: Edit = lambda g: rename(g, [("a", "b"), ("b", "a")])  # noqa: E731
    shapes = [{"a": "[1, 2]", "b": "[1, 2, 3]"}, {"b": "[1, 2]", "a": "[1, 2, 3]"}]
    passed = 0
    for feeds in shapes:
        try:
            passed += len(proven(executor, m, edit, Overrides(dict(feeds))).compared) == 2
        except GdsurgeonError as error:
            assert error.exit_code == 2
    assert passed == 1


# -- what a claim says -----------------------------------------------------------------------------------------


ONES = Overrides({"x": "[1, 1]"})


def test_what_is_named_besides_is_compared_too(executor: Executor) -> None:
    """Nothing that is served tells: only the shape of `z` is looked at."""
    wrong = spoilt(renaming, value("k", [3.0, 4.0]), said("k"))
    assert proven(executor, numbers(), wrong).compared
    error = caught(executor, numbers(), claiming(wrong, SameOutputs, also=("z",)))
    assert error.exit_code == 5
    assert [detail.split(":")[0] for detail in error.details] == ["inner"]
    proof = proven(executor, numbers(), claiming(renaming, SameOutputs, also=("z", "hidden", "x", "z")))
    assert [o.after for o in proof.compared].count("inner") == 1


def test_what_is_named_besides_and_is_gone_is_left_out(executor: Executor) -> None:
    m = model()
    proof = proven(executor, m, claiming(EDITS["fuse-ops"], SameOutputs, also=("t/scale", "t/difference", "sum")))
    names = {o.before for o in proof.compared}
    assert "sum" in names and "t/scale" not in names


def test_what_a_fusion_gives_inside_is_compared(executor: Executor) -> None:
    """The function's result is wrong, and by chance nothing that is served depends on it."""
    m = numbers()
    edit: Edit = lambda g: fuse_ops(g, Selection(nodes=("z", "k")), "f")  # noqa: E731

    def other(function: Any) -> None:
        (constant,) = [node for node in function.node_def if node.op == "Const"]
        constant.attr["value"].ParseFromString(tensor([3.0, 4.0], "float32"))

    assert "z" in {o.before for o in proven(executor, m, edit).compared}
    error = caught(executor, m, spoilt(edit, in_function(other)))
    assert error.exit_code == 5


def test_a_tolerance_is_absolute_or_relative(executor: Executor) -> None:
    wrong = spoilt(renaming, value("one", [1.0, 1.5]), said("one"))  # 2.5 instead of 2
    for passes in ({"atol": 0.5}, {"rtol": 0.2}, {"atol": 0.25, "rtol": 0.1}, {"rtol": 0.15, "atol": 0.15}):
        proof = proven(executor, numbers(), tolerant(wrong, **passes), ONES)
        assert proof.tolerance[:2] == (passes.get("rtol", 0), passes.get("atol", 0))
        assert proof.largest_difference == 0.5
        (output,) = [o for o in proof.compared if o.after == "served"]
        assert output.comparison is not None and output.comparison.close and not output.comparison.equal
    for fails in ({"atol": 0.49}, {"rtol": 0.19}, {"atol": 0.24, "rtol": 0.1}, {}):
        error = caught(executor, numbers(), tolerant(wrong, **fails), ONES)
        assert error.exit_code == 5
        assert error.details == ("served: 1 of 2 elements differs, by up to 0.5 (would pass with rtol and atol 0.143)",)


def test_a_tolerance_is_none_for_integers_texts_and_what_is_no_number(executor: Executor) -> None:
    loose = {"rtol": 1e9, "atol": 1e9}
    m = Builder(
        placeholder("x", "int32", (2,)), const("k", [1, 2], "int32"), typed("AddV2", "y", "x", "k", kind="int32"),
    )  # fmt: skip
    error = caught(executor, m, tolerant(spoilt(renamed, value("k", [1, 3], "int32")), **loose))
    assert error.exit_code == 5 and "tolerance" not in error.details[0]
    joined = node("y", "StringJoin", ["x", "k"], N=2, separator="")
    m = Builder(placeholder("x", "string", (2,)), const("k", ["a", "b"], "string"), joined)
    error = caught(executor, m, tolerant(spoilt(renamed, value("k", ["a", "c"], "string")), **loose))
    assert error.exit_code == 5 and error.details == ("z: 1 of 2 elements differs",)
    m = numbers()
    error = caught(executor, m, tolerant(spoilt(renaming, value("one", [1.0, float("nan")])), **loose))
    assert error.exit_code == 5 and "inf" in error.details[0] and "tolerance" not in error.details[0]
    error = caught(executor, m, tolerant(spoilt(renaming, value("one", [1.0, float("inf")])), **loose))
    assert error.exit_code == 5


def test_other_shapes_and_dtypes_are_never_equal(executor: Executor) -> None:
    loose = {"rtol": 1e9, "atol": 1e9}
    error = caught(executor, numbers(), tolerant(spoilt(renaming, value("one", [[1.0, 1.0]])), **loose))
    assert (error.exit_code, error.details) == (5, ("served: shapes [2] and [1,2]",))


def test_bit_for_bit_tells_the_two_zeros_apart(executor: Executor) -> None:
    """Without a tolerance the summary says that the outputs are bit-identical."""
    m = Builder(placeholder("x", "float32", (2,)), const("k", [0.0, 0.0]), typed("Mul", "y", "x", "k"))
    wrong = spoilt(renamed, value("k", [-0.0, -0.0]), said("k"))
    assert caught(executor, m, wrong).exit_code == 5
    assert proven(executor, m, tolerant(wrong, atol=1e-9)).compared


def test_an_output_that_is_excepted_is_run_and_not_compared(executor: Executor) -> None:
    wrong = spoilt(renaming, value("one", [1.0, 1.5]), said("one"))
    wrong = claiming(wrong, SameOutputs, except_for={"y": "it is meant to differ"})
    proof = proven(executor, numbers(), wrong)
    assert [(o.after, o.reason) for o in proof.outputs if o.comparison is None] == [("served", "it is meant to differ")]
    assert [o.after for o in proof.compared] == ["size"]


def test_where_all_outputs_are_excepted_nothing_is_passed(executor: Executor) -> None:
    edit = claiming(renaming, SameOutputs, except_for={"y": "it is meant to differ", "size": "so is this"})
    error = caught(executor, numbers(), edit)
    assert error.exit_code == 7
    assert error.code == "nothing-comparable"


def test_a_claim_that_is_not_of_this_journal_is_not_passed(executor: Executor) -> None:
    """The intent speaks of a node that is not there."""

    intent = Intent(renamed={"y": "nowhere", "z": "inner"})
    wrong = spoilt(renaming, lambda _, result: setattr(result, "intent", intent))
    assert caught(executor, numbers(), wrong).exit_code == 5
