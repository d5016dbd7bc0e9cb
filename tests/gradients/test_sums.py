"""The buffers that nodes share, and the requirements of sums for other readers of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from support.steps import Maker, steps

from gdsurgeon.gradients.step_graph import StepGraph, peak
from gdsurgeon.gradients.sums import Sums, keep_order, sums_of


def sums(make: Maker, backward: Sequence[str] = (), seeds: Sequence[str] = ()) -> Sums:
    step = make.step
    return sums_of(step, [name in backward for name in step.names], [step.index[name] for name in seeds])


def named(make: Maker, numbers: set[int]) -> set[str]:
    return {make.step.names[number] for number in numbers}


def forward(*before: str) -> Maker:
    """x, and elementwise nodes of it."""
    make = Maker()
    make("x", "Placeholder")
    for name in before:
        make(name, "Tanh", ["x"])
    return make


# -- buffers ------------------------------------------------------------------------------------------------------


# -- sums ---------------------------------------------------------------------------------------------------------


S, OTHER, SEED = ("s", "AddN", ["a", "b", "c"]), ("other", "Tanh", ["a"]), ("seed", "Fill", ["s"])
FOUND: dict[str, tuple[list[Any], str, str, str]] = {
    "sums that begin with their first input in any case demand nothing": ([S, ("d", "Tanh", ["b"])], "", "s", ""),
    "sums of two demand nothing": ([OTHER, ("s", "AddN", ["a", "b"])], "", "", ""),
    "inputs that are never written over do not count": (
        [("s", "AddN", ["x", "a", "a", "b"]), ("other", "Tanh", ["x"])], "", "s", ""
    ),
    "what is read by others is computed once, and so are they": (
        [("view", "Reshape", ["a"]), OTHER, ("s", "AddN", ["view", "b", "c"]), ("behind", "Tanh", ["other"])],
        "", "s a view other", "",
    ),
    "what is needed late may be read again": (
        [OTHER, S, SEED, ("late", "TanhGrad", ["a", "seed"])], "seed late", "s a", ""
    ),
    "what the backward pass computes without gradients is not held back": (
        [S, ("d", "Tanh", ["x"]), ("early", "Sigmoid", ["a", "d"]), SEED, ("late", "Mul", ["early", "seed"])],
        "early seed late", "s a d", "early",
    ),
    "calls may not need what they read": (
        [OTHER, S, SEED, ("call", "StatelessIf", ["a", "seed"])], "seed call", "s a other", ""
    ),
}  # fmt: skip
"""Nodes after three elementwise nodes, the backward nodes among them, the nodes computed once, and the prompt nodes."""


@pytest.mark.parametrize("what", FOUND)
def test_what_sums_demand(what: str) -> None:
    nodes, backward_, once, prompt = FOUND[what]
    make = forward("a", "b", "c")
    for each in nodes:
        make(*each)
    found = sums(make, backward_.split(), ["seed"] if backward_ else [])
    assert named(make, found.computed_once) == {*once.split()} and named(make, found.prompt) == {*prompt.split()}


def test_gradients_that_may_come_before_a_sum_of_the_forward_pass() -> None:
    for seeded in ("x", "s"):
        make = forward("a", "b", "c")
        make("other", "Tanh", ["a"])
        make("s", "AddN", ["a", "b", "c"])
        make("seed", "Fill", [seeded])
        make("gradient", "TanhGrad", ["a", "seed"])
        found = sums(make, ["seed", "gradient"], ["seed"])
        assert found.come_before_gradients is (seeded == "s")
        assert named(make, found.computed_once) == {"s", "a"} | ({"other"} if seeded == "x" else set())


def backward() -> Maker:
    """The sum of three gradients; an earlier and a later node also read the first gradient."""
    make = forward()
    make("seed", "Fill", ["x"])
    make("g", "TanhGrad", ["x", "seed"])
    make("early", "BiasAddGrad", ["g"], [4])
    for name in ("g1", "g2"):
        make(name, "TanhGrad", ["x", "g"])
    make("total", "AddN", ["g", "g1", "g2"])
    make("late", "AddN", ["g", "x"])
    return make


def test_what_may_not_run_is_not_waited_for() -> None:
    make = backward()
    found = sums(make, make.step.names[1:], ["seed"])
    live = [name != "early" for name in make.step.names]
    make.step.live = live
    keep_order(make.step, [name != "x" for name in make.step.names], found, range(len(live)))
    assert make.step.waits[make.step.index["total"]] == []


@given(steps())
def test_waits_close_no_cycle(step: StepGraph) -> None:
    half = len(step) // 2
    is_backward = [number >= half for number in range(len(step))]
    found = sums_of(step, is_backward, [half])
    keep_order(step, is_backward, found, peak(step, []).order)
    assert len(step.order()) == len(step)
    assert all(number < half for number in found.computed_once) and all(n >= half for n in found.prompt)
