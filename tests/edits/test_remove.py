"""remove: what goes, what is refused, and what leaves with what is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.counting import is_linear
from support.expecting import check_graph, expect
from support.graph_editor_running import float32, run
from support.graphs import (
    FLOAT,
    INT32,
    add,
    const,
    dtypes,
    func,
    function,
    graph,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
)  # fmt: skip
from support.removing import chain, named, refused
from support.tf_graphs import Builder, body_node, function_attr, operated

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import SameGiven, SameOutputs
from gdsurgeon.edits.in_functions import in_functions
from gdsurgeon.edits.remove import remove
from gdsurgeon.errors import EditError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.client import Worker
from gdsurgeon.select import Selection

# -- what nobody reads ---------------------------------------------------------------------------------------


def test_what_nobody_reads_goes() -> None:
    records = [placeholder("x"), const("k", [1]), identity("y", "x"), node("n", "NoOp", ["^x"])]
    result = expect(records, lambda g: remove(g, named("k", "n")), [records[0], records[2]])
    assert result.intent.removed == ["k", "n"]
    assert result.intent.added == result.intent.rewired == result.intent.changed == []


def test_a_whole_branch_goes_at_once() -> None:
    expect(chain(), lambda g: remove(g, named("c", "y"), allow_outputs=True), [*chain()[:3], chain()[5]])


def test_nodes_may_be_given_themselves_and_twice() -> None:
    found = graph(*chain())
    result = remove(found, [found["y"], found["c"], found["y"]], allow_outputs=True)
    assert sorted(result.intent.removed) == ["c", "y"]
    check_graph(found, *chain()[:3], chain()[5])


def test_the_claim_names_what_is_left() -> None:
    found = graph(*chain())
    (claim,) = [c for c in remove(found, named("b"), bypass=True).claims if isinstance(c, SameGiven)]
    assert dict(claim.given) == {"b": "a"}
    assert sorted(claim.outputs) == [("y", "y"), ("z", "z")]
    assert claim.statement == "edited(x) = original(x, b := a)"


def test_nothing_becomes_another_where_what_passes_on_is_bypassed() -> None:
    """In a function too: what is claimed of its body is claimed of the whole then."""
    records = [placeholder("x", FLOAT, (2,)), node("s", "StopGradient", ["x"], T=FLOAT),
               node("i", "IdentityN", ["s", "x"], T=dtypes(FLOAT, FLOAT)), add("y", "i:1", "i")]  # fmt: skip
    assert remove(graph(*records), named("s", "i"), bypass=True).claims == (SameOutputs(),)
    (both,) = remove(graph(*records, node("z", "Neg", ["s"], T=FLOAT)), named("s", "z"), bypass=True,
                     allow_outputs=True).claims  # fmt: skip
    assert isinstance(both, SameGiven) and not both.given


def test_what_passes_on_is_bypassed_in_functions_and_changes_nothing() -> None:
    body = function("f", node("i", "Identity", ["x"], T=FLOAT), node("y", "Neg", ["i:output:0"], T=FLOAT))
    found = graph(placeholder("x"), node("c", "f", ["x"]), trailer=library(body) + graphs.VERSIONS)
    result = in_functions(found, ["f"], lambda inner: remove(inner, named("i"), bypass=True))
    assert result.claims == (SameOutputs(),)


def test_a_graph_of_no_nodes_is_none() -> None:
    """It would be refused as input."""
    refused(graph(*chain()), "nothing would be left|no node", *"xabcyz", allow_outputs=True)


@pytest.mark.parametrize("selection", [Selection(nodes=()), []])
def test_an_empty_selection_is_refused(selection: Any) -> None:
    found = graph(*chain())
    with pytest.raises(EditError, match="nothing is selected"):
        remove(found, selection)
    assert not found.is_changed


def test_an_unknown_name_is_refused_with_a_near_miss() -> None:
    refused(graph(placeholder("images"), identity("y", "images")), "Did you mean 'images'", "image")


# -- what is read --------------------------------------------------------------------------------------------


def test_one_reader_is_named() -> None:
    error = refused(graph(*chain()), "^'a' cannot be removed: 'b' reads it$", "a")
    assert error.exit_code == 4
    assert hint_of(error) is not None and "--bypass" in hint_of(error) and "--dangling" in hint_of(error)


def test_all_readers_are_listed() -> None:
    error = refused(graph(*chain()), "^the selected nodes are still read:$", "a", "b")
    assert error.details == ("'c' reads 'b'", "'z' reads 'b'")
    error = refused(graph(*chain()), "still read", "b", "x")
    assert error.details == ("'a' reads 'x'", "'c' reads 'b'", "'z' reads 'b'")


def test_a_tensor_that_is_read_twice_by_one_node() -> None:
    found = graph(placeholder("x"), identity("a", "x"), add("y", "a", "a"))
    error = refused(found, "'y' reads|still read", "a")
    said = " ".join((error.message, *error.details))
    assert said.count("'y' reads") == 1, "each reader once"


def test_hundreds_of_readers_are_counted() -> None:
    readers = [identity(f"r{i}", "a") for i in range(300)]
    error = refused(graph(placeholder("x"), identity("a", "x"), *readers), "still read", "a")
    assert len(error.details) == 21
    assert error.details[-1] == "and 280 more"


def test_which_output_is_read_is_said() -> None:
    found = graph(const("axis", [0], INT32, ()), placeholder("x"), node("s", "Split", ["axis", "x"], T=FLOAT,
                  num_split=2), identity("p", "s"), identity("q", "s:1"))  # fmt: skip
    assert refused(found, "still read", "s").details == ("'p' reads 's'", "'q' reads 's:1'")


def test_an_output_is_refused() -> None:
    error = refused(graph(*chain()), "'y': an output of the graph would be removed", "c", "y")
    assert hint_of(error) is not None and "--allow-outputs" in hint_of(error)
    refused(graph(*chain()), "'y', 'z': outputs of the graph would be removed", "y", "z")


@pytest.mark.parametrize("options", [{"bypass": True}, {"dangling": "placeholder"}])
def test_an_output_is_refused_whatever_its_readers_read(options: dict[str, Any]) -> None:
    refused(graph(*chain()), "'y': an output of the graph", "c", "y", **options)


def test_an_output_may_be_removed_where_that_is_allowed() -> None:
    expect(chain(), lambda g: remove(g, named("y"), allow_outputs=True), [*chain()[:4], chain()[5]])


def test_what_a_control_edge_alone_reads_is_an_output() -> None:
    found = graph(placeholder("x"), identity("a", "x"), identity("y", "x", "^a"))
    refused(found, "'a': an output of the graph", "a")
    expect(found, lambda g: remove(g, named("a"), allow_outputs=True), [placeholder("x"), identity("y", "x")])


# -- colocations ---------------------------------------------------------------------------------------------


def test_colocations_with_a_removed_node_are_dropped() -> None:
    records = [placeholder("x"), identity("a", "x"), identity("y", "x", _class=["loc:@a", "loc:@x", "other"])]
    found = graph(*records)
    remove(found, named("a"), allow_outputs=True)
    assert graphs.names(found) == ["x", "y"]
    assert sorted(graphs.colocations(found)["y"]) == [b"loc:@x", b"other"]


def test_an_empty_class_goes_with_its_last_entry() -> None:
    expect(
        [placeholder("x"), const("a", [1]), identity("y", "x", _class=["loc:@a"])],
        lambda g: remove(g, named("a")),
        [placeholder("x"), identity("y", "x")],
    )


@pytest.mark.tensorflow
@pytest.mark.parametrize("options", [{"bypass": True}, {"dangling": "placeholder"}])
def test_colocations_where_something_takes_the_place(options: dict[str, Any], worker: Worker) -> None:
    found = graph(placeholder("x", FLOAT, (1,)), identity("a", "x"), identity("y", "a", _class=["loc:@a"]))
    remove(found, named("a"), **options)
    assert check(from_bytes(graphs.written(found))).faults == []
    assert graphs.colocations(found).get("y", []) in ([], [b"loc:@a"], [b"loc:@x"])
    fed = {"x" if "bypass" in options else "a": float32([5])}
    assert run(worker, found, "y", fed=fed) == [[5]]


# -- functions -----------------------------------------------------------------------------------------------


BODY = node("y", "Neg", ["x"], T=FLOAT)


def call(name: str, callee: str, source: str = "x") -> bytes:
    return node(name, "PartitionedCall", [source], f=func(callee), Tin=graphs.dtypes(FLOAT), Tout=graphs.dtypes(FLOAT))


def test_functions_that_nobody_calls_any_more_leave() -> None:
    inner = function("Inner", BODY)
    outer = function("Outer", node("y", "PartitionedCall", ["x"], f=func("Inner")), ret="y:output:0")
    shared = function("Shared", BODY)
    trailer = library(outer, inner, shared, gradients={"Outer": "Shared"}) + graphs.VERSIONS
    records = [placeholder("x"), call("a", "Outer"), call("b", "Shared")]
    found = graph(*records, trailer=trailer)
    result = remove(found, named("a"), allow_outputs=True)
    assert sorted(result.intent.functions.removed) == ["Inner", "Outer"]
    check_graph(found, records[0], records[2], trailer=library(shared) + graphs.VERSIONS)


def test_functions_that_others_call_stay() -> None:
    trailer = library(function("F", BODY)) + graphs.VERSIONS
    records = [placeholder("x"), call("a", "F"), call("b", "F")]
    found = graph(*records, trailer=trailer)
    result = remove(found, named("a"), allow_outputs=True)
    assert result.intent.functions.removed == []
    assert graphs.written(found) == graph_bytes(records[0], records[2], trailer=trailer)


def test_a_function_that_a_gradient_needs_stays() -> None:
    trailer = library(function("F", BODY), function("G", BODY), gradients={"F": "G"}) + graphs.VERSIONS
    records = [placeholder("x"), call("a", "F"), call("b", "F")]
    found = graph(*records, trailer=trailer)
    remove(found, named("a"), allow_outputs=True)
    assert graphs.written(found) == graph_bytes(records[0], records[2], trailer=trailer)


def test_a_function_called_as_an_op_leaves_with_its_last_call() -> None:
    trailer = library(function("F", BODY)) + graphs.VERSIONS
    found = graph(placeholder("x"), node("a", "F", ["x"]), identity("y", "x"), trailer=trailer)
    result = remove(found, named("a"), allow_outputs=True)
    assert result.intent.functions.removed == ["F"]
    check_graph(found, placeholder("x"), identity("y", "x"), trailer=graphs.VERSIONS)


def test_many_unused_functions_leave_in_linear_time() -> None:
    def with_functions(count: int) -> Graph:
        trailer = library(*(function(f"F{i}", BODY) for i in range(count))) + graphs.VERSIONS
        return graph(placeholder("x"), call("a", "F0"), const("k", [1]), trailer=trailer)

    def removal(count: int) -> Callable[[], object]:
        found = with_functions(count)
        return lambda: remove(found, named("k"))

    assert is_linear(removal, 100, 800)
    found = with_functions(100)
    assert len(remove(found, named("k")).intent.functions.removed) == 99
    assert graphs.parsed(found).library.function[0].signature.name == "F0"


# -- nothing but the error -----------------------------------------------------------------------------------


def test_names_that_tensorflow_does_not_take_change_nothing() -> None:
    """With --validate none such a graph gets as far as here."""
    found = graph(placeholder("x"), node("n", "NoOp"), identity("_a", "x", "^n"), identity("y", "_a", "^_a"))
    refused(found, "_a", "_a", dangling="placeholder")


def test_a_node_of_another_graph_is_refused() -> None:
    found, other = graph(*chain()), graph(*chain())
    with pytest.raises(EditError):
        remove(found, [other["y"]], allow_outputs=True)
    assert not found.is_changed and not other.is_changed


def test_other_nodes_keep_their_bytes() -> None:
    found = graph(*chain())
    before = graphs.bodies_by_name(found)
    remove(found, named("b"), bypass=True)
    after = graphs.bodies_by_name(found)
    assert {n for n in after if after[n] != before[n]} == {"c", "z"}


# -- proven --------------------------------------------------------------------------------------------------


def dropout() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (1, 3))
    m.const("keep", 0.5)
    m.node("scaled", "RealDiv", ["x", "keep"], T="float32")
    m.const("shape", [1, 3], "int32")
    m.node("uniform", "RandomUniform", ["shape"], T="int32", dtype="float32")
    m.node("mask", "Floor", ["uniform"], T="float32")
    m.node("dropped", "Mul", ["scaled", "mask"], T="float32")
    m.node("y", "Neg", ["dropped"], T="float32")
    return m


@pytest.mark.tensorflow
def test_bypassed_dropout_is_proven(tmp_path: Path) -> None:
    selection = named("scaled", "uniform", "mask", "dropped")
    outcome = operated(tmp_path, dropout(), lambda g: remove(g, selection, bypass=True, bypass_input=0),
                       overrides=Overrides({"x": "[[1, 2, 3]]"}))  # fmt: skip
    assert ("y", "[-1, -2, -3]") in [(o.after, o.value) for o in outcome.proof.compared]
    assert "edited(x) = original(x, dropped := x)" in outcome.proof.statement


@pytest.mark.tensorflow
def test_a_dangling_placeholder_is_proven(tmp_path: Path) -> None:
    m = dropout()
    m.node("z", "Abs", ["scaled"], T="float32")
    outcome = operated(tmp_path, m, lambda g: remove(g, named("dropped"), dangling="placeholder"))
    assert {o.after for o in outcome.proof.compared} >= {"y", "z"}
    assert outcome.proof.feeds["dropped"] == "float32 [1,3]"


@pytest.mark.tensorflow
def test_a_removed_call_is_proven(tmp_path: Path) -> None:
    m = Builder()
    found = m.function("F", {"a": "float32"}, {"out": "float32"})
    body_node(found, "twice", "AddV2", ["a", "a"], T="float32")
    found.ret["out"] = "twice:z:0"
    m.placeholder("x", "float32", (2,))
    m.node("called", "PartitionedCall", ["x"], Tin=["float32"], Tout=["float32"], f=function_attr("F"))
    m.node("y", "Neg", ["called"], T="float32")
    outcome = operated(tmp_path, m, lambda g: remove(g, named("called"), bypass=True))
    assert "y" in {o.after for o in outcome.proof.compared}
    assert outcome.result.intent.functions.removed == ["F"]
