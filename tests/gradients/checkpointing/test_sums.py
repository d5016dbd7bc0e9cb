"""Which buffers nodes share, and what sums of several demand of those who read what they add."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from support.steps import Maker, steps

from gdsurgeon.gradients.checkpointing.peak import peak
from gdsurgeon.gradients.checkpointing.step import StepGraph
from gdsurgeon.gradients.checkpointing.sums import Sums, may_share


def sums(make: Maker, backward: Sequence[str] = (), seeds: Sequence[str] = ()) -> Sums:
    step = make.step
    return Sums(step, [name in backward for name in step.names], [step.index[name] for name in seeds])


def named(make: Maker, numbers: set[int]) -> set[str]:
    return {make.step.names[number] for number in numbers}


def shared(make: Maker, name: str) -> set[str]:
    return named(make, set(may_share(make.step, make.step.index[name])))


def forward(*before: str) -> Maker:
    """x, and elementwise nodes of it."""
    make = Maker()
    make("x", "Placeholder")
    for name in before:
        make(name, "Tanh", ["x"])
    return make


# -- buffers ------------------------------------------------------------------------------------------------------


def test_who_may_hand_an_input_on() -> None:
    make = forward("a", "b")
    make("sum", "Sum", ["a", "b"], [100])
    make("less", "Sum", ["a"], [4])
    make("slice", "Slice", ["a"], [10])
    make("product", "MatMul", ["a", "b"])
    make("call", "StatelessWhile", ["a", "b"], [100, 100])
    make("shape", "Shape", ["a"], [8])
    make("unknown", "Cast", ["a"], [0])
    assert shared(make, "sum") == {"a", "b"} and shared(make, "less") == set()
    assert shared(make, "slice") == {"a"} and shared(make, "product") == set()
    assert shared(make, "call") == {"a", "b"} and shared(make, "shape") == set()
    assert shared(make, "unknown") == {"a"}


# -- sums ---------------------------------------------------------------------------------------------------------


def test_sums_that_begin_with_their_first_input_in_any_case_demand_nothing() -> None:
    make = forward("a", "b", "c")
    make("s", "AddN", ["a", "b", "c"])
    make("d", "Tanh", ["b"])
    assert not sums(make) and named(make, sums(make).computed_once()) == {"s"}


def test_inputs_that_are_never_written_over_do_not_count() -> None:
    make = forward("a", "b")
    make("s", "AddN", ["x", "a", "a", "b"])
    make("other", "Tanh", ["x"])
    assert named(make, sums(make).computed_once()) == {"s"}


def test_what_is_read_by_others_is_computed_once_and_so_are_they() -> None:
    make = forward("a", "b", "c")
    make("view", "Reshape", ["a"])
    make("other", "Tanh", ["a"])
    make("s", "AddN", ["view", "b", "c"])
    make("behind", "Tanh", ["other"])
    assert named(make, sums(make).computed_once()) == {"s", "a", "view", "other"}


def test_what_is_needed_late_may_be_read_again() -> None:
    make = forward("a", "b", "c")
    make("other", "Tanh", ["a"])
    make("s", "AddN", ["a", "b", "c"])
    make("seed", "Fill", ["s"])
    make("late", "TanhGrad", ["a", "seed"])
    found = sums(make, ["seed", "late"], ["seed"])
    assert named(make, found.computed_once()) == {"s", "a"} and found.prompt() == set()


def test_what_the_backward_pass_computes_without_gradients_is_not_held_back() -> None:
    make = forward("a", "b", "c")
    make("s", "AddN", ["a", "b", "c"])
    make("d", "Tanh", ["x"])
    make("early", "Sigmoid", ["a", "d"])
    make("seed", "Fill", ["s"])
    make("late", "Mul", ["early", "seed"])
    found = sums(make, ["early", "seed", "late"], ["seed"])
    assert named(make, found.computed_once()) == {"s", "a", "d"}
    assert named(make, found.prompt()) == {"early"}


def test_gradients_that_may_come_before_a_sum_of_the_forward_pass() -> None:
    for seeded in ("x", "s"):
        make = forward("a", "b", "c")
        make("other", "Tanh", ["a"])
        make("s", "AddN", ["a", "b", "c"])
        make("seed", "Fill", [seeded])
        make("gradient", "TanhGrad", ["a", "seed"])
        found = sums(make, ["seed", "gradient"], ["seed"])
        assert found.come_before_gradients() is (seeded == "s")
        assert named(make, found.computed_once()) == {"s", "a"} | ({"other"} if seeded == "x" else set())


def test_calls_may_not_need_what_they_read() -> None:
    make = forward("a", "b", "c")
    make("other", "Tanh", ["a"])
    make("s", "AddN", ["a", "b", "c"])
    make("seed", "Fill", ["s"])
    make("call", "StatelessIf", ["a", "seed"])
    found = sums(make, ["seed", "call"], ["seed"])
    assert "other" in named(make, found.computed_once())


def backward() -> Maker:
    """The sum of three gradients, of which the first is read by others too, one earlier and one later."""
    make = forward()
    make("seed", "Fill", ["x"])
    make("g", "TanhGrad", ["x", "seed"])
    make("early", "BiasAddGrad", ["g"], [4])
    for name in ("g1", "g2"):
        make(name, "TanhGrad", ["x", "g"])
    make("total", "AddN", ["g", "g1", "g2"])
    make("late", "AddN", ["g", "x"])
    return make


def test_sums_of_gradients_keep_their_place_among_the_readers() -> None:
    make = backward()
    found = sums(make, make.step.names[1:], ["seed"])
    order = [make.step.index[name] for name in ("x", "seed", "g", "early", "g1", "g2", "total", "late")]
    waiting = found.keep_order(order)
    step = make.step
    assert named(make, set(waiting)) == {"total", "late"}
    assert named(make, set(step.waits[step.index["total"]])) == {"early"}
    assert named(make, set(step.waits[step.index["late"]])) == {"total"}
    assert found.computed_once() == set()


def test_what_may_not_run_is_not_waited_for() -> None:
    make = backward()
    found = sums(make, make.step.names[1:], ["seed"])
    live = [name != "early" for name in make.step.names]
    make.step.live = live
    found.keep_order(range(len(live)))
    assert make.step.waits[make.step.index["total"]] == []


@given(steps())
def test_waits_close_no_cycle(step: StepGraph) -> None:
    half = len(step) // 2
    found = Sums(step, [number >= half for number in range(len(step))], [half])
    found.keep_order(peak(step, []).order)
    assert len(step.order()) == len(step)
    assert all(number < half for number in found.computed_once()) and all(n >= half for n in found.prompt())
