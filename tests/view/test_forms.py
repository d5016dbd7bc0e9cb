"""Pictures as SVG, DOT and Mermaid: each visible node is in them once, and names are not markup."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.browsing import outlines
from support.graphs import FLOAT, add, const, func, function, library, node, placeholder

import gdsurgeon
from gdsurgeon.view.layout import LONGEST, MOST_POINTS, Layout, layered
from gdsurgeon.view.outline import Outlines
from gdsurgeon.view.picture import FLAT, boxed, drawn
from gdsurgeon.view.tree import whole, within

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</title><script>alert(1)</script>",
    '"];x[label="',
    "a#quot;b",
    "tab\there",
    "line\nfeed",
    "\u2028x",
    "`]-->",
]


def block(scope: str, source: str) -> list[bytes]:
    return [
        const(f"{scope}/w", [0.5] * 16, shape=[4, 4]),
        node(f"{scope}/MatMul", "MatMul", [source, f"{scope}/w"], T=FLOAT),
        node(f"{scope}/Relu", "Relu", [f"{scope}/MatMul"], T=FLOAT),
    ]


def net() -> Outlines:
    records = [placeholder("x", shape=(-1, 4)), *block("net/a", "x"), *block("net/b", "net/a/Relu")]
    return outlines(*records, add("y", "net/b/Relu", "x"))


def edges(found: Outlines, depth: int) -> list[tuple[str, str, str, int]]:
    """Source, target, label and number of tensors of each edge."""
    head = whole(found)
    head.items = within(found, head, depth)
    out = []
    for box in boxed(head).all():
        for edge in box.edges:
            ends = (edge.source.item.path, edge.target.item.path)
            out.append((*ends, edge.label, edge.tensors))
    return sorted(out)


def test_edges_connect_what_is_seen() -> None:
    assert edges(net(), 1) == [
        ("net", "y", "f32[?,4]", 1),
        ("x", "net", "f32[?,4]", 1),
        ("x", "y", "f32[?,4]", 1),
    ]
    assert [edge[:2] for edge in edges(net(), 3)] == [
        ("net", "y"),
        ("net/a", "net/b"),
        ("net/a/MatMul", "net/a/Relu"),
        ("net/b/MatMul", "net/b/Relu"),
        ("x", "net"),
        ("x", "y"),
    ]


def test_several_tensors_are_one_edge_and_an_order_is_dashed() -> None:
    split = node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2)
    records = [placeholder("x", shape=(2, 4)), const("axis", [0], graphs.INT32, shape=[]), split]
    records += [add("y", "s", "s:1"), node("z", "NoOp", ["^y"])]
    assert edges(outlines(*records), 1) == [
        ("s", "y", "f32[1,4]", 2),
        ("x", "s", "f32[2,4]", 1),
        ("y", "z", "", 0),
    ]


def test_the_body_of_a_call_has_edges_of_its_own() -> None:
    dense = function("dense", node("r", "Relu", ["x"], T=FLOAT), node("y", "Neg", ["r:activations:0"], T=FLOAT))
    dtypes = graphs.dtypes(FLOAT)
    call = node("c", "PartitionedCall", ["x"], Tin=dtypes, Tout=dtypes, f=func("dense"))
    found = outlines(placeholder("x"), call, node("x2", "Relu", ["c"], T=FLOAT), trailer=library(dense))
    assert [edge[:2] for edge in edges(found, 2)] == [
        ("c", "x2"), ("r", "y"), ("x", "c"), ("x", "r"), ("y", "out"),
    ]  # fmt: skip


def test_open_scopes_lie_around_what_is_in_them() -> None:
    root = ET.fromstring(drawn("svg", net(), whole(net()), 3).encode())
    found = {}
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, w, h = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
        found[str(group.findtext(f"{SVG}title"))] = (x, y, x + w, y + h)
    for inner, outer in (("net/a", "net"), ("net/a/Relu", "net/a"), ("net/b/MatMul", "net/b")):
        a, b = found[inner], found[outer]
        assert b[0] <= a[0] and b[1] <= a[1] and a[2] <= b[2] and a[3] <= b[3]


def test_dot_has_clusters_and_edges_between_boxes() -> None:
    text = drawn("dot", net(), whole(net()), 3)
    assert text.count("subgraph cluster_") == 3
    assert len(re.findall(r"^\s*b\d+ -> b\d+", text, re.M)) == 6
    assert "ltail=cluster_" in text and "lhead=cluster_" in text
    boxes = re.findall(r"^\s*b(\d+) \[", text, re.M)
    ends = set(re.findall(r"b(\d+) ->", text)) | set(re.findall(r"-> b(\d+)", text))
    assert ends <= set(boxes)


def test_mermaid_has_subgraphs_and_edges_in_a_fence() -> None:
    text = drawn("md", net(), whole(net()), 3)
    assert text.count("subgraph ") == text.count("\n" + "  " * 1 + "end") + text.count("    end") == 3
    assert text.count("-->") == 6
    assert text.startswith("**model.pb**\n\n```mermaid\nflowchart TB\n") and text.endswith("```\n")


@pytest.mark.parametrize("form", FLAT)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_markup(form: str, name: str) -> None:
    records = [placeholder("x"), node(name, "Relu", ["x"], T=FLOAT), node(f"s{name}/a", "Neg", [name], T=FLOAT)]
    text = drawn(form, outlines(*records), whole(outlines(*records)), 2)
    assert form == "dot" or "<script" not in text
    assert all(c.isprintable() or c == "\n" for c in text)
    if form == "svg":
        ET.fromstring(text.encode())
    if form == "dot":
        strings = re.findall(r'"(?:[^"\\]|\\.)*"', text)
        assert not re.search(r'["\]]\s*x\[', re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
        assert text.count('"') - sum(part.count('\\"') for part in strings) == 2 * len(strings)
    if form == "md":
        assert text.count("```") == 2


def test_a_fault_is_marked() -> None:
    records = [placeholder("x"), node("r", "Relu", ["gone"], T=FLOAT)]
    for form, mark in (("svg", 'class="n f"'), ("dot", "#d12f2f"), ("md", ":::fault")):
        found = outlines(*records)
        assert mark in drawn(form, found, whole(found), 1)
        sound = outlines(records[0], node("r", "Relu", ["x"], T=FLOAT))
        assert mark not in drawn(form, sound, whole(sound), 1)


def test_a_notebook_shows_the_page_of_a_graph() -> None:
    """In a frame of its own, in which nothing of it is markup of the notebook."""
    found = graphs.graph(placeholder("x"), node('</iframe>"<b>', "Relu", ["x"], T=FLOAT))
    shown = found._repr_html_()
    frame = re.fullmatch('<iframe srcdoc="([^"<>]*)" style="[^"]*"></iframe>', shown)
    assert frame is not None
    assert html.unescape(frame[1]) == gdsurgeon.picture(found)
    assert "<!DOCTYPE html>" in gdsurgeon.picture(found)


def test_the_library_draws_what_the_command_does() -> None:
    found = graphs.graph(placeholder("x"), *block("net/a", "x"))
    assert gdsurgeon.picture(found, "md", scope="net/a").startswith("**net/a**")
    with pytest.raises(ValueError, match="a picture must be html, svg, dot, md, not png"):
        gdsurgeon.picture(found, "png")


SIZE = (80.0, 30.0)


def boxes(layout: Layout, sizes: list[tuple[float, float]]) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each."""
    pairs = zip(layout.centres, sizes, strict=True)
    return [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in pairs]


