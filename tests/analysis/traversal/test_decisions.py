"""What discrete outputs were decided by."""

from __future__ import annotations

from support.graphs import Builder

from gdsurgeon.analysis.queries.deciding import MOST_SCORES, deciding_nodes


def names(m: Builder, *outputs: str) -> list[str]:
    graph = m.graph()
    return [node.name for node in deciding_nodes([graph[name] for name in outputs])]


def scores() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2, 4))
    m.node("logits", "Neg", ["x"], T="float32")
    m.node("scores", "Softmax", ["logits"], T="float32")
    m.const("axis", 1, "int32")
    m.node("class", "ArgMax", ["scores", "axis"], T="float32", Tidx="int32", output_type="int64")
    return m


def test_a_class_was_decided_by_its_scores() -> None:
    assert names(scores(), "class") == ["scores"]


def test_the_nearest_floats_count_and_not_those_above_them() -> None:
    m = scores()
    m.node("wide", "Cast", ["class"], SrcT="int64", DstT="int32")
    m.const("labels", [b"a", b"b", b"c", b"d"], "string")
    m.const("zero", 0, "int32")
    m.node("label", "GatherV2", ["labels", "wide", "zero"], Tparams="string", Tindices="int32", Taxis="int32")
    assert names(m, "label") == ["scores"]


def test_an_output_of_floats_speaks_for_itself() -> None:
    assert names(scores(), "scores") == []


def test_a_shape_was_decided_by_no_values() -> None:
    m = scores()
    m.node("size", "Shape", ["scores"], T="float32", out_type="int32")
    assert names(m, "size") == []


def test_placeholders_and_constants_decide_nothing_that_could_differ() -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("limit", [0.5, 0.5], "float32")
    m.node("above", "Greater", ["x", "limit"], T="float32")
    assert names(m, "above") == []


def test_two_thresholds_have_two_sources_each_once() -> None:
    m = scores()
    m.node("a", "Greater", ["scores", "logits"], T="float32")
    m.node("b", "Less", ["logits", "scores"], T="float32")
    m.node("both", "LogicalAnd", ["a", "b"])
    assert names(m, "both", "a") == ["scores", "logits"]


def test_there_is_an_end_to_it() -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    last = ""
    for i in range(3 * MOST_SCORES):
        m.node(f"f{i}", "Neg", ["x"], T="float32")
        m.node(f"g{i}", "Greater", [f"f{i}", "x"], T="float32")
        if last:
            m.node(f"h{i}", "LogicalAnd", [last, f"g{i}"])
        last = f"h{i}" if last else f"g{i}"
    assert len(names(m, last)) == MOST_SCORES
