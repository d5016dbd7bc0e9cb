"""Places where something else is computed: a difference is seen at the place, by itself, where outputs hide it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.graphs import Builder

import gdsurgeon as gds
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.claims import AT_ONCE, MOST_GROUPS, EditResult, SameOutputs, SameSites, Site, site_claims
from gdsurgeon.feeds.numbers import numbers_of_all_sizes
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.proof import DiffersError

SITE = Site(("scaled",), (("clipped", "clipped"),))


def model() -> Graph:
    """A clip whose input never is above 2 on the feeds, and whose result is next to nothing of the output."""
    m = Builder()
    m.placeholder("x", "float32", (1, 4))
    m.const("hundredth", 0.01)
    m.node("scaled", "Mul", ["x", "hundredth"], T="float32")
    m.node("clipped", "Relu6", ["scaled"], T="float32")
    m.const("small", 1e-4)
    m.node("part", "Mul", ["clipped", "small"], T="float32")
    m.const("much", 1e3)
    m.node("y", "AddV2", ["part", "much"], T="float32")
    return m.graph("model.pb")


def another_op(graph: Graph) -> EditResult:
    graph.set_op(graph["clipped"], "Relu")
    return EditResult(Intent(changed=["clipped"]), site_claims([SITE], 1e-4))


def a_percent_more(graph: Graph) -> EditResult:
    by = tensor_value(1, (), [1.01]).SerializeToString()
    factor = graph.add("by", "Const", attrs={"dtype": type_value(1).SerializeToString(), "value": by})
    node = graph["clipped"]
    more = graph.add("more", "Mul", [node.output, factor.output], attrs={"T": type_value(1).SerializeToString()})
    graph.reroute([use for use in graph.uses(node.output) if use.node is not more], more.output)
    slots = [Rewired(use.node.name, use.slot, "clipped", "more") for use in graph.uses(more.output)]
    intent = Intent(added=["by", "more"], rewired=slots, moved={"clipped": "more"})
    return EditResult(intent, site_claims([Site(("scaled",), (("clipped", "more"),))], 1e-4))


@pytest.mark.tensorflow
@pytest.mark.parametrize(("edit", "at_the_site"), [(another_op, True), (a_percent_more, False)])
def test_what_no_output_shows_is_seen_at_its_site(edit: Callable[[Graph], EditResult], at_the_site: bool) -> None:
    graph = model()
    result = edit(graph)
    with pytest.raises(DiffersError) as raised:
        gds.prove(graph.pristine(), graph, result)
    assert ("random numbers" in raised.value.message) == at_the_site
    assert any(
        line.startswith(("clipped: ", "clipped (now more): ")) and "of the largest" in line
        for line in raised.value.details
    )


@pytest.mark.tensorflow
def test_the_same_is_told_with_what_it_was_compared_on() -> None:
    graph = model()
    low = graph.add("low", "Relu", [graph["scaled"].output], attrs={"T": type_value(1).SerializeToString()})
    six = tensor_value(1, (), [6.0]).SerializeToString()
    high = graph.add("six", "Const", attrs={"dtype": type_value(1).SerializeToString(), "value": six})
    graph.set_op(graph["clipped"], "Minimum")
    graph.set_inputs(graph["clipped"], [low.output, high.output])
    result = EditResult(Intent(added=["low", "six"], changed=["clipped"]), site_claims([SITE], 1e-4))
    proof = gds.prove(graph.pristine(), graph, result)
    assert "each changed site in isolation: " in proof.statement
    assert proof.largest_difference == 0
    assert proof.of_largest == 1e-4
    assert {output.after for output in proof.compared} == {"y", "clipped"}


def test_no_site_of_a_group_reads_what_another_gives() -> None:
    chain = [Site((f"n{i}",), ((f"n{i + 1}", f"n{i + 1}"),)) for i in range(2 * AT_ONCE)]
    first, *groups = site_claims(chain, 0.5)
    assert isinstance(first, SameOutputs)
    assert first.also == tuple(f"n{i + 1}" for i in range(2 * AT_ONCE))
    for group in groups:
        assert isinstance(group, SameSites)
        assert len(group.sites) <= AT_ONCE
        read = {name for site in group.sites for name in site.inputs}
        assert read.isdisjoint(name for site in group.sites for pair in site.outputs for name in pair)
    assert sum(len(group.sites) for group in groups if isinstance(group, SameSites)) == len(chain)
    many = site_claims([Site((f"a{i}",), ((f"b{i}", f"b{i}"),)) for i in range(1000)], 0.5)
    assert len(many) == 1 + MOST_GROUPS


def test_numbers_are_of_all_sizes_and_of_either_sign() -> None:
    import numpy as np

    for dtype, kind in ((1, "<f4"), (2, "<f8"), (19, "<f2")):
        values = np.frombuffer(numbers_of_all_sizes(dtype, 4001, 7), kind).astype(float)
        assert values.size == 4001
        assert (values < 0).mean() == pytest.approx(0.5, abs=0.05)
        assert abs(values).min() >= 0.125
        assert 30 < abs(values).max() < 32
        assert ((abs(values) < 2).mean()) == pytest.approx(0.5, abs=0.05)
