"""Outputs with undefined content: which they are, and that no proof compares them."""

from __future__ import annotations

import pytest
from support.graphs import FLOAT, INT32, const, graph, identity, node, placeholder

from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import UNDEFINED
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.settings import Settings

PARTS = ["x", "scale", "offset", "mean", "variance"]


def batch_norm(op: str = "FusedBatchNormV3", **attrs: bool) -> Graph:
    """A batch norm `y`; `copy` and `copy_of_copy` hold its output 3, `read` its output 1."""
    types = {"U": FLOAT} if op != "FusedBatchNorm" else {}
    return graph(
        placeholder("x", FLOAT, (2, 2, 2, 3)),
        *(const(name, [1, 2, 3]) for name in PARTS[1:]),
        node("y", op, PARTS, T=FLOAT, **types, **attrs),
        identity("copy", "y:3"),
        identity("copy_of_copy", "copy"),
        identity("read", "y:1"),
    )


def test_the_table_names_outputs_and_attrs_of_ops() -> None:
    for op, undefined in UNDEFINED.items():
        definition = op_def(op)
        assert definition is not None, op
        assert max(undefined.always | undefined.unless) < len(definition.outputs)
        assert not undefined.attr or undefined.attr in definition.attrs


@pytest.mark.parametrize(
    ("op", "attrs", "defined"),
    [
        ("FusedBatchNorm", {"is_training": False}, 3),
        ("FusedBatchNormV2", {"is_training": False}, 3),
        ("FusedBatchNormV3", {"is_training": False}, 3),
        ("FusedBatchNormV2", {"is_training": True}, 5),
        ("FusedBatchNormV3", {"is_training": True}, 5),
        ("FusedBatchNormV3", {}, 5),  # training is the default
    ],
)
def test_reserve_spaces_are_not_fetched(op: str, attrs: dict[str, bool], defined: int) -> None:
    plan = plan_with(Settings(), batch_norm(op, **attrs), ["y"])
    assert plan.fetches == ["y", *(f"y:{i}" for i in range(1, defined))]


def test_a_copy_of_an_undefined_output_is_not_fetched() -> None:
    names = ["copy", "copy_of_copy", "read"]
    assert plan_with(Settings(), batch_norm(is_training=False), names).fetches == ["read"]
    assert plan_with(Settings(), batch_norm(is_training=True), names).fetches == names


def test_memory_that_is_not_initialised_is_not_fetched() -> None:
    found = graph(
        const("shape", [2], INT32),
        node("zeros", "Empty", ["shape"], dtype=FLOAT, init=True),
        node("memory", "Empty", ["shape"], dtype=FLOAT),
    )
    assert plan_with(Settings(), found).fetches == ["zeros"]
