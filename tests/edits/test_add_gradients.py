"""add-gradients: the gradients are TensorFlow's, bit for bit, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.adding_gradients import FEEDS, GIVEN, LONG, Lab, numbers, placeholder, small
from support.expecting import refused
from support.graphs import VERSIONS, Builder, body_node, names, tensor, written
from support.graphs import identity as identity_record
from support.reaching import read_for_a_shape

from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.errors import NotValidatedError, UsageError
from gdsurgeon.graph.load import from_bytes

pytestmark = pytest.mark.tensorflow


# -- results ------------------------------------------------------------------------------------------------------


def test_of_an_input(lab: Lab) -> None:
    made = lab.same(small().bytes(), ["y"], ["x"], FEEDS)
    assert made.results == ("gradients/x",)
    assert made.claim.scope == "gradients"
    assert made.claim.ys == ("y",) and made.claim.xs == ("x",) and made.claim.grad_ys == ()
    assert made.result.intent.changed == [] and made.result.intent.removed == []
    facts = made.result.facts["gradients"]
    assert facts["results"] == {"x": "gradients/x"} and facts["by"] == "reverse walk" and facts["unconnected"] == []


def test_of_inputs_activations_and_constants_above_each_other(lab: Lab) -> None:
    xs = ["split:1", "x", "w", "sum", "b", "product", "y", "split"]
    made = lab.same(small().bytes(), ["y"], xs, FEEDS)
    assert made.results == tuple(f"gradients/{x.replace(':', '_')}" for x in xs)
    lab.same(small().bytes(), ["z", "y"], ["sum", "x"], FEEDS)


def test_given_gradients(lab: Lab) -> None:
    made = lab.same(small().bytes(), ["y"], ["x", "w"], GIVEN, grad_ys=["g"])
    assert made.claim.grad_ys == ("g",)
    lab.same(small().bytes(), ["y", "split:1"], ["x"], GIVEN, grad_ys=["g", "split"])


def test_names(lab: Lab) -> None:
    made = lab.same(small().bytes(), ["y"], ["x", "split:1"], FEEDS, names=["saliency", "a/b"])
    assert made.results == ("saliency", "a/b")
    assert {"saliency", "a/b"} <= set(names(made.graph))
    assert made.graph["saliency"].op == "Identity"


@pytest.mark.parametrize("name", ["AddN", "Shape", "grad_ys_0", "grad_ys_0/Const", "Sin_grad/Cos"])
def test_default_names_do_not_meet_those_of_the_backward_pass(lab: Lab, name: str) -> None:
    """The tensors have names as TensorFlow gives them, and so have the nodes of the backward pass."""
    m = Builder()
    m.placeholder(name, shape=(4,))
    m.node("Sin", "Sin", [name], T="float32")
    m.node("y", "Mul", [name, "Sin"], T="float32")
    made = lab.same(m.bytes(), ["y"], [name], {name: numbers(4)})
    assert made.results[0].startswith("gradients/")


def test_the_default_scope_is_made_unique(lab: Lab) -> None:
    m = small()
    m.node("gradients/x", "Sin", ["x"], T="float32")
    made = lab.same(m.bytes(), ["y"], ["x"], FEEDS)
    assert made.claim.scope == "gradients_1" and made.results == ("gradients_1/x",)
    again = lab.same(written(made.graph), ["y"], ["x"], FEEDS)
    assert again.claim.scope == "gradients_2"


def test_a_gradient_of_a_gradient(lab: Lab) -> None:
    once = lab.edit(small().bytes(), ["z"], ["x"])
    lab.same(written(once.graph), ["gradients/x"], ["x", "w"], FEEDS)


def test_a_scope_that_is_given(lab: Lab) -> None:
    for scope in ("back", "a/b", "x/back", "back.2/"):
        made = lab.same(small().bytes(), ["y"], ["x"], FEEDS, scope=scope)
        assert made.claim.scope == scope.strip("/") and made.results == (f"{scope.strip('/')}/x",)
    m = small()
    m.node("deep/down/n", "Sin", ["x"], T="float32")
    for scope in ("x", "split", "deep", "deep/down", "deep/down/n"):
        refused(m.graph(), "name-taken", lab.adding(["y"], ["x"], scope=scope), name=scope)
    refused(m.graph(), "bad-name", lab.adding(["y"], ["x"], scope="a b"), name="a b")


@pytest.mark.parametrize("name", ["Gradients", "GRADIENTS/n"])
def test_a_scope_that_is_there_in_other_letters(lab: Lab, name: str) -> None:
    """TensorFlow takes two scopes for one that differ in their case alone; everything is in one scope all the same."""
    m = Builder()
    m.placeholder(name, shape=(LONG,))
    m.node("a", "Sin", [name], T="float32")
    m.node("b", "Sin", ["a"], T="float32")
    m.node("y", "Sin", ["b"], T="float32")
    feeds = {name: numbers(LONG)}
    made = lab.same(m.bytes(), ["y"], [name], feeds)
    assert made.results[0].startswith(f"{made.claim.scope}/")
    assert lab.same(m.bytes(), ["y"], [name], feeds, checkpoints=["b"]).again == ["a"]
    refused(m.graph(), "name-taken", lab.adding(["y"], [name], scope="gradients"), name="gradients")


def test_weights(lab: Lab) -> None:
    made = lab.same(small().bytes(), ["y"], [], FEEDS, weights=True)
    assert made.claim.xs == ("w", "b")  # no integers, no scalars, nothing that y does not depend on
    made = lab.same(small().bytes(), ["y"], ["x", "b"], FEEDS, weights=True)
    assert made.claim.xs == ("x", "b", "w")
    made = lab.same(small().bytes(), ["y"], ["x"], FEEDS, weights=True, names=["dx"])
    assert made.results == ("dx", "gradients/w", "gradients/b")


def test_weights_through_which_no_gradient_flows_are_left_out(lab: Lab) -> None:
    m = small()
    m.const("steps", [1.5, 2.5])
    m.node("floor", "Floor", ["steps"], T="float32")
    m.node("y2", "Mul", ["y", "floor"], T="float32")
    assert lab.same(m.bytes(), ["y2"], [], FEEDS, weights=True).claim.xs == ("w", "b")
    refused(m.graph(), "unconnected", lab.adding(["y2"], ["steps"], weights=True), tensors=["steps"])
    assert lab.edit(m, ["y2"], weights=True).result.facts["gradients"]["left_out"] == ["steps"]
    made = lab.same(m.bytes(), ["y2"], [], FEEDS, weights=True, unconnected="zero")
    assert made.claim.xs == ("w", "b", "steps")
    assert not lab.run(made, ["gradients/steps"], FEEDS)[0].any()


def test_what_is_there_besides_weights_is_said(lab: Lab) -> None:
    m = Builder()
    m.placeholder("x", shape=(2,))
    m.const("one", [1.5])
    m.const("scalar", 2.0)
    m.node("product", "Mul", ["x", "one"], T="float32")
    m.node("y", "Mul", ["product", "scalar"], T="float32")
    others = {"single-element constant": 2}
    refused(m.graph(), "no-weights", lab.adding(["y"], weights=True), others=others, in_functions={})


def test_weights_inside_functions_are_counted(lab: Lab) -> None:
    m = small()
    inner = m.function("inner", {"a": "float32"}, {"r": "float32"})
    body_node(inner, "scale", "Const", value=tensor([1.0, 2.0], "float32"), dtype="float32")
    body_node(inner, "scaled", "Mul", ["a", "scale:output:0"], T="float32")
    inner.ret["r"] = "scaled:z:0"
    m.node("call", "inner", ["y"])
    made = lab.edit(m, ["call"], weights=True)
    assert made.claim.xs == ("w", "b")
    assert made.result.facts["gradients"]["weights_in_functions"] == {"inner": 1}
    alone = Builder()
    alone.placeholder("x", shape=(2,))
    alone.graph_def.library.CopyFrom(m.graph_def.library)
    alone.node("y", "inner", ["x"])
    refused(alone.graph(), "no-weights", lab.adding(["y"], weights=True), others={}, in_functions={"inner": 1})


# -- refusals -----------------------------------------------------------------------------------------------------


def test_all_reasons_at_once(lab: Lab) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, shape=(4,))
        index, batch = tf.zeros([1, 3], tf.int64), tf.zeros([], tf.int64)
        for name in ("lonely", "other"):
            x = tf.raw_ops.Unbatch(batched_tensor=x, batch_index=index, id=batch, timeout_micros=10, name=name)
        a, b = tf.raw_ops.IdentityN(input=[x, x], name="mine")
        tf.multiply(a, b, name="y")
        tf.constant([1, 2], name="numbers")
        tf.argmax(x, name="best")

    graph_def = lab.tf.compat.v1.GraphDef.FromString(lab.built(build))
    (node,) = [node for node in graph_def.node if node.name == "mine"]
    node.attr["_gradient_op_type"].s = b"CustomGradient-42"
    found = from_bytes(graph_def.SerializeToString())
    reasons = [
        not_floating("best", "ys", "int64", "other"),
        not_floating("numbers", "xs", "int32"),
        {"code": "custom-gradient", "node": "mine", "op": "IdentityN", "name": "CustomGradient-42"},
        *({"code": "no-gradient", "node": name, "op": "Unbatch"} for name in ("other", "lonely")),
    ]
    refused(found, "no-gradient", lab.adding(["y", "best"], ["x", "numbers"]), reasons=reasons)


def not_floating(tensor: str, what: str, found: str, near: str | None = None) -> dict[str, Any]:
    return {"code": "not-floating", "tensor": tensor, "name": what, "found": found, "near": near}


def misfit(code: str, tensor: str, found: Any, expected: Any) -> dict[str, Any]:
    return {"code": code, "tensor": tensor, "found": found, "of": "y", "expected": expected}


@pytest.mark.parametrize(
    ("ys", "xs", "grad_ys", "reasons"),
    [
        (["count"], ["x"], [], [not_floating("count", "ys", "int32", "x")]),
        (["text"], ["x"], [], [not_floating("text", "ys", "string")]),
        (["class"], ["x"], [], [not_floating("class", "ys", "int64", "z")]),
        (["y"], ["count"], [], [not_floating("count", "xs", "int32")]),
        (["y"], ["axis"], [], [not_floating("axis", "xs", "int32", "split")]),
        (["floats"], ["whole"], [], [not_floating("whole", "xs", "int32", "floats")]),
        (["text"], ["axis", "handle"], [], [
            not_floating("text", "ys", "string"),
            not_floating("axis", "xs", "int32", "split"),
            not_floating("handle", "xs", "resource"),
        ]),
        (["complex"], ["x"], [], [{"code": "is-complex", "tensor": "complex"}]),
        (["y"], ["x"], ["wide"], [misfit("shape-mismatch", "wide", [2, 3], [2, 2])]),
        (["y"], ["x"], ["whole"], [misfit("dtype-mismatch", "whole", "int32", "float32")]),
        (["y"], ["x"], ["double"], [misfit("dtype-mismatch", "double", "float64", "float32")]),
    ],
)  # fmt: skip
def test_types_and_shapes(
    lab: Lab, ys: list[str], xs: list[str], grad_ys: list[str], reasons: list[dict[str, Any]]
) -> None:
    m = small()
    m.placeholder("text", "string")
    m.node("handle", "VarHandleOp", dtype="float32", shape=(2,), shared_name="", container="")
    m.node("class", "ArgMax", ["z", "axis"], T="float32", Tidx="int32", output_type="int64")
    m.placeholder("complex", "complex64", (2, 2))
    m.placeholder("double", "float64", (2, 2))
    m.placeholder("wide", "float32", (2, 3))
    m.placeholder("whole", "int32", (2, 2))
    m.node("floats", "Cast", ["whole"], SrcT="int32", DstT="float32", Truncate=False)
    refused(m.graph(), "no-gradient", lab.adding(ys, xs, grad_ys=grad_ys), reasons=reasons)


def test_unconnected_sources(lab: Lab) -> None:
    m = small()
    refused(m.graph(), "unconnected", lab.adding(["y"], ["x", "loose", "g"]), tensors=["loose", "g"])
    made = lab.same(m.bytes(), ["y"], ["x", "loose", "g"], GIVEN, unconnected="zero")
    assert made.result.facts["gradients"]["unconnected"] == ["loose", "g"]
    values = lab.run(made, made.results, GIVEN)
    assert values[1].tolist() == [0.0, 0.0] and not values[2].any()


def missing(name: str, near: str | None = None) -> dict[str, Any]:
    return {"node": name, "near": near}


@pytest.mark.parametrize(
    ("ys", "xs", "options", "code", "facts"),
    [
        (["y", "y:0"], ["x"], {}, "given-twice", {"tensor": "y", "name": "ys"}),
        (["y"], ["x", "w", "x"], {}, "given-twice", {"tensor": "x", "name": "xs"}),
        (["count"], [], {"weights": True}, "no-weights", {"others": {}, "in_functions": {}}),
        (["y"], ["x"], {"names": ["z"]}, "name-taken", {"name": "z", "op": "Sin"}),
        (["y"], ["x"], {"names": ["gradients/grad_ys_0"]}, "name-taken", {"name": "gradients/grad_ys_0"}),
        (["y"], ["x", "w"], {"names": ["a", "a"]}, "given-twice", {"name": "a"}),
        (["y"], ["x"], {"names": ["a b"]}, "bad-name", {"name": "a b"}),
        (["splitt"], ["x"], {}, "no-such-node", missing("splitt", "split")),
        (["y"], ["splitt"], {}, "no-such-node", missing("splitt", "split")),
        (["y"], ["x"], {"grad_ys": ["splitt"]}, "no-such-node", missing("splitt", "split")),
        (["y"], ["x"], {"checkpoints": ["splitt"]}, "no-such-node", missing("splitt", "split")),
        (["y"], ["split:2"], {}, "no-such-tensor", {"tensor": "split:2", "count": 2}),
        (["y", "why"], ["x", "ex", "split:2"], {}, "no-such-tensor", {"errors": [
            {"code": "no-such-node", **missing("why")},
            {"code": "no-such-node", **missing("ex")},
            {"code": "no-such-tensor", "tensor": "split:2", "op": "Split", "count": 2},
        ]}),
        (["y"], ["x"], {"checkpoints": ["sum", "one", "two"]}, "no-such-tensor", {"errors": [
            {"code": "no-such-node", **missing("one")},
            {"code": "no-such-node", **missing("two")},
        ]}),
    ],
)  # fmt: skip
def test_refusals(
    lab: Lab, ys: list[str], xs: list[str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    error = refused(small().graph(), code, lab.adding(ys, xs, **options), **facts)
    assert bool(error.hint) == ("checkpoints" in options)


@pytest.mark.parametrize(
    ("ys", "xs", "options", "code", "facts"),
    [
        ([], ["x"], {}, "missing-argument", {"name": "ys"}),
        (["y"], [], {}, "missing-argument", {"name": "xs"}),
        (["y"], ["x"], {"checkpoints": []}, "missing-argument", {"name": "checkpoints"}),
        (["y"], ["x"], {"names": ["a", "b"]}, "wrong-count", {"name": "names", "expected": 1, "found": 2}),
        (["y"], ["x", "w"], {"names": ["a"]}, "wrong-count", {"name": "names", "expected": 2, "found": 1}),
        (["y", "z"], ["x"], {"grad_ys": ["g"]}, "wrong-count", {"name": "grad_ys", "expected": 2, "found": 1}),
        (["y"], ["x"], {"unconnected": "none"}, "bad-value", {"name": "unconnected", "value": "none"}),
        (["y"], ["x"], {"budget": 0}, "bad-value", {"name": "budget", "value": "0.0"}),
        (["y"], ["x"], {"budget": -1.0}, "bad-value", {"name": "budget", "value": "-1.0"}),
        (["y"], ["x"], {"budget": float("nan")}, "bad-value", {"name": "budget", "value": "nan"}),
        (["y"], ["x"], {"budget": 1.0, "checkpoints": "speed"}, "conflicting-options", {}),
        (["y"], ["x"], {"checkpoints": "memory", "shapes": {"sum": (1,)}}, "no-such-input", missing("sum")),
    ],
)
def test_requests_that_make_no_sense(
    lab: Lab, ys: list[str], xs: list[str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    refused(small().graph(), code, lab.adding(ys, xs, **options), error=UsageError, **facts)


def test_a_tensor_of_another_graph(lab: Lab) -> None:
    refused(small().graph(), "other-graph", lab.adding([small().graph()["y"].output], ["x"]), tensor="y")  # type: ignore[list-item]


def test_what_loading_would_evaluate_is_not_loaded_for_gradients(tmp_path: Path) -> None:
    found = from_bytes(read_for_a_shape(tmp_path).removesuffix(VERSIONS) + identity_record("z", "y") + VERSIONS)
    facts = {"error": NotValidatedError, "node": "r", "op": "ReadFile"}
    error = refused(found, "reaches-outside", lambda g: add_gradients(g, ["z"], ["y"]), **facts)
    assert error.advice == ("allow-ops",)