def overlapping(layout: Layout, sizes: list[tuple[float, float]]) -> list[tuple[int, int]]:
    found = enumerate(boxes(layout, sizes))
    return [
        (i, j)
        for (i, a), (j, b) in combinations(found, 2)
        if a[0] < b[2] - 0.01 and b[0] < a[2] - 0.01 and a[1] < b[3] - 0.01 and b[1] < a[3] - 0.01
    ]


def test_a_residual_edge_passes_beside_the_boxes() -> None:
    layout = layered([SIZE] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert not overlapping(layout, [SIZE] * 4)
    for x, y in layout.lines[3][1:-1]:
        assert not any(left < x < right and top < y < bottom for left, top, right, bottom in boxes(layout, [SIZE] * 4))


def test_a_loop_has_one_edge_that_leads_up() -> None:
    layout = layered([SIZE] * 3, [(0, 1), (1, 2), (2, 1)])
    assert [line[0][1] < line[-1][1] for line in layout.lines] == [True, True, False]


def test_what_nothing_connects_stands_in_rows() -> None:
    layout = layered([SIZE] * 9, [])
    assert len({y for _, y in layout.centres}) == 3
    assert not overlapping(layout, [SIZE] * 9)
    assert layered([], []).height == 0


def test_an_edge_past_many_layers_is_a_straight_line() -> None:
    count = LONGEST + 3
    layout = layered([SIZE] * count, [*((i, i + 1) for i in range(count - 1)), (0, count - 1)])
    assert len(layout.lines[-1]) == 2


def test_edges_between_all_boxes_pass_few_layers() -> None:
    """The work depends on the points that edges pass: each edge would have 21."""
    count = 200
    layout = layered([SIZE] * count, list(combinations(range(count), 2)))
    assert sum(len(line) - 2 for line in layout.lines) <= 2 * MOST_POINTS
    assert len(layout.lines[1]) > 2  # the short ones do
    assert not overlapping(layout, [SIZE] * count)


@st.composite
def pictures(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    count = draw(st.integers(1, 12))
    size = st.tuples(st.floats(10, 200), st.floats(10, 80))
    box = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(box, box).filter(lambda edge: edge[0] != edge[1]), max_size=20))
    return draw(st.lists(size, min_size=count, max_size=count)), edges


@given(pictures())
def test_boxes_do_not_overlap_and_lie_within(picture: tuple[list[tuple[float, float]], list[tuple[int, int]]]) -> None:
    sizes, edges = picture
    layout = layered(sizes, edges)
    assert not overlapping(layout, sizes)
    for left, top, right, bottom in boxes(layout, sizes):
        assert left >= -0.01 and top >= -0.01 and right <= layout.width + 0.01 and bottom <= layout.height + 0.01
    for (source, target), line in zip(edges, layout.lines, strict=True):
        (sx, _), (tx, _) = layout.centres[source], layout.centres[target]
        assert line[0][0] == pytest.approx(sx) and line[-1][0] == pytest.approx(tx)
    assert layered(sizes, edges) == layout  # the same each time


def test_five_thousand_boxes_are_no_more_work_each() -> None:
    """Nothing in it is quadratic: a chain of so many would not end."""
    count = 5_000
    layout = layered([SIZE] * count, [(i, i + 1) for i in range(count - 1)])
    assert layout.height == count * 30 + (count - 1) * 28
