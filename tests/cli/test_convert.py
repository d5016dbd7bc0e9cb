"""convert: a file in another form is the same message, in every kind of file; and nothing appears that is not."""

from __future__ import annotations

import json
import os

import pytest
from support import meta_graphs
from support.desk import Desk, check_said
from support.graphs import FLOAT, STRING, const, graph_bytes, identity, node, placeholder, tensor
from support.paths import FIXTURES

import gdsurgeon as gds
from gdsurgeon.operation import convert
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import message

MODEL = graph_bytes(
    placeholder("x", FLOAT, (-1, 2)),
    const("w", [1.5, float("inf"), -0.0, 3.4e38]),
    node("t", "Const", dtype=STRING, value=tensor(['a"\\\n\x00é\u2028'], STRING)),
    node("y", "MatMul", ["x", "w", "^t"], device="/cpu:0", T=FLOAT),
)


@pytest.fixture
def files(desk: Desk) -> Desk:
    desk.put("m.pb", MODEL)
    return desk


def done(desk: Desk, *words: str) -> str:
    ran = desk.done("convert", *words)
    return ran.err


def same(data: bytes, other: bytes, kind: str = "GraphDef") -> bool:
    found = message(f"tensorflow.{kind}")
    return bool(found.FromString(data) == found.FromString(other))


def test_there_and_back(files: Desk) -> None:
    said = done(files, "m.pb", "-o", "m.pbtxt")
    text = (files.folder / "m.pbtxt").read_bytes()
    assert text.startswith(b'node {\n  name: "x"') and text.isascii()
    lines = said.splitlines()
    assert lines[0].startswith("m.pbtxt  text GraphDef, ") and lines[1].startswith("  of       m.pb, binary, ")
    assert lines[2].startswith("  proven   read back: ")
    done(files, "m.pbtxt", "-o", "back.pb")
    assert same((files.folder / "back.pb").read_bytes(), MODEL)
    assert files.run("inspect", "m.pbtxt").out[len("m.pbtxt  text") :].count(b"\n") == 6


