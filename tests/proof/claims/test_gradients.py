"""The proof of added gradients finds wrong backward passes, whether or not the edit declares the change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from support.graphs import Builder, define, library, typed, written
from support.mutations import Mutation, mutations
from support.spoiling import EDITED, ORIGINAL, caught, proven

from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.gradients import check_budget
from gdsurgeon.proof.proof import MemoryUse, Proof
from gdsurgeon.proof.prove import prove
from gdsurgeon.runtime.base import Backward, Derivation
from gdsurgeon.runtime.evaluator import Differentiator
from gdsurgeon.wire.protos import GraphDef

pytestmark = pytest.mark.tensorflow

STEPS = 8
SIZE = 2048


def model() -> Builder:
    """Layers that are each read twice, so that the backward pass has products, sums and functions of them."""
    m = Builder()
    last = m.placeholder("x", "float32", (-1, SIZE))
    weights = np.random.default_rng(0)
    for i in range(STEPS):
        m.const(f"w{i}", weights.normal(size=SIZE).astype(np.float32))
        m.typed("Mul", f"scaled{i}", last, f"w{i}")
        m.typed("Tanh", f"tanh{i}", f"scaled{i}")
        last = m.typed("Sub", f"less{i}", f"tanh{i}", last)
    m.typed("Square", "y", last)
    minus = typed("Sub", "minus", "a", "b")
    m.add("", library(define("spare", {"a": "float32", "b": "float32"}, {"first": ("float32", "minus:z:0")}, minus)))
    return m


def edit(differentiator: Any, checkpoints: str = "memory") -> Callable[[Graph], EditResult]:
    return lambda graph: add_gradients(
        graph, ["y"], ["x", "w3"], checkpoints=checkpoints, shapes={"x": (64, SIZE)}, differentiator=differentiator
    )


@pytest.mark.parametrize("checkpoints", ["none", "memory", "speed"])
def test_the_right_gradients_pass(checkpoints: str, executor: Executor, differentiator: Differentiator) -> None:
    result = proven(executor, model(), edit(differentiator, checkpoints))
    assert {output.after for output in result.compared} >= {"gradients/x", "gradients/w3", "y"}
    assert all(output.comparison is not None and output.comparison.equal for output in result.compared)
    assert result.batches == [1, 2]


def under_budget(executor: Executor, differentiator: Differentiator, mib: float, rows: int) -> Proof:
    """The plan is for one row."""
    return proven(
        executor,
        model(),
        lambda g: add_gradients(g, ["y"], ["x"], budget=mib, shapes={"x": (1, SIZE)}, differentiator=differentiator),
        Overrides(shapes={"x": (rows, SIZE)}),
    )


def test_a_budget_is_held_against_what_is_measured(executor: Executor, differentiator: Differentiator) -> None:
    most = under_budget(executor, differentiator, 100, 512).memory
    assert most is not None and most.budget == 100 << 20
    with pytest.raises(ValidationError) as error:
        under_budget(executor, differentiator, most.edited / (1 << 20) / 1.5, 512)
    assert error.value.code == "over-budget" and error.value.advice == ("plan-again",)


@pytest.mark.parametrize(("taken", "warnings"), [(100 << 20, 0), (105 << 20, 1), (120 << 20, 0)])
def test_a_little_over_the_budget_is_a_warning(taken: int, warnings: int) -> None:
    proof = Proof("run")
    with pytest.raises(ValidationError) if taken > 115 << 20 else nullcontext():
        check_budget(proof, MemoryUse(taken, budget=100 << 20))
    assert len(proof.warnings) == warnings


# -- what the edit does not speak of ---------------------------------------------------------------------------


def test_every_kind_of_mutation_is_caught(executor: Executor, differentiator: Differentiator) -> None:
    """The first mutation of each kind: of added nodes, of other nodes, and in functions."""
    graph = model().graph("model.pb")
    executor.load_graph(ORIGINAL, graph)
    result = edit(differentiator)(graph)
    found: dict[tuple[str, bool, str], Mutation] = {}
    for mutation in mutations(written(graph)):
        found.setdefault((mutation.kind, mutation.node in result.intent.added, mutation.where), mutation)
    assert {("inputs swapped", True, ""), ("control dropped", True, ""), ("sign", True, "")} <= found.keys()
    for mutation in found.values():
        with pytest.raises(ValidationError):
            check_accounted(graph, result, [mutation.data])
            executor.load(EDITED, mutation.data)
            prove(executor, Change(graph.pristine(), graph, result), Overrides())
            pytest.fail(f"nothing reports {mutation[:3]}", pytrace=False)


# -- what the edit believes itself -------------------------------------------------------------------------------


class Mistaken(Differentiator):
    """A differentiator that makes a mistake of its own in the walk, and none when it is asked for TensorFlow's."""

    def __init__(self, right: Differentiator, mistake: Callable[[Any], None]) -> None:
        self._right = right
        self._mistake = mistake
        self.signatures = right.signatures
        self.allow_ops = right.allow_ops

    def derive(self, data: bytes, wanted: Derivation) -> Backward:
        found = self._right.derive(data, wanted)
        if not wanted.own:
            return found
        graph = GraphDef.FromString(found.graph)
        self._mistake(graph)
        return found._replace(graph=graph.SerializeToString())


def first(graph: Any, op: str, inputs: int = 1) -> Any:
    return next(node for node in graph.node if node.op == op and len(node.input) >= inputs)


def another_op(graph: Any) -> None:
    first(graph, "TanhGrad").op = "SigmoidGrad"


def a_summand_lost(graph: Any) -> None:
    node = first(graph, "AddN", 2)
    node.input[1] = node.input[0]


def not_negated(graph: Any) -> None:
    first(graph, "Neg").op = "Identity"


def half_the_seed(graph: Any) -> None:
    node = next(n for n in graph.node if n.op == "Const" and list(n.attr["value"].tensor.float_val) == [1.0])
    node.attr["value"].tensor.float_val[0] = 0.5


def another_layer(graph: Any) -> None:
    nodes = [node for node in graph.node if node.op == "TanhGrad"]
    nodes[0].input[0], nodes[1].input[0] = nodes[1].input[0], nodes[0].input[0]


@pytest.mark.parametrize("mistake", [another_op, a_summand_lost, not_negated, half_the_seed, another_layer])
@pytest.mark.parametrize("checkpoints", ["none", "memory"])
def test_a_mistake_of_the_walk_is_caught(
    mistake: Callable[[Any], None], checkpoints: str, executor: Executor, differentiator: Differentiator
) -> None:
    error = caught(executor, model(), edit(Mistaken(differentiator, mistake), checkpoints))
    assert isinstance(error, ValidationError) and error.code == "differs"
