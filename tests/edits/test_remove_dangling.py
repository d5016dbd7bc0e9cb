"""remove: placeholders and control edges where something was taken away."""

from __future__ import annotations

import pytest
from support import graphs
from support.expecting import expect
from support.graph_editor_running import float32, run
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    const,
    graph,
    identity,
    node,
    placeholder,
    versions,
)  # fmt: skip
from support.removing import chain, named, refused

from gdsurgeon.edits.remove import remove
from gdsurgeon.runtime.client import Worker

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
