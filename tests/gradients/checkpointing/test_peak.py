"""Peaks of tiny steps, reckoned by hand, and what holds of every step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.steps import Maker, steps

from gdsurgeon.gradients.checkpointing.peak import Peak, peak
from gdsurgeon.gradients.checkpointing.step import StepGraph, TensorSize, cost_of, tensor_size


@pytest.fixture
def make() -> Maker:
    return Maker()


# -- by hand ----------------------------------------------------------------------------------------------------


def test_an_empty_step(make: Maker) -> None:
    assert make.peak() == Peak(0, [], [], [])


def test_a_chain_has_two_tensors_at_a_time(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("b", "Custom", ["a"])
    make("c", "Custom", ["b"])
    found = make.peak("c")
    assert found.nbytes == 200  # the input is there before the run: it does not count
    assert found.live == [0, 100, 200, 200]
    assert found.order == [0, 1, 2, 3]


def test_elementwise_ops_write_over_their_input(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("b", "Relu", ["a"])
    make("c", "Tanh", ["b"])
    assert make.peak("c").nbytes == 100


def test_not_over_what_is_there_before_the_run(make: Maker) -> None:
    make("x", "Placeholder")
    make("w", "Const")
    make("a", "Relu", ["x"])
    make("b", "Neg", ["w"])
    assert make.peak("a", "b").nbytes == 200


def test_not_over_what_is_read_again(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("b", "Relu", ["a"])
    make("c", "Mul", ["b", "a"])  # takes over one of the two
    assert make.peak("c").nbytes == 200
    assert make.peak("c").live[-1] == 200


def test_not_over_what_is_fetched(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("b", "Relu", ["a"])
    assert make.peak("b").nbytes == 100
    assert make.peak("a", "b").nbytes == 200


def test_not_over_a_buffer_of_another_size(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"], [40])
    make("b", "Custom", ["x"], [100])
    make("c", "Add", ["a", "b"], [100])
    assert make.peak("c").nbytes == 140
    make("d", "Cast", ["c"], [50])
    assert make.peak("d").nbytes == 150


def test_a_tensor_that_is_read_twice_by_one_node_is_not_written_over(make: Maker) -> None:
    """Both inputs are references to the buffer: TensorFlow forwards it only where there is one."""
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("b", "Mul", ["a", "a"])
    assert make.peak("b").nbytes == 200


def test_an_alias_has_the_buffer_of_its_input(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("i", "Identity", ["a"])
    make("r", "Reshape", ["i"])
    make("b", "Custom", ["r"])
    found = make.peak("b")
    assert found.nbytes == 200
    assert found.live == [0, 100, 100, 100, 200]


def test_an_alias_keeps_the_buffer_from_being_written_over(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("i", "Identity", ["a"])
    make("b", "Relu", ["a"])
    make("c", "Custom", ["i", "b"], [0])
    assert make.peak("c").nbytes == 200


def test_an_alias_of_an_input_is_there_before_the_run(make: Maker) -> None:
    make("x", "Placeholder")
    make("i", "Identity", ["x"])
    make("b", "Relu", ["i"])
    assert make.peak("b").nbytes == 100


def test_identities_of_several(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"], [100])
    make("b", "Custom", ["x"], [30])
    make("n", "IdentityN", ["a", "b"], [100, 30])
    make("c", "Custom", [("n", 1)], [1])
    assert make.peak("c").live == [0, 100, 130, 130, 31]  # that nobody reads the first one is seen when it has run


def test_several_readers_free_it_when_the_last_has_run(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("b", "Custom", ["a"], [10])
    make("c", "Custom", ["a", "b"], [10])
    make("d", "Custom", ["c"], [10])
    assert make.peak("d").live == [0, 100, 110, 120, 20]


def test_outputs_that_nobody_reads_are_freed_at_once(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"], [100, 900])
    make("b", "Custom", ["a"], [10])
    make("c", "Custom", ["b"], [10])
    assert make.peak("c").live == [0, 1000, 110, 20]


def test_all_outputs_of_what_is_fetched_are_kept(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"], [100])
    make("b", "Custom", ["a"], [10])
    make("c", "Custom", ["b"], [10])
    assert make.peak("a", "c").live == [0, 100, 110, 120]


def test_a_control_input_orders_and_holds_nothing(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"], [100])
    make("t", "NoOp", waits=["a"], sizes=())
    make("b", "Custom", ["x"], [100], waits=["t"])
    found = make.peak("b")
    assert found.nbytes == 100
    assert found.order == [0, 1, 2, 3]


def test_what_waits_for_itself_never_runs(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"])
    make("b", "Custom", ["a"])
    make.step.waits[1].append(2)
    assert make.peak("b").order == [0]


def test_unknown_sizes_count_as_nothing(make: Maker) -> None:
    make("x", "Placeholder")
    make("a", "Custom", ["x"], ())
    make("b", "Custom", [("a", 3)], [10])
    assert make.peak("b").nbytes == 10


def test_two_threads_hold_two_branches(make: Maker) -> None:
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
