"""Which ops an engine lacks: of the graph, and of the functions that it comes to use."""

from __future__ import annotations

from support.graphs import FLOAT, add, dtypes, func, function, graph, identity, library, node, placeholder

from gdsurgeon.analysis.queries.compatibility import MOST_PLACES, Place, lacking_ops
from gdsurgeon.ops.releases import Engine

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
    """Those that others use, too, and those that are called by their names; none that nobody uses."""
    inner = function("Inner", node("y", "Neg", ["x"], T=FLOAT))
    outer = function("Outer", node("y", "Inner", ["x"]), node("w", "Abs", ["x"], T=FLOAT))
    idle = function("Idle", node("y", "Tanh", ["x"], T=FLOAT))
    call = node("call", "PartitionedCall", ["x"], f=func("Outer"), Tin=dtypes(FLOAT), Tout=dtypes(FLOAT))
    found = lacking_ops(graph(X, call, trailer=library(inner, outer, idle)), ENGINE)
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
