"""Differences of two models, and of two nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.desk import check_error
from support.graphs import Builder, body_node, func
from support.small_changes import unnamed

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
    assert (
        compare_files(
            from_bytes(data),
            from_bytes(GraphDef.FromString(data).SerializeToString(deterministic=True)),
        ).facts
        == Facts()
    )


# -- with TensorFlow ----------------------------------------------------------------------------------------------


def model(
    relu: str = "Relu", add: str = "Add", less: str = "Less", padding: str = "SAME", weight: float = 0.5
) -> bytes:
    """Two towers in which changes do not show on values from 0 to 1, or near them."""
    m = Builder()
    m.placeholder("x", "float32", (2, 3))
    m.placeholder("image", "float32", (1, 4, 4, 1))
    m.typed("Sigmoid", "s", "x")
    m.typed(relu, "r", "s")
    m.const("c", [1.0, 2.0, 3.0])
    m.typed(add, "sum", "r", "c")
    m.const("limit", 100.0)
    m.typed(less, "below", "sum", "limit")
    m.node("y", "Cast", ["below"], SrcT="bool", DstT="float32")
    m.const("nothing", 0.0)
    m.const("kernel", [[[[weight]]]])
    m.typed("Conv2D", "seen", "image", "kernel", strides=[1, 1, 1, 1], padding=padding)
    m.typed("Mul", "unseen", "seen", "nothing")
    m.typed("Abs", "z", "unseen")
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


def one_layer(op: str = "Sub", inputs: tuple[str, str] = ("x", "k"), value: float = 1.0, device: str = "") -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("k", [value, value], "float32")
    m.node("gate", "NoOp")
    m.node("y", op, list(inputs), T="float32")
    if device:
        m.graph_def.node[-1].device = device
    return m


def differences(a: Builder, b: Builder, name: str = "y") -> list[str]:
    return node_differences(a.graph()[name], b.graph()[name])


def test_equal_nodes_differ_in_nothing() -> None:
    assert differences(one_layer(), one_layer()) == []


def test_another_op() -> None:
    assert differences(one_layer("Sub"), one_layer("Mul")) == ["op Sub -> Mul"]


def test_exchanged_inputs() -> None:
    assert differences(one_layer(), one_layer(inputs=("k", "x"))) == [
        "input 0 is 'k', not 'x'",
        "input 1 is 'x', not 'k'",
    ]


def test_a_name_that_has_changed_is_no_difference() -> None:
    renamed = {"x": "k", "k": "x"}
    a, exchanged = one_layer().graph(), one_layer(inputs=("k", "x")).graph()
    assert node_differences(a["y"], exchanged["y"], lambda tensor: renamed.get(tensor, tensor)) == []


def test_a_constant() -> None:
    assert differences(one_layer(value=1.0), one_layer(value=2.0), "k") == ["its value differs"]


def test_an_attr_and_a_device() -> None:
    b = one_layer(device="/device:GPU:0")
    b.graph_def.node[-1].attr["T"].type = 2
    assert differences(one_layer(), b) == [
        "device nothing -> /device:GPU:0",
        "T float32 -> float64",
    ]


def test_control_inputs() -> None:
    b = one_layer()
    b.graph_def.node[-1].input.append("^gate")
    assert differences(one_layer(), b) == ["control inputs: 'gate' instead of nothing"]
    assert differences(b, one_layer()) == ["control inputs: nothing instead of 'gate'"]


def test_a_function_of_the_same_name() -> None:
    def calling(op: str) -> Builder:
        m = Builder()
        m.placeholder("x", "float32", (2,))
        function = m.function("f", {"a": "float32"}, {"r": "float32"})
        body_node(function, "n", op, ["a"], T="float32")
        function.ret["r"] = "n:y:0"
        m.node("y", "PartitionedCall", ["x"], f=func("f"), Tin=["float32"], Tout=["float32"])
        return m

    assert differences(calling("Neg"), calling("Neg")) == []
    assert differences(calling("Neg"), calling("Exp")) == ["the function 'f' differs in 'n'"]
