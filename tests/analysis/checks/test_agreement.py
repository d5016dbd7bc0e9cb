"""`structure` refuses what TensorFlow's import refuses, and takes what that takes.

    GDSURGEON_EXAMPLES=20000 python -m pytest tests/analysis/checks/test_agreement.py

looks at as many random graphs, half of them around each op of the table in turn; it takes some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.importer import Importer, disagreement
from support.random_nodes import nodes_of

from gdsurgeon.graph.load import from_bytes
from gdsurgeon.ops.op_defs import op_names
from gdsurgeon.wire.protos import GraphDef

EXAMPLES = int(os.environ.get("GDSURGEON_EXAMPLES", "300"))
OF_EACH_OP = EXAMPLES // 2 // len(op_names())

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def importer() -> Iterator[Importer]:
    with Importer() as started:
        yield started


def agrees(importer: Importer, made: st.SearchStrategy[tuple[str, list[str], bytes]], examples: int) -> None:
    """Has the two look at some EXAMPLES of what is MADE."""

    @settings(
        max_examples=examples,
        phases=[Phase.generate, Phase.shrink],
    )
    @given(made)
    def look(one: tuple[str, list[str], bytes]) -> None:
        op, slips, data = one
        assert disagreement(importer, data) == "", (op, slips, GraphDef.FromString(data))

    look()


def test_structure_agrees_with_tensorflow(importer: Importer) -> None:
    agrees(importer, nodes_of(), EXAMPLES - OF_EACH_OP * len(op_names()))


@pytest.mark.skipif(not OF_EACH_OP, reason="there are fewer examples than ops")
def test_structure_agrees_with_tensorflow_on_each_op(importer: Importer) -> None:
    for op in op_names():
        agrees(importer, nodes_of(op), OF_EACH_OP)


@pytest.mark.parametrize("said", ["TensorFlow", "structure"])
def test_a_disagreement_is_seen(importer: Importer, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """The previous test can fail: if one side accepts everything, the other side reports the difference."""
    graph = GraphDef()
    graph.node.add(name="y", op="Identity", input=["x"] if said == "structure" else []).attr["T"].type = 1
    data = graph.SerializeToString()
    assert disagreement(importer, data) == ""
    sound = from_bytes(b"\n\x09\n\x01n\x12\x04NoOp")
    if said == "TensorFlow":
        monkeypatch.setattr("support.importer.from_bytes", lambda _: sound)
    else:
        monkeypatch.setattr(importer, "refusal", lambda _: "")
    assert disagreement(importer, data).startswith(f"{said} alone: ")
