"""Where to cut a forward pass: the dynamic programs against trying everything out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawing import pick, pick_some

from gdsurgeon.gradients.planner import (
    CheckpointPlanner,
    Costs,
    Cuts,
    costs,
    cuts_after,
    heavy_tensors,
    least_memory,
    least_time,
    load,
    possible_cuts,
)
from gdsurgeon.gradients.recompute import ForwardPass, forward_pass, recomputed
from gdsurgeon.gradients.step_graph import StepGraph, TensorSize, peak

KIB = 1024
SLACK = 1.002
"""The largest ratio of the result of `least_memory` to the least bound, apart from one byte."""


def size(nbytes: int) -> list[TensorSize]:
    return [TensorSize((nbytes,), nbytes)]


def chain(
    sizes: Sequence[int],
    costs_: Sequence[float] | None = None,
    skips: Sequence[tuple[int, int]] = (),
    needed: Sequence[bool] | None = None,
    op: str = "Custom",
) -> ForwardPass:
    """f0 reads x, f1 reads f0 ..., and the backward pass reads what each of them has read.

    Args:
        sizes: bytes of the output of each node.
        costs_: of the nodes.
        skips: pairs (a, b): node b reads the output of a too.
        needed: for each node whether the backward pass reads its output.
        op: of the nodes.
    """
    step = StepGraph()
    x = step.add("x", "Placeholder", (), (), size(10 * KIB))
    number = len(sizes)
    for i, nbytes in enumerate(sizes):
        reads = [(x, 0) if i == 0 else (step.index[f"f{i - 1}"], 0)]
        reads += [(step.index[f"f{a}"], 0) for a, b in skips if b == i and a < b - 1]
        step.add(f"f{i}", op, reads, (), size(nbytes), costs_[i] if costs_ is not None else 1.0)
    last = step.add("seed", "Custom", [(step.index[f"f{number - 1}"], 0)], (), size(sizes[-1]))
    seed = last
    backward = [seed]
    for i in reversed(range(number)):
        reads = [(last, 0)]
        read = step.reads[step.index[f"f{i}"]]
        reads += [pair for pair in read if needed is None or pair[0] == x or needed[pair[0] - 1]]
        last = step.add(f"b{i}", "Custom", reads, (), size(sizes[i - 1] if i else 10 * KIB), 1.0)
        backward.append(last)
    return forward_pass(step, backward, [step.index[f"f{number - 1}"]], [seed], (), lambda _: False)


def bound_of(table: Costs, cuts: Sequence[int], keeps: Sequence[bool] | None = None) -> float:
    """The bytes there at most with cuts at places of the table, as the model has it.

    Args:
        table: of the model.
        cuts: indices of the table, of the cuts alone.
        keeps: for each segment whether everything of it is kept.
    """
    kept = most = 0.0
    for number, (i, j) in enumerate(itertools.pairwise([0, *cuts, len(table.cuts) + 1])):
        most = max(most, kept + table.at_work[i, j])
        stays = keeps is not None and keeps[number]
        kept += table.needed[i, j] + table.idle[i, j] if stays else table.crossing[i, j]
    return most


def places(table: Costs, cuts: Cuts) -> list[int]:
    return [table.cuts.index(position) + 1 for position in cuts.positions]


def table_of(found: ForwardPass, most: int = 1000) -> Costs:
    return costs(found, possible_cuts(found, most), load(found, {}))


@st.composite
def forward_passes(draw: st.DrawFn, most: int = 8) -> ForwardPass:
    """Chains with skips, any sizes and any costs; the backward pass needs any part of a chain."""
    count = draw(st.integers(2, most))
    sizes = pick_some(draw, (1, 5, 8, 20, 100), count, least=count)
    times = pick_some(draw, (0.0, 1.0, 3.0, 50.0), count, least=count)
    needed = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    index = st.integers(0, count - 1)
    skips = draw(st.lists(st.tuples(index, index), max_size=3, unique=True))
    return chain([s * KIB for s in sizes], times, skips, needed, pick(draw, ("Custom", "Tanh")))


# -- what crosses a cut -------------------------------------------------------------------------------------------


@given(forward_passes())
def test_crossing_by_definition(found: ForwardPass) -> None:
    cuts = list(range(len(found.order) - 1))
    table = costs(found, cuts, load(found, {}))
    ends = [-1, *cuts]
    for j, cut in enumerate(cuts, 1):
        crossing = [buffer for buffer, end in found.ends.items() if found.start(buffer) <= cut < end]
        for i in range(j):
            since = [b for b in crossing if found.start(b) > ends[i] and found.nbytes[b] > 4096]
            assert table.crossing[i, j] == sum(found.nbytes[b] for b in since)
            assert table.idle[i, j] == sum(found.nbytes[b] for b in since if b not in found.users)


# -- the least memory ---------------------------------------------------------------------------------------------


@given(forward_passes())
def test_least_memory_is_what_trying_out_all_cuts_finds(found: ForwardPass) -> None:
    table = table_of(found)
    assert table.cuts == sorted(set(table.cuts))
    bound, cuts = least_memory(table)
    indices = range(1, len(table.cuts) + 1)
    subsets = itertools.chain.from_iterable(itertools.combinations(indices, k) for k in range(len(table.cuts) + 1))
    least = min(bound_of(table, subset) for subset in subsets)
    assert least <= bound + 1e-6
    assert bound <= least * SLACK + max(bound, 500) / 400 + 1
    assert bound_of(table, places(table, cuts)) <= bound + 1e-6


@given(forward_passes())
def test_all_cuts_are_possible_where_they_are_few(found: ForwardPass) -> None:
    found_cuts = possible_cuts(found, 2)
    assert len(found_cuts) <= 2
    assert all(0 <= cut < len(found.order) - 1 for cut in found_cuts)


def test_a_single_node_has_no_cuts() -> None:
    found = chain([10 * KIB])
    assert possible_cuts(found, 5) == []
    assert least_memory(table_of(found))[1] == Cuts(())
    assert least_time(table_of(found), 1e9) in (Cuts(()), Cuts((), frozenset((0,))))


# -- the least time -----------------------------------------------------------------------------------------------


@given(forward_passes(), st.floats(0.9, 3.0))
def test_least_time_stays_under_its_bound(found: ForwardPass, factor: float) -> None:
    table = table_of(found)
    least, _ = least_memory(table)
    bound = factor * least
    cuts = least_time(table, bound)
    if cuts is None:
        return
    keeps = [segment in cuts.kept_segments for segment in range(len(cuts.positions) + 1)]
    assert bound_of(table, places(table, cuts), keeps) <= bound + 1e-6


@given(forward_passes())
def test_with_much_room_nothing_is_computed_again(found: ForwardPass) -> None:
    cuts = least_time(table_of(found), 1e12)
    assert cuts is not None
    made = recomputed(found, cuts.positions, cuts.kept_segments, "again")
    assert made.cost == 0
    assert all(found.step.costs[number] == 0 for number in made.originals.values())


def test_a_cut_spares_no_more_than_what_was_counted() -> None:
    """f6 need not run again in any case, so that keeping its output makes up for nothing."""
    needed = [number in (3, 7) for number in range(8)]
    sizes = [5 * KIB if number == 3 else KIB for number in range(8)]
    found = chain(sizes, [float(number in (3, 6)) for number in range(8)], (), needed)
    table = table_of(found)
    assert table.time[0, table.cuts.index(6) + 1] == 1.0  # f3
    cuts = least_time(table, 1e12)
    assert cuts is not None
    assert recomputed(found, cuts.positions, cuts.kept_segments, "again").cost == 0


@given(forward_passes(6))
def test_least_time_is_not_slower_than_any_choice_of_segments(found: ForwardPass) -> None:
    """Up to the steps in which it tells apart what is kept: they cost it a few levels' room at the most."""
    table = table_of(found)
    least, _ = least_memory(table)
    bound = 1.5 * least
    cuts = least_time(table, bound)
    assert cuts is not None

    def time(chosen: Sequence[int], keeps: Sequence[bool]) -> float:
        pairs = list(itertools.pairwise([0, *chosen, len(table.cuts) + 1]))[:-1]
        return sum(float(table.time[i, j]) for (i, j), keep in zip(pairs, keeps, strict=False) if not keep)

    count = len(table.cuts)
    best = min(
        time(chosen, keeps)
        for k in range(count + 1)
        for chosen in itertools.combinations(range(1, count + 1), k)
        for keeps in itertools.product((False, True), repeat=k)
        if bound_of(table, chosen, [*keeps, True]) <= bound * (1 - (k + 1) / 64)
    )
    mine = time(places(table, cuts), [s in cuts.kept_segments for s in range(len(cuts.positions))])
    assert mine <= best + 1e-6


