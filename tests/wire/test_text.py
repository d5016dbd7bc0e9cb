from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.desk import check_error
from support.graphs import FLOAT, const, function, graph_bytes, library, node, placeholder, random_graphs
from support.paths import FIXTURES
from support.patience import LONG_ENOUGH, within
from support.system import within_memory

from gdsurgeon.errors import InputError
from gdsurgeon.graph.load import load
from gdsurgeon.wire import text as large_text
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import AttrValue
from gdsurgeon.wire.text import LONG, to_binary, to_text


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
