"""What another engine gives beside what TensorFlow gives: forms, types, and what is no likeness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdsurgeon.runtime.compare import AS_IT_IS, CHANNELS_FIRST, OTHER_SHAPE, likeness
from gdsurgeon.runtime.tensor import from_numpy

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
    """Only the one turn that an engine may make is undone."""
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