# -- plans --------------------------------------------------------------------------------------------------------


def planner(found: ForwardPass) -> CheckpointPlanner:
    return CheckpointPlanner(found, [len(found.step) - 1], {}, "again")


@given(forward_passes())
@settings(max_examples=40)
def test_plans_are_what_was_asked_for(found: ForwardPass) -> None:
    plans = planner(found)
    memory = plans.memory()
    assert memory.peak.nbytes <= plans.plain.peak.nbytes * 1.02
    assert memory.peak.nbytes == peak(memory.made.step, [len(found.step) - 1]).nbytes
    for budget in (memory.peak.nbytes, (memory.peak.nbytes + plans.plain.peak.nbytes) // 2):
        plan = plans.under(budget)
        assert plan is not None and plan.peak.nbytes <= budget
        assert plan.extra <= memory.extra or plan.peak.nbytes <= memory.peak.nbytes
    everything = plans.under(plans.plain.peak.nbytes)
    assert everything is not None and everything.cuts == plans.plain.cuts and not everything.made.originals
    assert plans.under(0) is None or plans.plain.peak.nbytes == 0


@given(forward_passes())
@settings(max_examples=40)
def test_a_settled_plan_computes_the_same(found: ForwardPass) -> None:
    plans = planner(found)
    memory = plans.evaluate(plans.memory().cuts)
    assert memory is not None
    for budget in (None, memory.peak.nbytes):
        plan = plans.settled(memory, budget)
        assert plan.peak.nbytes <= (round(1.02 * memory.peak.nbytes) if budget is None else budget)
        step, old = plan.made.step, memory.made.step
        held = range(len(old), len(step))
        assert step.waits[: len(old)] == old.waits and set(plan.made.gates) == {*memory.made.gates, *held}
        for number, reads in enumerate(old.reads):
            assert [step.reads[p][0] if p in held else (p, k) for p, k in step.reads[number]] == reads
            if step.reads[number] != reads:
                assert number in plan.made.rewired or number in plan.made.originals
                assert number >= len(found.step) or found.is_backward[number]


def test_a_plan_with_a_late_reader_is_settled() -> None:
    step = StepGraph()
    sizes = size(1000 * KIB)
    step.add("x", "Placeholder", [], [], sizes)
    for i in range(3):
        step.add(f"f{i}", "Custom", [(step.index[f"f{i - 1}"] if i else 0, 0)], [], sizes, 1e6)
    backward = [step.add("seed", "Custom", [(step.index["f2"], 0)], [], size(1), 1e6)]
    results = []
    for i in (2, 1, 0):  # each reads what came into the node: for a small result, and for the next gradient not
        before = step.index[f"f{i - 1}"] if i else 0
        results.append(step.add(f"weight{i}", "Custom", [(before, 0), (backward[-1], 0)], [], size(1), 1e6))
        backward += [results[-1], step.add(f"gradient{i}", "Custom", [(backward[-1], 0)], [], sizes, 2e6)]
    found = forward_pass(step, backward, [step.index["f2"]], [backward[0]], (), lambda _: False)
    plans = CheckpointPlanner(found, [*results, len(step) - 1], {}, "again")
    plan = plans.memory()
    late = plan.made.step.copy()
    for name in ("weight2", "weight1", "weight0"):
        late.costs[late.index[name]] = 1e9
    assert peak(late, [*results, len(step) - 1]).nbytes <= 1.02 * plan.peak.nbytes


def test_the_least_memory_of_a_chain_is_far_below_its_length() -> None:
    plans = planner(chain([100 * KIB] * 100))
    memory = plans.memory()
    assert plans.plain.peak.nbytes >= 100 * 100 * KIB
    assert memory.peak.nbytes <= 0.4 * plans.plain.peak.nbytes
    assert memory.extra <= 0.5  # everything once more at the most: half of a step of as much back as forth


def test_no_plan_goes_without_what_is_there_in_any_case() -> None:
    plans = planner(chain([100 * KIB] * 10))
    assert plans.under(100 * KIB) is None


def test_cuts_after_given_tensors() -> None:
    found = chain([10 * KIB] * 6)
    assert cuts_after(found, [(found.step.index["f3"], 0), (found.step.index["f1"], 0)]) == Cuts((1, 3))
    assert cuts_after(found, [(found.step.index["f5"], 0)]) == Cuts(())  # everything in front is the last segment
    assert cuts_after(found, [(found.step.index["x"], 0), (found.step.index["b1"], 0)]) == Cuts(())


def test_heavy_tensors() -> None:
    found = chain([10 * KIB] * 3, op="MatMul")
    assert heavy_tensors(found) == [(number, 0) for number in found.order]
    assert heavy_tensors(chain([10 * KIB] * 3)) == []
    plan = planner(found).keeping(heavy_tensors(found))
    assert plan is not None and not plan.made.originals
