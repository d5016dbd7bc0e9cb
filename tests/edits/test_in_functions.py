"""Edits inside functions: those of graphs, on their bodies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.desk import check_error
from support.expecting import refused
from support.graphs import BOOL, FLOAT, INT32, Builder, add, const, define, func, neg, node
from support.operating import refused as not_written

from gdsurgeon.analysis.queries.usage import calling
from gdsurgeon.edits.claims import EditResult, SameOutputs, Unchanged
from gdsurgeon.edits.functions import in_functions
from gdsurgeon.edits.remove import remove
from gdsurgeon.edits.rename import rename
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.edits.set_device import set_device
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection, selected_nodes


def halving() -> Builder:
    """A v2 loop: five iterations of ``v -> relu(v) * 0.5``; and ``y = -x``."""
    m = Builder()
    m.placeholder("x", shape=[2])
    m.const("zero", 0, "int32")
    cond = define("cond", {"i": INT32, "v": FLOAT}, {"go": (BOOL, "less:z:0")}, const("limit", 5, INT32),
                  node("less", "Less", ["i", "limit:output:0"], T=INT32))  # fmt: skip
    body = define("body", {"i": INT32, "v": FLOAT}, {"next": (INT32, "add:z:0"), "out": (FLOAT, "mul:z:0")},
                  const("one", 1, INT32), const("half", 0.5), add("add", "i", "one:output:0", kind=INT32),
                  node("act", "Relu", ["v"], T=FLOAT),
                  node("mul", "Mul", ["act:activations:0", "half:output:0"], T=FLOAT),
                  neg("unread", "mul:z:0"))  # fmt: skip
    m.graph_def.library.function.extend([cond, body])
    m.node("loop", "StatelessWhile", ["zero", "x"], T=["int32", "float32"], cond=func("cond"), body=func("body"))
    m.node("halved", "Identity", ["loop:1"], T="float32")
    m.node("y", "Neg", ["x"], T="float32")
    return m


def body_of(graph: Graph, name: str = "body") -> dict[str, list[str]]:
    return {node.name: list(node.input) for node in graph.functions.get(name).node_def}


def in_body(edit: Callable[[Graph], EditResult]) -> Callable[[Graph], EditResult]:
    return lambda graph: in_functions(graph, ["body"], edit)


def test_a_rename_in_a_body() -> None:
    graph = halving().graph()
    result = in_functions(graph, ["body"], lambda body: rename(body, [("act", "relu"), ("v", "value")]))
    assert body_of(graph)["relu"] == ["value"]
    assert body_of(graph)["mul"] == ["relu:activations:0", "half:output:0"]
    assert result.intent.functions.changed == ["body"]
    assert result.inside["body"][1].intent.renamed == {"act": "relu", "v": "value"}
    assert result.claims == (SameOutputs(),)


def test_a_selection_in_a_body_leaves_arguments_and_results_out() -> None:
    body = Body(halving().graph(), "body").graph
    everything = [node.name for node in selected_nodes(body, Selection(regexes=(".",)))]
    assert everything == ["one", "half", "add", "act", "mul", "unread"]
    assert [n.name for n in selected_nodes(body, Selection(forward=("v",)))] == ["act", "mul", "unread"]
    assert [n.name for n in selected_nodes(body, Selection(nodes=("v",)))] == ["v"]


def test_removal_in_a_body_keeps_the_library() -> None:
    graph = halving().graph()
    in_functions(graph, ["body"], lambda body: remove(body, Selection(nodes=("unread",))))
    assert "unread" not in body_of(graph)
    assert [function.signature.name for function in graph.functions] == ["cond", "body"]


def test_what_a_body_returns_is_not_removed() -> None:
    edit = in_body(lambda body: remove(body, Selection(nodes=("unread", "mul"))))
    refused(halving().graph(), "has-consumers", edit, consumers={"mul": ["out"]})


def test_two_functions_are_changed_or_neither() -> None:
    graph = halving().graph()
    both = ["body", "cond"]
    refused(graph, "no-such-node", lambda g: in_functions(g, both, lambda b: rename(b, [("act", "relu")])), node="act")
    in_functions(graph, both, lambda body: set_device(body, device="/cpu:0", nodes=Selection(ops=("Const",))))
    assert {n.device for f in graph.functions for n in f.node_def if n.op == "Const"} == {"/device:CPU:0"}


def test_who_calls_a_function() -> None:
    assert [node.name for node in calling(halving().graph(), ["cond"])] == ["loop"]


def test_values_that_are_not_claimed_to_be_equal_inside_are_not_outside() -> None:
    graph = halving().graph()
    result = in_functions(graph, ["body"], lambda body: reroute(body, [("act", "v")]))
    assert body_of(graph)["mul"] == ["v", "half:output:0"]
    assert result.claims == (Unchanged(),)


@pytest.mark.tensorflow
def test_a_claim_that_does_not_hold_inside_fails(tmp_path: Path) -> None:
    def wrong(body: Graph) -> EditResult:
        result = rename(body, [("act", "relu")])
        body.set_op(body["relu"], "Relu6")
        return result

    check_error(not_written(tmp_path, halving(), in_body(wrong)), "undeclared-change", {})
