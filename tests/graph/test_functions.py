from __future__ import annotations

import pytest
from support import graphs
from support.graphs import FLOAT, const, func, function, graph, library, node

from gdsurgeon.edits.merge_functions import merge_functions
from gdsurgeon.errors import InputError
from gdsurgeon.graph.functions import FunctionLibrary, called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.source import BytesSource

BODY = node("y", "Identity", ["x"], T=FLOAT)
OTHER = node("y", "Neg", ["x"], T=FLOAT)


def calling(name: str, callee: str) -> object:
    return function(name, node("y", "PartitionedCall", ["x"], f=func(callee)), ret="y:output:0")


def with_library(*fields: bytes) -> Graph:
    return Graph(BytesSource(const("c", [1]) + b"".join(fields)))


def names(found: FunctionLibrary) -> list[str]:
    return [f.signature.name for f in found]


def test_libraries_add_up_and_keep_their_order() -> None:
    found = with_library(library(function("B", BODY), function("A", BODY)), library(function("C", BODY))).functions
    assert names(found) == ["B", "A", "C"]
    assert (len(found), "A" in found, "Z" in found) == (3, True, False)
    assert found.get("C").node_def[0].op == "Identity"
    assert found.get("Z") is None


def test_no_library() -> None:
    found = with_library().functions
    assert (len(found), names(found), found.get("A"), found.gradients()) == (0, [], None, [])


def test_doubled_names_are_listed_and_the_first_counts() -> None:
    found = with_library(library(function("A", BODY), function("A", OTHER))).functions
    assert names(found) == ["A", "A"]
    assert found.get("A").node_def[0].op == "Identity"


@pytest.mark.parametrize("fields", [[], [library(function("A", BODY))], [library(), library(function("A", BODY))]])
def test_added_functions_are_written(fields: list[bytes]) -> None:
    found = with_library(*fields)
    before = names(found.functions)
    found.functions.add(function("New", OTHER))
    found.functions.add_gradient(message("tensorflow.GradientDef")(function_name="New", gradient_func="A"))
    out = graphs.parsed(found)
    assert [f.signature.name for f in out.library.function] == [*before, "New"]
    assert [(g.function_name, g.gradient_func) for g in out.library.gradient] == [("New", "A")]
    assert [n.name for n in out.node] == ["c"]
    for field in fields:
        assert field[2:] in graphs.written(found)


def test_the_bytes_of_a_library_stay_when_nothing_is_added() -> None:
    found = with_library(library(function("A", BODY)))
    _ = names(found.functions)
    assert graphs.written(found) == found.source.read(0, found.source.size)


def test_a_corrupt_library_is_named() -> None:
    with pytest.raises(InputError, match="function library of <bytes> is corrupt"):
        len(with_library(encode_len(2, b"\x0a\x05ab")).functions)


def test_a_library_that_is_too_deeply_nested_is_named() -> None:
    value = func("f")
    for _ in range(200):
        value = func("f", k=value)
    deep = encode_len(3, encode_len(1, b"n") + encode_len(5, encode_len(1, b"k") + encode_len(2, value)))
    with pytest.raises(InputError, match="too deeply nested"):
        len(with_library(encode_len(2, encode_len(1, deep))).functions)


def test_called_functions() -> None:
    found = with_library(library(function("A", BODY), function("B", BODY))).functions
    (record,) = graphs.proto(node("n", "A", ["x"], f=func("B", g=func("C")))).node
    assert sorted(called_functions(record, found)) == ["A", "B", "C"]


# Merging.


def merged(
    ours: list[object],
    theirs: list[object],
    our_gradients: dict[str, str] | None = None,
    their_gradients: dict[str, str] | None = None,
) -> tuple[dict[str, str], Graph]:
    graph_ = with_library(library(*ours, gradients=our_gradients))
    other = with_library(library(*theirs, gradients=their_gradients))
    return merge_functions(graph_.functions, other.functions), graph_


