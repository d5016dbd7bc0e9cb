"""Peaks of tiny steps, reckoned by hand, and what holds of every step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.drawing import pick, pick_some
from support.steps import Maker, steps

from gdsurgeon.gradients.recompute import ForwardPass, Recomputation, forward_pass, recomputed
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


LARGE = 10_000
SMALL = 100


def add(
    step: StepGraph, name: str, op: str, reads: Iterable[str], nbytes: int = LARGE, waits: Iterable[str] = ()
) -> int:
    return step.add(
        name,
        op,
        [step.tensor(text) for text in reads],
        [step.index[text] for text in waits],
        [TensorSize((nbytes,), nbytes)],
        1.0,
    )


def chain(count: int, fixed: Iterable[str] = ()) -> ForwardPass:
    """x -> f0 -> f1 ...; the backward node of each node reads the node before it."""
    step = StepGraph()
    add(step, "x", "Placeholder", ())
    add(step, "w", "Const", ())
    for i in range(count):
        add(step, f"f{i}", "Custom", [f"f{i - 1}" if i else "x", "w"])
    backward = [add(step, "seed", "Custom", [f"f{count - 1}"])]
    for i in reversed(range(count)):
        gradient = f"b{i + 1}" if i < count - 1 else "seed"
        backward.append(add(step, f"b{i}", "Custom", [gradient, f"f{i - 1}" if i else "x"]))
    numbers = {step.index[name] for name in fixed}
    return forward_pass(step, backward, [step.index[f"f{count - 1}"]], [backward[0]], (), numbers.__contains__)


def names(step: StepGraph, numbers: Iterable[int]) -> list[str]:
    return [step.names[number] for number in numbers]


def reads(made: Recomputation, name: str) -> list[str]:
    return names(made.step, [producer for producer, _ in made.step.reads[made.step.index[name]]])


# -- by hand ------------------------------------------------------------------------------------------------------


def test_segments_wait_for_those_behind_them() -> None:
    found = chain(9)
    made = recomputed(found, [2, 5], (), "again")
    assert list(made.triggers) == [1, 0]
    waits = names(made.step, made.step.waits[made.triggers[0]])
    assert {"b4", "b5"} <= set(waits)  # the users of segment 1
    played = peak(made.step, [made.step.index["b0"]])
    at = {made.step.names[number]: position for position, number in enumerate(played.order)}
    assert at["again/segment_1/f3"] < at["b5"] < at["again/segment_0/f0"] < at["b2"]


def test_random_numbers_vary_and_constants_do_not() -> None:
    step = StepGraph()
    add(step, "x", "Placeholder", ())
    add(step, "shape", "Const", ())
    add(step, "folded", "Custom", ["shape"])
    add(step, "y", "Custom", ["x", "folded"])
    add(step, "seed", "Custom", ["y"])
    found = forward_pass(step, [4], [3], [4], (), lambda _: False)
    assert names(step, found.order) == ["y"]
    assert [found.is_constant[number] for number in range(4)] == [False, True, True, False]
    step.add("random", "RandomUniform", [], [], [TensorSize(None, LARGE)])
    found = forward_pass(step, [4], [3, 5], [4], (), lambda _: False)
    assert not found.is_constant[5]


def test_nodes_that_do_not_always_run_are_not_waited_for() -> None:
    found = chain(6)
    live = [name != "b3" for name in found.step.names]
    found.step.live = live
    made = recomputed(found, [2], (), "again")
    (trigger,) = made.triggers.values()
    assert "b3" not in names(made.step, made.step.waits[trigger])


# -- any step -----------------------------------------------------------------------------------------------------


@st.composite
def passes(draw: st.DrawFn) -> ForwardPass:
    """A random forward graph and a backward pass as gradients make it.

    For each forward node there is a backward one that reads the gradients of its readers and some of what the node
    reads or writes. Some forward nodes are fixed.
    """
    step = StepGraph()
    add(step, "x", "Placeholder", ())
    add(step, "w", "Const", ())
    count = draw(st.integers(2, 9))
    forward: list[int] = []
    for i in range(count):
        op = pick(draw, ("Custom", "Custom", "Tanh", "Identity", "Reshape"))
        earlier = st.sampled_from(["x", *step.names[2:]][-5:])
        chosen = draw(st.lists(earlier, min_size=1, max_size=1 if op in ("Identity", "Reshape") else 3))
        if op == "Custom" and draw(st.booleans()):
            chosen.append("w")
        nbytes = pick(draw, (LARGE, 2 * LARGE, SMALL))
        if op in ("Identity", "Reshape"):
            nbytes = step.sizes[step.index[chosen[0]]][0].nbytes
        waits = pick_some(draw, step.names, 1) if draw(st.integers(0, 4)) == 0 else []
        forward.append(add(step, f"f{i}", op, chosen, nbytes, waits))
    target = forward[-1]
    seed = add(step, "seed", "Custom", [step.names[target]])
    gradients: dict[int, list[str]] = {target: ["seed"]}
    backward = [seed]
    for number in reversed(forward):
        came = gradients.get(number)
        if not came:
            continue
        name = step.names[number]
        if len(came) > 1:
            backward.append(add(step, f"sum_{name}", "AddN", came))
            came = [f"sum_{name}"]
        read = [step.names[producer] for producer, _ in step.reads[number]]
        for slot, producer in enumerate(read):
            if producer == "w":
                continue
            wanted = [text for text in dict.fromkeys([*read, name]) if draw(st.booleans())]
            is_apart: bool = draw(st.booleans())
            if wanted and is_apart:  # a value of the forward pass alone, in between
                backward.append(add(step, f"local_{name}_{slot}", "Custom", wanted))
                wanted = [f"local_{name}_{slot}"]
            backward.append(add(step, f"b_{name}_{slot}", "Custom", [*came, *wanted]))
            gradients.setdefault(step.index[producer], []).append(f"b_{name}_{slot}")
    fixed = set(pick_some(draw, forward, 2))
    return forward_pass(step, backward, [target], [seed], (), fixed.__contains__)


@given(passes(), st.data())
def test_what_holds_of_every_rewriting(found: ForwardPass, data: st.DataObject) -> None:
    count = len(found.order)
    cuts = sorted(data.draw(st.sets(st.integers(0, max(count - 2, 0)), max_size=4))) if count > 1 else []
    kept = data.draw(st.sets(st.integers(0, len(cuts))))
    made = recomputed(found, cuts, kept, "again")
    step, old = made.step, found.step
    first = len(old)
    assert step.names[:first] == old.names and len(set(step.names)) == len(step.names)
    for number in range(first):  # only backward nodes read something else, of the same value
        assert step.waits[number] == old.waits[number]
        for now, was in zip(step.reads[number], old.reads[number], strict=True):
            if now != was:
                assert found.is_backward[number] and number in made.rewired
                assert made.originals[now[0]] == was[0] and now[1] == was[1]
    for clone, original in made.originals.items():
        assert original in found.position and step.ops[clone] == old.ops[original]
        for now, was in zip(step.reads[clone], old.reads[original], strict=True):
            source = step.reads[now[0]][0] if now[0] in made.gates else (made.originals.get(now[0], now[0]), now[1])
            assert source == was
            if now == was:
                assert found.is_constant[was[0]]
    assert set(range(first, len(step))) == {*made.originals, *made.gates, *made.triggers.values()}
    assert len(set(made.originals.values())) == len(made.originals)
    fixed_segments = {*kept, len(cuts)}
    segment = {n: sum(cut < p for cut in cuts) for n, p in found.position.items()}
    assert not {segment[number] for number in made.originals.values()} & fixed_segments
    for gate in made.gates:
        assert step.waits[gate] and step.ops[gate] == "Identity"
    assert len(step.order()) == len(step)  # no cycle
