"""Summaries of a graph: its functions, ops, ops that an engine lacks, and the sizes of constants."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

from support import graphs
from support.graphs import (
    FLOAT,
    INT32,
    add,
    const,
    dtypes,
    func,
    function,
    graph,
    identity,
    neg,
    node,
    placeholder,
    tensor,
    typed,
)
from support.paths import FIXTURES

from gdsurgeon.analysis.queries.compatibility import MOST_PLACES, Place, lacking_ops
from gdsurgeon.analysis.queries.constants import ConstantSize, constant_sizes
from gdsurgeon.analysis.queries.usage import FunctionSummary, OpUsage, function_summaries, op_usage
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import load
from gdsurgeon.graph.records import LARGE
from gdsurgeon.ops.releases import Engine
from gdsurgeon.wire.fields import encode_len, encode_varint


def call(name: str, callee: str, source: str = "x") -> bytes:
    return node(name, "PartitionedCall", [source], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func(callee))


def with_library(*functions: Any, nodes: list[bytes], gradients: dict[str, str] | None = None) -> Graph:
    return graph(placeholder("x"), *nodes, trailer=graphs.library(*functions, gradients=gradients) + graphs.VERSIONS)


def by_name(found: Graph) -> dict[str, FunctionSummary]:
    return {summary.name: summary for summary in function_summaries(found)}


PLAIN = identity("y", "x")


def test_functions_called_by_their_names_and_by_unknown_ops() -> None:
    found = by_name(
        with_library(
            function("direct", PLAIN), function("odd", PLAIN), function("branch", PLAIN),
            nodes=[node("a", "direct", ["x"]), node("b", "MyOp", ["x"], then=func("odd", inner=func("branch")))],
        )
    )  # fmt: skip
    assert found["direct"].called_by_nodes == ["a"]
    assert found["odd"].called_by_nodes == found["branch"].called_by_nodes == ["b"]
    assert all(summary.is_used for summary in found.values())


def test_signatures() -> None:
    made = function("f", PLAIN)
    made.signature.is_stateful = True
    del made.signature.input_arg[:]
    made.signature.input_arg.add(name="a", type=1)
    made.signature.input_arg.add(name="r", type=3, is_ref=True)
    made.signature.input_arg.add(name="t", type_attr="T")
    made.signature.input_arg.add(name="n", type_attr="T", number_attr="N")
    made.signature.input_arg.add(name="m", type=9, number_attr="N")
    made.signature.input_arg.add(name="l", type_list_attr="Tin")
    (found,) = function_summaries(with_library(made, nodes=[]))
    assert [kind for _, kind in found.inputs] == ["float32", "int32_ref", "T", "N * T", "N * int64", "Tin..."]
    assert found.outputs == [("out", "float32")]
    assert found.is_stateful
    assert not found.is_used


def test_recursion_and_missing_functions_do_not_matter() -> None:
    found = by_name(
        with_library(
            function("f", call("y", "g")), function("g", call("y", "f"), call("z", "gone")), nodes=[call("c", "f")]
        )
    )
    assert found["g"].calls == ["f", "gone"]
    assert all(summary.is_used for summary in found.values())


def test_a_long_chain_of_calls() -> None:
    functions = [function(f"f{i}", call("y", f"f{i + 1}")) for i in range(3000)] + [function("f3000", PLAIN)]
    found = function_summaries(with_library(*functions, nodes=[call("c", "f0")]))
    assert all(summary.is_used for summary in found)


def test_edits_are_seen() -> None:
    found = with_library(function("f", PLAIN), nodes=[call("c", "f")])
    found.remove([found["c"]])
    assert not by_name(found)["f"].is_used


def test_a_graph_without_functions() -> None:
    assert function_summaries(graph(placeholder("x"), node("u", "MyOp"))) == []


def test_a_graph_of_tensorflow_2() -> None:
    found = by_name(load(str(FIXTURES / "functions_tf2.pb")))
    assert all(summary.is_used for summary in found.values())
    assert found["__inference_scale_36"].called_by_functions == ["__inference_dense_frozen_84", "cond_true_62"]
    assert found["while_body_frozen_82"].called_by_nodes == ["while"]


ENGINE = Engine("opencv", "1.0.0", dict.fromkeys(("Placeholder", "AddV2", "PartitionedCall"), "") | {"Erf": "select"})
X = placeholder("x", shape=(2,))


def test_a_graph_of_which_all_is_there() -> None:
    found = lacking_ops(graph(X, add("y", "x", "x"), add("z", "y", "x")), ENGINE)
    assert found.lacking == [] and (found.nodes, found.ops) == (3, 2)


def test_what_is_lacking_comes_with_its_nodes_the_most_frequent_first() -> None:
    records = [X, identity("a", "x"), node("e", "Erf", ["a"], T=FLOAT), identity("b", "e"),
               node("c", "Abs", ["b"], T=FLOAT)]  # fmt: skip
    found = lacking_ops(graph(*records), ENGINE).lacking
    assert [(each.op, each.nodes, each.is_select) for each in found] == [
        ("Identity", 2, False), ("Abs", 1, False), ("Erf", 1, True),
    ]  # fmt: skip
    assert found[0].first == [Place("", "a"), Place("", "b")]


def test_functions_count_where_they_are_used() -> None:
    """Functions that other functions use, and functions that are called by name; unused functions are left out."""
    inner, idle = function("Inner", neg("y", "x")), function("Idle", typed("Tanh", "y", "x"))
    outer = function("Outer", node("y", "Inner", ["x"]), typed("Abs", "w", "x"))
    found = lacking_ops(with_library(inner, outer, idle, nodes=[call("call", "Outer")]), ENGINE)
    assert {each.op: each.first for each in found.lacking} == {
        "Neg": [Place("Inner", "y")], "Abs": [Place("Outer", "w")],
    }  # fmt: skip


def test_an_edited_graph_is_looked_at_as_it_is_now() -> None:
    edited = graph(X, identity("a", "x"), identity("b", "a"))
    edited.remove([edited["b"]])
    assert lacking_ops(edited, ENGINE).lacking[0].nodes == 1


def test_of_many_nodes_some_are_named() -> None:
    found = lacking_ops(graph(X, *(identity(f"n{i}", "x") for i in range(MOST_PLACES + 5))), ENGINE).lacking[0]
    assert found.nodes == MOST_PLACES + 5 and len(found.first) == MOST_PLACES


def test_ops_of_the_graph_and_of_its_functions() -> None:
    nodes = [call("call", "f"), node("direct", "f", ["x"]), identity("y", "x"), node("u", "My\nOp")]
    found = with_library(function("f", PLAIN, node("z", "Odd", ["x"])), nodes=nodes)
    assert op_usage(found) == [
        OpUsage("Identity", 1, 1, True, False),
        OpUsage("My\nOp", 1, 0, False, False),
        OpUsage("Odd", 0, 1, False, False),
        OpUsage("PartitionedCall", 1, 0, True, False),
        OpUsage("Placeholder", 1, 0, True, False),
        OpUsage("f", 1, 0, False, True),
    ]


def test_the_largest_come_first() -> None:
    records = [const("a", [1.0] * 10), const("b", [1.0] * 100), const("c", [1] * 20, INT32, (4, 5)), identity("y", "a")]
    found = constant_sizes(graph(*records), most=2)
    assert (found.count, found.bytes) == (3, sum(map(len, records[:3])))
    assert found.largest == (
        ConstantSize("b", "", len(records[1]), 1, (100,), 400),
        ConstantSize("c", "", len(records[2]), 3, (4, 5), 80),
    )


def test_of_equal_ones_the_first() -> None:
    found = constant_sizes(graph(*(const(f"c{i}", [1.0]) for i in range(9))), most=3)
    assert [constant.name for constant in found.largest] == ["c0", "c1", "c2"]


def test_none() -> None:
    found = constant_sizes(graph(node("n", "NoOp")))
    assert (found.count, found.bytes, found.largest) == (0, 0, ())


def test_functions_count_in() -> None:
    body = [const("k", [1.0] * 50), identity("y", "k:output:0")]
    found = constant_sizes(with_library(function("f", *body), nodes=[const("c", [1.0])]))
    assert [(c.name, c.function, c.dtype, c.shape, c.loaded_bytes) for c in found.largest] == [
        ("k", "f", 1, (50,), 200), ("c", "", 1, (1,), 4)
    ]  # fmt: skip
    assert found.count == 2


def test_what_cannot_be_read() -> None:
    found = constant_sizes(graph(node("a", "Const"), node("b", "Const", value=b"\x42\x7f"))).largest
    assert {(c.name, c.dtype, c.shape, c.loaded_bytes) for c in found} == {("a", 0, None, 0), ("b", 0, None, 0)}


def test_constant_sizes_after_edits() -> None:
    found = graph(const("a", [1.0] * 10), const("b", [1.0] * 10))
    found.remove([found["a"]])
    found.rename({found["b"]: "a_longer_name"})
    found.add("new", "Const", attrs={"dtype": FLOAT, "value": tensor([1.0] * 9)})
    sizes = constant_sizes(found)
    assert [c.name for c in sizes.largest] == ["a_longer_name", "new"]
    assert abs(sizes.bytes - len(graphs.written(found))) < 20


def test_a_big_constant_is_not_read(tmp_path: Path) -> None:
    size = 64 << 20
    assert size > LARGE
    tail = [
        encode_len(1, b"w") + encode_len(2, b"Const") + encode_len(5, encode_len(1, b"dtype") + encode_len(2, FLOAT))
    ]
    head = b"\x08\x01" + encode_len(2, graphs.shape_proto([size // 4])) + b"\x22" + encode_varint(size)
    for field, inner in ((8, b""), (2, encode_len(1, b"value")), (5, b"")):
        # Each message around is one field longer than what is in it.
        body = len(head) + size
        head = encode_varint(field << 3 | 2) + encode_varint(body) + head
        head = inner + head
    head = tail[0] + head
    path = tmp_path / "big.pb"
    with path.open("wb") as file:
        file.write(b"\x0a" + encode_varint(len(head) + size) + head)
        file.truncate(file.tell() + size)
        file.seek(0, 2)
        file.write(graphs.identity("y", "w") + graphs.VERSIONS)
    tracemalloc.start()
    (found,) = constant_sizes(load(str(path))).largest
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.name, found.dtype, found.shape, found.loaded_bytes) == ("w", 1, (size // 4,), size)
    assert peak < 8 << 20