def test_equal_functions_are_there_once() -> None:
    renamed, graph_ = merged([function("A", BODY)], [function("A", BODY)])
    assert renamed == {}
    assert not graph_.is_changed


def test_unequal_functions_get_a_new_name() -> None:
    renamed, graph_ = merged([function("A", BODY), function("A_1", BODY)], [function("A", OTHER), function("B", BODY)])
    assert renamed == {"A": "A_2"}
    found = graphs.parsed(graph_).library.function
    assert [(f.signature.name, f.node_def[0].op) for f in found] == [
        ("A", "Identity"), ("A_1", "Identity"), ("A_2", "Neg"), ("B", "Identity"),
    ]  # fmt: skip


def test_a_new_name_avoids_those_of_the_other_library_and_of_ops() -> None:
    renamed, _ = merged([function("A", BODY)], [function("A", OTHER), function("A_1", OTHER)])
    assert renamed == {"A": "A_2"}


def test_callers_of_an_unequal_function_are_unequal_too() -> None:
    ours = [function("Leaf", BODY), calling("Mid", "Leaf"), calling("Top", "Mid"), calling("Else", "Free")]
    theirs = [calling("Top", "Mid"), calling("Mid", "Leaf"), function("Leaf", OTHER), calling("New", "Mid")]
    renamed, graph_ = merged([*ours, function("Free", BODY)], theirs)
    assert renamed == {"Top": "Top_1", "Mid": "Mid_1", "Leaf": "Leaf_1"}
    found = {f.signature.name: f for f in graphs.parsed(graph_).library.function}
    assert found["Top_1"].node_def[0].attr["f"].func.name == "Mid_1"
    assert found["Mid_1"].node_def[0].attr["f"].func.name == "Leaf_1"
    assert found["New"].node_def[0].attr["f"].func.name == "Mid_1"
    assert found["Top"].node_def[0].attr["f"].func.name == "Mid"


def test_mutually_recursive_callers_end() -> None:
    renamed, _ = merged(
        [calling("A", "B"), calling("B", "A")], [calling("A", "B"), function("B", OTHER)]
    )
    assert renamed == {"A": "A_1", "B": "B_1"}


def test_functions_called_as_ops_follow() -> None:
    caller = function("Caller", node("y", "A", ["x"]), ret="y:out:0")
    renamed, graph_ = merged([function("A", BODY)], [function("A", OTHER), caller])
    assert renamed == {"A": "A_1"}
    found = {f.signature.name: f for f in graphs.parsed(graph_).library.function}
    assert found["Caller"].node_def[0].op == "A_1"


def test_gradients_come_along_once() -> None:
    functions = [function("A", BODY), function("G", OTHER)]
    _, graph_ = merged(functions, functions, {"A": "G"}, {"A": "G"})
    assert not graph_.is_changed
    _, graph_ = merged([], functions, None, {"A": "G"})
    assert [(g.function_name, g.gradient_func) for g in graphs.parsed(graph_).library.gradient] == [("A", "G")]


def test_no_function_gets_a_second_gradient() -> None:
    """TensorFlow refuses a library that names two gradients for one function."""
    ours = [function("A", BODY), function("G", BODY)]
    theirs = [function("A", BODY), function("G", OTHER)]
    _, graph_ = merged(ours, theirs, {"A": "G"}, {"A": "G"})
    found = [g.function_name for g in graphs.parsed(graph_).library.gradient]
    assert len(found) == len(set(found))


def test_the_other_library_is_left_as_it_is() -> None:
    other = graph(const("c", [1]), trailer=library(function("A", OTHER), calling("B", "A")))
    before = graphs.written(other)
    target = with_library(library(function("A", BODY)))
    merge_functions(target.functions, other.functions)
    assert graphs.written(other) == before
    assert [f.signature.name for f in other.functions] == ["A", "B"]
