from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.graphs import attr, dtypes, func

from gdsurgeon.graph import attrs
from gdsurgeon.graph.attrs import attr_value, functions_in, is_too_deeply_nested, kind_of, plain, shape_of, shape_value
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import AttrValue


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
