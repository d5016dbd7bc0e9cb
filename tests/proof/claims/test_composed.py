"""Parts in front of a model and after it: all their results are outputs, and compared."""

from __future__ import annotations

import pytest
from support.graphs import Builder, const, define, func, library, node, placeholder, typed
from support.spoiling import Edit, caught, proven, spoilt

import gdsurgeon as gds
from gdsurgeon.edits.parts import add_postprocessing, add_preprocessing
from gdsurgeon.proof.executor import Executor

pytestmark = pytest.mark.tensorflow


def part(name: str, suffix: str, *more: str) -> Builder:
    """exp(NAME), |NAME| and (with MORE) tensors that cannot be compared."""
    b = Builder(
        placeholder(name, "float32", (-1, 4)), typed("Exp", f"{name}{suffix}", name), typed("Abs", "extra", name),
    )  # fmt: skip
    if more:
        b.typed("Shape", "shape", name, out_type="int32")
        b.typed("RandomUniform", "noise", "shape", kind="int32", dtype="float32")
    return b


def model() -> Builder:
    return Builder(placeholder("x", "float32", (-1, 4)), typed("Neg", "y", "x"))


def edits(*more: str) -> dict[str, Edit]:
    return {
        "pre": lambda g: add_preprocessing(g, part("x", "_preprocessed", *more).graph("pre.pb")),
        "post": lambda g: add_postprocessing(g, part("y", "_postprocessed", *more).graph("post.pb")),
    }


@pytest.mark.parametrize("where", ["pre", "post"])
def test_another_result_is_compared(executor: Executor, where: str) -> None:
    edit = edits()[where]
    assert [o.after for o in proven(executor, model(), edit).compared if o.before == f"{where}(extra)"] == ["extra"]
    error = caught(executor, model(), spoilt(edit, lambda g, _: g.set_op(g["extra"], "Neg")))
    assert error.exit_code == 5 and "extra: " in error.details[0]


@pytest.mark.parametrize("where", ["pre", "post"])
def test_another_result_that_is_random_is_left_out(executor: Executor, where: str) -> None:
    proof = proven(executor, model(), edits("noise")[where])
    assert {o.after for o in proof.compared} >= {"extra", "y"}
    assert "noise" not in {o.after for o in proof.outputs}


@pytest.mark.parametrize("shape", [(-1, 4), None], ids=["stated", "to be found"])
def test_a_part_that_states_no_shape_is_fed_what_the_model_takes(
    executor: Executor, shape: tuple[int, ...] | None
) -> None:
    y = typed("Neg", "y", "x") if shape else typed("SpaceToDepth", "y", "x", block_size=2)
    pre = Builder(placeholder("x"), typed("Exp", "x_preprocessed", "x"))
    proof = proven(executor, Builder(placeholder("x", shape=shape), y), lambda g: add_preprocessing(g, pre.graph()))
    assert proof.feeds["x"].startswith("float32 [1,4]" if shape else "float32 [1,64,64,3]")


def test_a_graph_behind_a_variable_cannot_be_proven(executor: Executor) -> None:
    b = model()
    b.node("v", "VariableV2", [], dtype="float32", shape=(2,))
    b.const("start", [1.0, 2.0])
    b.typed("Assign", "assigned", "v", "start")
    post = Builder(placeholder("assigned", "float32", (2,)), typed("Exp", "assigned_postprocessed", "assigned"))
    error = caught(executor, b, lambda g: add_postprocessing(g, post.graph("post.pb")))
    assert error.exit_code == 7 and error.code == "nothing-comparable"


def test_a_part_that_hands_texts_on_is_fed_what_is_read_behind_it(executor: Executor) -> None:
    b = Builder(placeholder("x", "string", ()), node("y", "DecodeJpeg", ["x"], channels=3))
    pre = Builder(placeholder("x", "string", ()), typed("Identity", "x_preprocessed", "x", kind="string"))
    assert proven(executor, b, lambda g: add_preprocessing(g, pre.graph("pre.pb"))).compared


PART = Builder(node("in", "Placeholder", dtype="float32"), typed("Abs", "out", "in"))


def test_a_batch_that_the_edited_graph_does_not_take_is_not_counted(executor: Executor) -> None:
    m = Builder(
        placeholder("x", "float32", (-1, 4)), const("one", [1, 4], "int32"),
        typed("Reshape", "rows", "x", "one", Tshape="int32"), typed("Neg", "n", "rows"), typed("Exp", "y", "n"),
        typed("Relu", "side", "x"),
    )  # fmt: skip
    proof = proven(executor, m, lambda g: gds.insert(g, "n", PART.graph()))
    assert proof.samples == 2 and proof.batches == [1]


def test_a_part_behind_what_draws_in_a_function_is_fed_in_the_shape_that_tensorflow_knows(executor: Executor) -> None:
    noise = define(
        "noise", {"a": "float32"}, {"b": ("float32", "sum:z:0")}, typed("Shape", "shape", "a", out_type="int32"),
        typed("RandomUniform", "drawn", "shape:output:0", kind="int32", dtype="float32"),
        typed("AddV2", "sum", "a", "drawn:output:0"),
    )  # fmt: skip
    m = Builder(
        placeholder("x", "float32", (-1, 4)), library(noise),
        node("noisy", "StatefulPartitionedCall", ["x"], f=func("noise"), Tin=["float32"], Tout=["float32"]),
        typed("Neg", "y", "noisy"), typed("Exp", "beside", "x"),
    )  # fmt: skip
    edit: Edit = lambda g: gds.insert(g, "noisy", PART.graph())  # noqa: E731
    assert {"out", "beside"} <= {output.after for output in proven(executor, m, edit).compared}
    assert caught(executor, m, spoilt(edit, lambda g, _: g.set_op(g["out"], "Neg"))).exit_code == 5


def test_one_image_is_one_text_where_the_shape_of_the_raw_input_is_unknown(executor: Executor) -> None:
    m = Builder(placeholder("x", "float32", (-1, -1, 3)), typed("Neg", "y", "x"))
    decoded = node("decoded", "DecodeJpeg", ["x"], channels=3)
    pre = Builder(node("x", "Placeholder", dtype="string"), decoded,
                  node("x_preprocessed", "Cast", ["decoded"], SrcT="uint8", DstT="float32"))  # fmt: skip
    proof = proven(executor, m, lambda g: gds.add_preprocessing(g, pre.graph()))
    assert proof.feeds["x"].startswith("string []")
