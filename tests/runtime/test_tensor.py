from __future__ import annotations

import numpy as np
import pytest

from gdsurgeon.ops.dtypes import DTYPES, NUMBERS
from gdsurgeon.ops.numpy_dtypes import numpy_dtype
from gdsurgeon.runtime.tensor import Tensor, from_numpy

FIXED = [n for n, d in DTYPES.items() if d.size]


@pytest.mark.parametrize("number", FIXED, ids=lambda n: DTYPES[n].name)
def test_every_dtype_survives_numpy(number: int) -> None:
    size = DTYPES[number].size
    tensor = Tensor(number, (2, 3), bytes(range(6)) * size if DTYPES[number].kind != "b" else b"\0\1\0\1\1\1")
    array = tensor.numpy()
    assert array.shape == (2, 3) and array.dtype.itemsize == size
    assert from_numpy(array, number).tobytes() == tensor.tobytes()


def test_small_floats_are_numbers() -> None:
    pytest.importorskip("ml_dtypes")
    tensor = Tensor(NUMBERS["bfloat16"], (2,), np.array([0x3F80, 0xC000], "u2").tobytes())
    assert tensor.numpy().astype(float).tolist() == [1.0, -2.0]
    assert from_numpy(tensor.numpy()).dtype == NUMBERS["bfloat16"]


@pytest.mark.parametrize("shape", [(), (0,), (0, 2), (2, 0, 3), (4,), (2, 2)])
def test_shapes(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)
    tensor = from_numpy(array)
    assert tensor.shape == shape and tensor.nbytes == array.nbytes
    assert np.array_equal(tensor.numpy(), array) and tensor.numpy().shape == shape


def test_array_that_is_neither_contiguous_nor_native() -> None:
    array = np.arange(12, dtype=">i4").reshape(3, 4).T
    tensor = from_numpy(array)
    assert tensor.dtype == NUMBERS["int32"] and np.array_equal(tensor.numpy(), array)


def test_strings() -> None:
    tensor = from_numpy(np.array([["a", "ö"], ["", "b"]]))
    assert tensor.data == [b"a", "ö".encode(), b"", b"b"] and tensor.shape == (2, 2)
    assert tensor.nbytes == 4 and tensor.numpy().tolist() == [[b"a", "ö".encode()], [b"", b"b"]]
    joined = from_numpy(np.array([["aö", ""], ["", "b"]]))
    assert joined.tobytes() != tensor.tobytes()


@pytest.mark.parametrize("text", [b"ends in zeros\0\0", "text"])
def test_scalar_string(text: object) -> None:
    array = np.empty((), object)
    array[()] = text
    assert from_numpy(array).data == [text if isinstance(text, bytes) else b"text"]


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"4 bytes do not fill float32 of shape \[2\]"):
        Tensor(NUMBERS["float32"], (2,), b"1234")
    with pytest.raises(ValueError, match="1 strings do not fill"):
        Tensor(NUMBERS["string"], (2,), [b"a"])
    with pytest.raises(ValueError, match="negative"):
        Tensor(NUMBERS["uint8"], (-1, 0), b"")
    with pytest.raises(TypeError, match="variant has no value"):
        Tensor(NUMBERS["variant"], (), b"")
    with pytest.raises(TypeError):
        Tensor(NUMBERS["string"], (), b"a")
    with pytest.raises(TypeError):
        Tensor(NUMBERS["uint8"], (1,), [b"a"])
    with pytest.raises(TypeError, match="no element type"):
        from_numpy(np.zeros(1, "M8[s]"))
    with pytest.raises(TypeError, match="must hold strings"):
        from_numpy(np.array([object()]))
    with pytest.raises(TypeError, match="cannot stand for"):
        from_numpy(np.zeros(1, np.int32), NUMBERS["qint8"])


def test_without_ml_dtypes_words_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert numpy_dtype(NUMBERS["bfloat16"]) == np.dtype("u2")
    assert Tensor(NUMBERS["bfloat16"], (1,), b"\x80\x3f").numpy().tolist() == [0x3F80]
