"""Other formats are named and not read as GraphDefs; GraphDefs as text."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.desk import check_error
from support.graphs import FLOAT, const, function, graph_bytes, library, node, placeholder, random_graphs
from support.paths import FIXTURES, MODELS
from support.patience import LONG_ENOUGH, within
from support.system import within_memory

from gdsurgeon.errors import InputError
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.wire import text as large_text
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import AttrValue
from gdsurgeon.wire.sniff import container_format, foreign_format, is_text, kind_of_text
from gdsurgeon.wire.text import LONG, to_binary, to_text

GRAPH = graphs.graph_bytes(*graphs.g8())


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("model.pb"))
    return out.getvalue()


def zipped(name: str = "model.pb") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, GRAPH)
    return out.getvalue()


META_GRAPH = encode_len(1, encode_len(5, b"2.16.0")) + encode_len(2, GRAPH)
FUNCTION_FIRST = graphs.library(graphs.function("F", node("y", "Identity", ["x"], T=graphs.FLOAT)))
ONNX = b"\x08\x08" + encode_len(2, b"pytorch") + encode_len(3, b"2.0") + encode_len(7, b"\x0a\x00")

FOREIGN = {
    "empty": (b"", "empty"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    "gzip": (gzip.compress(GRAPH), "gzip"),
    "zip": (zipped(), "zip"),
    "tar": (tarred(), "tar archive"),
    "bzip2": (bz2.compress(GRAPH), "bzip2"),
    "xz": (lzma.compress(GRAPH), "xz"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x00", "zstd"),
    "tflite": (b"\x1c\x00\x00\x00TFL3\x00\x00", "TFLite"),
    "hdf5": (b"\x89HDF\r\n\x1a\n\x00", "HDF5"),
    "png": (b"\x89PNG\r\n\x1a\n", "PNG"),
    "jpeg": (b"\xff\xd8\xff\xe0\x00", "JPEG"),
    "npy": (b"\x93NUMPY\x01\x00", "NumPy"),
    "bom": (b"\xef\xbb\xbf" + GRAPH, "byte order mark"),
    "crlf": (GRAPH.replace(b"\n", b"\r\n"), "text mode"),
    "utf16": ("node".encode("utf-16"), "UTF-16"),
    "html": (b"\n<!DOCTYPE html><html></html>", "HTML"),
    "html without doctype": (b"<html><body>404", "HTML"),
    "xml": (b'<?xml version="1.0"?><Error/>', "XML"),
    "json": (b'{"modelTopology": {}}', "JSON"),
    "json list": (b'[\n {"paths": []}]', "JSON"),
    "onnx": (ONNX, "ONNX"),
    "onnx without a producer": (b"\x08\x07\x3a\x02\x0a\x00", "ONNX"),
    "saved model": (b"\x08\x01" + encode_len(2, META_GRAPH), "SavedModel"),
    "meta graph": (META_GRAPH, "MetaGraphDef"),
    "meta graph without a version": (encode_len(1, b"") + encode_len(2, GRAPH), "MetaGraphDef"),
    "fingerprint": (bytes.fromhex("32020801") + b"\x08\x86\x01\x10\x07\x18\x05", "fingerprint.pb"),
    "fingerprint in order": (b"\x08\x86\x01\x10\x07\x18\x05" + bytes.fromhex("32020801"), "fingerprint.pb"),
    "index": (b"\x00\x00\x06\x08\x01" + bytes(40) + bytes.fromhex("57fb808b247547db"), "index of a checkpoint"),
    "keras": (zipped("metadata.json"), "a Keras model"),
    "npz": (zipped("x.npy"), "an archive of arrays"),
    "prose": (b"Not a graph at all.\n", "text"),
}


@pytest.mark.parametrize(("data", "words"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_format_is_named(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        from_bytes(data, "a\nfile")
    assert caught.value.message.startswith("a\\nfile is ")


def test_the_values_of_a_checkpoint_are_told_by_their_name() -> None:
    data = bytes.fromhex("cc185b3ed956863f")
    with pytest.raises(InputError, match="the values of a checkpoint"):
        from_bytes(data, "variables.data-00000-of-00001")
    with pytest.raises(InputError, match="corrupt"):
        from_bytes(data, "data.pb").node_count  # noqa: B018
    assert from_bytes(GRAPH, "variables.data-00000-of-00001").node_count


@pytest.mark.models
@pytest.mark.skipif(not MODELS.is_dir(), reason="the published models are not here")
def test_no_published_graph_is_taken_for_something_else() -> None:
    found = {}
    for path in sorted(MODELS.iterdir()):
        if path.suffix not in (".pb", ".pbtxt", ".bytes", ".meta"):
            continue
        try:
            found[path.name] = load(str(path)).node_count
        except InputError as error:
            found[path.name] = str(error)
    wrong = {name: what for name, what in found.items() if name.endswith(".meta") != isinstance(what, str)}
    assert not wrong
    assert all("MetaGraphDef" in what for what in found.values() if isinstance(what, str))
    assert len(found) > 20


@given(random_graphs())
def test_no_random_graph_is_taken_for_something_else(drawn: graphs.Drawn) -> None:
    assert from_bytes(drawn.data).node_count == len(drawn.message.node)


@pytest.mark.parametrize("first", [graphs.VERSIONS, FUNCTION_FIRST, b"\x18\x05", encode_len(5, b"")])
def test_a_graph_need_not_begin_with_a_node(first: bytes) -> None:
    assert from_bytes(first + GRAPH).node_count == 8


# The first bytes of a GraphDef are a line feed, a length, a line feed and the length of a name: they can spell much.


def first_node(size: int, name_size: int) -> bytes:
    """A node record of SIZE bytes, not counting its tag and length, with a name of NAME_SIZE."""
    named = encode_len(1, b"n" * name_size) + encode_len(2, b"NoOp")
    return encode_len(1, named + encode_len(4, b"d" * (size - len(named) - 2)))


@pytest.mark.parametrize("name_size", [1, 34, 60, 91, 93])
def test_no_size_of_the_first_node_makes_a_graph_something_else(name_size: int) -> None:
    refused = {}
    for size in range(name_size + 10, 128):
        record = first_node(size, name_size)
        assert record[1] == size
        try:
            assert from_bytes(record + graphs.VERSIONS).node_count == 1
        except InputError as error:
            refused[size] = str(error)
    assert not refused


@pytest.mark.parametrize("name", ["TFL3", "TFL3_input", "html", "node", "BZh", "n" * 127, "n" * 128, "n" * 4000])
def test_no_name_of_the_first_node_makes_a_graph_something_else(name: str) -> None:
    assert from_bytes(graphs.graph_bytes(node(name, "NoOp"))).node_count == 1


def test_a_name_that_fills_the_beginning_of_the_file_is_not_taken_for_text() -> None:
    assert from_bytes(graphs.graph_bytes(node("n" * 5000, "NoOp"))).node_count == 1


def test_text_is_told_from_binary() -> None:
    assert is_text(b'node { name: "x" }\n\t\r')
    assert is_text(b"")
    assert not is_text(GRAPH)
    assert not is_text(b"text\x00")
    for begin in (b"node {", b"  # comment\n\nnode<", b"versions { }", b"library {}", b"version: 5", b"node [{"):
        assert kind_of_text(begin) == "GraphDef"
    for begin in (b"name: 'x'", b"nodes {", b"node", b"saved_model_schema_version: 1"):
        assert kind_of_text(begin) != "GraphDef"


def test_a_graph_with_a_library_is_no_container() -> None:
    for data in (GRAPH + FUNCTION_FIRST, FUNCTION_FIRST + GRAPH, FUNCTION_FIRST, b"\x0f\x0f", b"\x08"):
        assert container_format(data) is None


def test_short_beginnings_are_taken_for_nothing() -> None:
    for end in range(1, 40):
        assert foreign_format(GRAPH[:end]) is None
    assert foreign_format(struct.pack("<I", 28) + b"TFL") is None


@given(random_graphs())
def test_there_and_back(drawn: graphs.Drawn) -> None:
    assert graphs.parsed(to_binary(to_text(drawn.data), "x")) == drawn.message


def test_a_text_graph_is_loaded_and_remembers_that_it_was_text() -> None:
    graph = load(str(FIXTURES / "tiny.pbtxt"))
    assert graph.text
    assert list(graph.names()) == ["x", "scale", "offset", "scaled", "y"]


def test_names_of_every_kind_survive() -> None:
    data = graphs.graph_bytes(node('q"uo\\te\n\x00é\u2028', "NoOp"))
    assert graphs.parsed(to_binary(to_text(data), "x")) == graphs.parsed(data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"node {", "line"),
        (b'node { name: "x" nome: "y" }', "1:"),
        (b"node {\n  name: 5\n}", "2:"),
        (b"\xff\xfe\xfd", "UTF-8"),
        (b'node { attr { key: "a" value ' + b'{ func { attr { key: "b" value ' * 3000, "nested|line"),
    ],
    ids=["open", "unknown field", "wrong type", "not UTF-8", "nested"],
)
def test_what_is_no_text_graph_is_refused_with_the_place(text: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        to_binary(text, "f.pbtxt")
    assert caught.value.message.startswith("f.pbtxt ")
    assert "\n" not in caught.value.message


def content(data: bytes) -> bytes:
    """An AttrValue that holds a tensor with that content."""
    return encode_len(8, b"\x08\x04" + encode_len(4, data))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large values are small."""
    monkeypatch.setattr(large_text, "LARGE", 8)
    monkeypatch.setattr(large_text, "LONG", 8)


