"""Names of nodes and tensors, and values of attributes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.desk import check_error
from support.graphs import attr, dtypes, func

from gdsurgeon.errors import EditError
from gdsurgeon.graph import attrs
from gdsurgeon.graph.attrs import attr_value, functions_in, is_too_deeply_nested, kind_of, plain, shape_of, shape_value
from gdsurgeon.graph.names import (
    InputRef,
    UniqueNames,
    format_input,
    in_scope,
    is_valid_name,
    parse_input,
    parse_tensor,
    scope_prefix,
)
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import AttrValue


@pytest.mark.parametrize(
    "name", ["a", "A", "0", ".", ".a", "a_b", "a-b", "a/b/c", "a.b", "a/", "a>b", "a>.b/c-d", "a//b", "a" * 10_000]
)
def test_legal_names(name: str) -> None:
    assert is_valid_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "_a", "-a", "/a", ">a", "^a", "a:0", "a b", " a", "a ", "a\n", "a\x00", "é", "aé", "a>", "a>_b", "a>/b",
        "a>>b", "a\\b", "a^b", "a,b", "a=b", "٣",
    ],
)  # fmt: skip
def test_illegal_names(name: str) -> None:
    assert not is_valid_name(name)


@pytest.mark.parametrize(
    "text", ["", "^", ":", ":0", "a:", "a:x", "a:-1", "a:01", "a:0:1", "^a:0", "a: 1", "a:1 ", "a:9999999999", "a:1\n"]
)
def test_what_is_no_input_is_none(text: str) -> None:
    assert parse_input(text) is None


@given(st.sampled_from("abcxyz"), st.text("abcxyz/_", max_size=5), st.integers(-1, 50))
def test_formatting_and_parsing_are_inverse(first: str, rest: str, port: int) -> None:
    node = first + rest
    assert parse_input(format_input(node, port)) == InputRef(node, port)


@pytest.mark.parametrize("text", ["^b", "b:0:1", "", "b:", "b:x"])
def test_what_is_no_tensor_is_refused(text: str) -> None:
    with pytest.raises(EditError) as caught:
        parse_tensor(text)
    check_error(caught.value, "bad-tensor-name", {"tensor": text})


def test_scopes() -> None:
    assert [scope_prefix(s) for s in ("", "/", "a", "a/", "/a/b/")] == ["", "", "a/", "a/", "a/b/"]
    assert in_scope("foo", "foo")
    assert in_scope("foo/b", "foo/")
    assert in_scope("foo/bar/e", "foo/bar")
    assert not in_scope("foobar", "foo")
    assert not in_scope("axb/y", "a.b")
    assert in_scope("anything", "")


def test_unique_names() -> None:
    taken = {"a", "a_1", "b_1"}
    unique = UniqueNames(taken.__contains__)
    assert [unique("a"), unique("a"), unique("b"), unique("b"), unique("a_1"), unique("c")] == [
        "a_2", "a_3", "b", "b_2", "a_1_1", "c",
    ]  # fmt: skip


@given(st.sets(st.sampled_from(["a", "a_1", "a_2", "b", "a_1_1"])), st.lists(st.sampled_from(["a", "b", "a_1", "c"])))
def test_unique_names_are_never_given_twice(taken: set[str], wanted: list[str]) -> None:
    unique = UniqueNames(taken.__contains__)
    given_out = [unique(name) for name in wanted]
    assert len(set(given_out)) == len(given_out)
    assert not taken & set(given_out)
    assert all(new == old or new.startswith(old + "_") for old, new in zip(wanted, given_out, strict=True))


def test_many_requests_for_one_name_take_constant_time_each() -> None:
    taken = {"a"}
    asked = 0

    def is_taken(name: str) -> bool:
        nonlocal asked
        asked += 1
        return name in taken

    unique = UniqueNames(is_taken)
    for _ in range(5000):
        unique("a")
    assert asked < 15_000


def nested(depth: int) -> bytes:
    value = attr(5)
    for _ in range(depth):
        value = encode_len(10, encode_len(1, b"f") + encode_len(2, encode_len(1, b"k") + encode_len(2, value)))
    return value


@pytest.mark.parametrize(
    ("data", "kind", "value"),
    [
        (attr(5), "int", 5),
        (attr(-5), "int", -5),
        (attr(True), "bool", True),
        (attr(0.5), "float", 0.5),
        (attr("text"), "string", b"text"),
        (graphs.FLOAT, "type", 1),
        (attr((1, -1)), "shape", None),
        (attr(["a", "b"]), "list(string)", [b"a", b"b"]),
        (dtypes(graphs.FLOAT, graphs.INT32), "list(type)", [1, 3]),
        (encode_len(1, b""), "list()", []),
        (graphs.tensor([1]), "tensor", None),
        (func("f"), "func", None),
        (encode_len(1, encode_len(9, encode_len(1, b"f"))), "list(func)", []),
        (encode_len(9, b"x"), "placeholder", None),
        (b"", "", None),
    ],
)
def test_kinds_and_plain_values(data: bytes, kind: str, value: Any) -> None:
    assert kind_of(attr_value(data)) == kind
    if kind != "list(func)":
        assert plain(attr_value(data)) == value


@pytest.mark.parametrize("shape", [None, (), (0,), (1, 2), (-1, 3)])
def test_shapes(shape: tuple[int, ...] | None) -> None:
    assert shape_of(shape_value(shape).shape) == shape
    assert shape_value(shape).WhichOneof("value") == "shape"
    assert shape_of(attr_value(attr(shape)).shape) == shape


def test_functions_inside_functions_are_found() -> None:
    inner = encode_len(1, b"".join(encode_len(9, encode_len(1, n)) for n in (b"a", b"b")))
    found = functions_in(attr_value(func("outer", g=func("middle", h=inner))))
    assert sorted(f.name for f in found) == ["a", "b", "middle", "outer"]
    assert functions_in(attr_value(attr(5))) == []


def test_what_protobuf_cannot_read_for_its_depth_is_said_to_be_too_deep() -> None:
    from google.protobuf.message import DecodeError

    for depth in range(1, 60):
        try:
            AttrValue.FromString(nested(depth))
            readable = True
        except DecodeError:
            readable = False
        if not readable:
            assert is_too_deeply_nested(nested(depth))
        if depth <= attrs.MAX_FUNCTION_NESTING:
            assert not is_too_deeply_nested(nested(depth))
    assert is_too_deeply_nested(nested(2000))


def test_what_is_no_attr_is_not_too_deep() -> None:
    assert not is_too_deeply_nested(b"\x52\x05ab")
    assert not is_too_deeply_nested(attr(["a\x0a\x05", "\x12\x02"]))
