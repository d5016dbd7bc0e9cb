"""remove: what goes, what takes its place, and what is mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import graphs
from support.counting import is_linear
from support.drawing import pick, pick_some
from support.expecting import check_graph, expect, refuse
from support.graph_editor_running import float32, run
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
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
    scalar,
    versions,
)  # fmt: skip
from support.tf_graphs import Builder, body_node, function_attr, operated

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import SameGiven, SameOutputs
from gdsurgeon.edits.in_functions import in_functions
from gdsurgeon.edits.remove import remove
from gdsurgeon.errors import EditError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import Rewired
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.client import Worker
from gdsurgeon.select import Selection

pytestmark = pytest.mark.usefixtures("one_worker")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def named(*names: str) -> Selection:
    return Selection(nodes=names)


def refused(found: Graph, words: str, *names: str, **options: Any) -> EditError:
    """The error of a removal, after which the graph is as it was."""
    return refuse(found, words, lambda g: remove(g, named(*names), **options))


def chain() -> list[bytes]:
    """x -> a -> b -> c -> y, with a branch at b."""
    return [
        placeholder("x", FLOAT, (2,)),
        identity("a", "x"),
        node("b", "Relu", ["a"], T=FLOAT),
        identity("c", "b"),
        node("y", "Neg", ["c"], T=FLOAT),
        node("z", "Abs", ["b"], T=FLOAT),
    ]


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


# -- bypass --------------------------------------------------------------------------------------------------


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


# -- dangling placeholder --------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_dangling_placeholder_has_the_name_dtype_and_shape(worker: Worker) -> None:
    found = graph(*chain())
    result = expect(
        found,
        lambda g: remove(g, named("x", "a", "b"), dangling="placeholder"),
        [placeholder("b", FLOAT, (2,)), *chain()[3:]],
    )
    assert (result.intent.added, result.intent.removed) == (["b"], ["x", "a"])
    assert run(worker, found, "y", "z", fed={"b": float32([-1, 2])}) == [[1, -2], [1, 2]]


def test_dangling_placeholder_of_an_inferred_shape() -> None:
    records = [placeholder("x", FLOAT, (-1, 3)), const("w", [1] * 12, FLOAT, (3, 4)),
               node("m", "MatMul", ["x", "w"], T=FLOAT, transpose_a=False, transpose_b=False),
               node("y", "Neg", ["m"], T=FLOAT)]  # fmt: skip
    found = graph(*records)
    remove(found, named("m"), dangling="placeholder")
    assert graphs.parsed(found).node[2] == graphs.proto(placeholder("m", FLOAT, (-1, 4))).node[0]


def test_dangling_placeholder_of_an_unknown_shape() -> None:
    records = [placeholder("x", FLOAT, None), identity("a", "x"), node("y", "Neg", ["a"], T=FLOAT)]
    found = graph(*records)
    expect(
        found,
        lambda g: remove(g, named("a"), dangling="placeholder"),
        [records[0], placeholder("a", FLOAT, None), records[2]],
    )
    assert graphs.attrs(found, "a")["shape"].shape.unknown_rank


@pytest.mark.parametrize("kind", [FLOAT, DOUBLE, INT32, INT64, BOOL, graphs.STRING, graphs.UINT8])
def test_dangling_placeholder_of_any_dtype(kind: bytes) -> None:
    records = [placeholder("x", kind, (5,)), identity("a", "x", kind=kind), identity("y", "a", kind=kind)]
    expect(
        records,
        lambda g: remove(g, named("a"), dangling="placeholder"),
        [records[0], placeholder("a", kind, (5,)), records[2]],
    )


def test_dangling_placeholder_of_a_scalar() -> None:
    records = [placeholder("x", FLOAT, ()), identity("a", "x"), identity("y", "a")]
    expect(
        records,
        lambda g: remove(g, named("a"), dangling="placeholder"),
        [records[0], placeholder("a", FLOAT, ()), records[2]],
    )


@pytest.mark.parametrize("shape", [(), (3,)])
def test_dangling_placeholder_of_an_old_producer(shape: tuple[int, ...]) -> None:
    """Where a scalar's shape means an unknown one, an unknown one must not be written in another way."""
    trailer = versions(20)
    records = [placeholder("x", FLOAT, shape), identity("a", "x"), identity("y", "a")]
    found = graph(*records, trailer=trailer)
    remove(found, named("a"), dangling="placeholder")
    stated = graphs.attrs(found, "a").get("shape")
    if shape:
        assert stated == graphs.attrs(found, "x")["shape"]
    else:
        assert stated is None or (not stated.shape.dim and not stated.shape.unknown_rank)


