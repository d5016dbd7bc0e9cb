"""What ops reach outside the graph, and the ops that engines support."""

from __future__ import annotations

from pathlib import Path

import pytest

import gdsurgeon
from gdsurgeon.ops.op_defs import op_def, op_names
from gdsurgeon.ops.reach import KINDS, UNKNOWN, is_pure, reach_of, reaches
from gdsurgeon.ops.releases import TITLES, engine


def test_each_op_has_a_line_and_none_was_left_unseen() -> None:
    assert [op for op, _ in reaches()] == op_names()
    assert {reach.kind for _, reach in reaches()} == set(KINDS)


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("Relu", "none"),
        ("ScalarSummary", "none"),
        ("ShardedFilename", "none"),
        ("ReadFile", "file read"),
        ("CSVDataset", "file read"),
        ("SaveV2", "file write"),
        ("DatasetToTFRecord", "file write"),
        ("DistributedSave", "network"),
        ("RegisterDatasetV2", "network"),
        ("DatasetFromGraph", "process"),
        ("XlaCallModule", "process"),
        ("Abort", "process"),
        ("EagerPyFunc", "python"),
    ],
)
def test_what_ops_reach(op: str, kind: str) -> None:
    assert reach_of(op).kind == kind
    assert is_pure(op, {}) is (kind == "none")


@pytest.mark.parametrize("op", ["NoSuchOp", "", "Relu\t", "Relu\nRelu6", "#"])
def test_what_is_not_in_the_table_reaches(op: str) -> None:
    assert reach_of(op).kind == UNKNOWN
    assert not is_pure(op, {})


@pytest.mark.parametrize(("op", "reach"), [(op, reach) for op, reach in reaches() if reach.attr])
def test_the_default_of_an_attr_that_decides_is_harmless(op: str, reach: object) -> None:
    attr = reach_of(op).attr
    definition = op_def(op)
    assert definition is not None
    default = definition.attrs[attr].default
    assert is_pure(op, {attr: default.encode() if isinstance(default, str) else default})
    assert is_pure(op, {})


def test_an_attr_decides_only_with_a_plain_value() -> None:
    assert is_pure("PrintV2", {"output_stream": b"log(info)"})
    assert not is_pure("PrintV2", {"output_stream": b"file:///tmp/x"})
    assert not is_pure("PrintV2", {"output_stream": None})  # the function's caller says what it is
    assert not is_pure("DebugNanCount", {"debug_urls": [b"file:///tmp"]})
    assert not is_pure("DecodeProtoV2", {"descriptor_source": b"/etc/passwd"})


TABLE = Path(gdsurgeon.__file__).parent / "data" / "engines.txt"


@pytest.mark.parametrize("name", TITLES)
def test_an_engine_has_a_version_and_what_all_of_them_take(name: str) -> None:
    found = engine(name)
    assert found.called == f"{TITLES[name]} {found.version}" and found.version.count(".") == 2
    common = """Abs AddV2 AvgPool BiasAdd ConcatV2 Const Conv2D DepthwiseConv2dNative FusedBatchNormV3 Identity MatMul
        MaxPool Mean Mul Pad Placeholder Relu Relu6 Reshape Sigmoid Softmax Squeeze StridedSlice Sub Tanh Transpose"""
    assert [op for op in common.split() if found.ops.get(op) != ""] == []
    assert not {"DecodeWav", "NoSuchOp", ""} & {op for op, kind in found.ops.items() if not kind}


def test_ops_of_tensorflow_that_can_be_linked_are_told_apart() -> None:
    ops = engine("tflite").ops
    assert ops["Erf"] == ops["DecodeJpeg"] == "select" and set(ops.values()) == {"", "select"}
    assert {kind for name in TITLES if name != "tflite" for kind in engine(name).ops.values()} == {""}
    assert all(op in ops and not ops[op] for op in ("SplitV", "BatchToSpaceND", "StatelessWhile", "TensorListStack"))


def test_loops_count_where_they_are_taken_whole() -> None:
    assert {"Enter", "Exit", "NextIteration"} <= set(engine("openvino").ops)
    assert not {"Enter", "Exit", "NextIteration"} & set(engine("opencv").ops)


def test_the_table_is_small_and_sorted_and_of_ops() -> None:
    assert TABLE.stat().st_size < 40_000
    lines = TABLE.read_text().splitlines()
    heads = [line for line in lines if line.startswith(">")]
    assert [head[1:].partition("\t")[0] for head in heads] == sorted(TITLES)
    for name in TITLES:
        ops = list(engine(name).ops)
        assert ops == sorted(set(ops)) and len(ops) > 90
        assert sum(op_def(op) is None for op in ops) < 20  # tfjs has some of its own
