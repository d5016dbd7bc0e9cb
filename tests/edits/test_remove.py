"""remove: what goes, what is refused, and what leaves with what is gone, orphans too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support import graphs
from support.expecting import check_graph, expect, refused
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
from support.removing import chain, named
from support.system import is_linear

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import SameGiven, SameOutputs
from gdsurgeon.edits.functions import in_functions
from gdsurgeon.edits.remove import remove
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection

# -- what nobody reads ---------------------------------------------------------------------------------------


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
    assert claim.statement == "edited(x) == original(x, b := a)"


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


@pytest.mark.parametrize(
    ("names", "options", "code", "facts"),
    [
        ("xabcyz", {"allow_outputs": True}, "nothing-left", {}),
        ("", {}, "nothing-selected", {}),
        (["cc"], {}, "no-such-node", {"node": "cc", "near": None}),
        (["Y"], {}, "no-such-node", {"node": "Y", "near": "y"}),
        ("cy", {}, "is-output", {"nodes": ["y"]}),
        ("cy", {"bypass": True}, "is-output", {"nodes": ["y"]}),
        ("cy", {"dangling": "placeholder"}, "is-output", {"nodes": ["y"]}),
        ("yz", {}, "is-output", {"nodes": ["y", "z"]}),
        ("a", {}, "has-consumers", {"consumers": {"a": ["b"]}}),
        ("ab", {}, "has-consumers", {"consumers": {"b": ["c", "z"]}}),
        ("bx", {}, "has-consumers", {"consumers": {"x": ["a"], "b": ["c", "z"]}}),
    ],
)
def test_what_is_refused(names: Sequence[str], options: dict[str, Any], code: str, facts: dict[str, Any]) -> None:
    error = refused(graph(*chain()), code, lambda g: remove(g, named(*names), **options), **facts)
    assert error.exit_code == 4
    hint = {"has-consumers": ("--bypass", "--dangling"), "is-output": ("--allow-outputs",)}.get(code, ())
    assert all(option in (hint_of(error) or "") for option in hint)


# -- what is read --------------------------------------------------------------------------------------------


def test_each_reader_of_a_tensor_is_told_once() -> None:
    found = graph(placeholder("x"), identity("a", "x"), add("y", "a", "a"))
    error = refused(found, "has-consumers", lambda g: remove(g, named("a")), consumers={"a": ["y"]})
    assert error.details == ()
    found = graph(*chain()[:3], identity("y", "b"), add("z", "b", "b"))
    assert len(refused(found, "has-consumers", lambda g: remove(g, named("a", "b"))).details) == 2


def test_hundreds_of_readers_are_counted() -> None:
    readers = [identity(f"r{i}", "a") for i in range(300)]
    found = graph(placeholder("x"), identity("a", "x"), *readers)
    error = refused(found, "has-consumers", lambda g: remove(g, named("a")))
    assert len(error.facts["consumers"]["a"]) == 300
    assert len(error.details) == 21 and "280" in error.details[-1]


def test_what_a_control_edge_alone_reads_is_an_output() -> None:
    found = graph(placeholder("x"), identity("a", "x"), identity("y", "x", "^a"))
    refused(found, "is-output", lambda g: remove(g, named("a")), nodes=["a"])
    expect(found, lambda g: remove(g, named("a"), allow_outputs=True), [placeholder("x"), identity("y", "x")])


# -- colocations ---------------------------------------------------------------------------------------------


def test_an_empty_class_goes_with_its_last_entry() -> None:
    expect(
        [placeholder("x"), const("a", [1]), identity("y", "x", _class=["loc:@a"])],
        lambda g: remove(g, named("a")),
        [placeholder("x"), identity("y", "x")],
    )


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


@pytest.mark.parametrize("gradients", [{}, {"F": "G"}])
def test_functions_that_others_call_or_a_gradient_needs_stay(gradients: dict[str, str]) -> None:
    functions = [function(name, BODY) for name in ("F", *gradients.values())]
    trailer = library(*functions, gradients=gradients) + graphs.VERSIONS
    records = [placeholder("x"), call("a", "F"), call("b", "F")]
    found = graph(*records, trailer=trailer)
    assert remove(found, named("a"), allow_outputs=True).intent.functions.removed == []
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
    refused(found, "bad-name", lambda g: remove(g, named("_a"), dangling="placeholder"), name="_a")


def test_a_node_of_another_graph_is_refused() -> None:
    found, other = graph(*chain()), graph(*chain())
    refused(found, "other-graph", lambda g: remove(g, [other["y"]], allow_outputs=True), other, node="y")


# -- proven --------------------------------------------------------------------------------------------------


X, LIMIT, AXIS = placeholder("x", FLOAT, (-1, 2)), const("limit", [1.0], shape=[]), const("axis", [0], INT32)
LESS = node("less", "Less", ["x", "limit"], T=FLOAT)
ALL = node("all", "All", ["less", "axis"], Tidx=INT32)
ONLY = placeholder("only", FLOAT, ())
FIRST = identity("first", "limit")
CHECK = node("check", "Assert", ["all", "only", "^first"], T=dtypes(FLOAT))
ASSERTED = (X, LIMIT, AXIS, LESS, ALL, ONLY, FIRST, CHECK)
CHECKS = Selection(ops=("Assert",))


@pytest.mark.tensorflow
def test_what_only_the_removed_nodes_read_or_waited_for_goes() -> None:
    after = X, ONLY, identity("y", "x")
    expect(
        [*ASSERTED, identity("y", "x")],
        lambda graph: remove(graph, CHECKS, orphans=True),
        after,
        command="remove --op Assert --orphans --validate structure",
        same=["y"],
        fed={"x": [[1.0, 2.0]]},
    )


def test_who_waits_for_what_was_waited_for_keeps_it() -> None:
    after = X, LIMIT, ONLY, FIRST, identity("y", "x", "^first")
    expect([*ASSERTED, identity("y", "x", "^check")], lambda graph: remove(graph, CHECKS, orphans=True), after)


def test_what_others_read_or_stand_beside_stays() -> None:
    beside = identity("y", "x", _class=["loc:@axis"])
    after = X, LIMIT, AXIS, ONLY, beside, identity("z", "limit")
    expect([*ASSERTED, beside, identity("z", "limit")], lambda graph: remove(graph, CHECKS, orphans=True), after)