def split_model() -> list[bytes]:
    return [
        const("axis", [0], INT32, ()), placeholder("x", FLOAT, (4,)),
        node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2),
        identity("p", "s"), identity("q", "s:1"),
    ]  # fmt: skip


@pytest.mark.tensorflow
def test_dangling_placeholders_for_several_outputs(worker: Worker) -> None:
    found = graph(*split_model())
    result = remove(found, named("s"), dangling="placeholder")
    assert graphs.inputs(found) == {"axis": [], "x": [], "s": [], "s_1": [], "p": ["s"], "q": ["s_1"]}
    stated = graphs.attrs(graph(placeholder("k", FLOAT, (2,))), "k")["shape"]
    assert [graphs.attrs(found, n)["shape"] for n in ("s", "s_1")] == [stated] * 2
    assert result.intent.added == ["s", "s_1"]
    assert result.intent.removed == []
    assert run(worker, found, "p", "q", fed={"s": float32([1, 2]), "s_1": float32([3, 4])}) == [[1, 2], [3, 4]]


def test_dangling_placeholder_for_output_1_alone_leaves_the_name_free() -> None:
    found = graph(*split_model()[:3], split_model()[4])
    result = remove(found, named("s"), dangling="placeholder")
    assert graphs.inputs(found)["q"] == ["s_1"]
    assert (result.intent.added, result.intent.removed) == (["s_1"], ["s"])


def test_dangling_placeholder_whose_name_is_taken() -> None:
    found = graph(*split_model(), placeholder("s_1"), placeholder("s_placeholder"))
    remove(found, named("s"), dangling="placeholder")
    assert graphs.inputs(found)["q"] == ["s_1_1"]
    assert graphs.ops(found)["s_1"] == graphs.ops(found)["s_placeholder"] == "Placeholder"
    assert sorted(graphs.names(found)) == ["axis", "p", "q", "s", "s_1", "s_1_1", "s_placeholder", "x"]


def test_dangling_placeholder_of_nodes_that_read_each_other() -> None:
    found = graph(*chain())
    remove(found, named("b", "c"), dangling="placeholder")
    assert graphs.inputs(found) == {"x": [], "a": ["x"], "b": [], "c": [], "y": ["c"], "z": ["b"]}


def test_dangling_placeholder_of_an_unknown_dtype_is_refused() -> None:
    found = graph(placeholder("x"), node("u", "MyOp", ["x"]), identity("y", "u"))
    refused(found, r"the type of 'u' \(MyOp\) is not known here", "u", dangling="placeholder")
    refused(found, r"the type of 'u'", "x", "u", dangling="placeholder")


def test_dangling_placeholder_of_a_reference_is_one_of_its_value() -> None:
    records = [node("v", "VariableV2", dtype=FLOAT, shape=(2,)), identity("y", "v")]
    expect(
        records, lambda g: remove(g, named("v"), dangling="placeholder"), [placeholder("v", FLOAT, (2,)), records[1]]
    )


def test_dangling_placeholder_stands_where_the_node_stood() -> None:
    found = graph(*chain())
    remove(found, named("b"), dangling="placeholder")
    assert graphs.names(found) == ["x", "a", "b", "c", "y", "z"]


# -- control edges -------------------------------------------------------------------------------------------


def test_control_edges_through_a_removed_node_are_kept() -> None:
    records = [placeholder("x"), const("k", [1]), node("first", "NoOp", ["^k"]), node("mid", "NoOp", ["^first"]),
               identity("y", "x", "^mid")]  # fmt: skip
    result = expect(records, lambda g: remove(g, named("mid")), [*records[:3], identity("y", "x", "^first")])
    assert result.intent.changed == ["y"]