def plain(data: bytes) -> bytes:
    """The text that protobuf alone makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_text, "LARGE", 1 << 40)
        return to_text(data)


contents = st.lists(st.one_of(st.binary(max_size=40), st.text("\"\\'n\n0x{}", max_size=40).map(str.encode)), max_size=5)


@given(contents)
def test_it_is_what_protobuf_makes_of_it(found: list[bytes]) -> None:
    records = [node(f"k{i}", "Const", dtype=FLOAT, value=content(data)) for i, data in enumerate(found)]
    held = AttrValue()
    for data in found:
        held.list.tensor.add(tensor_content=data)
    inner = node("y", "Const", dtype=FLOAT, value=content(b"".join(found)))
    data = graph_bytes(
        *records,
        node("l", "List", held=held.SerializeToString()),
        trailer=library(function("F", inner)) + graphs.VERSIONS,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_text, "LARGE", 8)
        patch.setattr(large_text, "LONG", 8)
        patch.setattr(large_text, "_PIECE", 7)
        text = to_text(data)
        assert text == plain(data)
        assert graphs.parsed(to_binary(text, "x")) == graphs.parsed(data)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "written",
    [
        '"abcdefghijkl"',
        "'abcdefghijkl'",
        '"abcdef" "ghijkl"',
        '"abcdefghij"\n "kl"',
        "\"abcdefghij\" 'kl'",
        '"abcdefghijkl" # tensor_content: "abcdefghijkl"',
        '"abcdefghijkl" tensor_shape { } # tensor_content: "mnopqrstuvwxyz',
        '"\\x61bcdefghijk\\154"',
        '"\\141bcdefghijkl" version_number: 0',
    ],
)
@pytest.mark.parametrize("colon", [":", " : "])
def test_however_it_is_written(written: str, colon: str) -> None:
    held = f"tensor {{ tensor_content{colon}{written}\n}}"
    text = f'node {{ name: "k" op: "Const" attr {{ key: "value" value {{ {held} }} }} }}'
    (found,) = graphs.parsed(to_binary(text.encode(), "x")).node
    assert found.attr["value"].tensor.tensor_content == b"abcdefghijkl"


@pytest.mark.usefixtures("small")
def test_what_only_looks_like_a_content() -> None:
    text = "node { name: 'tensor_content: \"abcdefghijkl\"' op: 'NoOp' }"
    assert graphs.names(to_binary(text.encode(), "x")) == ['tensor_content: "abcdefghijkl"']


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("written", ['"abcdefghijkl', '"abcdefghijkl\\"', '"abcdef\nghijkl"', '"abcdefghijkl\\xzz"'])
def test_a_literal_that_is_none_is_refused_with_its_place(written: str) -> None:
    text = (
        f'node {{ name: "k" op: "Const"\n attr {{ key: "value" value {{ tensor {{ tensor_content: {written} }} }} }} }}'
    )
    with pytest.raises(InputError, match=r"line 2:|escape") as caught:
        to_binary(text.encode(), "x")
    check_error(caught.value, "wrong-format", {"file": "x", "found": "text"})


def test_it_is_set_aside() -> None:
    data = graph_bytes(placeholder("x"), const("k", range(1 << 15)))
    text = to_text(data)
    short, aside = large_text.literals_aside(text.decode())
    assert len(aside) == 1 and len(short) < 2000
    found = graphs.parsed(data)
    assert [len(held) for held in large_text.contents_aside(found).values()] == [1 << 17]
    assert len(found.SerializeToString()) < 2000
    assert large_text.literals_aside("node { }") == ("node { }", {})


MUCH = 192 << 20
"""Bytes that a reader may take for some MB of input."""
MANY = 4_000_000
"""Characters of a text."""


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with within(LONG_ENOUGH):
        yield


def text(value: str, name: str = "n") -> bytes:
    return f'node {{ name: "{name}" op: "NoOp" attr {{ key: "k" value {{ {value} }} }} }}'.encode()


def value_of(data: bytes) -> bytes:
    (node,) = graphs.parsed(to_binary(data, "f.pbtxt")).node
    return bytes(node.attr["k"].s or b"".join(node.attr["k"].list.s))


TEXTS = {
    "octal": ('s: "' + "\\001" * (MANY // 4) + '"', b"\1" * (MANY // 4)),
    "hexadecimal": ("s: '" + "\\x1" * (MANY // 3) + "'", b"\1" * (MANY // 3)),
    "backslashes": ('s: "' + "\\\\" * (MANY // 2) + '"', b"\\" * (MANY // 2)),
    "quotes": ('s: "' + '\\"' * (MANY // 2) + '"', b'"' * (MANY // 2)),
    "in a list": ('list { s: "' + "\\n" * (MANY // 2) + '" }', b"\n" * (MANY // 2)),
    "in two": ('s: "' + "\\001" * (MANY // 8) + '"\n\'' + "\\002" * (MANY // 8) + '\' "\\003"',
               b"\1" * (MANY // 8) + b"\2" * (MANY // 8) + b"\3"),
    "blanks": ('s: "a"' + " " * MANY, b"a"),
    "other blanks": ('s: "a"' + "\t\u3000" * (MANY // 4), b"a"),
    "a comment": ('s: "a" # ' + "'" + "\\" * MANY + "\n", b"a"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("value", "wanted"), TEXTS.values(), ids=TEXTS)
def test_long_strings_and_blanks(value: str, wanted: bytes) -> None:
    def read() -> None:
        assert value_of(text(value)) == wanted

    within_memory(MUCH, read)


REFUSED = {
    "unending": (text('s: "' + "\\001" * (MANY // 4)).replace(b"\\001\"", b"\\001")[:-8], "wrong-format"),
    "unending in many lines": (b'node {' + b'\\"\n' * (MANY // 3), "wrong-format"),
    "not UTF-8": (text("", "\\377" * LONG), "wrong-format"),
    "a wrong escape": (text('s: "' + "\\xzz" * LONG + '"'), "wrong-format"),
    "a number of many digits": (b"versions { producer: " + b"1" * MANY + b"}", "wrong-format"),
    "in an Any": (
        b'collection_def { key: "k" value { any_list { value { [type.googleapis.com/tensorflow.AssetFileDef] '
        b'{ filename: "' + b"a" * LONG + b'" } } } } }', "too-large",
    ),
    "a key": (b'node { attr { key: "' + b"k" * LONG + b'" } }', "too-large"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(data: bytes, code: str) -> None:
    kind = "MetaGraphDef" if data.startswith(b"collection") else "GraphDef"

    def refused() -> None:
        with pytest.raises(InputError) as caught:
            to_binary(data, "f.pbtxt", kind)
        check_error(caught.value, code, {"file": "f.pbtxt"})
        assert len(caught.value.message) < 1000

    within_memory(MUCH, refused)
