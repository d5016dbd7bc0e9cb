"""remove --bypass: what read a removed node reads what that has read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import graphs
from support.counting import is_linear
from support.expecting import check_graph, expect
from support.graph_editor_running import float32, run
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    add,
    const,
    graph,
    identity,
    node,
    placeholder,
    scalar,
)  # fmt: skip
from support.removing import chain, named, refused

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.edits.remove import remove
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.runtime.client import Worker
from gdsurgeon.select import Selection


@pytest.mark.tensorflow
def test_bypass_of_one_node(worker: Worker) -> None:
    found = graph(*chain())
    result = remove(found, named("b"), bypass=True)
    expected = [*chain()[:2], identity("c", "a"), chain()[4], node("z", "Abs", ["a"], T=FLOAT)]
    check_graph(found, *expected)
    assert sorted(result.intent.rewired) == [Rewired("c", 0, "b", "a"), Rewired("z", 0, "b", "a")]
    assert run(worker, found, "y", "z", fed={"x": float32([-1, 2])}) == [[1, -2], [1, 2]]


def test_bypass_of_a_chain() -> None:
    result = expect(
        chain(),
        lambda g: remove(g, named("a", "b", "c"), bypass=True),
        [chain()[0], node("y", "Neg", ["x"], T=FLOAT), node("z", "Abs", ["x"], T=FLOAT)],
    )
    assert sorted(result.intent.rewired) == [Rewired("y", 0, "c", "x"), Rewired("z", 0, "b", "x")]


def test_bypass_of_a_long_chain() -> None:
    count = 10_000
    records = [placeholder("x", FLOAT, (1,))] + [identity(f"n{i}", f"n{i - 1}" if i else "x") for i in range(count)]
    expect(
        [*records, node("y", "Neg", [f"n{count - 1}"], T=FLOAT)],
        lambda g: remove(g, Selection(ops=("Identity",)), bypass=True),
        [records[0], node("y", "Neg", ["x"], T=FLOAT)],
    )


def test_bypass_in_linear_time_where_each_of_the_removed_is_read() -> None:
    """A chain of removed nodes, each read by a node that stays: the way to the end is not walked for each."""

    def removal(count: int) -> Callable[[], object]:
        found = read_chain(count)
        return lambda: remove(found, Selection(ops=("Identity",)), bypass=True)

    assert is_linear(removal, 100, 800)
    found = read_chain(50)
    remove(found, Selection(ops=("Identity",)), bypass=True)
    assert graphs.inputs(found)["r49"] == ["x"]


def read_chain(count: int, *first: str) -> Graph:
    """Identities one after another, each read by a node of its own; the first waits for FIRST."""
    records = [placeholder("x", FLOAT, (1,)), node("guard", "NoOp")]
    for i in range(count):
        records += [identity(f"n{i}", f"n{i - 1}" if i else "x", *(() if i else first)),
                    node(f"r{i}", "Neg", [f"n{i}"], T=FLOAT)]  # fmt: skip
    return graph(*records)


def test_control_edges_of_a_long_chain_are_mended_in_linear_time() -> None:
    """The removed nodes wait for something, and each is read by a node that stays."""

    def removal(count: int) -> Callable[[], object]:
        found = read_chain(count, "^guard")
        return lambda: remove(found, Selection(ops=("Identity",)), bypass=True)

    assert is_linear(removal, 100, 800)
    found = read_chain(50, "^guard")
    remove(found, Selection(ops=("Identity",)), bypass=True)
    assert graphs.inputs(found)["r49"] == ["x", "^guard"]


def test_bypass_ignores_constants() -> None:
    records = [placeholder("x"), scalar("rate", 0.5)]
    for order in (["x", "rate"], ["rate", "x"]):
        expect(
            [*records, node("m", "Mul", order, T=FLOAT), identity("y", "m")],
            lambda g: remove(g, named("m"), bypass=True),
            [*records, identity("y", "x")],
        )


def test_bypass_ignores_what_is_constant_behind_an_identity() -> None:
    """Weights of a frozen variable are read through an Identity."""
    records = [placeholder("x"), scalar("w", 0.5), identity("w/read", "w")]
    found = graph(*records, node("m", "Mul", ["x", "w/read"], T=FLOAT), identity("y", "m"))
    remove(found, named("m"), bypass=True)
    assert graphs.inputs(found)["y"] == ["x"]


def test_bypass_of_the_identity_of_a_weight() -> None:
    """The only input is the one that is meant, also where it is a constant."""
    records = [placeholder("x"), scalar("w", 0.5)]
    expect(
        [*records, identity("w/read", "w"), node("y", "Mul", ["x", "w/read"], T=FLOAT)],
        lambda g: remove(g, named("w/read"), bypass=True),
        [*records, node("y", "Mul", ["x", "w"], T=FLOAT)],
    )


def test_bypass_of_dropout_as_tensorflow_writes_it() -> None:
    records = [
        placeholder("x", FLOAT, (-1, 4)), scalar("drop/keep", 0.5), node("drop/Shape", "Shape", ["x"], T=FLOAT),
        node("drop/uniform", "RandomUniform", ["drop/Shape"], T=INT32, dtype=FLOAT),
        add("drop/add", "drop/keep", "drop/uniform"), node("drop/Floor", "Floor", ["drop/add"], T=FLOAT),
        node("drop/div", "RealDiv", ["x", "drop/keep"], T=FLOAT), node("drop/mul", "Mul", ["drop/div", "drop/Floor"],
        T=FLOAT), node("y", "Neg", ["drop/mul"], T=FLOAT),
    ]  # fmt: skip
    scope = Selection(scopes=("drop",))
    for options in ({}, {"bypass_input": 0}):
        expect(records, lambda g, o=options: remove(g, scope, bypass=True, **o), [records[0], node("y", "Neg", ["x"],
               T=FLOAT)])  # fmt: skip


def test_bypass_of_a_constant_is_refused() -> None:
    found = graph(scalar("k", 1), identity("y", "k"))
    refused(found, r"'k' \(Const\) cannot be bypassed: it has no input", "k", bypass=True)


def test_bypass_of_several_inputs_is_refused_with_their_names() -> None:
    found = graph(placeholder("a"), placeholder("b"), add("s", "a", "b"), identity("y", "s"))
    error = refused(found, r"'s' \(AddV2\) cannot be bypassed: it has several inputs \('a', 'b'\)", "s", bypass=True)
    assert hint_of(error) == "--bypass-input N says which is meant"


@pytest.mark.parametrize("which", [0, 1])
def test_bypass_input(which: int) -> None:
    records = [placeholder("a"), placeholder("b")]
    expect(
        [*records, add("s", "a", "b"), identity("y", "s")],
        lambda g: remove(g, named("s"), bypass=True, bypass_input=which),
        [*records, identity("y", "ab"[which])],
    )


@pytest.mark.parametrize("which", [2, 7, -1])
def test_bypass_input_that_is_not_there(which: int) -> None:
    found = graph(placeholder("a"), placeholder("b"), add("s", "a", "b"), identity("y", "s"))
    refused(found, f"'s' .*cannot be bypassed by input {which}: it has 2", "s", bypass=True, bypass_input=which)


def test_bypass_reads_the_same_output_index() -> None:
    records = [const("axis", [0], INT32, ()), placeholder("x"),
               node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2)]  # fmt: skip
    expect(
        [*records, identity("a", "s:1"), node("y", "Neg", ["a"], T=FLOAT)],
        lambda g: remove(g, named("a"), bypass=True),
        [*records, node("y", "Neg", ["s:1"], T=FLOAT)],
    )


def test_bypass_of_several_outputs_that_are_counterparts_of_the_inputs() -> None:
    records = [placeholder("a"), placeholder("b", INT32)]
    expect(
        [
            *records,
            node("n", "IdentityN", ["a", "b"], T=graphs.dtypes(FLOAT, INT32)),
            identity("p", "n"),
            identity("q", "n:1", kind=INT32),
        ],
        lambda g: remove(g, named("n"), bypass=True),
        [*records, identity("p", "a"), identity("q", "b", kind=INT32)],
    )


def test_bypass_of_an_output_without_a_counterpart() -> None:
    found = graph(placeholder("x"), node("u", "Unique", ["x"], T=FLOAT, out_idx=INT32), identity("p", "u"),
                  identity("q", "u:1", kind=INT32))  # fmt: skip
    refused(found, "'u' .*cannot be bypassed: its output 1 is no input's counterpart", "u", bypass=True)
    remove(found, named("q"), allow_outputs=True)
    remove(found, named("u"), bypass=True)
    assert graphs.inputs(found)["p"] == ["x"]


@pytest.mark.parametrize("kind", [FLOAT, INT32], ids=["float32", "int32"])
def test_bypass_of_a_split_in_two_never_reads_the_axis(kind: bytes) -> None:
    """It has as many inputs as outputs, and they are no counterparts: the axis is a constant, and to be ignored."""
    records = [const("axis", [0], INT32, ()), placeholder("x", kind)]
    found = graph(*records, node("s", "Split", ["axis", "x"], T=kind, num_split=2), identity("p", "s", kind=kind))
    remove(found, named("s"), bypass=True)
    assert graphs.inputs(found)["p"] == ["x"]


def test_bypass_of_a_switch_never_reads_the_predicate() -> None:
    records = [placeholder("x", BOOL, ()), placeholder("pred", BOOL, ())]
    found = graph(*records, node("s", "Switch", ["x", "pred"], T=BOOL), identity("p", "s:1", kind=BOOL))
    try:
        remove(found, named("s"), bypass=True)
    except EditError:
        assert not found.is_changed
    else:
        assert graphs.inputs(found)["p"] == ["x"]


def test_bypass_of_top_k_never_reads_k() -> None:
    records = [placeholder("x", INT32, (4,)), placeholder("k", INT32, ())]
    found = graph(*records, node("t", "TopKV2", ["x", "k"], T=INT32), identity("places", "t:1", kind=INT32))
    try:
        remove(found, named("t"), bypass=True)
    except EditError:
        assert not found.is_changed
    else:
        assert graphs.inputs(found)["places"] != ["k"]


def test_bypass_across_a_change_of_dtype_is_refused() -> None:
    found = graph(placeholder("x", INT32, (2,)), node("c", "Cast", ["x"], SrcT=INT32, DstT=FLOAT), identity("y", "c"))
    refused(found, r"'c' \(float32\) cannot be bypassed: its input 'x' is int32 \[2\]", "c", bypass=True)


def test_bypass_of_two_casts_that_undo_each_other() -> None:
    records = [placeholder("x", INT32), node("c", "Cast", ["x"], SrcT=INT32, DstT=FLOAT),
               node("d", "Cast", ["c"], SrcT=FLOAT, DstT=INT32), identity("y", "d", kind=INT32)]  # fmt: skip
    expect(records, lambda g: remove(g, named("c", "d"), bypass=True), [records[0], identity("y", "x", kind=INT32)])


def test_bypass_across_a_change_of_a_known_shape_is_refused() -> None:
    found = graph(placeholder("x", FLOAT, (2, 3)), const("shape", [6], INT32),
                  node("r", "Reshape", ["x", "shape"], T=FLOAT, Tshape=INT32,
                       _output_shapes=graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto([6])))),
                  node("y", "Neg", ["r"], T=FLOAT))  # fmt: skip
    refused(found, r"'r' \(float32 \[6\]\) cannot be bypassed: its input 'x' is float32 \[2,3\]", "r", bypass=True)


def test_bypass_of_an_unknown_op() -> None:
    records = [placeholder("x"), node("u", "MyOp", ["x"]), identity("y", "u")]
    expect(records, lambda g: remove(g, named("u"), bypass=True), [records[0], identity("y", "x")])


def test_bypass_where_nobody_reads_is_a_plain_removal() -> None:
    expect(
        [placeholder("x"), const("k", [1]), identity("y", "x")],
        lambda g: remove(g, named("k"), bypass=True),
        [placeholder("x"), identity("y", "x")],
    )


def test_bypass_of_every_slot_that_reads_it() -> None:
    records = [placeholder("x"), identity("a", "x"), add("y", "a", "a")]
    result = expect(records, lambda g: remove(g, named("a"), bypass=True), [records[0], add("y", "x", "x")])
    assert result.intent.rewired == [Rewired("y", 0, "a", "x"), Rewired("y", 1, "a", "x")]


def test_bypass_leads_to_a_node_that_reads_both() -> None:
    records = [placeholder("x"), identity("a", "x"), identity("b", "a"), node("s", "Sub", ["b", "x"], T=FLOAT)]
    expect(
        records, lambda g: remove(g, named("a", "b"), bypass=True), [records[0], node("s", "Sub", ["x", "x"], T=FLOAT)]
    )
