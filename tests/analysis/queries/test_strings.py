"""Strings that are baked in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import graphs
from support.graphs import STRING, func, function, graph, identity, node, placeholder

from gdsurgeon.analysis.queries.strings import LONGEST, MOST_TEXTS, Strings, as_text, baked_strings, holds_path
from gdsurgeon.graph.constants import SMALL
from gdsurgeon.graph.records import LARGE
from gdsurgeon.wire.fields import encode_len, encode_varint
from gdsurgeon.wire.protos import GraphDebugInfo


def string_tensor(items: Sequence[bytes], *, packed: bool = False) -> bytes:
    """An AttrValue that holds a tensor of strings."""
    values = b"".join(encode_len(8, item) for item in items)
    if packed:
        values = encode_len(4, b"".join(encode_varint(len(item)) for item in items) + b"".join(items))
    return encode_len(8, b"\x08\x07" + encode_len(2, graphs.shape_proto([len(items)])) + values)


def strings(name: str, *items: str | bytes, packed: bool = False) -> bytes:
    encoded = [item.encode() if isinstance(item, str) else item for item in items]
    return node(name, "Const", dtype=STRING, value=string_tensor(encoded, packed=packed))


@pytest.mark.parametrize(
    "text",
    [
        "/home/bob/train/img_0001.jpg",
        "/a/b",
        "/a/b/",
        "~/data",
        "./x",
        "../x/y",
        "C:\\Users\\bob\\x",
        "D:/data/x.txt",
        "\\\\server\\share",
        "data/train/img.jpg",
        "my data/img 1.JPEG",
        "train\\img.png",
        "img_0001.png",
        "vocab.txt",
        "gs://bucket/model",
        "s3://b/x",
        "https://example.org/x",
        "file:///etc/passwd",
        "hash_table_/home/bob/vocab.txt_-2_-1",
        "cannot open /mnt/data/x: why?",
        "see http://example.org",
    ],
)
def test_paths(text: str) -> None:
    assert holds_path(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "cat",
        "and/or",
        "image/jpeg",
        "while/while_context",
        "enc/var/while_context",
        "model/data/x",
        "/job:worker/task:0/device:CPU:0",
        "/device:GPU:0",
        "a.b.c",
        "1.5",
        "...",
        ".txt",
        "Condition x == y did not hold element-wise:",
        "x (layer/assert_equal/x:0) = ",
        "loc:@a/b",
        "e.g. this",
        "12:30",
    ],
)
def test_no_paths(text: str) -> None:
    assert not holds_path(text)


def test_looking_for_paths_takes_linear_time() -> None:
    for text in ["a\\" * 2000, "a/" * 2000, "/a" * 2000 + ":", "a." * 2000, ":" * 4000, "/home" * 800, " " * 4000]:
        holds_path(text)


def test_text_and_binary() -> None:
    assert as_text("grün\t\n".encode()) == "grün\t\n"
    assert as_text("▁the 猫 👩‍💻".encode()) == "▁the 猫 👩‍💻"
    for data in [b"\x00", b"a\x01b", b"\xff\xfe", b"\x1b[2J", b"\xc2\x9b", "ü".encode()[:1]]:
        assert as_text(data) is None
    assert as_text(b"") == ""
    cut = as_text(b"a" * (LONGEST - 1) + "ü".encode() * 10)
    assert cut == "a" * (LONGEST - 1)


def test_paths_come_first() -> None:
    found = baked_strings(
        graph(
            strings("labels", "cat", "dog"),
            strings("files", "/home/bob/a.jpg", "cat"),
            strings("empty", "", ""),
            placeholder("x"),
        )
    )
    assert found == [
        Strings("files", "", "value", True, 2, ["/home/bob/a.jpg"], ["cat"]),
        Strings("labels", "", "value", True, 2, [], ["cat", "dog"]),
    ]


def test_all_paths_are_kept_and_of_texts_a_few() -> None:
    (found,) = baked_strings(graph(strings("v", *(f"{i}.jpg" for i in range(500)), *(f"w{i}" for i in range(500)))))
    assert (found.count, len(found.paths), len(found.texts)) == (1000, 500, MOST_TEXTS)


def test_binary_is_counted_only() -> None:
    (found,) = baked_strings(graph(strings("v", b"\x89PNG\x00", b"\xff", "ok")))
    assert (found.count, found.binary, found.texts) == (1, 2, ["ok"])


def test_attrs_that_say_something() -> None:
    found = baked_strings(
        graph(
            node("a", "MyOp", padding="SAME", note="built by bob", where="/home/bob/x", frame_name="w/while_context"),
            node(
                "b", "MyOp", many=["NHWC", "a b"], config=encode_len(2, b"\n\x07\n\x03CPU \x10"), shared_name="t_/tmp/v"
            ),
            node("c", "MyOp", ["^a"], _class=["loc:@a b"]),
        )
    )
    assert [(s.node, s.attr, s.is_tensor, s.paths, s.texts) for s in found] == [
        ("a", "where", False, ["/home/bob/x"], []),
        ("b", "shared_name", False, ["t_/tmp/v"], []),
        ("a", "note", False, [], ["built by bob"]),
        ("b", "many", False, [], ["a b"]),
    ]


def test_functions() -> None:
    body = [strings("files", "a.jpg"), node("y", "Identity", ["x"], T=graphs.FLOAT)]
    library = graphs.library(function("f", *body))
    (found,) = baked_strings(graph(placeholder("x"), node("c", "MyOp", f=func("f")), trailer=library + graphs.VERSIONS))
    assert (found.node, found.function, found.paths) == ("files", "f", ["a.jpg"])


@pytest.mark.parametrize("packed", [False, True])
def test_large_tensors_are_taken_apart_without_being_read_whole(packed: bool) -> None:
    items = [f"/data/{i:06}.jpg" for i in range(10_000)]
    record = strings("files", *items, packed=packed)
    assert len(record) > LARGE
    (found,) = baked_strings(graph(record, identity("y", "files", kind=STRING)))
    assert (found.is_tensor, found.paths) == (True, items)


def test_strings_that_are_packed_into_a_huge_piece_are_not_looked_into() -> None:
    (found,) = baked_strings(graph(strings("files", "x" * SMALL, packed=True)))
    assert (found.count, found.unread_bytes) == (0, SMALL + 3)


def test_tensors_of_other_dtypes_are_left_alone() -> None:
    assert baked_strings(graph(graphs.const("c", [1.0] * 100_000), graphs.const("d", [1.0]))) == []


def test_debug_info() -> None:
    info = GraphDebugInfo(files=["/home/bob/train.py", "model.py"])
    debug = encode_len(5, info.SerializeToString())
    (found,) = baked_strings(graph(placeholder("x"), trailer=graphs.VERSIONS + debug))
    assert (found.node, found.attr, found.paths) == ("", "debug_info", ["/home/bob/train.py", "model.py"])


def test_what_is_corrupt_does_not_hide_the_rest() -> None:
    broken = node("a", "MyOp", bad=b"\x42\x7f", worse=b"\x32\x7f", note="built by bob")
    found = baked_strings(graph(broken, strings("files", "a.jpg"), node("b", "MyOp", xs=["a b", "c d"])))
    assert [(s.node, s.attr, s.paths or s.texts) for s in found] == [
        ("files", "value", ["a.jpg"]), ("a", "note", ["built by bob"]), ("b", "xs", ["a b", "c d"])
    ]  # fmt: skip
