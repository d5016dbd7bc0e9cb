"""Small files that ask for much: memory and time are bounded by the size of the file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import graphs
from support.desk import check_error
from support.patience import LONG_ENOUGH, within
from support.system import within_memory

from gdsurgeon.errors import InputError
from gdsurgeon.wire.text import LONG, to_binary

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
