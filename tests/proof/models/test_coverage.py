"""What feeds reach is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.graphs import Builder, const, node, placeholder, typed
from support.paths import FIXTURES

import gdsurgeon as gds
from gdsurgeon.view.verdict import verdict_summary


def model(most: float = 1000.0) -> bytes:
    """One side of a Relu, both of another, a comparison that is never true, and a clip at MOST."""
    m = Builder(
        placeholder("x", "float32", (2, 3)), typed("Sigmoid", "s", "x"), typed("Relu", "always", "s"),
        typed("Relu", "half", "x"), const("huge", 1e9), typed("Greater", "never", "x", "huge"),
        node("count", "Cast", ["never"], SrcT="bool", DstT="float32"), const("most", most),
        typed("Minimum", "clipped", "half", "most"), typed("Add", "sum", "always", "count"),
        typed("Add", "y", "sum", "clipped"),
    )  # fmt: skip
    return m.bytes()


@pytest.mark.tensorflow
def test_the_verdict_says_what_stayed_unreached(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(model())
    coverage = gds.validate(str(tmp_path / "a.pb")).coverage
    assert coverage is not None
    assert coverage.unreached == ["always below 0", "never above 0.5"]
    assert coverage.as_json()["both_sides"] == 1


def looking_up() -> Builder:
    """A look-up of n in an embedding of five rows, and channels; one of the channels is never above zero."""
    return Builder(
        placeholder("n", "int32", ()), const("zero", 0, "int32"),
        const("rows", [[1.0, -1.0, -0.5], [2.0, -2.0, 1.0], [3.0, -3.0, 1.0], [4.0, -4.0, 1.0], [5.0, -5.0, 1.0]]),
        node("row", "GatherV2", ["rows", "n", "zero"], Tparams="float32", Tindices="int32", Taxis="int32"),
        typed("ExpandDims", "rowed", "row", "zero", Tdim="int32"), typed("Relu", "y", "rowed"),
    )  # fmt: skip


@pytest.mark.tensorflow
def test_rows_and_channels_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(looking_up().bytes())
    verdict = gds.validate(str(tmp_path / "a.pb"), feeds={"n": "1"})
    found = verdict.coverage
    assert found is not None and list(found.rows.values()) == [1]
    assert found.as_json() == {
        "places": 1,
        "both_sides": 1,
        "unreached": [],
        "rows": {"row": {"there": 5, "asked": 1}},
        "channels": {"there": 3, "alive": 2},
        "dead_channels": {"y": 1},
    }
    said = [entry.text for entry in verdict_summary(verdict)[1] if entry.label == "coverage"]
    assert said == [
        "1 of 1 comparison, clip or choice on both sides",
        "1 of 5 rows read by row",
        "2 of 3 channels above zero; not 1 of y",
    ]


@pytest.mark.tensorflow
def test_the_keys_of_a_table_are_counted() -> None:
    found = gds.validate(str(FIXTURES / "label_lookup.pb")).coverage
    assert found is not None
    assert [lookup.rows for lookup in found.rows] == [10]
    assert 0 < sum(found.rows.values()) < 10


@pytest.mark.tensorflow
@pytest.mark.parametrize(("layout", "dead"), [("NHWC", {"y": 1}), ("NCHW", {"y": 2})])
def test_channels_above_zero(tmp_path: Path, layout: str, dead: dict[str, int]) -> None:
    values = np.full((2, 3, 3, 3), -1.0, np.float32)
    values[1, 1, 1, 2] = values[0, 1, 0, 0] = 1.0  # one channel of axis 1, two of the last axis
    data = Builder(
        const("v", values.tolist()), const("bias", [0.0] * 3),
        typed("BiasAdd", "b", "v", "bias", data_format=layout), typed("Relu", "y", "b"), typed("Relu", "z", "bias"),
    ).bytes()  # fmt: skip
    (tmp_path / "a.pb").write_bytes(data)
    coverage = gds.validate(str(tmp_path / "a.pb")).coverage
    assert coverage is not None
    assert coverage.as_json()["dead_channels"] == dead