@pytest.mark.parametrize("name", sorted(os.listdir(FIXTURES)))
def test_the_fixtures(desk: Desk, name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    desk.put(name, data)
    done(desk, name, "-o", "other")
    done(desk, "other", "-o", "again")
    again = (desk.folder / "again").read_bytes()
    assert same(again, data) if name.endswith(".pb") else gds.load("again").text is not None


@pytest.mark.parametrize(
    ("words", "out", "is_text"),
    [
        (("m.pb",), "m.pbtxt", True),
        (("t.pbtxt",), "t.pb", False),
        (("m.pb", "-o", "o.prototxt"), "o.prototxt", True),
        (("t.pbtxt", "-o", "o.PB"), "o.PB", False),
        (("m.pb", "-o", "o.bytes"), "o.bytes", True),
        (("m.pb", "-o", "o.pb", "--format", "text"), "o.pb", True),
        (("t.pbtxt", "-o", "o.txt", "--format", "binary"), "o.txt", False),
        (("m.pb", "-o", "o.pb"), "o.pb", False),
        (("t.pbtxt", "-o", "o.pbtxt"), "o.pbtxt", True),
    ],
)
def test_which_form_it_gets(files: Desk, words: tuple[str, ...], out: str, is_text: bool) -> None:
    done(files, "m.pb", "-o", "t.pbtxt")
    said = done(files, *words)
    data = (files.folder / out).read_bytes()
    assert data.startswith(b"node {") == is_text
    is_copy = (words[0] == "t.pbtxt") == is_text
    assert ("Note: " in said) == ("the file is copied" in said) == is_copy
    if is_copy:
        assert data == (files.folder / words[0]).read_bytes()


def test_in_pipes(files: Desk) -> None:
    text = files.run("convert", "-", "-o", "-", data=MODEL)
    assert text.code == 0 and text.out.startswith(b"node {")
    back = files.run("convert", "-", "-o", "-", "--format", "binary", data=text.out)
    assert same(back.out, MODEL)
    assert not files.temporary_files()


def test_json_and_a_dry_run(files: Desk) -> None:
    ran = files.run("convert", "m.pb", "-o", "o.pbtxt", "-n", "--json")
    found = json.loads(ran.out)
    assert (found["kind"], found["from"], found["to"], found["output"]) == ("GraphDef", "binary", "text", "o.pbtxt")
    assert found["bytes"]["before"] == len(MODEL) and "(dry run: nothing written)" in ran.err
    assert set(files.files()) == {"m.pb"} and not files.temporary_files()


def test_a_saved_model(desk: Desk) -> None:
    folder = meta_graphs.put(desk.folder / "sm")
    done(desk, "sm", "-o", "text")
    assert "saved_model.pbtxt" in os.listdir(desk.folder / "text") and "saved_model.pb" not in os.listdir("text")
    assert (desk.folder / "text/variables/variables.index").read_bytes()
    assert desk.run("show", "text", "w", "--json").out.count(b"1.5") == 2  # the least, and the first element
    done(desk, "text", "-o", "back")
    before, after = ((path / "saved_model.pb").read_bytes() for path in (folder, desk.folder / "back"))
    assert same(before, after, "SavedModel")
    done(desk, "sm/saved_model.pb", "-o", "alone.pbtxt")
    assert (desk.folder / "alone.pbtxt").read_bytes() == (desk.folder / "text/saved_model.pbtxt").read_bytes()


def test_a_meta_graph(desk: Desk) -> None:
    data = meta_graphs.meta_graph().SerializeToString(deterministic=True)
    desk.put("m.meta", data)
    done(desk, "m", "-o", "m.pbtxt")
    done(desk, "m.pbtxt", "-o", "n.meta")
    assert same((desk.folder / "n.meta").read_bytes(), data, "MetaGraphDef")
    serving = gds.load(str(desk.put("other.pb", data))).serving
    assert serving is not None and not serving.checkpoint, "the file is not a checkpoint of its own name"


def test_a_broken_graph_is_converted_to_be_mended(desk: Desk) -> None:
    broken = graph_bytes(identity("y", "gone"), identity("y", "y"))
    desk.put("b.pb", broken)
    done(desk, "b.pb", "-o", "b.pbtxt")
    done(desk, "b.pbtxt", "-o", "c.pb")
    assert same((desk.folder / "c.pb").read_bytes(), broken)


@pytest.mark.parametrize(
    ("words", "exit_code", "code", "facts"),
    [
        (("m.pb", "-o", "m.pb"), 2, "would-replace", {"file": "m.pb", "other": "m.pb"}),
        (("m.pb", "-o", "m.pb/o.pbtxt"), 6, "unwritable", {"file": "m.pb/o.pbtxt", "reason": "ENOTDIR"}),
        (("m.pb", "--format", "json"), 2, "bad-value", {"option": "--format"}),
        (("corrupt.pb", "-o", "o.pbtxt"), 3, "corrupt", {"file": "corrupt.pb"}),
        (("unknown.pb", "-o", "o.pbtxt"), 6, "unknown-fields", {}),
        (("bad.pbtxt", "-o", "o.pb"), 3, "wrong-format", {"file": "bad.pbtxt", "found": "text"}),
        (("a.npy", "-o", "o.pb"), 3, "wrong-format", {"file": "a.npy", "found": "npy"}),
        (("taken.pb",), 2, "file-exists", {"file": "taken.pbtxt"}),
        (("sm", "-o", "sm/inside"), 2, "inside-model", {"file": "sm/inside", "model": "sm"}),
        (("sm", "-o", "-"), 2, "bad-value", {"option": "out"}),
        (("sm", "-o", "m.pb"), 6, "not-replaceable", {"file": "m.pb"}),
        (("nan.pb", "-o", "o.pbtxt"), 5, "differs", {}),
    ],
)
def test_what_is_refused(files: Desk, words: tuple[str, ...], exit_code: int, code: str, facts: dict[str, str]) -> None:
    meta_graphs.put(files.folder / "sm")
    files.put(
        "corrupt.pb",
        graph_bytes(encode_len(1, encode_len(1, b"n") + encode_len(2, b"NoOp") + encode_len(5, b"\x0a\x09k"))),
    )
    files.put("unknown.pb", MODEL + b"\xa2\x06\x03abc")
    files.put("bad.pbtxt", b'node {\n  nome: "x" }')
    files.put("a.npy", b"\x93NUMPY\x01\x00")
    files.put("taken.pb", MODEL)
    files.put("taken.pbtxt", b"")
    nan = node("k", "Const", dtype=FLOAT, value=encode_len(8, b"\x08\x01\x2d\x01\x00\xc0\xff"))
    files.put("nan.pb", graph_bytes(placeholder("x")) + nan)
    ran = files.refused(exit_code, code, "convert", *words, **facts)
    assert "'x'" not in ran.err and ("  node 'k'\n" in ran.err) == (code == "differs")
    assert code != "would-replace" or "Hint" not in ran.err


def test_json_and_the_result_cannot_share_standard_output(files: Desk) -> None:
    for words in (("m.pb", "-o", "-"), ("-",)):
        ran = files.run("convert", *words, "--json", data=MODEL)
        check_said(ran, "--json and the result cannot both be written to standard output", code=2)


def test_a_mistake_keeps_the_output_from_appearing(files: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = convert.to_text
    monkeypatch.setattr(convert, "to_text", lambda data, kind: real(data, kind).replace(b'"/cpu:0"', b'"/cpu:1"'))
    files.put("o.pbtxt", b"earlier")
    ran = files.run("convert", "m.pb", "-o", "o.pbtxt")
    check_said(ran, "node 'y'", code=5)
    assert files.files()["o.pbtxt"] == b"earlier" and not files.temporary_files()


def test_much_text_is_told_of(files: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MUCH_TEXT", 100)
    assert "times the size of the input, because it spells out all weights" in done(files, "m.pb", "-o", "o.pbtxt")


def test_binary_is_not_written_to_a_terminal(files: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    done(files, "m.pb", "-o", "t.pbtxt")
    monkeypatch.setattr(convert.OutputFile, "is_terminal", lambda _: True)
    ran = files.run("convert", "t.pbtxt", "-o", "-")
    check_said(ran, "binary, and the output is a terminal", code=2)
