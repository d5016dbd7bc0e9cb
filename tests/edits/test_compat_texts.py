"""compat: patterns and records of tf.Example in releases that have other ops for them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.expecting import expect, refuse
from support.graphs import FLOAT, INT64, STRING, dtypes, encode_len, graph, node, placeholder, shape_proto, versions
from support.running import run

from gdsurgeon.edits.compat import compat
from gdsurgeon.proof.accounting import check_accounted

S3 = "^s3://.*"


def match(pattern: str = S3, read: str = "s", name: str = "y") -> bytes:
    return node(name, "StaticRegexFullMatch", [read], pattern=pattern)


def text(name: str, value: str) -> bytes:
    return node(name, "Const", dtype=STRING, value=texts([value.encode()], ()))


def texts(values: list[bytes], shape: tuple[int, ...]) -> bytes:
    held = b"".join(encode_len(8, value) for value in values)
    return encode_len(8, b"\x08\x07" + encode_len(2, shape_proto(shape)) + held)


def test_a_pattern_is_an_input_where_it_is_no_attr() -> None:
    before = [
        placeholder("s", STRING),
        match(".*a.b"),
        node("z", "StaticRegexReplace", ["s"], pattern="a", rewrite="b"),
    ]
    after = [
        before[0],
        node("y", "RegexFullMatch", ["s", "y/pattern"]),
        text("y/pattern", ".*a.b"),
        node("z", "RegexReplace", ["s", "z/pattern", "z/rewrite"]),
        text("z/pattern", "a"),
        text("z/rewrite", "b"),
    ]
    expect(before, lambda g: compat(g, "1.10"), after, command="compat --target 1.10", trailer=versions(26))


MATCHED = ["s3://", "s3://bucket/x", "s3:/", "", "xs3://", "S3://", "s3://a\n", "s3://a\nb", "\ns3://", "s3://\n"]


@pytest.mark.tensorflow
@pytest.mark.parametrize("pattern", [S3, "s3://.*$"])
def test_a_beginning_is_matched_without_patterns(pattern: str) -> None:
    records = [placeholder("s", STRING, ()), match(pattern)]
    found = graph(*records)
    result = compat(found, "1.4")
    check_accounted(found, result, found.chunks())
    old = graphs.graph_bytes(*records)
    answers = []
    for fed in MATCHED:
        given = np.array(fed.encode(), object)
        answers += run(found, "y", s=given)
        assert answers[-1] == run(old, "y", s=given)[0], fed
    assert answers == [True, True, *[False] * 8]


@pytest.mark.parametrize(
    ("record", "shape", "words"),
    [
        (match("a.*b.*"), (), "its pattern is not the beginning of a text"),
        (match("^s3://"), (), "its pattern is not the beginning of a text"),
        (match(), (3,), "it matches what is not known to be a single text"),
        (node("y", "RegexFullMatch", ["s", "s"]), (), "its pattern is not the beginning of a text"),
    ],
)
def test_other_patterns_are_refused(record: bytes, shape: tuple[int, ...], words: str) -> None:
    refuse(graph(placeholder("s", STRING, shape), record), words, lambda g: compat(g, "1.4"))


# -- records --------------------------------------------------------------------------------------------------


def parsing(shape: tuple[int, ...] = (-1,), ragged: bytes = b"", **attrs: Any) -> list[bytes]:
    """Two sparse features and two dense ones, one with a default."""
    keys = {"names": [], "sparse": [b"words", b"ids"], "dense": [b"x", b"y"], "ragged": []}
    out = [placeholder("s", STRING, shape)]
    out += [node(key, "Const", dtype=STRING, value=texts(held, (len(held),))) for key, held in keys.items()]
    out += [graphs.const("none", [], shape=(0,)), graphs.const("seven", [7.0], shape=(1,))]
    shapes = encode_len(1, b"".join(encode_len(7, shape_proto(shape)) for shape in ((2,), (1,))))
    wanted = {
        "Tdense": dtypes(FLOAT, FLOAT), "num_sparse": 2, "sparse_types": dtypes(STRING, INT64), "dense_shapes": shapes,
        "ragged_value_types": ragged or encode_len(1, b""), "ragged_split_types": ragged or encode_len(1, b""), **attrs,
    }  # fmt: skip
    return [*out, node("p", "ParseExampleV2", ["s", *keys, "none", "seven"], **wanted)]


def parsing_by(key: str) -> bytes:
    """The same by keys that are read from elsewhere."""
    read = ["s", "names", key, "dense", "ragged", "none", "seven"]
    shapes = encode_len(1, encode_len(7, shape_proto((2,))) + encode_len(7, shape_proto((1,))))
    return node("p", "ParseExampleV2", read, Tdense=dtypes(FLOAT, FLOAT), num_sparse=2, dense_shapes=shapes,
                sparse_types=dtypes(STRING, INT64))  # fmt: skip


def example(**features: list[Any]) -> bytes:
    """A serialised tf.Example."""
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], str):
            held = encode_len(1, b"".join(encode_len(1, value.encode()) for value in values))
        elif isinstance(values[0], float):
            held = encode_len(2, encode_len(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            held = encode_len(3, encode_len(1, bytes(values)))
        entries += encode_len(1, encode_len(1, name.encode()) + encode_len(2, held))
    return encode_len(1, entries)


@pytest.mark.tensorflow
def test_records_are_parsed_the_same() -> None:
    found = graph(*parsing())
    result = compat(found, "1.15")
    check_accounted(found, result, found.chunks())
    assert graphs.ops(found)["p"] == "ParseExample"
    assert graphs.inputs(found)["p"] == [
        "s", "names", "p/sparse_keys_0", "p/sparse_keys_1", "p/dense_keys_0", "p/dense_keys_1", "none", "seven",
    ]  # fmt: skip
    names = [f"p:{index}" for index in range(8)]
    given = [example(words=["a", "b"], ids=[3], x=[1.0, 2.0]), example(words=["c"], x=[0.5, 0.25], y=[9.0])]
    for fed in (given, given[:0]):
        rows = np.array(fed, object)
        assert run(found, *names, s=rows) == run(graphs.graph_bytes(*parsing()), *names, s=rows)


def test_what_else_is_parsed_is_refused() -> None:
    for records, words in (
        (parsing(()), "what it parses is a single one"),
        (parsing(ragged=dtypes(INT64)), "it gives ragged tensors"),
        ([placeholder("k", STRING), *parsing()[:-1], parsing_by("k")], "the names of its features are no constants"),
    ):
        refuse(graph(*records), words, lambda g: compat(g, "1.15"))
