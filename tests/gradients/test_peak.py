"""Peaks of tiny steps, reckoned by hand, and what holds of every step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.steps import Maker, steps

from gdsurgeon.gradients.step_graph import Peak, StepGraph, TensorSize, cost_of, peak, tensor_size

# -- by hand ----------------------------------------------------------------------------------------------------

A, B = ("a", "Custom", ["x"]), ("b", "Custom", ["a"])
STEPS: dict[str, tuple[list[Any], str, int | list[int]]] = {
    "a chain has two tensors at a time": ([A, B, ("c", "Custom", ["b"])], "c", [0, 100, 200, 200]),
    "elementwise ops write over their input": ([A, ("b", "Relu", ["a"]), ("c", "Tanh", ["b"])], "c", 100),
    "not over what is there before the run": (
        [("w", "Const"), ("a", "Relu", ["x"]), ("b", "Neg", ["w"])], "ab", 200
    ),
    "over one of two where the other is read again": (
        [A, ("b", "Relu", ["a"]), ("c", "Mul", ["b", "a"])], "c", [0, 100, 200, 200]
    ),
    "not over what is fetched": ([A, ("b", "Relu", ["a"])], "ab", 200),
    "not over a buffer of another size": (
        [("a", "Custom", ["x"], [40]), ("b", "Custom", ["x"], [100]), ("c", "Add", ["a", "b"], [100])], "c", 140
    ),
    "not over a larger buffer": ([A, ("b", "Cast", ["a"], [50])], "b", 150),
    "not over a tensor that one node reads twice": ([A, ("b", "Mul", ["a", "a"])], "b", 200),
    "an alias has the buffer of its input": (
        [A, ("i", "Identity", ["a"]), ("r", "Reshape", ["i"]), ("b", "Custom", ["r"])],
        "b", [0, 100, 100, 100, 200],
    ),
    "an alias keeps the buffer from being written over": (
        [A, ("i", "Identity", ["a"]), ("b", "Relu", ["a"]), ("c", "Custom", ["i", "b"], [0])], "c", 200
    ),
    "an alias of an input is there before the run": ([("i", "Identity", ["x"]), ("b", "Relu", ["i"])], "b", 100),
    "an unused output of several is freed when the node has run": (
        [A, ("b", "Custom", ["x"], [30]), ("n", "IdentityN", ["a", "b"], [100, 30]), ("c", "Custom", [("n", 1)], [1])],
        "c", [0, 100, 130, 130, 31],
    ),
    "the last of several readers frees it": (
        [A, ("b", "Custom", ["a"], [10]), ("c", "Custom", ["a", "b"], [10]), ("d", "Custom", ["c"], [10])],
        "d", [0, 100, 110, 120, 20],
    ),
    "unused outputs are freed at once": (
        [("a", "Custom", ["x"], [100, 900]), ("b", "Custom", ["a"], [10]), ("c", "Custom", ["b"], [10])],
        "c", [0, 1000, 110, 20],
    ),
    "outputs of what is fetched are kept": (
        [A, ("b", "Custom", ["a"], [10]), ("c", "Custom", ["b"], [10])], "ac", [0, 100, 110, 120]
    ),
    "a control input orders and holds nothing": (
        [A, ("t", "NoOp", (), (), ["a"]), ("b", "Custom", ["x"], [100], ["t"])], "b", 100
    ),
    "unknown sizes count as nothing": ([("a", "Custom", ["x"], ()), ("b", "Custom", [("a", 3)], [10])], "b", 10),
}  # fmt: skip
"""Nodes behind x, whose outputs are of 100 bytes unless stated; the fetched ones; the peak, or the bytes after each."""


@pytest.mark.parametrize("what", STEPS)
def test_by_hand(what: str) -> None:
    """The input is there before the run, and does not count."""
    nodes, kept, most = STEPS[what]
    make = Maker()
    make("x", "Placeholder")
    for each in nodes:
        make(*each)
    found = make.peak(*kept)
    assert most in (found.nbytes, found.live) and found.order == [*range(len(nodes) + 1)]


def test_what_waits_for_itself_never_runs() -> None:
    make = Maker()
    assert make.peak() == Peak(0, [], [], [])
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("b", "Custom", ["a"])
    make.step.waits[1].append(2)
    assert make.peak("b").order == [0]


def test_two_threads_hold_two_branches() -> None:
    make = Maker()
    make("x", "Placeholder")
    for name in ("a", "b"):
        make(name, "Custom", ["x"], [1000], cost=1e6)
        make(f"{name}_sum", "Custom", [name], [1], cost=1e6)
    make("y", "Custom", ["a_sum", "b_sum"], [1])
    assert make.peak("y", threads=2).nbytes >= 2000


# -- sizes ------------------------------------------------------------------------------------------------------


def test_sizes_of_tensors() -> None:
    assert tensor_size(1, (2, 3)) == TensorSize((2, 3), 24)
    assert tensor_size(19, ()) == TensorSize((), 2)
    assert tensor_size(1, None).nbytes == tensor_size(1, (2, -1)).nbytes == tensor_size(7, (2,)).nbytes == 0
    assert tensor_size(1, (0, 5)).nbytes == 0


def test_costs_of_a_matrix_product() -> None:
    step = StepGraph()
    step.add("a", "Const", (), (), [tensor_size(1, (10, 20))])
    step.add("b", "Const", (), (), [tensor_size(1, (20, 30))])
    step.add("c", "MatMul", [(0, 0), (1, 0)], (), [tensor_size(1, (10, 30))])
    assert cost_of(step, 0) == 0
    assert cost_of(step, 2) == pytest.approx(4 * (200 + 600 + 300) + 2 * 10 * 20 * 30 / 20)


# -- any step ---------------------------------------------------------------------------------------------------


@given(steps(), st.integers(1, 3), st.data())
def test_what_holds_of_every_step(step: StepGraph, threads: int, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.integers(0, len(step) - 1), unique=True))
    found = peak(step, kept, threads)
    assert sorted(found.order) == list(range(len(step)))  # everything runs, once
    begun = {number: at for at, number in enumerate(found.order)}
    for number in range(len(step)):
        for producer in [p for p, _ in step.reads[number]] + step.waits[number]:
            assert begun[producer] < begun[number]
    assert found.nbytes == max(found.live)
    assert all(0 <= live <= sum(s.nbytes for sizes in step.sizes for s in sizes) for live in found.live)
    more = peak(step, range(len(step)), threads)  # keeping everything is never less
    assert more.nbytes >= found.nbytes
