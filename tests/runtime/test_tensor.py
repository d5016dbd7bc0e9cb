"""Tensors, and the form in which an engine expects them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from gdsurgeon.ops.dtypes import DTYPES, NUMBERS
from gdsurgeon.ops.elements import numpy_dtype
from gdsurgeon.runtime.compare import AS_IT_IS, CHANNELS_FIRST, OTHER_SHAPE, likeness
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


@pytest.mark.parametrize(
    ("error", "dtype", "shape", "data"),
    [
        (ValueError, "float32", (2,), b"1234"),
        (ValueError, "string", (2,), [b"a"]),
        (ValueError, "uint8", (-1, 0), b""),
        (TypeError, "variant", (), b""),
        (TypeError, "string", (), b"a"),
        (TypeError, "uint8", (1,), [b"a"]),
        (TypeError, "", (), b""),
    ],
)
def test_data_that_does_not_suit(error: type[Exception], dtype: str, shape: tuple[int, ...], data: Any) -> None:
    with pytest.raises(error):
        Tensor(NUMBERS.get(dtype, 99), shape, data)


@pytest.mark.parametrize(
    ("array", "dtype"), [(np.zeros(1, "M8[s]"), None), (np.array([object()]), None), (np.zeros(1, np.int32), "qint8")]
)
def test_arrays_that_are_no_tensors(array: Any, dtype: str | None) -> None:
    with pytest.raises(TypeError):
        from_numpy(array, NUMBERS[dtype] if dtype else None)


def test_without_ml_dtypes_words_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert numpy_dtype(NUMBERS["bfloat16"]) == np.dtype("u2")
    assert Tensor(NUMBERS["bfloat16"], (1,), b"\x80\x3f").numpy().tolist() == [0x3F80]


RNG = np.random.default_rng(0)
PICTURE = RNG.normal(size=(1, 4, 5, 3)).astype(np.float32)


def of(a: Any, b: Any, **tolerance: float) -> tuple[float | None, str, float | None]:
    found = likeness(from_numpy(a), from_numpy(b), **tolerance)
    assert found.shape == b.shape
    return found.comparison.max_abs, found.form, found.largest


def test_as_it_is() -> None:
    assert of(PICTURE, PICTURE.copy())[:2] == (0.0, AS_IT_IS)
    assert of(np.float32(2), np.array([2], np.float32))[:2] == (0.0, OTHER_SHAPE)
    assert of(np.array([1.0, -3.0], np.float32), np.array([1.0, -2.5], np.float32)) == (0.5, AS_IT_IS, 3.0)


def test_channels_first_are_turned() -> None:
    assert of(PICTURE, np.moveaxis(PICTURE, -1, 1).copy())[:2] == (0.0, CHANNELS_FIRST)
    volume = RNG.normal(size=(2, 3, 4, 5, 6))
    assert of(volume, np.moveaxis(volume, -1, 1).copy())[:2] == (0.0, CHANNELS_FIRST)
    flat = PICTURE.reshape(1, -1)
    assert of(flat, np.moveaxis(PICTURE, -1, 1).copy())[:2] == (0.0, CHANNELS_FIRST)
    assert of(flat, PICTURE.copy())[:2] == (0.0, OTHER_SHAPE)


def test_a_cube_is_taken_as_it_fits_best() -> None:
    cube = RNG.normal(size=(1, 3, 3, 3)).astype(np.float32)
    assert of(cube, cube.copy())[:2] == (0.0, AS_IT_IS)
    assert of(cube, np.moveaxis(cube, -1, 1).copy())[:2] == (0.0, CHANNELS_FIRST)


def test_a_wrong_order_is_no_likeness() -> None:
    """Tensors, and the form in which an engine expects them."""
    cube = RNG.normal(size=(1, 3, 3, 3)).astype(np.float32)
    assert (of(cube, np.swapaxes(cube, 1, 2).copy())[0] or 0.0) > 0.1
    assert (of(cube, cube[:, ::-1].copy())[0] or 0.0) > 0.1


@pytest.mark.parametrize("mine", [np.int64, np.int32, np.uint8, np.bool_, np.float64, np.float16])
def test_an_engine_that_knows_float32_alone(mine: Any) -> None:
    assert of(np.array([1, 0, 1], mine), np.array([1, 0, 1], np.float32))[0] == 0.0
    assert of(np.array([1, 0, 1], mine), np.array([1, 0.5, 1], np.float32))[0] == 0.5


def test_what_is_no_number() -> None:
    numbers = np.array([1, np.nan, np.inf], np.float32)
    assert of(numbers, numbers.copy()) == (0.0, AS_IT_IS, 1.0)
    assert of(numbers, np.array([1, 2, np.inf], np.float32))[0] == np.inf
    assert of(np.array([], np.float32), np.array([], np.float32))[2] is None


def test_other_sizes_and_strings() -> None:
    found = likeness(from_numpy(PICTURE), from_numpy(PICTURE[:, :2].copy()))
    assert found.comparison.reason and not found.comparison.close
    texts = from_numpy(np.array([b"a", b"b"], object))
    assert likeness(texts, texts).comparison.equal
    assert not likeness(texts, from_numpy(np.array([b"a", b"c"], object))).comparison.equal
    assert likeness(texts, from_numpy(PICTURE)).comparison.reason


def test_tolerances_are_of_each_element() -> None:
    a, b = (from_numpy(np.array([100.0, x], np.float32)) for x in (1.0, 1.1))
    assert not likeness(a, b, rtol=1e-3).comparison.close and likeness(a, b, atol=0.11).comparison.close
