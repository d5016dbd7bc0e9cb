from __future__ import annotations

import pytest
from hypothesis import given
from support import graphs
from support.graphs import node, random_graphs
from support.paths import FIXTURES

from gdsurgeon.errors import GdsurgeonError, InputError
from gdsurgeon.graph.load import load
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.text import to_binary, to_text


@given(random_graphs())
def test_there_and_back(drawn: graphs.Drawn) -> None:
    assert graphs.parsed(to_binary(to_text(drawn.data), "x")) == drawn.message


@pytest.mark.parametrize("name", ["functions_tf2.pb", "while_v1.pb", "control_edges.pb", "label_lookup.pb"])
def test_there_and_back_with_a_fixture(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    assert graphs.parsed(to_binary(to_text(data), name)) == graphs.parsed(data)


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


def test_a_graph_that_protobuf_cannot_read_has_no_text_form() -> None:
    corrupt = graphs.graph_bytes(encode_len(1, encode_len(1, b"n") + encode_len(5, b"\x0a\x09k")))
    with pytest.raises(GdsurgeonError):
        to_text(corrupt)


def test_unknown_fields_are_not_lost_in_silence() -> None:
    data = graphs.graph_bytes(node("n", "NoOp")) + b"\xa2\x06\x03abc"
    try:
        text = to_text(data)
    except GdsurgeonError:
        return  # refused: as good
    assert message("tensorflow.GraphDef").FromString(to_binary(text, "x")).SerializeToString(
        deterministic=True
    ) == message("tensorflow.GraphDef").FromString(data).SerializeToString(deterministic=True)
