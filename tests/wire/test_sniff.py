"""Other formats are named; a GraphDef is never mistaken for a different format."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile

import pytest
from hypothesis import given
from support import graphs
from support.graphs import node, random_graphs
from support.paths import ROOT

from gdsurgeon.errors import InputError
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.sniff import container_format, foreign_format, is_text, is_text_graph

MODELS = ROOT.parent / "shared" / "models"
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
        assert is_text_graph(begin)
    for begin in (b"name: 'x'", b"nodes {", b"node", b"saved_model_schema_version: 1"):
        assert not is_text_graph(begin)


def test_a_graph_with_a_library_is_no_container() -> None:
    for data in (GRAPH + FUNCTION_FIRST, FUNCTION_FIRST + GRAPH, FUNCTION_FIRST, b"\x0f\x0f", b"\x08"):
        assert container_format(data) is None


def test_short_beginnings_are_taken_for_nothing() -> None:
    for end in range(1, 40):
        assert foreign_format(GRAPH[:end]) is None
    assert foreign_format(struct.pack("<I", 28) + b"TFL") is None
