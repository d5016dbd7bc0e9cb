"""What is different about two nodes of two files."""

from __future__ import annotations

from support.graphs import Builder, body_node, func

from gdsurgeon.proof.differences import node_differences


def model(op: str = "Sub", inputs: tuple[str, str] = ("x", "k"), value: float = 1.0, device: str = "") -> Builder:
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
    assert differences(model(), model()) == []


def test_another_op() -> None:
    assert differences(model("Sub"), model("Mul")) == ["it is a Mul, not a Sub"]


def test_exchanged_inputs() -> None:
    assert differences(model(), model(inputs=("k", "x"))) == ["input 0 is 'k', not 'x'", "input 1 is 'x', not 'k'"]


def test_a_name_that_has_changed_is_no_difference() -> None:
    renamed = {"x": "k", "k": "x"}
    a, exchanged = model().graph(), model(inputs=("k", "x")).graph()
    assert node_differences(a["y"], exchanged["y"], lambda tensor: renamed.get(tensor, tensor)) == []


def test_a_constant() -> None:
    assert differences(model(value=1.0), model(value=2.0), "k") == ["its constant value differs"]


def test_an_attr_and_a_device() -> None:
    b = model(device="/device:GPU:0")
    b.graph_def.node[-1].attr["T"].type = 2
    assert differences(model(), b) == [
        "attr 'T' is type: DT_DOUBLE, not type: DT_FLOAT",
        "its device is '/device:GPU:0', not ''",
    ]


def test_control_inputs() -> None:
    b = model()
    b.graph_def.node[-1].input.append("^gate")
    assert differences(model(), b) == ["it has an additional control input 'gate'"]
    assert differences(b, model()) == ["it lacks the control input 'gate'"]


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
