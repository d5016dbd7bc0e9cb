"""What is said of dtypes, against TensorFlow's messages, struct and numpy."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pytest

from gdsurgeon.ops.dtypes import DTYPES, FLOATING, NUMBERS, DType, dtype_name, element_size
from gdsurgeon.wire.protos import AttrValue, TensorProto

ALL = pytest.mark.parametrize("dtype", DTYPES.values(), ids=dtype_name)


@ALL
def test_the_number_and_the_field_of_values_are_those_of_the_messages(dtype: DType) -> None:
    tensor = TensorProto(dtype=dtype)
    spelt = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}.get(dtype.name, dtype.name.upper())
    enum = AttrValue.DESCRIPTOR.fields_by_name["type"].enum_type
    assert enum.values_by_number[dtype].name == f"DT_{spelt}"
    assert tensor.dtype == int(dtype) and (not dtype.field or hasattr(tensor, dtype.field))


@ALL
def test_code_and_numpy_say_the_same(dtype: DType) -> None:
    if dtype.code:
        assert struct.calcsize(f"<{dtype.code}") == dtype.size == np.dtype(dtype.numpy).itemsize
        assert np.dtype(dtype.code) == np.dtype(dtype.numpy)
    if dtype.size and (dtype.code or dtype.is_complex or dtype.is_quantized):
        assert (np.dtype(dtype.numpy).kind, np.dtype(dtype.numpy).itemsize) == (dtype.kind, dtype.size)
    if dtype.is_integer and NUMBERS[dtype.numpy].code:
        limits = np.iinfo(dtype.numpy)
        assert dtype.bounds == (limits.min, limits.max)


@ALL
def test_a_dtype_is_its_number_to_others(dtype: DType) -> None:
    again = pickle.loads(pickle.dumps(dtype))
    assert type(again) is int and again == dtype and hash(again) == hash(dtype)
    assert DTYPES[again] is dtype is NUMBERS[dtype.name] and f"{dtype}" == str(again)


def test_kinds() -> None:
    assert {d.name for d in FLOATING} == {"float16", "bfloat16", "float32", "float64"}
    assert [d.name for d in DTYPES.values() if d.is_quantized] == ["qint8", "quint8", "qint32", "qint16", "quint16"]
    assert [d.name for d in DTYPES.values() if d.is_complex] == ["complex64", "complex128"]
    assert {d.name for d in DTYPES.values() if d.is_inexact and not d.is_complex} == {
        d.name for d in DTYPES.values() if "float" in d.name
    }
    assert {d.name for d in DTYPES.values() if d.is_integer} == {d.name for d in DTYPES.values() if "int" in d.name}
    assert element_size(999) == element_size(0) == element_size(NUMBERS["string"]) == 0