def test_control_edges_through_several_removed_nodes_each_once() -> None:
    records = [placeholder("x"), node("a", "NoOp"), node("b", "NoOp"), node("p", "NoOp", ["^a", "^b"]),
               node("q", "NoOp", ["^b", "^p"]), identity("y", "x", "^q", "^a")]  # fmt: skip
    found = graph(*records)
    remove(found, named("p", "q"))
    assert graphs.inputs(found)["y"][0] == "x"
    assert sorted(graphs.inputs(found)["y"][1:]) == ["^a", "^b"]


def test_control_edges_of_nodes_without_any_of_their_own_are_dropped() -> None:
    records = [placeholder("x"), node("a", "NoOp"), identity("y", "x", "^a")]
    expect(records, lambda g: remove(g, named("a")), [records[0], identity("y", "x")])


def test_control_edges_through_a_bypassed_node_lead_to_what_it_read() -> None:
    records = [placeholder("x"), identity("a", "x"), identity("y", "x", "^a"), node("z", "Neg", ["a"], T=FLOAT)]
    expect(
        records,
        lambda g: remove(g, named("a"), bypass=True),
        [records[0], identity("y", "x", "^x"), node("z", "Neg", ["x"], T=FLOAT)],
    )


def test_a_node_that_reads_and_waits_for_a_removed_node() -> None:
    records = [placeholder("x"), node("n", "NoOp"), identity("a", "x", "^n"), identity("y", "a", "^a")]
    found = graph(*records)
    remove(found, named("a"), bypass=True)
    assert graphs.inputs(found)["y"][0] == "x"
    assert set(graphs.inputs(found)["y"][1:]) == {"^n", "^x"}


def test_what_a_bypassed_node_waited_for_is_still_waited_for() -> None:
    """Who read the removed node ran after that as well: after an Assert, or a write to an array that it reads."""
    records = [placeholder("x"), node("check", "NoOp"), identity("a", "x", "^check"), node("y", "Neg", ["a"], T=FLOAT)]
    expect(
        records,
        lambda g: remove(g, named("a"), bypass=True),
        [*records[:2], node("y", "Neg", ["x", "^check"], T=FLOAT)],
    )


def test_control_edges_of_many_through_one_node() -> None:
    befores = [node(f"b{i}", "NoOp") for i in range(200)]
    records = [*befores, node("all", "NoOp", [f"^b{i}" for i in range(200)])]
    found = graph(*records, *(node(f"u{i}", "NoOp", ["^all"]) for i in range(200)))
    remove(found, named("all"))
    assert all(graphs.inputs(found)[f"u{i}"] == [f"^b{j}" for j in range(200)] for i in range(2))


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


# -- control flow --------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_bypass_inside_a_loop(worker: Worker) -> None:
    records = graphs.loop()
    found = graph(*records)
    remove(found, named("w/Identity"), bypass=True)
    inputs = graphs.inputs(found)
    assert inputs["w/Add"] == ["w/Switch:1", "w/one"]
    assert check(from_bytes(graphs.written(found))).faults == []
    assert run(worker, found, "out", fed={"n": np.int32(5)}) == [5]


@pytest.mark.parametrize("name", ["w/Enter", "w/Limit", "w/Merge", "w/Switch", "w/NextIteration"])
def test_what_makes_a_loop_is_not_bypassed(name: str) -> None:
    """TensorFlow does not take what would be left, or waits for ever: the loop is named instead."""
    refused(graph(*graphs.loop()), "loop 'w'", name, bypass=True, bypass_input=0)


@pytest.mark.parametrize(
    "name", ["w/Enter", "w/Limit", "w/Merge", "w/Less", "w/LoopCond", "w/Switch", "w/one", "w/Add", "w/NextIteration"]
)
def test_a_placeholder_cannot_stand_inside_a_loop(name: str) -> None:
    """It would run outside of the frame in which it is read, which TensorFlow refuses."""
    refused(graph(*graphs.loop()), "loop 'w'", name, dangling="placeholder")


