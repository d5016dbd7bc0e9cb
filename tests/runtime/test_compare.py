"""Comparison and statistics of tensors."""

from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.patience import LONG_ENOUGH

from gdsurgeon.ops.dtypes import DTYPES, NUMBERS
from gdsurgeon.runtime import compare as module
from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.compare import Comparison, Statistics, compare, statistics
from gdsurgeon.runtime.tensor import Tensor, from_numpy


def both(x: Any, y: Any, dtype: Any = np.float32, **tolerance: float) -> Comparison:
    a, b = from_numpy(np.array(x, dtype)), from_numpy(np.array(y, dtype))
    forth, back = compare(a, b, **tolerance), compare(b, a, **tolerance)
    assert forth == back._replace(largest=forth.largest)
    return forth


def test_equal() -> None:
    assert both([1, 2], [1, 2]) == Comparison(True, True, None, 0.0, 0, 2, 0.0)
    assert both([], []).equal


def test_equal_numbers_are_compared_without_numpy() -> None:
    code = (
        "import sys; from gdsurgeon.runtime.compare import compare; from gdsurgeon.runtime.tensor import Tensor\n"
        "x = Tensor(1, (2,), memoryview(bytes(8)))\n"
        "found = compare(x, x); sys.exit(not found.equal or found.nan or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_dtype_and_shape() -> None:
    a, b = from_numpy(np.zeros(2, "f4")), from_numpy(np.zeros((2, 1), "f4"))
    for found in (compare(a, b), compare(a, from_numpy(np.zeros(2, "i4")))):
        assert found.reason and found.max_abs is None and not found.equal and not found.close


def test_distances() -> None:
    found = both([1, 2, 4], [1, 2.5, 5], np.float64)
    assert (found.equal, found.close, found.differing, found.count) == (False, False, 2, 3)
    assert found.max_abs == 1.0
    assert found.needed == pytest.approx(1 / 6)
    assert both([1, 2, 4], [1, 2.5, 5], np.float64, atol=0.17, rtol=0.17).close
    assert not both([1, 2, 4], [1, 2.5, 5], np.float64, atol=0.16, rtol=0.16).close


def test_nan_equals_nan_whatever_its_bits() -> None:
    words = np.array([0x7FC00000, 0x3F800000], "u4")
    other = np.array([0xFFC00001, 0x3F800000], "u4")
    found = compare(from_numpy(words.view("f4")), from_numpy(other.view("f4")))
    assert found == Comparison(True, True, None, 0.0, 0, 2, 0.0)
    found = both([math.nan, 1], [1, math.nan], atol=1e30)
    assert not found.close and found.max_abs == math.inf and found.needed is None


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_that_all_is_nan_is_told(dtype: str) -> None:
    nan = math.nan
    assert both([nan, nan], [nan, nan], dtype).nan
    assert not both([nan, 1], [nan, 1], dtype).nan
    assert not both([1, nan], [1, nan], dtype).nan
    assert not both([nan, nan], [nan, 1], dtype).nan
    assert not both([], [], dtype).nan and not both([1], [1], "i4").nan
    words = np.array([0x7FC00000, 0xFFC00001], "u4").view("f4")
    assert compare(from_numpy(words), from_numpy(words[::-1].copy())).nan


def test_infinities() -> None:
    assert both([math.inf, 1], [math.inf, 1.5], atol=1).close
    assert not both([math.inf], [-math.inf], atol=1e30, rtol=1).close
    assert not both([math.inf], [1], rtol=1).close


def test_signed_zero_differs_by_nothing() -> None:
    found = both([0.0], [-0.0])
    assert not found.equal and found.close and found.differing == 1
    assert found.max_abs == found.needed == 0.0


def test_integers_are_exact_and_do_not_overflow() -> None:
    found = both([0, 255], [0, 0], np.uint8, atol=300)
    assert not found.close and found.max_abs == 255 and found.differing == 1 and found.needed is None
    assert both([-(2**63)], [2**63 - 1], np.int64).max_abs == float(2**64 - 1)
    assert both([2**63], [2**63 + 1], np.uint64).differing == 1
    assert both([True, False], [True, True], bool).max_abs == 1.0


def test_strings() -> None:
    found = both(["a", "b"], ["a", "c"], object)
    assert found == Comparison(False, False, None, None, 1, 2, None)
    assert both(["a"], ["a"], object).equal


def test_complex_and_half_and_small() -> None:
    assert both([1 + 1j], [1 + 4j], np.complex64, atol=3).max_abs == pytest.approx(3)
    assert both([1, 2], [1, 2.5], np.float16).max_abs == 0.5
    pytest.importorskip("ml_dtypes")
    one, two = (Tensor(NUMBERS["bfloat16"], (1,), word) for word in (b"\x80\x3f", b"\x00\x40"))
    assert compare(one, two).max_abs == 1.0
    a, b = (Tensor(NUMBERS["int4"], (1,), word) for word in (b"\x01", b"\x07"))
    assert compare(a, b).max_abs == 6.0
    a, b = (Tensor(NUMBERS["qint8"], (1,), word) for word in (b"\x80", b"\x7f"))
    assert compare(a, b).max_abs == 255.0


def test_the_largest_of_all_elements_is_told_where_some_differ() -> None:
    assert both([1, -8, math.inf], [1.5, -8, math.inf]).largest == 8
    assert both([1, -8], [1, -8]).largest == 0
    assert compare(from_numpy(np.float32([math.nan, 2])), from_numpy(np.float32([3, 2]))).largest == 2


@pytest.mark.parametrize("channels", [-3, -2, -1, 1, 2])
@pytest.mark.parametrize("elements", [1, 7, 1000])
def test_a_channel_is_measured_by_its_own_largest(
    channels: int, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ELEMENTS", elements)
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32) + 3
    others = tuple(axis for axis in range(3) if axis != channels % 3)
    x[np.abs(x) == np.abs(x).max(axis=others, keepdims=True)] *= np.float32(1000)
    y = x.copy()
    y[1, 2, 3] *= np.float32(1.25)
    gap, most = (np.abs(each).max(axis=others) for each in (x.astype(float) - y, x))
    a, b = from_numpy(x), from_numpy(y)
    assert compare(a, b, channels=channels).channel_part == pytest.approx((gap / most).max())
    y[2, 0, 0] = math.nan
    assert compare(a, from_numpy(y), channels=channels).channel_part == math.inf
    x[2, 0, 0] = math.nan
    assert compare(from_numpy(x), from_numpy(y), channels=channels).channel_part == pytest.approx((gap / most).max())


def test_channels_where_one_is_all_zeros_or_infinite() -> None:
    x, y = np.float32([[0, 1, math.inf], [0, 2, 1]]), np.float32([[0, 1, math.inf], [0, 2.5, 1]])
    assert compare(from_numpy(x), from_numpy(y), channels=1).channel_part == pytest.approx(0.25)
    y[0, 2] = -math.inf
    assert compare(from_numpy(x), from_numpy(y), channels=1).channel_part == math.inf


WAIT = LONG_ENOUGH


def of(values: Any, dtype: Any = np.float32) -> Statistics:
    return statistics(from_numpy(np.array(values, dtype)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats(dtype: Any) -> None:
    found = of([[1.5, math.nan, -2.0], [math.inf, -math.inf, math.inf]], dtype)
    assert found == Statistics(6, 1, 3, -2.0, 1.5)


def test_no_finite_element() -> None:
    assert of([math.nan, math.inf]) == Statistics(2, 1, 1, None, None)
    assert of([]) == Statistics(0, 0, 0, None, None)
    assert of(7.0) == Statistics(1, 0, 0, 7.0, 7.0)


def test_integers_and_bools() -> None:
    assert of([-5, 3], np.int8) == Statistics(2, 0, 0, -5.0, 3.0)
    assert of([2**64 - 1, 2**63], np.uint64) == Statistics(2, 0, 0, 2.0**63, 2.0**64)
    assert of([False, True], bool) == Statistics(2, 0, 0, 0.0, 1.0)


def test_complex_and_strings_have_no_order() -> None:
    assert of([1j, complex(math.nan, math.inf), math.inf], np.complex64) == Statistics(3, 1, 1, None, None)
    assert of(["a", "b"], object) == Statistics(2, 0, 0, None, None)


@pytest.mark.parametrize("dtype", [d.name for d in DTYPES.values() if d.size and not d.is_complex])
def test_every_dtype(dtype: str) -> None:
    """Comparison and statistics of tensors."""
    size = DTYPES[NUMBERS[dtype]].size
    found = statistics(Tensor(NUMBERS[dtype], (2,), bytes(size) + b"\1" + bytes(size - 1)))
    assert (found.count, found.minimum) == (2, 0.0) and found.maximum is not None
    assert found.maximum > 0 if DTYPES[NUMBERS[dtype]].kind == "f" else found.maximum == 1.0


def test_small_floats() -> None:
    pytest.importorskip("ml_dtypes")
    words = b"\x80\x3f\xc0\x7f\x80\xff"  # 1, NaN, -inf
    assert statistics(Tensor(NUMBERS["bfloat16"], (3,), words)) == Statistics(3, 1, 1, 1.0, 1.0)


def test_without_ml_dtypes_words_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert statistics(Tensor(NUMBERS["bfloat16"], (1,), b"\x80\x3f")) == Statistics(1, 0, 0, None, None)


def test_no_copy_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = from_numpy(np.ones(1 << 20, np.float16))
    monkeypatch.setattr(module, "_BLOCK", 1 << 10)
    tracemalloc.start()
    try:
        statistics(tensor)
        assert tracemalloc.get_traced_memory()[1] < tensor.nbytes / 4
    finally:
        tracemalloc.stop()


def test_importing_it_is_cheap() -> None:
    script = "import sys, gdsurgeon.runtime.compare as s; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.tensorflow
def test_of_a_result_in_the_child(worker: Worker) -> None:
    worker.load("g", graphs.doubling())
    worker.run("g", "r", {"x": from_numpy(np.array([1, math.nan, -3], np.float32))}, ["y", "x"])
    asked = worker.statistics("r")
    worker.drop("r")
    assert asked.result(WAIT) == [Statistics(3, 1, 0, -6.0, 2.0), Statistics(3, 1, 0, -3.0, 1.0)]
