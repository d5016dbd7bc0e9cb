"""What allocates waits for the releases that were counted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.steps import Maker, steps

from gdsurgeon.gradients.step_graph import Peak, StepGraph, Wait, hold, peak, slots_to_hold, waits_for_releases

BIG = 1_000_000
SMALL = 5000


@pytest.fixture
def make() -> Maker:
    return Maker()


def convolution(make: Maker, *, to_filter: float = 1e6) -> None:
    """The gradients of a convolution, and what reads that of its input: it counts on the input's having gone."""
    make("x", "Placeholder", sizes=[SMALL])
    make("input", "Custom", ["x"], [BIG], cost=1e6)
    make("dy", "Custom", ["input"], [SMALL], cost=1e6)
    make("filter", "Custom", ["input", "dy"], [SMALL], cost=to_filter)
    make("dx", "Custom", ["dy"], [BIG], cost=2e6)
    make("more", "Custom", ["dx"], [BIG], cost=1e6)
    make("y", "Custom", ["more", "filter"], [SMALL], cost=1e6)


def added(make: Maker, bound: int, may_wait: Sequence[str] | None = None, asleep: str = "") -> list[str]:
    """What waits for what, as 'node after reader'; the step is made to."""
    step = make.step
    slots = slots_to_hold(step, range(len(step)), ())
    waits = waits_for_releases(
        step,
        make.peak("y", threads=2),
        [number for number in slots if may_wait is None or step.names[number] in may_wait],
        [name != asleep for name in step.names],
        bound,
    )
    hold(step, waits, slots, "again")
    return [f"{step.names[node]} after {step.names[reader]}" for node, reader in waits]


@pytest.mark.parametrize(
    ("room", "late", "how"),
    [
        (BIG, (), {}),
        (0, ["filter"], {}),
        (0, (), {"may_wait": ["dx", "y"]}),
        (0, (), {"asleep": "filter"}),
        (0, (), {"asleep": "more"}),
    ],
    ids=["where there is room", "depends in any case", "may not wait", "no reader that may not run", "may not run"],
)
def test_nothing_waits(make: Maker, room: int, late: Sequence[str], how: dict[str, Any]) -> None:
    convolution(make)
    make.step.waits[make.step.index["dx"]] += [make.step.index[name] for name in late]
    assert added(make, make.peak("y", threads=2).nbytes + room, **how) == []


def test_what_writes_over_its_input_waits_for_the_other_readers(make: Maker) -> None:
    make("x", "Placeholder", sizes=[SMALL])
    make("a", "Custom", ["x"], [BIG], cost=1e6)
    make("b", "Custom", ["x"], [SMALL], cost=3e6)
    make("other", "Custom", ["a"], [SMALL], cost=1e6)
    make("relu", "Relu", ["a"], [BIG], cost=1e6, waits=["b"])
    make("y", "Custom", ["relu", "other"], [SMALL], cost=1e6)
    before = make.peak("y", threads=2)
    assert before.nbytes < 2 * BIG
    assert added(make, before.nbytes) == ["relu after other"]


def test_one_wait_does_for_readers_that_follow_each_other(make: Maker) -> None:
    convolution(make, to_filter=5e5)
    make("again", "Custom", ["input", "filter"], [SMALL], cost=1e5)
    make.step.reads[make.step.index["y"]].append((make.step.index["again"], 0))
    assert added(make, make.peak("y", threads=2).nbytes) == ["more after again"]


# -- how they wait ------------------------------------------------------------------------------------------------


# -- any step -----------------------------------------------------------------------------------------------------


@given(steps(), st.integers(1, 3), st.data())
def test_what_holds_of_every_step(step: StepGraph, threads: int, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.integers(0, len(step) - 1), unique=True))
    played = peak(step, kept, threads)
    bound = played.nbytes + data.draw(st.integers(0, 3))
    before = step.copy()
    waits = waits_for_releases(step, played, range(len(step)), [True] * len(step), bound)
    assert step == before
    begun = {number: at for at, number in enumerate(played.order)}
    for node, reader in waits:
        assert begun[reader] < begun[node]
        step.waits[node].append(reader)
    assert sorted(peak(step, kept, threads).order) == list(range(len(step)))
    for at, number in enumerate(played.order):
        if any(size.nbytes for size in step.sizes[number]) and step.ops[number] in ("Custom", "Relu", "AddN"):
            assert played.live[at] + racing_bytes(step, played, number) <= bound
    for wait in waits:
        assert is_of_use(step, wait)


def ancestors(step: StepGraph, number: int) -> set[int]:
    out: set[int] = set()
    pending = [number]
    while pending:
        current = pending.pop()
        if current not in out:
            out.add(current)
            pending += [p for p, _ in step.reads[current]] + step.waits[current]
    return out


def racing_bytes(step: StepGraph, played: Peak, number: int) -> int:
    """The bytes of what NUMBER writes over, or was free when it began, and might not be."""
    before, at = ancestors(step, number), played.order.index(number)
    over = number if any(release.to == number for release in played.releases) else None
    freed = [r for r in played.releases if r.at <= at and r.to == over]
    return sum(release.nbytes for release in freed if not before.issuperset(release.readers))


def is_of_use(step: StepGraph, wait: Wait) -> bool:
    """Whether the node would not depend on the reader without the wait."""
    without = step.copy()
    without.waits[wait.node].remove(wait.reader)
    return wait.reader not in ancestors(without, wait.node)
