from __future__ import annotations

import pytest
from hypothesis import given
from support import graphs
from support.graphs import node, random_graphs
from support.paths import FIXTURES

from gdsurgeon.errors import InputError
from gdsurgeon.graph.load import load
from gdsurgeon.wire.text import to_binary, to_text


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