@pytest.mark.tensorflow
def test_a_whole_loop_goes(worker: Worker) -> None:
    found = graph(*graphs.loop())
    names = [n for n in graphs.names(found) if n.startswith("w/")]
    remove(found, named(*names), dangling="placeholder")
    check_graph(found, *graphs.loop()[:2], placeholder("w/Exit", INT32, graphs_shape(found, "w/Exit")),
                 graphs.loop()[-1])  # fmt: skip
    assert run(worker, found, "out", fed={"w/Exit": np.int32(7)}) == [7]


def graphs_shape(found: Graph, name: str) -> tuple[int, ...] | None:
    shape = graphs.attrs(found, name)["shape"].shape
    return None if shape.unknown_rank else tuple(d.size for d in shape.dim)


def conditional() -> list[bytes]:
    """x + 10 where p, else x - 1, as TensorFlow 1 writes it: constants are pinned to their branch by a control edge."""
    return [
        placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()),
        node("cond/Switch", "Switch", ["p", "p"], T=BOOL), identity("cond/switch_t", "cond/Switch:1", kind=BOOL),
        identity("cond/switch_f", "cond/Switch", kind=BOOL),
        node("cond/ten", "Const", ["^cond/switch_t"], dtype=FLOAT, value=graphs.tensor([10], FLOAT, ())),
        node("cond/one", "Const", ["^cond/switch_f"], dtype=FLOAT, value=graphs.tensor([1], FLOAT, ())),
        node("cond/Merge", "Merge", ["cond/one", "cond/ten"], T=FLOAT, N=2),
        node("y", "Sub", ["x", "cond/Merge"], T=FLOAT),
    ]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("p", [True, False])
@pytest.mark.parametrize("bypass", [True, False])
@pytest.mark.parametrize("name", ["cond/switch_t", "cond/switch_f"])
def test_a_branch_stays_a_branch_when_its_pivot_goes(name: str, bypass: bool, p: bool, worker: Worker) -> None:
    """To wait for output 1 of a Switch is not to wait for the Switch: that runs whatever is decided."""
    found = graph(*conditional())
    try:
        remove(found, named(name), bypass=bypass, allow_outputs=True)
    except EditError:
        assert graphs.written(found) == graph_bytes(*conditional())
        return
    for _ in range(5):
        fed = {"p": np.bool_(p), "x": np.float32(100)}
        assert run(worker, found, "y", fed=fed) == [90.0 if p else 99.0]


def summing() -> list[bytes]:
    """x + 10 where p, else x - 1, of constants that are not pinned to their branch."""
    return [
        placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()), scalar("ten", 10), scalar("one", 1),
        node("s", "Switch", ["x", "p"], T=FLOAT), add("more", "s:1", "ten"), node("less", "Sub", ["s", "one"], T=FLOAT),
        node("m", "Merge", ["less", "more"], T=FLOAT, N=2), node("y", "Neg", ["m"], T=FLOAT),
    ]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("p", [True, False])
@pytest.mark.parametrize("name", ["more", "less"])
def test_a_merge_does_not_read_what_is_always_there(name: str, p: bool, worker: Worker) -> None:
    """A constant that takes the place of a branch's result would be there whichever branch is taken."""
    found = graph(*summing())
    try:
        remove(found, named(name), bypass=True, bypass_input=1)
    except EditError:
        assert graphs.written(found) == graph_bytes(*summing())
        return
    expected = {("more", True): -10, ("more", False): -99, ("less", True): -110, ("less", False): -1}[name, p]
    for _ in range(5):
        assert run(worker, found, "y", fed={"p": np.bool_(p), "x": np.float32(100)}) == [expected]


@pytest.mark.tensorflow
@pytest.mark.parametrize("p", [True, False])
@pytest.mark.parametrize("name", ["more", "less"])
def test_a_merge_does_not_read_a_placeholder(name: str, p: bool, worker: Worker) -> None:
    found = graph(*summing())
    try:
        remove(found, named(name), dangling="placeholder")
    except EditError:
        assert graphs.written(found) == graph_bytes(*summing())
        return
    expected = {("more", True): -7, ("more", False): -99, ("less", True): -110, ("less", False): -7}[name, p]
    for _ in range(5):
        fed = {"p": np.bool_(p), "x": np.float32(100), name: np.float32(7)}
        assert run(worker, found, "y", fed=fed) == [expected]


