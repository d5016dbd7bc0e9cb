"""What a graph does not give twice, and what may be laid to that."""

from __future__ import annotations

import pytest
from support.tf_graphs import Builder

from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.nondeterminism import MOST_SPREAD, excused, spread
from gdsurgeon.proof.proof import OutputProof
from gdsurgeon.proof.subject import Subject
from gdsurgeon.runtime.compare import Comparison

pytestmark = pytest.mark.tensorflow


def noise() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("shape", [2], "int32")
    m.node("chance", "RandomUniform", ["shape"], T="int32", dtype="float32", seed=0, seed2=0)
    m.node("y", "AddV2", ["x", "chance"], T="float32")
    m.node("z", "Neg", ["x"], T="float32")
    return m


def test_a_graph_is_held_against_itself(executor: Executor) -> None:
    """The random op is not fed: it draws anew in each run, as a kernel rounds anew that sums in another order."""
    graph = noise().graph()
    executor.load_source("original", graph)
    subject = Subject(executor, "original", graph, overrides=Overrides())
    feeds, _ = subject.start(0, {})
    steady = spread(executor, subject, 0, feeds)
    assert steady == {}  # what was drawn is fed; and a random op excuses nothing
    assert subject.plan.chance == ["chance"]
    subject.plan.chance.clear()  # nobody knows that it is random
    feeds = {name: value for name, value in feeds.items() if name == "x"}
    for group, names in enumerate(subject.plan.groups):
        executor.wait(executor.run("original", subject.result(0, group), feeds, names))
    own = spread(executor, subject, 0, feeds)
    assert set(own) == {"y"} and 0 < own["y"] < 1


def output(name: str, gap: float | None) -> OutputProof:
    comparison = Comparison(False, False, None, gap, gap, 1, 2, None)
    return OutputProof(name, name, 1, (2,), comparison=comparison)


@pytest.mark.parametrize(
    ("gap", "own", "is_excused"),
    [
        (1e-7, 1e-7, True),
        (MOST_SPREAD * 1e-7, 1e-7, True),
        (9e-7, 1e-7, False),
        (1e-7, 0.0, False),
        (None, 1e-7, False),
    ],
)
def test_a_difference_is_laid_to_chance_only_where_the_graph_differs_as_much_from_itself(
    gap: float | None, own: float, is_excused: bool
) -> None:
    found = output("y", gap)
    reasons = excused([found], {"y": own} if own else {}, "m.pb")
    assert (found.comparison is None) == is_excused
    assert ("does not give it twice" in found.reason) == is_excused
    assert ("y" in reasons) == is_excused
