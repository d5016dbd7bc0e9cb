"""Mistakes of a writer with spans of a file and with new bytes; the comparison finds each."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import pytest
from support.graphs import FLOAT, VERSIONS, const, function, graph, identity, library, node

from gdsurgeon.compare.comparison import compare_files, compare_written
from gdsurgeon.compare.intent import Facts
from gdsurgeon.compare.written import Written
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, read_chunks

UNKNOWN = encode_len(900, b"unknown")
GRADIENT = encode_len(2, encode_len(1, b"f") + encode_len(2, b"g"))
REGISTERED = encode_len(3, encode_len(2, b"f"))


def with_unknown(record: bytes) -> bytes:
    """The record of a node, shorter than 100 bytes, with an additional unknown field."""
    return encode_len(1, record[2:] + UNKNOWN)


def f(more: bytes = b"", in_node: bytes = b"") -> Any:
    """The function f with the field MORE, and its node with the field IN_NODE."""
    body = node("y", "Neg", ["x"], T=FLOAT)
    found = function("f", encode_len(1, body[2:] + in_node))
    return type(found).FromString(found.SerializeToString() + more)


PARTS = {
    "a": const("a", [1]),
    "b": const("b", [2]),
    "y": with_unknown(node("y", "Neg", ["a"], T=FLOAT)),
    "z": identity("z", "y"),
    "library": library(f(), function("g"), gradients={"f": "g"}),
    "more": encode_len(2, REGISTERED),
    "versions": VERSIONS,
    "unknown": UNKNOWN,
}
WHOLE = graph(*PARTS.values(), trailer=b"")


def written(text: str, **instead: bytes) -> Facts:
    """The facts of a file written from the parts named in TEXT; parts in parentheses are written again."""
    chunks: list[Chunk] = []
    for word in text.split():
        name = word.strip("()")
        if word != name:
            chunks.append(instead.get(name, PARTS[name]))
        else:
            start = sum(len(part) for other, part in PARTS.items() if [*PARTS].index(other) < [*PARTS].index(name))
            chunks.append(SourceSpan(WHOLE.source, start, start + len(PARTS[name])))
    facts = compare_written(WHOLE, chunks).facts
    assert facts == compare_written(WHOLE, [read_chunks(chunks)]).facts  # as where a text file is written
    return facts


@pytest.mark.parametrize(
    "text", ["a b y z library more versions unknown", "(a) b (y) z (library) more (versions) unknown"]
)
def test_what_is_written_as_it_was_is_the_same(text: str) -> None:
    assert written(text) == Facts()


REST = "library more versions unknown"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"a b (b) y z {REST}", "doubled b"),
        (f"a (b) b y z {REST}", "doubled b"),
        (f"a (b) (b) y z {REST}", "doubled b"),
        (f"a b y z (z) {REST}", "doubled z"),
        (f"a b b y z {REST}", "doubled b"),
        (f"a b y a b y z {REST}", "doubled y"),
        (f"a b y z {REST} a b", "doubled a"),
        (f"b a y z {REST}", "place of a"),
        (f"b (a) y z {REST}", "place of a"),
        (f"(b) a y z {REST}", "place of a"),
        (f"a y z b {REST}", "place of b"),
        (f"y z a b {REST}", "place of a"),
    ],
)
def test_nodes_that_are_written_twice_or_elsewhere(text: str, what: str) -> None:
    assert what in written(text).graph_fields


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        ("library library more unknown", "versions"),
        ("library library more versions unknown", "doubled function f"),
        ("library library more versions unknown", "doubled gradient of f"),
        ("library library versions unknown", "library"),
        ("library versions unknown", "library"),
        ("library more more versions unknown", "library"),
        ("library more versions versions unknown", "versions"),
        ("library more versions (versions) unknown", "versions"),
        ("library more unknown unknown", "versions"),
        ("library more versions", "field 900"),
        ("library more versions unknown unknown", "field 900"),
        ("library more versions unknown (unknown)", "field 900"),
    ],
)
def test_what_stands_beside_the_nodes_is_lost_or_written_twice(rest: str, what: str) -> None:
    assert what in written(f"a b y z {rest}").graph_fields


@pytest.mark.parametrize("record", [node("y", "Neg", ["a"], T=FLOAT), with_unknown(PARTS["y"])])
def test_an_unknown_field_of_a_node_is_lost_or_doubled(record: bytes) -> None:
    assert [*written(f"a b (y) z {REST}", y=record).altered["y"]] == ["other fields"]
    parts = b"".join({**PARTS, "y": record}.values())
    assert [*compare_files(WHOLE, from_bytes(parts, "other.pb")).facts.altered["y"]] == ["other fields"]


@pytest.mark.parametrize(
    ("instead", "what"),
    [
        (encode_len(2, PARTS["library"][2:] + GRADIENT), "doubled gradient of f"),
        (library(f(), function("g"), gradients={"g": "f"}), "gradient of f"),
        (library(f(), function("g")), "gradient of f"),
        (encode_len(2, PARTS["library"][2:] + UNKNOWN), "library"),
    ],
)
def test_what_a_library_has_beside_its_functions(instead: bytes, what: str) -> None:
    assert what in written("a b y z (library) more versions unknown", library=instead).graph_fields


@pytest.mark.parametrize("changed", [f(UNKNOWN), f(in_node=UNKNOWN)])
def test_an_unknown_field_of_a_function(changed: Any) -> None:
    instead = library(changed, function("g"), gradients={"f": "g"})
    parts = [SourceSpan(WHOLE.source, 0, 0), b"".join({**PARTS, "library": instead}.values())]
    comparison = compare_written(WHOLE, parts)
    assert comparison.facts.functions.changed == ["f"]
    assert comparison.inside["f"].facts != Facts()


def random_record(rng: random.Random, name: str, names: list[str]) -> bytes:
    spelt = [rng.choice(["{}", "{}", "{}:0", "{}:1", "^{}"]).format(rng.choice(names)) for _ in range(rng.randrange(4))]
    inputs = sorted(spelt, key=lambda text: text[0] == "^")
    more = {"_class": [f"loc:@{rng.choice(names)}"]} if rng.random() < 0.2 else {}
    return node(name, rng.choice(["Neg", "Mul", "Pack", f"Op{rng.randrange(3)}"]), inputs, **more)


@pytest.mark.parametrize("seed", range(40))
def test_what_was_put_together_is_compared_as_a_file_is(seed: int) -> None:
    """Two files that are made of a third have what they have copied of it in common; the rest is read."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randrange(2, 30))]
    records = {name: random_record(rng, name, names) for name in names}
    whole = graph(*records.values(), trailer=VERSIONS)
    ends = dict(zip(names, accumulate(map(len, records.values())), strict=True))

    def put_together(before: dict[str, bytes]) -> tuple[list[Chunk], dict[str, bytes]]:
        """Chunks, and the records that they spell: those BEFORE, others, and fewer."""
        chunks: list[Chunk] = []
        spelt: dict[str, bytes] = {}
        for name, record in before.items():
            kind = rng.choice(["as it was"] * 5 + ["another", "gone"])
            if kind != "gone":
                spelt[name] = record if kind == "as it was" else random_record(rng, name, names)
                is_copied = spelt[name] == records[name] and rng.random() < 0.7
                span = SourceSpan(whole.source, ends[name] - len(records[name]), ends[name])
                chunks.append(span if is_copied else spelt[name])
        return [*chunks, SourceSpan(whole.source, ends[names[-1]], whole.source.size)], spelt

    first, was = put_together(records)
    middle = Graph(ChunkSource(first, "middle.pb"))
    second, now = put_together(was)
    found = Written(middle, second)
    assert found.fresh == [name for name in now if now[name] != was[name]]
    assert [*found.lost()] == [name for name in was if now.get(name) != was[name]]
    assert found.has_same_fields
    of_files = compare_written(from_bytes(read_chunks(first)), [read_chunks(second)]).facts
    assert compare_written(middle, second).facts == of_files


def test_nodes_that_exchange_their_names_and_are_alike_have_done_so() -> None:
    found = graph(const("a", [1]), const("b", [1]), identity("y", "a"))
    found.rename({found["a"]: "b", found["b"]: "a"})
    facts = compare_written(found.pristine(), found.chunks(), {"a": "b", "b": "a"}).facts
    assert facts == Facts(renamed={"a": "b", "b": "a"})


def test_a_removed_consumer_of_a_renamed_node_is_listed_once() -> None:
    found = graph(const("a", [1]), identity("y", "a"))
    found.remove([found["y"]])
    found.rename({found["a"]: "b"})
    facts = compare_written(found.pristine(), found.chunks(), {"a": "b"}).facts
    assert facts == Facts(renamed={"a": "b"}, removed=["y"])
