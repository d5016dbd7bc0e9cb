"""Lists of nodes and tensors, and trees."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
from support.graphs import add, const, graph

from gdsurgeon import graph_editor as ge
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph_editor.lists import concatenate_unique, flatten_tree, transform_tree


def two() -> Graph:
    return graph(const("a", [1]), const("b", [1]))


def three() -> Graph:
    return graph(const("a", [1]), const("b", [1]), add("c", "a", "b"))


def test_all_must_be_of_one_graph() -> None:
    found, other = two(), two()
    assert ge.get_unique_graph(found) is found
    assert ge.get_unique_graph([found["a"], found["b"].output]) is found
    with pytest.raises(ValueError, match="'a' and 'b' belong to two graphs"):
        ge.get_unique_graph([found["a"], other["b"]])
    with pytest.raises(ValueError, match="nothing was given"):
        ge.get_unique_graph([])
    assert ge.get_unique_graph([], none_if_empty=True) is None
    with pytest.raises(TypeError, match="Node is not iterable"):
        ge.get_unique_graph(found["a"])
    with pytest.raises(TypeError, match="Node expected, not Output"):
        ge.get_unique_graph([found["a"].output], check_types=type(found["a"]))
    with pytest.raises(TypeError, match="Node or Output expected, not int"):
        ge.get_unique_graph([found["a"], 3])


def test_views_nodes_and_tensors_of_one_graph() -> None:
    found, other = two(), two()
    ge.check_graphs(ge.sgv(found["a"]), ge.sgv(), found["b"], found["a"].output)
    with pytest.raises(ValueError, match="argument 1 belongs to another graph"):
        ge.check_graphs(ge.sgv(found["a"]), ge.sgv(other["a"]))


def test_lists_of_nodes() -> None:
    found = two()
    nodes = (found["a"], found["b"])
    assert ge.make_list_of_op(found) == ge.make_list_of_op(nodes) == list(nodes)
    assert ge.make_list_of_op(found["a"]) == [found["a"]]
    assert ge.make_list_of_op(n for n in nodes) == list(nodes)
    assert ge.make_list_of_op([]) == []
    assert ge.make_list_of_op([found["a"], found["b"].output], ignore_ts=True) == [found["a"]]
    with pytest.raises(TypeError, match="Node expected, not Output"):
        ge.make_list_of_op([found["a"], found["b"].output])
    with pytest.raises(TypeError, match="cannot stand for its nodes"):
        ge.make_list_of_op(found, allow_graph=False)
    with pytest.raises(TypeError, match="Node expected, not int"):
        ge.make_list_of_op(3)
    assert len(ge.make_list_of_op([found["a"], two()["a"]], check_graph=False)) == 2


def test_lists_of_tensors() -> None:
    found = three()
    assert len(ge.make_list_of_t(found)) == len(ge.get_tensors(found)) == 3
    some = (found["a"].output, found["c"], found["b"].output)
    assert [t.name for t in ge.make_list_of_t(some, ignore_ops=True)] == ["a", "b"]
    with pytest.raises(TypeError, match="Output expected, not Node"):
        ge.make_list_of_t(some)
    with pytest.raises(TypeError, match="cannot stand for its tensors"):
        ge.make_list_of_t(found, allow_graph=False)


def test_what_gives_and_what_reads_tensors() -> None:
    found = three()
    a, b, c = (n.output for n in found.nodes())
    assert ge.get_generating_ops([a, b]) == [found["a"], found["b"]]
    assert ge.get_consuming_ops([a, b]) == [found["c"]]
    assert ge.get_generating_ops(c) == [found["c"]]
    assert ge.get_consuming_ops([c]) == []


def test_a_list_that_cannot_be_changed() -> None:
    view, more = ge.ListView([1, 2]), [3]
    with pytest.raises(TypeError):
        view[0] = 3  # type: ignore[index]
    assert (list(view), len(view), view[0], view[0:1], bool(ge.ListView([]))) == ([1, 2], 2, 1, (1,), False)
    assert (view + more, more + view, view + view) == ([1, 2, 3], [3, 1, 2], [1, 2, 1, 2])
    assert view == [1, 2] and view != [2, 1] and repr(view) == "ListView([1, 2])"
    assert isinstance(ge.sgv(two()["a"]).outputs, ge.ListView)
    with pytest.raises(TypeError, match="a list is expected"):
        ge.ListView("ab")  # type: ignore[arg-type]


def test_what_is_iterable() -> None:
    found = two()
    assert ge.is_iterable([]) and ge.is_iterable(()) and ge.is_iterable({}) and ge.is_iterable(iter([]))
    assert not ge.is_iterable(3) and not ge.is_iterable(found["a"]) and not ge.is_iterable(found["a"].output)
    assert not ge.is_iterable(found)


Pair = namedtuple("Pair", ["first", "second"])


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (1, 2),
        ([1, (2, 3)], [2, (3, 4)]),
        ({"a": 1, "b": [2]}, {"a": 2, "b": [3]}),
        (OrderedDict([("b", 1), ("a", 2)]), OrderedDict([("b", 2), ("a", 3)])),
        (defaultdict(int, a=1), defaultdict(int, a=2)),
        (Pair(1, [2]), Pair(2, [3])),
        (range(2), (1, 2)),
    ],
)
def test_trees_keep_their_types(tree: Any, expected: Any) -> None:
    made = transform_tree(tree, lambda leaf: leaf + 1)
    assert made == expected and type(made) is type(expected)


def test_leaves() -> None:
    assert flatten_tree({"a": 1, "b": [Pair(2, (3,)), "word"]}) == [1, 2, 3, "word"]
    assert concatenate_unique([1, 2], [2, 3, 3]) == [1, 2, 3]
