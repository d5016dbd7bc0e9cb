"""The page in a real browser: its content, clicks and keys, and that no part of a model is markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.browsing import Shown, browser, outlines
from support.graphs import (
    BOOL,
    FLOAT,
    add,
    call,
    const,
    dtypes,
    func,
    function,
    identity,
    library,
    node,
    placeholder,
    relu,
)

from gdsurgeon.errors import printable
from gdsurgeon.view.page import page

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"
Show = Callable[..., Shown]


def block(scope: str, source: str) -> list[bytes]:
    return [
        const(f"{scope}/w", [0.5] * 16, shape=[4, 4]),
        node(f"{scope}/MatMul", "MatMul", [source, f"{scope}/w"], T=FLOAT),
        relu(f"{scope}/act", f"{scope}/MatMul"),
    ]


def net() -> list[bytes]:
    """Three equal blocks, which stay closed at first as they are equal, and a tail that is opened."""
    return [
        placeholder("x", shape=(-1, 4)),
        *block("net/a", "x"), *block("net/b", "net/a/act"), *block("net/c", "net/b/act"),
        const("tail/k", [0.25]), add("tail/scaled", "net/c/act", "tail/k"), relu("tail/out", "tail/scaled"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Iterator[Show]:
    """Opens the page of some nodes; after the test nothing must have been asked for, and no error have occurred."""
    opened: list[Shown] = []
    context = chromium.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")

    def open_page(
        *records: bytes,
        trailer: bytes = graphs.VERSIONS,
        title: str = "model.pb",
        marks: Mapping[str, str] | None = None,
        notes: Mapping[str, str] | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> Shown:
        found = outlines(*records, trailer=trailer, title=title)
        names = found.main.content.names
        names[:] = [(renamed or {}).get(name, name) for name in names]
        told = {names.index(name): text for name, text in (notes or {}).items()}
        text = page(found, marks=[marks.get(name, "") for name in names] if marks else (), notes=told)
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        opened.append(Shown(context.new_page(), file))
        return opened[-1]

    yield open_page
    troubles = [trouble for shown in opened for trouble in shown.troubles]
    context.close()
    assert not troubles


# -- what is seen --------------------------------------------------------------------------------------------


def test_equal_blocks_are_closed_at_first_and_the_rest_is_open(show: Show) -> None:
    shown = show(*net())
    assert sorted(shown.names()) == ["net", "net/a", "net/b", "net/c", "tail", "tail/out", "tail/scaled", "x"]
    assert "open" in shown.classes("net")
    assert shown.texts("net/a") == ["▸ a", "3 nodes · 16 par · × 3"]
    assert {name for name in shown.classes("net/a") if name.startswith("kind")} == {"kind0"}
    assert shown.texts("tail/scaled") == ["AddV2", "scaled", "k = [0.25]"]
    assert "10" not in shown.page.locator("#facts").inner_text()
    assert shown.page.locator("#facts").inner_text() == "13 nodes · 49 parameters"


def test_edges_tell_shapes(show: Show) -> None:
    shown = show(placeholder("x", graphs.INT32, (2, 3)), identity("y", "x", kind=graphs.INT32), *net()[1:3])
    assert "int32 [2,3]" in shown.page.locator("text.shape").all_text_contents()


def test_a_click_opens_a_scope_and_a_click_on_its_title_closes_it(show: Show) -> None:
    shown = show(*net())
    shown.click("net/b")
    assert {"net/b/MatMul", "net/b/act"} <= set(shown.names('g.box[data-name="net/b"]'))
    assert shown.texts("net/b/MatMul")[-1] == "w [4,4]"  # a weight is a line in what reads it
    assert shown.selected() == "net/b"
    shown.click("net/b")
    assert shown.box("net/b/MatMul").count() == 0 and "closed" in shown.classes("net/b")
    shown.click("net")
    assert "net/b" not in shown.names()


def test_only_what_is_around_a_click_is_drawn_anew(show: Show) -> None:
    shown = show(*net())
    lines = "document.querySelector('g.box[data-name=\"{}\"] .lines')"
    shown.page.evaluate(f"{lines.format('tail')}.kept = {lines.format('net')}.kept = true")
    shown.click("net/a")
    kept = [shown.page.evaluate(f"{lines.format(name)}.kept === true") for name in ("tail", "net")]
    assert kept == [True, False]


def test_boxes_do_not_overlap_and_lie_in_what_holds_them(show: Show) -> None:
    shown = show(*net())
    shown.press("O")
    assert shown.box("net/c/act").count() == 1
    wrong = shown.page.evaluate("""() => {
        const wrong = [], area = (box) => box.querySelector(':scope > .frame rect').getBoundingClientRect();
        const apart = (a, b) => a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
        const within = (a, b) => a.left > b.left && a.right < b.right && a.top > b.top && a.bottom < b.bottom;
        for (const boxes of document.querySelectorAll('.boxes')) {
            const found = [...boxes.children], around = boxes.closest('.box');
            found.forEach((box, at) => {
                if (around && !within(area(box), area(around))) wrong.push(box.dataset.name + ' is outside');
                for (const other of found.slice(0, at)) {
                    if (!apart(area(box), area(other))) wrong.push(box.dataset.name + ' over ' + other.dataset.name);
                }
            });
        }
        return wrong;
    }""")
    assert wrong == []


def test_scopes_that_hold_one_thing_are_that_thing(show: Show) -> None:
    shown = show(placeholder("x"), relu("a/b/c/one", "x"), *block("d/e/f", "x"))
    assert shown.texts("a/b/c/one")[:2] == ["Relu", "a/b/c"]
    assert shown.texts("d/e/f")[0] == "▾ d/e/f"


def test_a_weight_that_nobody_reads_is_drawn(show: Show) -> None:
    assert show(const("w", [1.0, 2.0])).texts("w") == ["Const", "w"]


def test_many_children_are_shown_in_parts(show: Show) -> None:
    shown = show(*(placeholder(f"p{number:03}") for number in range(500)))
    assert len(shown.names()) == 300
    more = shown.page.locator("text.more")
    assert more.text_content() == "+ 200 more nodes: show all"
    shown.page.locator("#search").fill("p450")
    shown.press("Enter")
    assert shown.selected() == "p450" and len(shown.names()) == 301
    shown.press("Escape", "0")
    more.click()
    assert len(shown.names()) == 500 and not more.count()


LAYOUTS = """(source) => {
    const layout = new Function(`${source}; return layout`)();
    let seed = 7;
    const random = (below) => (seed = (seed * 16807) % 2147483647) % below;
    const wrong = [];
    for (let round = 0; round < 60; round++) {
        const count = 1 + random(40), pairs = new Set();
        const sizes = Array.from({ length: count }, () => [20 + random(200), 20 + random(80)]);
        for (let left = random(2 * count); left; left--) {
            const [from, to] = [random(count), random(count)];  // cycles too
            if (from !== to) pairs.add(`${from},${to}`);
        }
        const edges = [...pairs].map((pair) => pair.split(",").map(Number));
        const found = layout(sizes, edges), again = layout(sizes, edges);
        if (JSON.stringify(found) !== JSON.stringify(again)) wrong.push(`${round}: not the same again`);
        const near = (a, b) => Math.abs(a - b) < 0.01;
        sizes.forEach(([width, height], a) => {
            const inside = (middle, extent, most) => middle - extent / 2 > -0.01 && middle + extent / 2 < most + 0.01;
            if (!inside(found.x[a], width, found.width) || !inside(found.y[a], height, found.height)) {
                wrong.push(`${round}: ${a} is outside`);
            }
            for (let b = 0; b < a; b++) {
                const apartX = Math.abs(found.x[a] - found.x[b]) - (width + sizes[b][0]) / 2;
                const apartY = Math.abs(found.y[a] - found.y[b]) - (height + sizes[b][1]) / 2;
                if (apartX < -0.01 && apartY < -0.01) wrong.push(`${round}: ${a} lies on ${b}`);
            }
        });
        edges.forEach(([from, to], at) => {
            const line = found.lines[at], [x, y] = line[0], [toX, toY] = line[line.length - 1];
            const touches = (node, px, py) => Math.abs(px - found.x[node]) <= sizes[node][0] / 2
                && near(Math.abs(py - found.y[node]), sizes[node][1] / 2);
            if (!touches(from, x, y) || !touches(to, toX, toY)) wrong.push(`${round}: the line ${at} ends elsewhere`);
        });
    }
    return wrong;
}"""


def test_layouts_of_any_graph_are_sound_and_always_the_same(chromium: Any) -> None:
    source = files("gdsurgeon.view").joinpath("page").joinpath("layout.js").read_text(encoding="utf-8")
    blank = chromium.new_page()
    assert blank.evaluate(LAYOUTS, source) == []
    blank.close()


# -- the text about it ----------------------------------------------------------------------------------------


def test_the_pane_tells_of_a_node(show: Show) -> None:
    shown = show(
        placeholder("x", shape=(-1, 4)),
        const("w", [0.5] * 16, shape=[4, 4]),
        const("b", [1.0, -2.5, 0.125, 3.0]),
        node("dot", "MatMul", ["x", "w"], device="/device:GPU:1", T=FLOAT, transpose_b=True),
        node("sum", "BiasAdd", ["dot", "b"], T=FLOAT),
    )
    shown.click("dot")
    told = shown.pane()
    for text in ("MatMul", "float32 [?,4]", "/device:GPU:1", "transpose_b\ttrue", "CONSUMERS (1)", "INPUTS (2)"):
        assert text in told
    shown.page.locator("#pane a", has_text="sum").click()
    assert shown.selected() == "sum"
    assert "= [1,-2.5,0.125,3]" in shown.pane()
    shown.page.locator("#pane a", has_text=re.compile("^b$")).click()
    assert "VALUE\n[1,-2.5,0.125,3]" in shown.pane() and shown.selected() == "sum"  # a weight is in what reads it


def test_the_pane_tells_of_a_scope_and_links_its_like(show: Show) -> None:
    shown = show(*net())
    shown.click("net/a")
    assert "3 nodes, 16 parameters" in shown.pane() and "SAME STRUCTURE (3)" in shown.pane()
    shown.page.locator("#pane a", has_text="net/c").click()
    assert shown.selected() == "net/c"
    shown.press("s")
    assert shown.selected() == "net/a"


def test_the_pane_tells_what_runs_along_a_line(show: Show) -> None:
    shown = show(*net())
    shown.page.locator('g.box[data-name="net"] .lines .line').first.dispatch_event("click")
    assert "1 tensor\nnet/a/act\nfloat32 [?,4]\n→ net/b/MatMul" in shown.pane()
    shown.press("Escape")
    assert "1 tensor" not in shown.pane()
    tail = shown.page.locator('g.box[data-name="tail"] .lines .line').first.bounding_box()
    shown.page.mouse.click(tail["x"] + 3, tail["y"] + tail["height"] / 2)  # next to it: it is thin
    assert "1 tensor\ntail/scaled\nfloat32 [?,4]\n→ tail/out" in shown.pane()


def test_what_is_wrong_is_marked_and_told(show: Show) -> None:
    shown = show(placeholder("x"), *block("ok", "x"), add("deep/down/broken", "x", "nowhere"), relu("deep/fine", "x"))
    assert "fault" in shown.classes("deep/down/broken") and "fault" in shown.classes("deep")
    assert "fault" not in shown.classes("ok") and "fault" not in shown.classes("deep/fine")
    shown.page.locator("#legend button.fault").click()
    assert shown.selected() == "deep/down/broken"
    assert "⚠ reads a node that does not exist" in shown.pane()
    shown.press("u")
    assert shown.selected() == "deep" and "PROBLEMS\ndeep/down/broken reads a node" in shown.pane()


# -- searching -----------------------------------------------------------------------------------------------


def test_search_finds_names_and_ops(show: Show) -> None:
    shown = show(*net())
    search = shown.page.locator("#search")
    search.fill("^net/[bc]/mat")  # letters of both cases, as no capital is asked for
    assert shown.matches() == ["net/b/MatMul", "net/c/MatMul"]
    search.fill("Relu")
    assert shown.matches() == ["net/a/act", "net/b/act", "net/c/act", "tail/out"]
    search.fill("^b$")
    assert shown.matches() == ["▸ net/b"]
    shown.page.locator("#matches .match").click()
    assert shown.selected() == "net/b"
    search.fill("RELU")
    assert not shown.matches() and "no matches" in shown.page.locator("#matches").inner_text()


def test_a_match_is_opened_to_and_so_is_a_weight(show: Show) -> None:
    shown = show(*net())
    shown.page.locator("#search").fill("b/w")
    shown.press("Enter")
    assert shown.selected() == "net/b/MatMul"
    assert shown.pane().startswith("Const\nnet/b/w")


def test_a_wrong_expression_is_told(show: Show) -> None:
    shown = show(*net())
    shown.page.locator("#search").fill("a(")
    assert "Invalid regular expression" in shown.page.locator("#matches").inner_text()
    assert "wrong" in (shown.page.locator("#search").get_attribute("class") or "")
    shown.press("Escape")
    assert not shown.page.locator("#matches").is_visible()
    assert shown.page.locator("#search").input_value() == ""


# -- the keyboard --------------------------------------------------------------------------------------------


def test_keys_open_select_and_move(show: Show) -> None:
    shown = show(*net())
    shown.press("/")
    assert shown.page.evaluate("document.activeElement.id") == "search"
    shown.page.keyboard.type("^a$")
    shown.press("Enter", "Escape", "o")
    assert shown.selected() == "net/a" and "open" in shown.classes("net/a")
    shown.press("Enter")
    assert "closed" in shown.classes("net/a")
    shown.press("ArrowDown")
    assert shown.selected() == "net/b"
    shown.press("ArrowDown", "ArrowUp", "ArrowUp")
    assert shown.selected() == "net/a"
    shown.press("u")
    assert shown.selected() == "net"
    shown.press("ArrowDown", "o", "o")
    assert shown.selected() == "tail"
    shown.press("ArrowUp")
    assert shown.selected() == "net"
    shown.press("O")
    assert {"net/a/act", "net/c/MatMul"} <= set(shown.names())
    shown.press("ArrowDown", "Escape")
    assert shown.selected() is None
    shown.click("net/c/act")
    shown.press("c")
    assert shown.selected() == "net/c" and "closed" in shown.classes("net/c")


def test_keys_move_the_picture(show: Show) -> None:
    shown = show(*net())

    def scale() -> float:
        found = re.search(r"scale\((.*)\)", shown.page.locator("#world").get_attribute("transform"))
        assert found
        return float(found[1])

    first = scale()
    shown.press("+")
    assert scale() == pytest.approx(first * 1.25, rel=1e-3)
    shown.press("-", "-")
    assert scale() == pytest.approx(first * 0.8, rel=1e-3)
    shown.press("0")
    view, world = (shown.page.locator(name).bounding_box() for name in ("#view", "#world"))
    assert view["x"] <= world["x"] and world["x"] + world["width"] <= view["x"] + view["width"]
    assert view["y"] <= world["y"] and world["y"] + world["height"] <= view["y"] + view["height"]


def test_the_keys_are_listed(show: Show) -> None:
    shown = show(*net())
    assert not shown.page.locator("#help").is_visible()
    shown.press("?")
    assert "the next difference" in shown.page.locator("#help").inner_text()
    shown.press("Escape")
    assert not shown.page.locator("#help").is_visible()


def test_dragging_moves_and_selects_nothing(show: Show) -> None:
    shown = show(*net())
    place = shown.box("x").bounding_box()
    mouse = shown.page.mouse
    mouse.move(place["x"] + 10, place["y"] + 10)
    mouse.down()
    mouse.move(place["x"] + 110, place["y"] + 60, steps=3)
    mouse.up()
    assert shown.selected() is None
    moved = shown.box("x").bounding_box()
    assert (moved["x"] - place["x"], moved["y"] - place["y"]) == (pytest.approx(100, abs=1), pytest.approx(50, abs=1))


# -- functions -----------------------------------------------------------------------------------------------


def calls(name: str, function_name: str, source: str) -> bytes:
    return call(name, function_name, [source], [FLOAT], [FLOAT])


def test_a_call_opens_to_show_the_body_and_each_call_its_own(show: Show) -> None:
    inner = function("inner", relu("r", "x"), relu("y", "r:activations:0"))
    outer = function("outer", calls("c", "inner", "x"), calls("y", "inner", "c:output:0"))
    shown = show(placeholder("x"), calls("f", "outer", "x"), calls("g", "outer", "f"), trailer=library(inner, outer))
    assert sorted(shown.names()) == ["f", "g", "x"]
    assert "FUNCTIONS (2)" in shown.pane()
    shown.click("f")
    assert {"c", "y"} < set(shown.names('g.box[data-name="f"]')) and shown.selected() == "f"
    shown.click("g")
    assert shown.box("c").count() == 2
    shown.page.locator('g.box[data-name="g"] g.box[data-name="c"] > .frame text').first.click()
    assert shown.box("r").count() == 1
    assert "in function outer" in shown.pane()
    shown.page.locator("#search").fill("^r$")
    assert shown.matches() == ["r"]
    shown.press("Enter")
    assert shown.selected() == "r" and "in function inner" in shown.pane()
    assert shown.page.locator('g.box[data-name="f"] g.box[data-name="r"]').count() == 1


def test_the_branches_of_an_if_stand_side_by_side(show: Show) -> None:
    branches = [function("yes", relu("y", "x")), function("no", node("y", "Neg", ["x"], T=FLOAT))]
    test = node(
        "if", "StatelessIf", ["p", "x"], Tcond=BOOL, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT),
        then_branch=func("yes"), else_branch=func("no"),
    )  # fmt: skip
    shown = show(placeholder("p", BOOL), placeholder("x"), test, trailer=library(*branches))
    shown.click("if")
    assert {"yes", "no"} <= set(shown.names('g.box[data-name="if"]'))
    shown.click("no")
    assert shown.page.locator('g.box[data-name="no"] g.box[data-name="y"]').count() == 1


def test_a_function_that_calls_itself_is_not_opened_in_itself(show: Show) -> None:
    loop = function("loop", calls("again", "loop", "x"), relu("y", "x"))
    shown = show(placeholder("x"), calls("f", "loop", "x"), trailer=library(loop))
    shown.press("O")
    assert shown.box("again").count() == 1
    shown.click("again")
    assert shown.box("again").count() == 1 and shown.selected() == "again"


# -- differences ---------------------------------------------------------------------------------------------


def test_marks_are_shown_counted_and_gone_to(show: Show) -> None:
    marks = {"net/a/act": "~", "net/a/MatMul": "+", "net/c/w": "-", "tail/out": ">"}
    shown = show(*net(), marks=marks, notes={"net/a/act": "was Relu6\nwith T=half"})
    legend = shown.page.locator("#legend").inner_text().split("\n")
    assert [" ".join(text.split()) for text in legend] == ["+ added 1", "- removed 1", "~ changed 1", "> rewired 1"]
    assert shown.texts("net/a")[-1] == "+1  ~1" and shown.texts("net/c")[-1] == "-1"
    assert "marked" in shown.classes("net/a") and "marked" not in shown.classes("net/b")
    assert "rewired" in shown.classes("tail/out") and shown.texts("tail/out")[0] == "> Relu"
    seen = []
    for _ in range(5):
        shown.press("n")
        seen.append((shown.selected(), shown.pane().split("\n")[1]))
    order = [("net/a/MatMul",) * 2, ("net/a/act",) * 2, ("net/c/MatMul", "net/c/w"), ("tail/out",) * 2]
    assert sorted(seen[:4]) == sorted(order) and seen[4] == seen[0]
    shown.press("N")
    assert (shown.selected(), shown.pane().split("\n")[1]) == seen[3]
    shown.page.locator("#search").fill("^net/a/act")
    shown.press("Enter")
    assert "was Relu6\nwith T=half" in shown.pane()
    assert "changed" in shown.classes("net/a/act")
    assert shown.texts("net/c/MatMul")[-1] == "- w [4,4]"  # a weight that differs is marked in what reads it


def test_a_page_without_marks_has_no_legend(show: Show) -> None:
    shown = show(*net())
    assert shown.page.locator("#legend").inner_text() == ""
    assert not shown.page.locator("#next-button").is_visible()


# -- pictures and colours ------------------------------------------------------------------------------------


def test_the_picture_is_saved_whole(show: Show) -> None:
    shown = show(*net())
    shown.click("net/a")
    text = shown.export()
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    boxes = [group.get("data-name") for group in root.iter(f"{SVG}g") if "box" in (group.get("class") or "").split()]
    assert sorted(map(str, boxes)) == sorted(shown.names())
    lines = [path for path in root.iter(f"{SVG}path") if "line" in (path.get("class") or "").split()]
    assert len(lines) == shown.page.locator("#world .line").count() > 0
    style = root.find(f"{SVG}style")
    assert style is not None and style.text and "var(" not in style.text.split("}", 1)[1] and ".edge" in style.text
    assert "selected" not in text.split("</style>")[1]
    left, top, width, height = map(float, str(root.get("viewBox")).split())
    size = shown.page.evaluate("(() => { const { x, y, width, height } = document.getElementById('world').getBBox();"
                               "return [x, y, x + width, y + height]; })()")  # fmt: skip
    assert left <= size[0] and top <= size[1] and size[2] <= left + width and size[3] <= top + height


def brightness(shown: Shown, selector: str, what: str) -> int:
    colour = shown.page.eval_on_selector(selector, f"element => getComputedStyle(element).{what}")
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def test_the_page_is_dark_where_the_system_is_and_on_a_key(show: Show) -> None:
    shown = show(*net())
    rect, text = 'g.box[data-name="x"] rect', 'g.box[data-name="x"] text'
    assert brightness(shown, rect, "fill") > 600 > 200 > brightness(shown, text, "fill")
    shown.page.emulate_media(color_scheme="dark")
    assert brightness(shown, rect, "fill") < 200 < 600 < brightness(shown, text, "fill")
    assert "rgb(18, 20, 26)" in shown.export()
    shown.press("d")
    assert brightness(shown, rect, "fill") > 600
    shown.page.locator("#theme-button").click()
    assert brightness(shown, rect, "fill") < 200


# -- hostile models ------------------------------------------------------------------------------------------

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "--><svg onload=alert(1)>",
    "a\"b'c`d",
    "${alert(1)}{{DATA}}",
    "tab\there\nline\x00nul\x1b[31m",
    "\u2028\u2029\u202egnp.exe",
    "&lt;b&gt;&amp;",
    "__proto__",
    "\ud800",
]


def test_names_are_never_markup(show: Show) -> None:
    titled = "</title><script>alert(1)</script>\ud800"
    names = [name for name in HOSTILE if "\ud800" not in name]
    records = [placeholder("x")]
    for name in names:
        records += [node(f"{name}/in", name, ["x"], note=name, device=name), relu(f"{name}/out", f"{name}/in")]
    shown = show(*records, title=titled, marks={"x": "~"}, notes={"x": "<b>note</b>"})
    assert shown.page.title() == printable(titled)
    shown.press("O")
    seen = set(shown.names())
    for name in names:
        assert {printable(f"{name}/in"), printable(f"{name}/out")} <= seen
        assert shown.page.locator("g.box", has=shown.page.get_by_text(printable(name), exact=True)).count()
    for number in range(len(records)):
        shown.page.locator("#search").fill("." if number else "[ab]")
        shown.press("Enter")
    shown.press("Escape")
    for at in range(shown.page.locator("g.box.node").count()):
        shown.page.locator("g.box.node > .frame").nth(at).dispatch_event("click")
    assert shown.page.locator("script").count() == 1 and shown.page.locator("img, b").count() == 0
    root = ET.fromstring(shown.export())
    saved = {group.get("data-name") for group in root.iter(f"{SVG}g")}
    assert {printable(f"{name}/in") for name in names} <= saved


def test_names_of_any_form_come_back_as_they_are(show: Show) -> None:
    odd = "/a //b c//d c/ c e/f/ e/f e conv1_x conv1_y conv2_x conv2_y net/conv1_x"
    names = [*odd.split(), *(f"net/conv{number}_{letter}" for number in range(2, 9) for letter in "xyz")]
    shown = show(*(placeholder(name) for name in names))
    shown.page.locator("#search").fill("^Placeholder$")
    assert sorted(shown.matches()) == sorted(names)
    assert "net/conv8_*" in shown.names()  # a group is in no name


def test_a_model_without_nodes_and_one_of_deep_scopes_are_shown(show: Show) -> None:
    assert show().names() == []
    deep = "/".join(["s"] * 3000)
    shown = show(placeholder("x"), relu(f"{deep}/a", "x"), relu(f"{deep}/b", f"{deep}/a"), relu("s/s/c", "x"))
    shown.page.locator("#search").fill("s/b$")
    shown.press("Enter")
    assert shown.selected() == f"{deep}/b"


def test_lone_surrogates_are_escaped(show: Show) -> None:
    shown = show(placeholder("x"), relu("a", "x"), renamed={"a": "a\ud800b"})
    assert "a\\ud800b" in shown.names()
    ET.fromstring(shown.export())


# -- the file ------------------------------------------------------------------------------------------------


def payload_of(text: str) -> Any:
    data = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', text)
    assert data
    return json.loads(zlib.decompress(base64.b64decode(data[1])))


def test_the_policy_names_what_is_in_the_page_and_allows_nothing_else() -> None:
    text = page(outlines(*net()))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy and policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1] and "http" not in policy[1]
    inline = re.findall(r"<(?:script|style)(?: id=\"picture-style\")?>(.*?)</(?:script|style)>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in inline]
    assert len(hashes) == 3 and all(f"'sha256-{found}'" in policy[1] for found in hashes)
    assert not re.search(r"\beval\(|new Function|fetch\(|XMLHttpRequest|innerHTML|https?://(?!www\.w3\.org/)", text)


def test_weights_are_not_in_a_page_and_texts_are_once() -> None:
    large = const("w", [1.5] * 4095 + [-0.5], shape=[64, 64])
    records = [placeholder("x"), large, node("y", "MatMul", ["x", "w"], T=FLOAT)]
    found = payload_of(page(outlines(*records)))
    assert found["graphs"][0]["values"] == {}
    assert found["graphs"][0]["statistics"] == {"1": "-0.5 to 1.5, mean 1.49951, standard deviation 0.0312462"}
    assert len(found["strings"]) == len(set(found["strings"]))
    many = page(outlines(*records, *(relu(f"r{number}", "y") for number in range(1000))))
    assert len(many) < 150_000 + 20 * 1003


@pytest.mark.parametrize("marks", [[], ["+", "", "~"]])
def test_marks_go_with_their_nodes_in_the_order_of_the_graph(marks: Sequence[str]) -> None:
    found = payload_of(page(outlines(relu("b", "a"), relu("a", "x"), placeholder("x")), marks=marks))
    assert found["marks"] == ({"2": "+", "0": "~"} if marks else {})
