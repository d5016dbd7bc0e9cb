"""view on the command line: the tree of scopes, as text and JSON, and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support import graphs
from support.graphs import FLOAT, STRING, const, func, function, library, node, placeholder, relu

from gdsurgeon.cli.main import exit_code
from gdsurgeon.view.content import content_of
from gdsurgeon.view.outline import Outlines
from gdsurgeon.view.tree import folded, table, whole, within


class Ran(NamedTuple):
    code: int
    out: str
    err: str


View = Callable[..., Ran]


def dense(scope: str, source: str, op: str = "Relu") -> list[bytes]:
    return [
        const(f"{scope}/w", [0.5] * 16, shape=[4, 4]),
        node(f"{scope}/MatMul", "MatMul", [source, f"{scope}/w"], T=FLOAT),
        node(f"{scope}/Act", op, [f"{scope}/MatMul"], T=FLOAT),
    ]


def chain(*scopes: str) -> list[bytes]:
    records, source = [placeholder("x", shape=(-1, 4))], "x"
    for scope in scopes:
        records += dense(scope, source)
        source = f"{scope}/Act"
    return [*records, node("y", "Softmax", [source], T=FLOAT)]


NET = chain("net/first", "net/block_1", "net/block_2", "net/block_3")


@pytest.fixture
def view(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> View:
    monkeypatch.chdir(tmp_path)

    def run(*options: str, records: list[bytes] | None = None, trailer: bytes = graphs.VERSIONS) -> Ran:
        data = graphs.graph_bytes(*(NET if records is None else records), trailer=trailer)
        (tmp_path / "model.pb").write_bytes(data)
        code = exit_code(["view", "model.pb", *options])
        return Ran(code, *capsys.readouterr())

    return run


def test_a_tree_of_scopes_with_what_is_in_them(view: View) -> None:
    assert [line.split() for line in view().out.splitlines()] == [
        "nodes params FLOPs output".split(),
        "model.pb 14 64 128".split(),
        "├─ x Placeholder 1 f32[?,4]".split(),
        "├─ net 12 64 128 f32[?,4]".split(),
        "│ └─ first .. block_3 x 4 12 64 128 f32[?,4]".split(),
        "│ ├─ MatMul 1 32 f32[?,4]".split(),
        "│ └─ Act Relu 1 f32[?,4]".split(),
        "└─ y Softmax 1 f32[?,4]".split(),
    ]


def test_columns_stand_below_their_heads(view: View) -> None:
    head, *lines = view().out.splitlines()
    for name, numbers in (("nodes", "14 1 12 12 1 1 1"), ("params", "64 64 64"), ("FLOPs", "128 128 128 32")):
        end = head.index(name) + len(name)
        cells = [line[end - 6 : end].split()[-1] for line in lines if line[end - 1 : end].strip()]
        assert " ".join(cells) == numbers
    assert {line.index("f32") for line in lines if "f32" in line} == {head.index("output")}


def labels(text: str) -> list[str]:
    """The first column, without the lines of the tree."""
    return [line.lstrip("│├└─ ").split("   ")[0].rstrip() for line in text.splitlines()[1:]]


def test_neighbours_of_another_structure_are_lines_of_their_own(view: View) -> None:
    records = [*chain("a", "b", "c")[:-1], *dense("d", "c/Act", "Tanh"), *dense("e", "d/Act")]
    assert labels(view("--depth", "1", records=records).out) == ["model.pb", "x  Placeholder", "a .. c x 3", "d", "e"]


@pytest.mark.parametrize(("count", "beside"), [(9, 11), (30, 2)])
def test_many_nodes_in_a_row_are_counted_and_with_a_depth_listed(view: View, count: int, beside: int) -> None:
    """Very many are counted with a depth as well, unless all of them are asked for."""
    names = [f"n{number}" for number in range(count)]
    records = [placeholder("x")]
    records += [node(n, "Neg" if i % 3 else "Relu", [names[i - 1] if i else "x"], T=FLOAT) for i, n in enumerate(names)]
    counted = f"Placeholder, Neg x {count * 2 // 3}, Relu x {count // 3}"
    assert labels(view(records=records).out) == ["model.pb", counted]
    assert len(labels(view("--depth", "1", records=records).out)) == beside
    assert len(labels(view("--depth", "1", "-v", records=records).out)) == count + 2


@pytest.mark.parametrize("path", ["save", "net/save_1"])
def test_a_saver_is_one_line(view: View, path: str) -> None:
    records = [*NET, const(f"{path}/Const", ["m"], STRING, ())]
    for kind in ("names", "slices"):
        records.append(const(f"{path}/{kind}", ["net/first/w"], STRING))
    reads = [f"{path}/Const", f"{path}/names", f"{path}/slices"]
    records.append(node(f"{path}/RestoreV2", "RestoreV2", reads, dtypes=graphs.dtypes(FLOAT)))
    records += [node(f"{path}/Identity_{i}", "Identity", [f"{path}/RestoreV2"], T=FLOAT) for i in range(4)]
    for options in ((), ("--depth", "3")):
        assert path.rpartition("/")[2] in labels(view(*options, records=records).out)
        assert "Identity" not in view(*options, records=records).out
    assert "Identity_3" in view("--depth", "3", "-v", records=records).out
    assert "Identity_3" in view("--depth", "3", "--json", records=records).out
    assert "Identity_3" in view("--depth", "3", "--scope", path, records=records).out


def test_of_very_many_neighbours_the_first_are_shown_and_with_a_depth_all(view: View) -> None:
    records = [placeholder("x", shape=(-1, 4))]
    for number in range(100):
        records += dense(f"s{number}", "x", "Tanh" if number % 2 else "Relu")
    shown = labels(view(records=records).out)
    assert len(shown) == 46 and shown[-1] == "... 57 more"
    assert len(labels(view("--depth", "1", records=records).out)) == 102
    for number in range(100, 300):
        records += dense(f"s{number}", "x", "Tanh" if number % 2 else "Relu")
    assert [len(labels(view("--depth", "1", *more, records=records).out)) for more in ((), ("-v",))] == [201, 302]


def test_no_line_is_wider_than_eighty_columns(view: View) -> None:
    long = "a_very_long_name_of_a_scope_that_somebody_has_made/and_another_one_in_it_that_is_no_shorter"
    out = view("--depth", "4", records=chain(long, long + "_2")).out
    assert max(map(len, out.splitlines())) <= 80
    assert " x 2" in out and ".." in out


def test_without_utf_8_the_tree_is_ascii() -> None:
    found = graphs.graph(*NET)
    outlines = Outlines(found, content_of(found, "model.pb"))
    head = whole(outlines)
    lines = folded(within(outlines, head, 2))
    assert table(head, lines, width=80, colour=False, ascii_only=True).isascii()
    assert "\x1b[" in table(head, lines, width=80, colour=True, ascii_only=True)


def test_a_scope_alone(view: View) -> None:
    assert labels(view("--scope", "net/block_2").out) == ["net/block_2", "MatMul", "Act  Relu"]
    ran = view("--scope", "net/blok_2")
    assert (ran.code, ran.out) == (4, "")
    assert "scope 'net/blok_2' does not exist. Did you mean 'net/block_2'?" in ran.err


def test_json_has_all_that_is_seen(view: View) -> None:
    found = json.loads(view("--json", "--depth", "2").out)
    assert {key: found[key] for key in ("scope", "nodes", "parameters", "flops")} == {
        "scope": "", "nodes": 14, "parameters": 64, "flops": 128,
    }  # fmt: skip
    assert [item.get("scope", item.get("name")) for item in found["items"]] == ["x", "net", "y"]
    blocks = found["items"][1]["items"]
    assert [block["scope"] for block in blocks] == ["net/first", "net/block_1", "net/block_2", "net/block_3"]
    assert len({block["structure"] for block in blocks}) == 1
    assert "items" not in blocks[0]
    assert found["items"][2] == {
        "name": "y", "op": "Softmax", "nodes": 1, "parameters": 0, "flops": 0, "output": "float32 [?,4]",
        "faults": 0,
    }  # fmt: skip


def test_a_function_opens_below_its_call(view: View) -> None:
    body = function("dense", const("w", [0.5] * 16, shape=[4, 4]), node("y", "MatMul", ["x", "w:output:0"], T=FLOAT))
    dtypes = graphs.dtypes(FLOAT)
    call = node("c", "PartitionedCall", ["x"], Tin=dtypes, Tout=dtypes, f=func("dense"))
    records = [placeholder("x", shape=(-1, 4)), call]
    out = view("--depth", "2", records=records, trailer=library(body)).out
    assert labels(out) == [
        "model.pb",
        "x  Placeholder",
        "c  PartitionedCall",
        "x  Placeholder",
        "y  MatMul",
        "out  Identity",
    ]
    assert (
        labels(view("--in", "dense", records=records, trailer=library(body)).out)[0] == "the function dense of model.pb"
    )


def test_gradients_lie_apart_or_beside_what_they_are_of(view: View) -> None:
    records = [*NET, node("gradients/net/block_1/Act_grad/ReluGrad", "Neg", ["y"], T=FLOAT)]
    records += [node("gradients/Fill", "Neg", ["y"], T=FLOAT)]
    apart = labels(view("--depth", "1", records=records).out)
    assert apart == ["model.pb", "x  Placeholder", "net", "y  Softmax", "gradients"]
    beside = labels(view("--depth", "3", "--gradients", "together", records=records).out)
    assert "gradients  Neg" in beside and "Act_grad  Neg" in beside


@pytest.mark.parametrize(
    "options, text",
    [
        (["-o", "picture.png"], "-o picture.png: expected the suffix .html, .svg"),
        (["-o", "-"], "-o -: expected the suffix .html, .svg"),
        (["-o", "x.html", "--depth", "2"], "an HTML page shows the whole model"),
        (["-o", "x.svg", "--json"], "--json prints the tree"),
        (["--depth", "0"], "0 is not in the range"),
        (["--format", "gif"], "'gif' is not one of"),
    ],
)
def test_mistakes(view: View, tmp_path: Path, options: list[str], text: str) -> None:
    ran = view(*options)
    assert ran.code == 2
    assert text in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pb"]


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (20, ["nodes"]),
        (40, ["nodes", "params"]),
        (80, ["nodes", "params", "FLOPs", "output"]),
        (200, ["nodes", "params", "FLOPs", "output"]),
    ],
)
def test_numbers_are_whole_on_every_terminal_or_not_there(width: int, heads: list[str]) -> None:
    graph = graphs.graph(*NET)
    outlines = Outlines(graph, content_of(graph, "model.pb"))
    head = whole(outlines)
    head.items = within(outlines, head, 2)
    rows = table(head, folded(head.items or ()), width=width, colour=False, ascii_only=False).splitlines()
    assert rows[0].split() == heads
    assert max(map(len, rows)) <= min(width, 80)  # numbers are next to their names
    for name, *numbers in (row.split() for row in rows[1:]):
        assert not any("\u2026" in number for number in numbers[-1:]), name


def test_a_picture_does_not_replace_its_model(view: View, tmp_path: Path) -> None:
    (tmp_path / "link.svg").symlink_to("model.pb")
    for options in (["-o", "model.pb", "--format", "svg"], ["-o", "link.svg"]):
        ran = view(*options)
        assert ran.code == 2
        assert "would replace model.pb, which is an input" in ran.err
        assert (tmp_path / "model.pb").read_bytes() == graphs.graph_bytes(*NET)


def test_a_broken_graph_is_shown_and_its_faults_are_told(view: View, tmp_path: Path) -> None:
    ran = view(records=[placeholder("x"), node("r", "Relu", ["gone"], T=FLOAT)])
    assert ran.code == 3
    assert "r  Relu" in ran.out
    assert "gone" in ran.err
    assert view("-o", "x.svg", records=[node("r", "Relu", ["gone"], T=FLOAT)]).code == 3
    assert 'class="n f"' in (tmp_path / "x.svg").read_text()


def test_a_picture_of_a_broken_graph_replaces_nothing(view: View, tmp_path: Path) -> None:
    (tmp_path / "old.html").write_text("earlier")
    broken = [node("r", "Relu", ["gone"], T=FLOAT)]
    assert view("-o", "old.html", records=broken).code == 3
    assert (tmp_path / "old.html").read_text() == "earlier"


def test_faults_are_marked_where_they_are(view: View, tmp_path: Path) -> None:
    records = [placeholder("x"), relu("a/good", "x"), relu("a/bad", "gone"), relu("b/p", "b/q"), relu("b/q", "a/bad:1")]
    rows = view("--depth", "2", records=records).out.splitlines()[2:]
    shown = {row.strip("│├└─ ").split()[0]: row for row in rows}
    assert {name for name, row in shown.items() if "broken" in row} == {"a", "b", "bad", "q"}
    assert "1 broken" in shown["a"]
    items = json.loads(view("--json", records=records).out)["items"]
    assert {item.get("scope", item.get("name")): item["faults"] for item in items} == {"x": 0, "a": 1, "b": 1}
    assert view("-o", "x.svg", "--depth", "1", records=records).code == 3
    assert (tmp_path / "x.svg").read_text().count("1 broken") == 2
    cycle = [placeholder("x"), relu("p", "q"), relu("q", "p"), relu("r", "x"), relu("s", "q")]
    out = json.loads(view("--json", "--depth", "1", records=cycle).out)
    assert [item["name"] for item in out["items"] if item["faults"]] == ["p", "q"]


def test_names_are_escaped(view: View) -> None:
    out = view(records=[placeholder("x"), node("a\x1b[31m/b", "Relu", ["x"], T=FLOAT)]).out
    assert "\x1b" not in out
    assert r"a\x1b[31m" in out


def test_an_empty_graph_has_nothing_in_it(view: View) -> None:
    ran = view(records=[])
    assert (ran.code, labels(ran.out)) == (3, ["model.pb"])
    assert "has no nodes" in ran.err
    assert view("-o", "x.svg", records=[]).code == 3
