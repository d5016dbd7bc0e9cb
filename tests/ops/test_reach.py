"""The table of what ops reach: each op has a line, and what keeps an op from reaching anything is its default."""

from __future__ import annotations

import pytest

from gdsurgeon.ops.op_defs import op_def, op_names
from gdsurgeon.ops.reach import KINDS, UNKNOWN, is_pure, reach_of, reaches


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
