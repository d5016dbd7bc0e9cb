"""signature: inputs and outputs of a model are renamed, removed and added; its graph is unchanged."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support.desk import Desk
from support.expecting import refused
from support.graphs import INT32, add, graph, identity, placeholder, scalar, typed
from support.meta_graphs import put, serving
from support.paths import FIXTURES

import gdsurgeon as gds
from gdsurgeon.edits.change_signatures import Named
from gdsurgeon.edits.functions import signature_function
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import PREDICT, Served, Serving

CLASSIFIER = str(FIXTURES / "classifier.pb")
BEFORE = {
    "a": Served({"x": "image"}, {"y": "probabilities", "z": "classes"}, PREDICT),
    "b": Served({"x": "image"}, {"y": "classes"}, "a method"),
}


def model() -> Graph:
    graph = gds.load(CLASSIFIER)
    graph.serving = Serving("SavedModel", signatures=BEFORE)
    return graph


A, B = BEFORE["a"], BEFORE["b"]
BIAS = "MobilenetV2/Logits/BiasAdd"


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"renamed": [("a", "predict")]}, {"predict": A, "b": B}),
        ({"renamed": [("a/x", "picture"), ("a/y", "scores")]},
         {"a": Served({"picture": "image"}, {"scores": "probabilities", "z": "classes"}, PREDICT), "b": B}),
        ({"removed": ["b"]}, {"a": A}),
        ({"removed": ["a/z"]}, {"a": Served({"x": "image"}, {"y": "probabilities"}, PREDICT), "b": B}),
        ({"outputs": [Named("w", f"{BIAS}:0", "b")]},
         {"a": A, "b": Served({"x": "image"}, {"y": "classes", "w": BIAS}, "a method")}),
        ({"inputs": [Named("i", "image", "c")], "outputs": [Named("o", "classes", "c")]},
         {"a": A, "b": B, "c": Served({"i": "image"}, {"o": "classes"}, PREDICT)}),
    ],
)  # fmt: skip
def test_what_becomes_of_signatures(asked: Any, wanted: dict[str, Served]) -> None:
    graph = model()
    gds.change_signatures(graph, **asked)
    assert graph.serving is not None and graph.serving.signatures == wanted and not graph.is_changed


@pytest.mark.parametrize(
    ("asked", "code", "facts"),
    [
        ({"renamed": [("a", "b")]}, "name-taken", {"signature": "b"}),
        ({"renamed": [("a/w", "v")]}, "no-such-tensor", {"signature": "a", "name": "w"}),
        ({"renamed": [("a/y", "z")]}, "name-taken", {"signature": "a", "name": "z"}),
        ({"renamed": [("a/x", "x")]}, "nothing-to-do", {}),
    ],
)
def test_what_is_refused(asked: dict[str, Any], code: str, facts: dict[str, object]) -> None:
    graph = model()
    serving = graph.serving
    refused(graph, code, lambda g: gds.change_signatures(g, **asked), **facts)
    assert graph.serving is serving


def test_a_graph_has_no_signatures() -> None:
    edit = partial(gds.change_signatures, renamed=[("a", "b")])
    refused(gds.load(CLASSIFIER), "wrong-format", edit, file=CLASSIFIER)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "command",
    [
        ("signature", "--rename", "serving_default/W=V"),
        ("signature", "--rename", "serving_default/x=V"),
        ("rename", "w=v"),
        ("control-edges", "--add", "unused=^x"),
        ("slim", "--signature", "serving_default"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("taken", [True, False])
def test_variables_that_signatures_take_and_give(desk: Desk, command: tuple[str, ...], taken: bool) -> None:
    """References: they are fed, fetched and renamed like other tensors."""
    inputs = {"x": "x:0"} | ({"W": "w:0"} if taken else {})
    put(desk.folder / "model", serving(inputs, {"y": "y:0"} | ({} if taken else {"W": "w:0"})))
    report = desk.report(command[0], "model", *command[1:], "-o", "out")
    assert report["proof"]["compared"] == (1 if taken else 2)


def test_mistakes(desk: Desk) -> None:
    desk.done("to-savedmodel", CLASSIFIER, "-o", "one", "--validate", "structure")
    desk.refused(2, "missing-option", "signature", "one", "-o", "two")
    desk.refused(2, "not-a-pair", "signature", "one", "--rename", "a", "-o", "two", value="a", expected="OLD=NEW")
    remove = ("signature", "one", "--delete", "serving", "-o", "two", "--validate", "structure")
    desk.refused(4, "no-such-signature", *remove, signature="serving", near="serving_default")


def test_arguments_and_results_are_in_the_order_of_the_names() -> None:
    model = graph(placeholder("second"), placeholder("first"), add("sum", "second", "first"), identity("y", "sum"))
    served = Served({"b": "second", "a": "first"}, {"z": "sum", "c": "y"})
    made, captured = signature_function(model, "serving_default", served, ())
    assert [arg.name for arg in made.signature.input_arg] == ["first", "second"]
    assert [made.ret[arg.name] for arg in made.signature.output_arg] == ["y:output:0", "sum:z:0"]
    assert [made.arg_attr[place].attr["_user_specified_name"].s for place in (0, 1)] == [b"a", b"b"]
    assert captured == []
    assert [item.name for item in made.node_def] == ["sum", "y"]


def test_what_is_held_is_captured_once() -> None:
    model = graph(placeholder("x"), scalar("held", 2), add("y", "x", "held"), add("z", "y", "held"))
    made, captured = signature_function(model, "k", Served({"x": "x"}, {"z": "z"}), [model["held"]])
    assert [node.name for node in captured] == ["held"]
    assert [arg.name for arg in made.signature.input_arg] == ["x", "held"]
    assert [item.name for item in made.node_def] == ["y", "z"]


def test_one_output_of_a_node_is_given_and_the_other_computed() -> None:
    split = typed("Split", "parts", "dim", "x", num_split=2)
    model = graph(placeholder("x"), scalar("dim", 0, INT32), split, add("sum", "parts", "parts:1"))
    served = Served({"mid": "parts:1", "x": "x"}, {"given": "parts:1", "sum": "sum"})
    function, _ = signature_function(model, "k", served, ())
    (added,) = [item for item in function.node_def if item.name == "sum"]
    mid = function.signature.input_arg[0].name
    assert list(added.input) == ["parts:output:0", mid]
    assert function.ret[function.signature.output_arg[0].name] == mid


@pytest.mark.parametrize(
    ("served", "code", "facts"),
    [
        (Served({}, {"y": "y"}), "is-input", {"node": "x"}),
        (Served({"a": "x", "b": "x"}, {"y": "y"}), "given-twice", {"signature": "k"}),
    ],
)
def test_what_no_function_can_have(served: Served, code: str, facts: dict[str, str]) -> None:
    model = graph(placeholder("x"), identity("y", "x"))
    refused(model, code, lambda g: signature_function(g, "k", served, ()), **facts)
