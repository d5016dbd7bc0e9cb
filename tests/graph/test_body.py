"""Bodies of functions as graphs."""

from __future__ import annotations

from typing import Any

import pytest
from support.expecting import refused
from support.graphs import Builder, body_node, func

from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes


def model() -> Graph:
    """``y = twice(x)`` with ``twice(a) = (a + a) / 1``, by two nodes and a constant."""
    b = Builder()
    b.placeholder("x", shape=[2])
    f = b.function("twice", {"a": "float32"}, {"sum": "float32"})
    body_node(f, "add", "AddV2", ["a", "a"], T="float32")
    body_node(f, "sum", "Identity", ["add:z:0", "^add"], T="float32")
    body_node(f, "parts", "Unpack", ["a"], T="float32", num=2, axis=0)
    body_node(f, "second", "Neg", ["parts:output:1"], T="float32")
    f.ret["sum"] = "sum:output:0"
    b.node("y", "PartitionedCall", ["x"], Tin=["float32"], Tout=["float32"], f=func("twice"))
    return from_bytes(b.graph_def.SerializeToString(), "model.pb")


def test_a_body_that_was_not_touched_gives_the_function_back() -> None:
    found = model()
    body = Body(found, "twice")
    assert not body.graph.is_edited
    assert body.function_def() == found.functions.get("twice")


def test_what_a_function_returns_can_be_rerouted() -> None:
    found = model()
    body = Body(found, "twice")
    body.graph.set_inputs(body.results[0], [body.graph["second"].output])
    body.commit()
    assert dict(found.functions.get("twice").ret) == {"sum": "second:y:0"}


@pytest.mark.parametrize(
    ("edit", "code", "name"),
    [
        (lambda body: body.graph.set_device(body.arguments[0], "/cpu:0"), "is-input", "a"),
        (lambda body: body.graph.set_device(body.results[0], "/cpu:0"), "is-output", "sum_1"),
        # A function has no place for what a result waits for: it would be lost without a word.
        (lambda body: body.graph.set_controls(body.results[0], [body.graph["add"]]), "is-output", "sum_1"),
        (lambda body: body.graph.set_op(body.graph["second"], "Placeholder"), "placeholder-in-function", "second"),
    ],
)
def test_the_ends_of_a_body_can_be_renamed_and_no_more(edit: Any, code: str, name: str) -> None:
    found = model()
    body = Body(found, "twice")
    edit(body)
    refused(found, code, lambda _: body.commit(), node=name, function="twice")


def test_the_body_and_its_library_are_a_whole_graph() -> None:
    found = model()
    b = Body(found, "twice").graph
    again = from_bytes(
        b"".join(c if isinstance(c, bytes) else c.source.read(c.start, c.end - c.start) for c in b.chunks())
    )
    assert [f.signature.name for f in again.functions] == ["twice"]
    assert list(again.names()) == list(b.names())


def test_a_function_that_is_not_there() -> None:
    refused(model(), "no-such-function", lambda found: Body(found, "twise"), function="twise", near="twice")


@pytest.mark.parametrize("attr", ["T", "N"])
def test_arguments_that_a_call_decides_are_told(attr: str) -> None:
    """Also where it may do so by default, which would then be so for every call."""
    b = Builder()
    f = b.function("any", {"a": "float32"}, {})
    if attr == "T":
        f.signature.attr.add(name="T", type="type")
        f.signature.input_arg[0].type = 0
        f.signature.input_arg[0].type_attr = "T"
    else:
        f.signature.attr.add(name="N", type="int").default_value.i = 2
        f.signature.input_arg[0].number_attr = "N"
    refused(b.graph(), "depends-on-call", lambda found: Body(found, "any"), function="any", attr=attr)
