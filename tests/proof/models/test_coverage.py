"""What feeds reach is counted, and a search reaches more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.paths import FIXTURES
from support.patience import LONG_ENOUGH
from support.tf_graphs import Builder, tensor

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.models.coverage import Coverage, Place, Places
from gdsurgeon.runtime.statistics import Statistics, positive_channels
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.view.summary import reached


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
    found = Coverage(Places([a, b], [], [], []))
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
        gds.validate(str(tmp_path / "a.pb"), str(tmp_path / "b.pb"), settings=gds.Settings(effort=LONG_ENOUGH))
    assert caught.value.exit_code == 5


def reaching() -> Builder:
    """A loop of n turns, a look-up of n in an embedding of five rows, and channels of which one is never above zero."""
    m = Builder()
    m.placeholder("n", "int32", ())
    m.const("one", 1, "int32")
    m.const("zero", 0, "int32")
    m.const("rows", [[1.0, -1.0, -0.5], [2.0, -2.0, 1.0], [3.0, -3.0, 1.0], [4.0, -4.0, 1.0], [5.0, -5.0, 1.0]])
    frame: dict[str, object] = {"T": "int32", "frame_name": b"loop"}
    m.node("i/Enter", "Enter", ["zero"], **frame)
    m.node("i", "Merge", ["i/Enter", "i/Next"], T="int32", N=2)
    m.node("n/Enter", "Enter", ["n"], is_constant=True, **frame)
    m.node("less", "Less", ["i", "n/Enter"], T="int32")
    m.node("turn", "LoopCond", ["less"])
    m.node("i/Switch", "Switch", ["i", "turn"], T="int32")
    m.node("i/one", "Const", ["^i"], dtype="int32", value=tensor(1, "int32"))
    m.node("i/more", "AddV2", ["i/Switch:1", "i/one"], T="int32")
    m.node("i/Next", "NextIteration", ["i/more"], T="int32")
    m.node("turns", "Exit", ["i/Switch"], T="int32")
    m.node("row", "GatherV2", ["rows", "n", "zero"], Tparams="float32", Tindices="int32", Taxis="int32")
    m.node("rowed", "ExpandDims", ["row", "zero"], T="float32", Tdim="int32")
    m.node("y", "Relu", ["rowed"], T="float32")
    return m


@pytest.mark.tensorflow
def test_turns_rows_and_channels_are_counted_and_looked_for(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes(reaching().bytes())
    plain = gds.validate(str(tmp_path / "a.pb")).coverage
    assert plain is not None
    assert len(plain.turns["turn"]) == 1 and plain.turns_missed
    assert len(plain.rows["row"]) == 1
    found = gds.validate(str(tmp_path / "a.pb"), settings=gds.Settings(effort=LONG_ENOUGH)).coverage
    assert found is not None
    assert found.turns_missed == []
    assert {0, 1} <= found.rows["row"]
    assert found.channels == (2, 3)
    assert found.as_json()["dead_channels"] == {"y": 1}
    said = [text for label, text in reached(found) if label == "reached"]
    assert said[0].startswith("0 of 1 comparison, clip or choice on both sides; not y") or said[0].startswith("1 of 1")
    assert said[1] == "1 of 1 loop with 0, 1 and more turns"
    assert said[2].endswith(" of 5 rows by row")
    assert said[3] == "2 of 3 channels above zero; not 1 of y"


@pytest.mark.tensorflow
def test_the_keys_of_a_table_are_counted() -> None:
    found = gds.validate(str(FIXTURES / "label_lookup.pb")).coverage
    assert found is not None
    assert [lookup.rows for lookup in found.places.lookups] == [10]
    assert 0 < len(found.rows[found.places.lookups[0].node]) < 10


@pytest.mark.parametrize("axis", [-1, 1])
def test_channels_above_zero(axis: int) -> None:
    values = np.full((2, 3, 3), -1.0, np.float32)
    values[1, 1, 2] = 1.0
    assert positive_channels(from_numpy(values), axis) == (b"\0\0\1" if axis == -1 else b"\0\1\0")
    assert positive_channels(from_numpy(values[0, 0]), 0) == b""
    assert positive_channels(from_numpy(values.astype(np.int32)), -1) == b""


def other_op(graph: Graph) -> EditResult:
    """A renaming with a mistake: a clip stands elsewhere."""
    result = gds.rename(graph, [("y", "z")])
    graph.set_attr(graph["most"], "value", tensor_value(1, (), [2000.0]).SerializeToString())
    return result


@pytest.mark.tensorflow
@pytest.mark.parametrize("effort", [0.0, LONG_ENOUGH])
def test_an_edits_own_proof_says_what_the_feeds_reach_and_compares_on_more(tmp_path: Path, effort: float) -> None:
    (tmp_path / "a.pb").write_bytes(model())
    path, settings = str(tmp_path / "a.pb"), gds.Settings(effort=effort)
    right = gds.operate(path, lambda g: gds.rename(g, [("y", "z")]), dry_run=True, settings=settings)
    coverage = right.proof.coverage
    assert (coverage is not None) is bool(effort)
    if coverage is not None:
        assert coverage.feeds > 1 and coverage.unreached == ["always below 0", "never above 0.5"]
    wrong = "differ on the same multiplied by" if effort else "the result differs from what the edit says of it"
    with pytest.raises(ValidationError, match=wrong):
        gds.operate(path, other_op, dry_run=True, settings=settings)
