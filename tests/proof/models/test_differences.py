"""Differences of two models, and of two nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.desk import check_error
from support.graphs import Builder, const, define, func, library, node, placeholder, typed
from support.mutations import unnamed

import gdsurgeon as gds
from gdsurgeon.compare.comparison import compare_files
from gdsurgeon.compare.intent import Facts
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.differences import node_differences
from gdsurgeon.wire.protos import GraphDef

FIXTURES = sorted((Path(__file__).parents[3] / "fixtures").glob("*.pb"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_a_small_change_is_named(path: Path) -> None:
    assert unnamed(path.read_bytes(), 2) == []


def test_the_same_graph_differs_in_nothing() -> None:
    data = FIXTURES[0].read_bytes()
    again = from_bytes(GraphDef.FromString(data).SerializeToString(deterministic=True))
    assert compare_files(from_bytes(data), again).facts == Facts()


# -- with TensorFlow ----------------------------------------------------------------------------------------------


def model(
    relu: str = "Relu", add: str = "Add", less: str = "Less", padding: str = "SAME", weight: float = 0.5
) -> bytes:
    """Two towers in which changes do not show on values from 0 to 1, or near them."""
    m = Builder(
        placeholder("x", "float32", (2, 3)), placeholder("image", "float32", (1, 4, 4, 1)), typed("Sigmoid", "s", "x"),
        typed(relu, "r", "s"), const("c", [1.0, 2.0, 3.0]), typed(add, "sum", "r", "c"), const("limit", 100.0),
        typed(less, "below", "sum", "limit"), node("y", "Cast", ["below"], SrcT="bool", DstT="float32"),
        const("nothing", 0.0), const("kernel", [[[[weight]]]]),
        typed("Conv2D", "seen", "image", "kernel", strides=[1, 1, 1, 1], padding=padding),
        typed("Mul", "unseen", "seen", "nothing"), typed("Abs", "z", "unseen"),
    )  # fmt: skip
    return m.bytes()


@pytest.mark.tensorflow
def test_nodes_that_no_output_shows_are_run_apart(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(model())
    (tmp_path / "b.pb").write_bytes(model("Relu6", "AddV2", "LessEqual", "VALID", 0.75))
    verdict = gds.validate(str(tmp_path / "a.pb"), str(tmp_path / "b.pb"))
    assert {item.name: item.shown for item in verdict.differences} == {
        "r": "different", "sum": "equal", "below": "different", "kernel": "", "seen": "equal",
    }  # fmt: skip
    with pytest.raises(ValidationError) as caught:
        gds.validate(str(tmp_path / "a.pb"), str(tmp_path / "b.pb"), strict=True)
    check_error(caught.value, "unshown-differences", {"count": 3})
    assert any("Relu -> Relu6" in line for line in caught.value.details)


def one_layer(op: str = "Sub", inputs: tuple[str, ...] = ("x", "k"), value: float = 1.0, **attrs: str) -> Builder:
    return Builder(
        placeholder("x", "float32", (2,)), const("k", [value, value], "float32"), node("gate", "NoOp"),
        node("y", op, inputs, **{"T": "float32", **attrs}),
    )  # fmt: skip


EXCHANGED = one_layer(inputs=("k", "x"))


def differences(a: Builder, b: Builder, name: str = "y") -> list[str]:
    return node_differences(a.graph()[name], b.graph()[name])


def layers() -> dict[str, tuple[Builder, Builder, list[str]]]:
    """Pairs of models by their difference, and how it is reported."""
    waiting = one_layer(inputs=("x", "k", "^gate"))
    return {
        "nothing": (one_layer(), one_layer(), []),
        "an op": (one_layer("Sub"), one_layer("Mul"), ["op Sub -> Mul"]),
        "inputs": (one_layer(), EXCHANGED, ["input 0 is 'k', not 'x'", "input 1 is 'x', not 'k'"]),
        "an attr and a device": (one_layer(), one_layer(device="/device:GPU:0", T="float64"), [
            "device nothing -> /device:GPU:0", "T float32 -> float64"]),
        "a control input more": (one_layer(), waiting, ["control inputs: 'gate' instead of nothing"]),
        "a control input less": (waiting, one_layer(), ["control inputs: nothing instead of 'gate'"]),
    }  # fmt: skip


@pytest.mark.parametrize("what", layers())
def test_differences_of_two_nodes(what: str) -> None:
    a, b, told = layers()[what]
    assert differences(a, b) == told


def test_a_constant() -> None:
    assert differences(one_layer(value=1.0), one_layer(value=2.0), "k") == ["its value differs"]


def test_a_name_that_has_changed_is_no_difference() -> None:
    renamed = {"x": "k", "k": "x"}
    a, exchanged = one_layer().graph(), EXCHANGED.graph()
    assert node_differences(a["y"], exchanged["y"], lambda tensor: renamed.get(tensor, tensor)) == []


def test_a_function_of_the_same_name() -> None:
    def calling(op: str) -> Builder:
        body = define("f", {"a": "float32"}, {"r": ("float32", "n:y:0")}, typed(op, "n", "a"))
        called = node("y", "PartitionedCall", ["x"], f=func("f"), Tin=["float32"], Tout=["float32"])
        return Builder(placeholder("x", "float32", (2,)), called, library(body))

    assert differences(calling("Neg"), calling("Neg")) == []
    assert differences(calling("Neg"), calling("Exp")) == ["the function 'f' differs in 'n'"]
