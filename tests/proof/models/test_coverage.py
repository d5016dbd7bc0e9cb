"""What feeds reach is counted, and a search reaches more."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tf_graphs import Builder

import gdsurgeon as gds
from gdsurgeon.errors import ValidationError
from gdsurgeon.proof.models.coverage import Coverage, Place
from gdsurgeon.runtime.statistics import Statistics


def model(most: float = 1000.0) -> bytes:
    """One side of a Relu, both of another, a comparison that is never true, and a clip at MOST."""
    m = Builder()
    m.placeholder("x", "float32", (2, 3))
    m.node("s", "Sigmoid", ["x"], T="float32")
    m.node("always", "Relu", ["s"], T="float32")
    m.node("half", "Relu", ["x"], T="float32")
    m.const("huge", 1e9)
    m.node("never", "Greater", ["x", "huge"], T="float32")
    m.node("count", "Cast", ["never"], SrcT="bool", DstT="float32")
    m.const("most", most)
    m.node("clipped", "Minimum", ["half", "most"], T="float32")
    m.node("sum", "Add", ["always", "count"], T="float32")
    m.node("y", "Add", ["sum", "clipped"], T="float32")
    return m.bytes()


def test_both_sides_are_seen_in_one_feed_or_in_several() -> None:
    a, b = Place("a", "x", 0.0), Place("b", "y", 6.0)
    found = Coverage([a, b])
    found.note(a, Statistics(4, 0, 0, -1.0, 1.0))
    found.note(b, Statistics(4, 0, 0, 0.0, 1.0))
    assert found.unreached == ["b above 6"]
    found.note(b, Statistics(4, 0, 0, 7.0, 8.0))
    assert found.unreached == []


@pytest.mark.tensorflow
def test_the_verdict_says_what_stayed_unreached(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(model())
    coverage = gds.validate(str(tmp_path / "a.pb")).coverage
    assert coverage is not None
    assert coverage.unreached == ["always below 0", "never above 0.5"]
    assert coverage.as_json()["both_sides"] == 1


@pytest.mark.tensorflow
def test_a_search_finds_what_the_feeds_do_not(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(model())
    (tmp_path / "b.pb").write_bytes(model(2000.0))
    found = gds.validate(str(tmp_path / "a.pb"), str(tmp_path / "b.pb"))
    assert [item.name for item in found.differences] == ["most"]
    with pytest.raises(ValidationError, match="differ on the same multiplied by") as caught:
        gds.validate(str(tmp_path / "a.pb"), str(tmp_path / "b.pb"), effort=60.0)
    assert caught.value.exit_code == 5
