"""`structure` refuses what TensorFlow's import refuses, and takes what that takes.

    GDSURGEON_EXAMPLES=20000 python -m pytest tests/analysis/checks/test_agreement.py

looks at as many random graphs; it takes some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support.agreement import disagreement
from support.importer import Importer
from support.random_nodes import nodes_of_any_op

from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.messages import message

EXAMPLES = int(os.environ.get("GDSURGEON_EXAMPLES", "300"))

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def importer() -> Iterator[Importer]:
    with Importer() as started:
        yield started


@settings(
    max_examples=EXAMPLES,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(made=nodes_of_any_op())
def test_structure_agrees_with_tensorflow(importer: Importer, made: tuple[str, list[str], bytes]) -> None:
    op, slips, data = made
    assert disagreement(importer, data) == "", (op, slips, message("tensorflow.GraphDef").FromString(data))


@pytest.mark.parametrize("said", ["TensorFlow", "structure"])
def test_a_disagreement_is_seen(importer: Importer, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """The test before can fail: with one side taking everything, the other is told of."""
    graph = message("tensorflow.GraphDef")()
    graph.node.add(name="y", op="Identity", input=["x"] if said == "structure" else []).attr["T"].type = 1
    data = graph.SerializeToString()
    assert disagreement(importer, data) == ""
    sound = from_bytes(b"\n\x09\n\x01n\x12\x04NoOp")
    if said == "TensorFlow":
        monkeypatch.setattr("support.agreement.from_bytes", lambda _: sound)
    else:
        monkeypatch.setattr(importer, "refusal", lambda _: "")
    assert disagreement(importer, data).startswith(f"{said} alone: ")
