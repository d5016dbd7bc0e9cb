"""compat: patterns and records of tf.Example in releases that have other ops for them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.expecting import expect
from support.graphs import FLOAT, INT64, STRING, const, dtypes, encode_len, node, placeholder, versions
from support.older import check_reason, same
from support.running import run

from gdsurgeon.edits.compat import compat

S3 = "^s3://.*"


def match(pattern: str = S3, read: str = "s", name: str = "y") -> bytes:
    return node(name, "StaticRegexFullMatch", [read], pattern=pattern)


def test_a_pattern_is_an_input_where_it_is_no_attr() -> None:
    before = [
        placeholder("s", STRING),
        match(".*a.b"),
        node("z", "StaticRegexReplace", ["s"], pattern="a", rewrite="b"),
    ]
    after = [
        before[0],
        node("y", "RegexFullMatch", ["s", "y/pattern"]),
        const("y/pattern", ".*a.b", STRING),
        node("z", "RegexReplace", ["s", "z/pattern", "z/rewrite"]),
        const("z/pattern", "a", STRING),
        const("z/rewrite", "b", STRING),
    ]
    expect(before, lambda g: compat(g, "1.10"), after, command="compat --target 1.10", trailer=versions(26))


MATCHED = ["s3://", "s3://bucket/x", "s3:/", "", "xs3://", "S3://", "s3://a\n", "s3://a\nb", "\ns3://", "s3://\n"]


@pytest.mark.tensorflow
@pytest.mark.parametrize("pattern", [S3, "s3://.*$"])
def test_a_beginning_is_matched_without_patterns(pattern: str) -> None:
    records = [placeholder("s", STRING, ()), match(pattern)]
    found = same(records, "1.4", "y", feeds=[{"s": np.array(fed.encode(), object)} for fed in MATCHED])
    answers = [run(found, "y", s=np.array(fed.encode(), object))[0] for fed in MATCHED]
    assert answers == [True, True, *[False] * 8]


@pytest.mark.parametrize(
    ("record", "shape", "code"),
    [
        (match("a.*b.*"), (), "not-a-prefix"),
        (match("^s3://"), (), "not-a-prefix"),
        (match(), (3,), "shape-unknown"),
        (node("y", "RegexFullMatch", ["s", "s"]), (), "not-a-prefix"),
    ],
)
def test_other_patterns_are_refused(record: bytes, shape: tuple[int, ...], code: str) -> None:
    check_reason([placeholder("s", STRING, shape), record], "1.4", code)


# -- records --------------------------------------------------------------------------------------------------


def parsing(shape: tuple[int, ...] = (-1,), ragged: Sequence[bytes] = (), **attrs: Any) -> list[bytes]:
    """Two sparse features and two dense ones, one with a default."""
    keys = {"names": [], "sparse": ["words", "ids"], "dense": ["x", "y"], "ragged": []}
    out = [placeholder("s", STRING, shape)]
    out += [const(key, held, STRING) for key, held in keys.items()]
    out += [const("none", []), const("seven", [7.0])]
    wanted = {
        "Tdense": dtypes(FLOAT, FLOAT), "num_sparse": 2, "sparse_types": dtypes(STRING, INT64),
        "dense_shapes": [(2,), (1,)], "ragged_value_types": [*ragged], "ragged_split_types": [*ragged], **attrs,
    }  # fmt: skip
    return [*out, node("p", "ParseExampleV2", ["s", *keys, "none", "seven"], **wanted)]


def parsing_by(key: str) -> bytes:
    """The same by keys that are read from elsewhere."""
    read = ["s", "names", key, "dense", "ragged", "none", "seven"]
    return node("p", "ParseExampleV2", read, Tdense=dtypes(FLOAT, FLOAT), num_sparse=2, dense_shapes=[(2,), (1,)],
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
    given = [example(words=["a", "b"], ids=[3], x=[1.0, 2.0]), example(words=["c"], x=[0.5, 0.25], y=[9.0])]
    feeds = [{"s": np.array(fed, object)} for fed in (given, given[:0])]
    found = same(parsing(), "1.15", *(f"p:{index}" for index in range(8)), feeds=feeds)
    assert graphs.ops(found)["p"] == "ParseExample"
    assert graphs.inputs(found)["p"] == [
        "s", "names", "p/sparse_keys_0", "p/sparse_keys_1", "p/dense_keys_0", "p/dense_keys_1", "none", "seven",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "code", "facts"),
    [
        (parsing(()), "wrong-shape", {"shape": ()}),
        (parsing(ragged=[INT64]), "ragged-output", {}),
        ([placeholder("k", STRING), *parsing()[:-1], parsing_by("k")], "not-a-constant", {}),
    ],
)
def test_what_else_is_parsed_is_refused(records: list[bytes], code: str, facts: dict[str, Any]) -> None:
    check_reason(records, "1.15", code, **facts)
