"""Names of nodes and tensors, values of attributes, and values of constants."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import graphs
from support.desk import check_raised
from support.graphs import attr, const, dtypes, func, graph, node

from gdsurgeon.errors import EditError
from gdsurgeon.graph import attrs
from gdsurgeon.graph.attrs import attr_value, functions_in, is_too_deeply_nested, kind_of, plain, shape_of, shape_value
from gdsurgeon.graph.constants import SMALL, Constant, TensorHeader, constant, constant_header
from gdsurgeon.graph.graph import Graph
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
from gdsurgeon.wire.protos import AttrValue, TensorProto
from gdsurgeon.wire.source import BytesSource


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
    check_raised(EditError, "bad-tensor-name", lambda: parse_tensor(text), tensor=text)


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


NUMPY = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 9: "<i8", 10: "?", 17: "<u2", 19: "<f2",
         22: "<u4", 23: "<u8"}  # fmt: skip


def const_of(tensor: Any) -> Graph:
    value = AttrValue(tensor=tensor).SerializeToString()
    return graph(node("c", "Const", dtype=graphs.dtype(tensor.dtype), value=value))


def tensor_of(dtype: int, dims: tuple[int, ...], **fields: Any) -> Any:
    out = TensorProto(dtype=dtype, **fields)
    out.tensor_shape.SetInParent()
    for size in dims:
        out.tensor_shape.dim.add(size=size)
    return out


@given(st.sampled_from(sorted(NUMPY)), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 1 << 30))
def test_content_decodes_as_numpy_has_it(dtype: int, dims: list[int], seed: int) -> None:
    count = int(np.prod(dims, dtype=int))
    assume(count)
    array = np.random.RandomState(seed).randint(0, 100, count).astype(NUMPY[dtype]).reshape(dims)
    found = constant(const_of(tensor_of(dtype, tuple(dims), tensor_content=array.tobytes()))["c"])
    assert found == Constant(dtype, tuple(dims), array.ravel().tolist())


@pytest.mark.parametrize(
    ("tensor", "values"),
    [
        (tensor_of(1, (3,), float_val=[1.5, 2.5, 3.5]), [1.5, 2.5, 3.5]),
        (tensor_of(1, (2, 2), float_val=[1.5]), [1.5] * 4),
        (tensor_of(1, (4,), float_val=[1.0, 2.0]), [1.0, 2.0, 2.0, 2.0]),
        (tensor_of(3, (), int_val=[-7]), [-7]),
        (tensor_of(9, (2,), int64_val=[-1, 1 << 40]), [-1, 1 << 40]),
        (tensor_of(10, (2,), bool_val=[True]), [True, True]),
        (tensor_of(7, (2,), string_val=[b"a", b"\xff"]), [b"a", b"\xff"]),
        (tensor_of(7, (2,)), [b"", b""]),
        (tensor_of(3, (2,)), [0, 0]),
        (tensor_of(4, (2,), int_val=[255, 3]), [255, 3]),
        (tensor_of(23, (1,), uint64_val=[(1 << 64) - 1]), [(1 << 64) - 1]),
        (tensor_of(2, (1,), double_val=[0.1]), [0.1]),
        (tensor_of(1, (0,)), []),
        (tensor_of(19, (0,)), []),
        (tensor_of(19, (2,), half_val=[0x3C00, 0x4000]), [1.0, 2.0]),
    ],
)
def test_values_one_by_one_and_their_filling(tensor: Any, values: list[Any]) -> None:
    found = constant(const_of(tensor)["c"])
    assert found is not None
    assert found.values == values


@pytest.mark.parametrize(
    "tensor",
    [
        tensor_of(1, (2,), tensor_content=b"1234567"),
        tensor_of(1, (2,), float_val=[1, 2, 3]),
        tensor_of(14, (2,), half_val=[1, 2]),
        tensor_of(8, (1,), scomplex_val=[1, 2]),
        tensor_of(1, (-1,), float_val=[1]),
        tensor_of(1, (1 << 40,), float_val=[1]),
        tensor_of(1, (1 << 40, 1 << 40), float_val=[1]),
        tensor_of(7, (SMALL,), string_val=[b"a"]),
    ],
)
def test_what_is_not_decoded(tensor: Any) -> None:
    assert constant(const_of(tensor)["c"]) is None


def test_what_is_no_constant() -> None:
    found = graph(node("p", "Placeholder", dtype=graphs.FLOAT), node("c", "Const", dtype=graphs.FLOAT),
                  node("broken", "Const", value=encode_len(8, b"\x0a")), node("other", "Const", value=5))  # fmt: skip
    assert [constant(n) for n in found.nodes()] == [None] * 4
    assert [constant_header(n) for n in found.nodes()] == [None] * 4


@given(
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from(
        [
            (1, "float_val", [1.0, 2.0, 3.0], 3),
            (3, "int_val", [1, -1, 300, 0], 4),
            (7, "string_val", [b"", b"abc"], 2),
            (8, "scomplex_val", [1.0, 2.0, 3.0, 4.0], 2),
            (18, "dcomplex_val", [1.0, 2.0], 1),
            (9, "int64_val", [-5, 1 << 50], 2),
            (10, "bool_val", [True, False, True], 3),
            (19, "half_val", [1, 2, 60000], 3),
            (1, "tensor_content", b"12345", 0),
        ]
    ),
)
def test_a_header_counts_what_is_there(dims: list[int], values: tuple[int, str, Any, int]) -> None:
    dtype, field, content, count = values
    found = constant_header(const_of(tensor_of(dtype, tuple(dims), **{field: content}))["c"])
    size = len(content) if field == "tensor_content" else 0
    assert found == TensorHeader(dtype, tuple(dims), size, count)
    assert found.elements == np.prod(dims, dtype=int)


def test_values_that_are_not_packed_are_counted() -> None:
    tensor = b"\x08\x01" + encode_len(2, b"") + b"".join(b"\x2d" + struct.pack("<f", i) for i in range(3))
    found = graph(node("c", "Const", value=encode_len(8, tensor)))["c"]
    assert constant_header(found) == TensorHeader(1, (), 0, 3)
    ints = b"\x08\x03" + encode_len(2, b"") + b"\x38\x05" * 4
    found = graph(node("c", "Const", value=encode_len(8, ints)))["c"]
    assert constant_header(found) == TensorHeader(3, (), 0, 4)


class Counted(BytesSource):
    """Counts the bytes that are read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.count = 0

    def read(self, offset: int, size: int) -> bytes:
        self.count += size
        return super().read(offset, size)


def test_the_header_of_a_big_constant_is_read_without_its_content() -> None:
    source = Counted(const("small", [1]) + const("big", [1.0] * 5_000_000))
    found = Graph(source)["big"]
    source.count = 0
    assert constant_header(found) == TensorHeader(1, (5_000_000,), 20_000_000, 0)
    assert constant(found) is None
    assert source.count < 50_000


def test_a_constant_that_an_edit_has_set() -> None:
    found = graph(const("c", [1, 2]))
    found.set_attr(found["c"], "value", graphs.tensor([5.0]))
    assert constant(found["c"]) == Constant(1, (1,), [5.0])
    added = found.add("d", "Const", attrs={"dtype": graphs.FLOAT, "value": graphs.tensor([7.0])})
    assert constant(added) == Constant(1, (1,), [7.0])