@pytest.mark.tensorflow
def test_what_a_branch_reads_first_may_take_the_place_of_its_result(worker: Worker) -> None:
    found = graph(*summing())
    remove(found, named("more"), bypass=True)
    assert graphs.inputs(found)["m"] == ["less", "s:1"]
    for p, expected in ((True, -100), (False, -99)):
        assert run(worker, found, "y", fed={"p": np.bool_(p), "x": np.float32(100)}) == [expected]


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


# -- any graph -----------------------------------------------------------------------------------------------


@st.composite
def removals(draw: st.DrawFn) -> tuple[graphs.Drawn, list[str], str]:
    """A graph, some of its nodes, and what is to take their place; bypassed are nodes with one input."""
    drawn = draw(graphs.random_graphs())
    how = pick(draw, ["", "bypass", "placeholder"])
    names = [n.name for n in drawn.message.node if how != "bypass" or n.op == "Identity"]
    return drawn, pick_some(draw, names, least=1, unique=True) if names else [], how


def parts(text: str) -> tuple[str, str]:
    """The node of an input, and what is behind it."""
    name, colon, index = text.partition(":")
    return name, colon + index


@settings(max_examples=300)
@given(removals())
def test_any_removal(case: tuple[graphs.Drawn, list[str], str]) -> None:
    drawn, names, how = case
    found = from_bytes(drawn.data)
    old = {n.name: n for n in drawn.message.node}
    gone = set(names)
    reads = [t for n in old.values() if n.name not in gone for t in n.input if t[0] != "^" and parts(t)[0] in gone]
    try:
        result = remove(found, [found[name] for name in names], bypass=how == "bypass", allow_outputs=True,
                        dangling=how if how == "placeholder" else None)  # fmt: skip
    except EditError:
        assert graphs.written(found) == drawn.data
        unknown = any(old[parts(t)[0]].op == "MyCustomOp" for t in reads)
        assert not names or gone == set(old) or (reads and not how) or (how == "placeholder" and unknown)
        return
    given = {old: new for c in result.claims if isinstance(c, SameGiven) for old, new in c.given.items()}

    def bypassed(text: str) -> str:
        while parts(text)[0] in gone:
            text = next(t for t in old[parts(text)[0]].input if t[0] != "^")
        return text

    def place_of(text: str) -> str:
        if parts(text)[0] not in gone:
            return text
        return bypassed(text) if how == "bypass" else given[text]

    def above(name: str) -> set[str]:
        """What is waited for in the place of NAME."""
        if name not in gone:
            return {name}
        reads = [t.lstrip("^") for t in old[name].input if t[0] == "^" or how == "bypass"]
        return {before for t in reads for before in above(parts(t)[0])}

    written = graphs.parsed(found)
    added = set(given.values()) if how == "placeholder" else set()
    assert {n.name for n in written.node} == (set(old) - gone) | added
    assert len(written.node) == len({n.name for n in written.node})
    for new in written.node:
        if new.name in added:
            assert new.op == "Placeholder" and not new.input
            continue
        before = old[new.name]
        assert (new.op, new.device) == (before.op, before.device)
        assert [t for t in new.input if t[0] != "^"] == [place_of(t) for t in before.input if t[0] != "^"]
        waits = {t[1:] for t in new.input if t[0] == "^"}
        assert {b for t in before.input if t[0] == "^" for b in above(t[1:])} - {new.name} <= waits
        if not any(parts(t.lstrip("^"))[0] in gone for t in before.input):
            assert waits == {t[1:] for t in before.input if t[0] == "^"}
        entries = before.attr["_class"].list.s if "_class" in before.attr else []
        wanted = [s for s in entries if s[5:].decode() not in gone]
        assert list(new.attr["_class"].list.s) == wanted if "_class" in new.attr else not wanted
    if not written.node:
        return
    assert check(from_bytes(graphs.written(found))).faults == []
    bodies, old_bodies = graphs.bodies_by_name(found), graphs.bodies_by_name(drawn.data)
    for new in written.node:
        if new.name in old and new == old[new.name]:
            assert bodies[new.name] == old_bodies[new.name]
