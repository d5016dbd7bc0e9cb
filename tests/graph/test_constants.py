from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import graphs
from support.graphs import const, graph, node

from gdsurgeon.graph.constants import SMALL, Constant, TensorHeader, constant, constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import AttrValue, TensorProto
from gdsurgeon.wire.source import BytesSource

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


def test_an_unknown_rank() -> None:
    tensor = tensor_of(1, ())
    tensor.tensor_shape.unknown_rank = True
    found = const_of(tensor)["c"]
    assert constant_header(found) == TensorHeader(1, None, 0, 0)
    assert constant(found) is None


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
