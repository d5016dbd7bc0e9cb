"""Two graphs as one: what is gone is there again, wired to what its neighbours have become."""

from __future__ import annotations

from support.graphs import FLOAT, const, graph, identity, node, placeholder

from gdsurgeon.compare.diff import diff
from gdsurgeon.graph.graph import Graph
from gdsurgeon.view.content import content_of
from gdsurgeon.view.page import Union, union


def united(a: Graph, b: Graph) -> Union:
    return union(diff(a, b), content_of(a, "a"), content_of(b, "b"))


def test_what_is_gone_and_what_is_new_stand_side_by_side() -> None:
    a = graph(placeholder("x"), node("m", "Abs", ["x"], T=FLOAT), node("n", "Exp", ["m"], T=FLOAT), identity("y", "n"))
    b = graph(placeholder("x"), node("m", "Abs", ["x"], T=FLOAT), identity("z", "m"), node("n", "Sin", ["z"], T=FLOAT))
    found = united(a, b)
    content = found.content
    assert dict(zip(content.names, found.marks, strict=True)) == {
        "x": "", "m": "", "z": ">", "n": "+", "n (before)": "-",
    }  # fmt: skip
    reads = {name: [content.names[u] for u, _ in content.inputs[row]] for row, name in enumerate(content.names)}
    assert reads == {"x": [], "m": ["x"], "z": ["m"], "n": ["z"], "n (before)": ["m"]}
    assert sorted(content.order) == list(range(5))


def test_values_are_marked() -> None:
    a = graph(placeholder("x"), const("w", [1, 2]), node("y", "Mul", ["x", "w"], T=FLOAT))
    b = graph(placeholder("x"), const("w", [1, 3]), node("y", "Mul", ["x", "w"], T=FLOAT))
    assert united(a, b).marks == ["", "~", ""]


def test_the_same_has_no_marks() -> None:
    a = graph(placeholder("x"), identity("y", "x"))
    assert united(a, a).marks == ["", ""]
