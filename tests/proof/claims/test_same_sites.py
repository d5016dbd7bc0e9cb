"""Proofs of single nodes, and of nodes that differ on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.desk import Desk
from support.graphs import Builder, attr, const, placeholder, tensor, typed
from support.spoiling import Edit, caught, exchanged, proven, spoilt

import gdsurgeon as gds
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.claims import (
    AT_ONCE,
    MOST_GROUPS,
    EditResult,
    SameOutputs,
    SameSites,
    Site,
    on_purpose,
    site_claims,
)
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.parts import insert
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.edits.set_attr import set_attr
from gdsurgeon.feeds.numbers import numbers_of_all_sizes
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import DiffersError
from gdsurgeon.select import Selection
from gdsurgeon.values import Tolerance

SITE = Site(("scaled",), (("clipped", "clipped"),))


def model() -> Graph:
    """A clip whose input never is above 2 on the feeds, and whose result is next to nothing of the output."""
    m = Builder(
        placeholder("x", "float32", (1, 4)), const("hundredth", 0.01), typed("Mul", "scaled", "x", "hundredth"),
        typed("Relu6", "clipped", "scaled"), const("small", 1e-4), typed("Mul", "part", "clipped", "small"),
        const("much", 1e3), typed("AddV2", "y", "part", "much"),
    )  # fmt: skip
    return m.graph("model.pb")


def another_op(graph: Graph) -> EditResult:
    graph.set_op(graph["clipped"], "Relu")
    return EditResult(Intent(changed=["clipped"]), site_claims([SITE], Tolerance(of_largest=1e-4)))


FLOAT = {"T": attr("float32")}


def constant(graph: Graph, name: str, value: float) -> Output:
    return graph.add(name, "Const", attrs={"dtype": attr("float32"), "value": tensor(value)}).output


def a_percent_more(graph: Graph) -> EditResult:
    node = graph["clipped"]
    more = graph.add("more", "Mul", [node.output, constant(graph, "by", 1.01)], attrs=FLOAT)
    graph.reroute([use for use in graph.uses(node.output) if use.node is not more], more.output)
    slots = [Rewired(use.node.name, use.slot, "clipped", "more") for use in graph.uses(more.output)]
    intent = Intent(added=["by", "more"], rewired=slots, moved={"clipped": "more"})
    return EditResult(intent, site_claims([Site(("scaled",), (("clipped", "more"),))], Tolerance(of_largest=1e-4)))


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
    low = graph.add("low", "Relu", [graph["scaled"].output], attrs=FLOAT)
    graph.set_op(graph["clipped"], "Minimum")
    graph.set_inputs(graph["clipped"], [low.output, constant(graph, "six", 6.0)])
    claims = site_claims([SITE], Tolerance(of_largest=1e-4))
    proof = gds.prove(graph.pristine(), graph, EditResult(Intent(added=["low", "six"], changed=["clipped"]), claims))
    assert "each changed site in isolation: " in proof.statement
    assert proof.largest_difference == 0
    assert proof.tolerance.of_largest == 1e-4
    assert {output.after for output in proof.compared} == {"y", "clipped"}


def test_no_site_of_a_group_reads_what_another_gives() -> None:
    chain = [Site((f"n{i}",), ((f"n{i + 1}", f"n{i + 1}"),)) for i in range(2 * AT_ONCE)]
    first, *groups = site_claims(chain, Tolerance(of_largest=0.5))
    assert isinstance(first, SameOutputs)
    assert first.also == tuple(f"n{i + 1}" for i in range(2 * AT_ONCE))
    for group in groups:
        assert isinstance(group, SameSites)
        assert len(group.sites) <= AT_ONCE
        read = {name for site in group.sites for name in site.inputs}
        assert read.isdisjoint(name for site in group.sites for pair in site.outputs for name in pair)
    assert sum(len(group.sites) for group in groups if isinstance(group, SameSites)) == len(chain)
    many = site_claims([Site((f"a{i}",), ((f"b{i}", f"b{i}"),)) for i in range(1000)], Tolerance(of_largest=0.5))
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


def scaled_model() -> Builder:
    """`y` and the choice of the largest, `best`, depend on a Relu, `apart` does not."""
    return Builder(
        placeholder("x", "float32", (2, 3)), const("w", [1.0, -2.0, 3.0]), typed("Mul", "scaled", "x", "w"),
        typed("Relu", "relu", "scaled"), typed("Sub", "y", "relu", "w"), const("axis", 1, "int32"),
        typed("Mul", "ranked", "relu", "w"),
        typed("ArgMax", "best", "ranked", "axis", Tidx="int32", output_type="int64"), typed("Sub", "apart", "x", "w"),
    )  # fmt: skip


def body() -> Graph:
    p = Builder(placeholder("in", "float32", (2, 3)), typed("Neg", "out", "in"))
    return p.graph("body.pb")


RELU = Selection(nodes=("relu",))
EDITS: dict[str, Edit] = {
    "set-attr": lambda g: set_attr(g, RELU, [("op", "Elu")]),
    "rewrite": lambda g: rewrite(g, "Relu($x) -> Neg($x)"),
    "reroute": lambda g: reroute(g, [("relu", "scaled")]),
    "insert": lambda g: insert(g, "relu", body()),
    "insert several": lambda g: insert(g, ["relu", "scaled"], body()),
    "fuse-ops --with": lambda g: fuse_ops(g, RELU, "f", body=body()),
}


def purposely(edit: Edit) -> Edit:
    def changing(graph: Graph) -> EditResult:
        result = edit(graph)
        return replace(result, claims=on_purpose(result.claims))

    return changing


@pytest.mark.parametrize("name", EDITS)
def test_what_moves_is_measured_and_the_rest_is_the_same(name: str, executor: Executor) -> None:
    proof = proven(executor, scaled_model(), purposely(EDITS[name]))
    found = {output.before: output for output in proof.outputs}
    moved = {name for name, output in found.items() if output.moved is not None}
    assert {"y", "best"} <= moved <= {"y", "best", "ranked"}
    assert found["y"].moved is not None and (found["y"].moved.max_abs or 0.0) > 0.1
    assert found["apart"].comparison is not None and found["apart"].comparison.equal
    error = caught(executor, scaled_model(), spoilt(purposely(EDITS[name]), exchanged("apart")))
    assert error.exit_code == 5


@pytest.mark.parametrize("name", ["rewrite", "fuse-ops --with"])
def test_otherwise_they_are_to_be_the_same(name: str, executor: Executor) -> None:
    assert caught(executor, scaled_model(), EDITS[name]).code == "differs"


def test_the_result_has_to_run(executor: Executor) -> None:
    m = scaled_model()
    m.const("seven", 7, "int32")
    error = caught(executor, m, purposely(lambda g: reroute(g, [("axis", "seven")])))
    assert error.code in ("does-not-run", "does-not-load")


@pytest.mark.tensorflow
@pytest.mark.parametrize("script", [False, True])
def test_on_the_command_line(desk: Desk, script: bool) -> None:
    desk.put("m.pb", scaled_model().bytes())
    desk.put("s.gds", b"rename x=image\nrewrite 'Relu($x) -> Neg($x)' --changes-values\n")
    edit = ("apply", "m.pb", "s.gds") if script else ("rewrite", "m.pb", "Relu($x) -> Neg($x)", "--changes-values")
    desk.done(*edit, "-o", "out.pb", "--report", "r.json")
    outputs = {o["edited"]: o for o in json.loads(desk.files()["r.json"])["proof"]["outputs"] if "measured" in o}
    assert outputs["y"]["measured"]["max_abs_difference"] > 0.1
