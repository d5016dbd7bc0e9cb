"""A signature as one function: what it takes and gives, in the order of the names."""

from __future__ import annotations

import pytest
from support.expecting import refused
from support.graphs import FLOAT, INT32, add, graph, identity, node, placeholder, scalar

from gdsurgeon.edits.functions import signature_function
from gdsurgeon.graph.serving import Served


def test_arguments_and_results_are_in_the_order_of_the_names() -> None:
    model = graph(placeholder("second"), placeholder("first"), add("sum", "second", "first"), identity("y", "sum"))
    served = Served({"b": "second", "a": "first"}, {"z": "sum", "c": "y"})
    made = signature_function(model, "serving_default", served, ())
    assert [arg.name for arg in made.function.signature.input_arg] == ["first", "second"]
    assert [made.function.ret[arg.name] for arg in made.function.signature.output_arg] == ["y:output:0", "sum:z:0"]
    assert [made.function.arg_attr[place].attr["_user_specified_name"].s for place in (0, 1)] == [b"a", b"b"]
    assert made.captured == []
    assert [item.name for item in made.function.node_def] == ["sum", "y"]


def test_what_is_held_is_captured_once() -> None:
    model = graph(placeholder("x"), scalar("held", 2), add("y", "x", "held"), add("z", "y", "held"))
    made = signature_function(model, "k", Served({"x": "x"}, {"z": "z"}), [model["held"]])
    assert [captured.name for captured in made.captured] == ["held"]
    assert [arg.name for arg in made.function.signature.input_arg] == ["x", "held"]
    assert [item.name for item in made.function.node_def] == ["y", "z"]


def test_one_output_of_a_node_is_given_and_the_other_computed() -> None:
    split = node("parts", "Split", ["dim", "x"], num_split=2, T=FLOAT)
    model = graph(placeholder("x"), scalar("dim", 0, INT32), split, add("sum", "parts", "parts:1"))
    served = Served({"mid": "parts:1", "x": "x"}, {"given": "parts:1", "sum": "sum"})
    function = signature_function(model, "k", served, ()).function
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
