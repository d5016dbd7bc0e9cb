"""Lists of nodes and tensors, and trees."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
from support.graph_editor_running import letters, refused
from support.graphs import add, const, graph

from gdsurgeon import graph_editor as ge
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph_editor.util import concatenate_unique, flatten_tree, transform_tree


def three() -> Graph:
    return graph(const("a", [1]), const("b", [1]), add("c", "a", "b"))


def test_all_must_be_of_one_graph() -> None:
    found, other = three(), three()
    a, b = found["a"], found["b"]
    assert ge.get_unique_graph(found) is found
    assert ge.get_unique_graph([a, b.output]) is found
    assert ge.get_unique_graph([], none_if_empty=True) is None
    ge.check_graphs(ge.sgv(a), ge.sgv(), b, a.output)
    refused(found, "other-graph", lambda: ge.get_unique_graph([a, other["b"]]), name="b", expected="a")
    refused(found, "other-graph", lambda: ge.check_graphs(ge.sgv(a), ge.sgv(other["a"])), value=1)
    refused(found, "nothing-selected", lambda: ge.get_unique_graph([]))


@pytest.mark.parametrize(
    ("items", "ops", "ts"),
    [
        (lambda g: g, "abc", "abc"),
        (lambda g: g["a"], "a", None),
        (lambda g: (n for n in g.nodes()), "abc", None),
        (lambda g: g["a"].output, None, "a"),
        (lambda g: [], "", ""),
    ],
)
def test_lists_of_nodes_and_of_tensors(items: Any, ops: str | None, ts: str | None) -> None:
    for make, expected in ((ge.make_list_of_op, ops), (ge.make_list_of_t, ts)):
        found = three()
        if expected is None:
            refused(found, "wrong-type", lambda make=make, found=found: make(items(found)))  # type: ignore[misc]
        else:
            assert letters(make(items(found))) == expected


def test_lists_of_what_is_left_of_others() -> None:
    found = three()
    mixed = [found["a"], found["b"].output]
    assert ge.make_list_of_op(mixed, ignore_ts=True) == [found["a"]]
    assert ge.make_list_of_t(mixed, ignore_ops=True) == [found["b"].output]
    assert letters(ge.get_tensors(found)) == "abc"
    assert len(ge.make_list_of_op([found["a"], three()["a"]], check_graph=False)) == 2


@pytest.mark.parametrize(
    ("expected", "found", "edit"),
    [
        ("iterable", "Node", lambda g: ge.get_unique_graph(g["a"])),
        ("Node", "Output", lambda g: ge.get_unique_graph([g["a"].output], check_types=type(g["a"]))),
        ("Node or Output", "int", lambda g: ge.get_unique_graph([g["a"], 3])),
        ("Node", "Output", lambda g: ge.make_list_of_op([g["a"], g["b"].output])),
        ("Node", "Graph", lambda g: ge.make_list_of_op(g, allow_graph=False)),
        ("Node", "int", lambda g: ge.make_list_of_op(3)),
        ("Output", "Node", lambda g: ge.make_list_of_t([g["a"].output, g["b"]])),
        ("Output", "Graph", lambda g: ge.make_list_of_t(g, allow_graph=False)),
        ("list", "str", lambda g: ge.ListView("ab")),
    ],
)
def test_what_is_of_another_type_is_refused(expected: str, found: str, edit: Any) -> None:
    model = three()
    refused(model, "wrong-type", lambda: edit(model), expected=expected, found=found)


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
    assert isinstance(ge.sgv(three()["a"]).outputs, ge.ListView)


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
