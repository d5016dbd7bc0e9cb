"""Counts and extremes of tensors."""

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
from gdsurgeon.runtime.compare import Statistics, statistics
from gdsurgeon.runtime.tensor import Tensor, from_numpy

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
    """Words of zeros and one that is the least positive value."""
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


def test_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(100, dtype=np.float32)
    values[[3, 50, 99]] = [math.nan, -7, math.inf]
    values[14:21] = math.nan  # a block without a number
    monkeypatch.setattr(module, "_BLOCK", 7)
    assert of(values) == Statistics(100, 8, 1, -7.0, 98.0)


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
    worker.load("g", data=graphs.doubling())
    worker.run("g", "r", {"x": from_numpy(np.array([1, math.nan, -3], np.float32))}, ["y", "x"])
    asked = worker.statistics("r")
    worker.drop("r")
    assert asked.result(WAIT) == [Statistics(3, 1, 0, -6.0, 2.0), Statistics(3, 1, 0, -3.0, 1.0)]
