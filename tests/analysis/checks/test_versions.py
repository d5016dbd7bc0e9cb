"""What a file says of the versions of TensorFlow that may read it, and ops that later versions have not."""

from __future__ import annotations

import re

import pytest
from support.graphs import FLOAT, const, graph, node

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.ops.op_defs import graph_def_version
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import VersionDef

NOW = graph_def_version()
GONE = node("p", "PlaceholderV2", dtype=FLOAT, shape=(1,))  # removed in 23
GONE_INSIDE_MANY = b"".join(node(f"n{i}", "NoOp") for i in range(3000)) + GONE


def faults(records: bytes, **versions: object) -> list[str]:
    trailer = encode_len(4, VersionDef(**versions).SerializeToString())
    return check(graph(records, trailer=trailer)).faults


@pytest.mark.parametrize(
    ("records", "versions", "words"),
    [
        (
            const("c", [1]),
            {"min_consumer": NOW + 1},
            f"requires GraphDef version {NOW + 1} or later",
        ),
        (
            const("c", [1]),
            {"bad_consumers": [3, NOW]},
            f"it excludes GraphDef version {NOW}",
        ),
        (const("c", [1]), {"producer": -1}, "its producer version -1 does not exist"),
        (
            GONE,
            {"producer": 23},
            "'p': the op PlaceholderV2 is not allowed from GraphDef version 23 on, but this",
        ),
        (GONE_INSIDE_MANY, {"producer": 24}, "'p': the op PlaceholderV2 is not allowed from GraphDef version 23 on"),
    ],
    ids=["min_consumer too new", "bad consumer", "producer that there is not", "op that is gone", "among many"],
)
def test_versions_that_tensorflow_refuses(records: bytes, versions: dict[str, object], words: str) -> None:
    (fault,) = faults(records, **versions)
    assert re.search(words, fault)


def test_versions_that_tensorflow_takes() -> None:
    assert faults(const("c", [1]), min_consumer=NOW, bad_consumers=[NOW - 1, NOW + 1], producer=NOW + 1000) == []
    assert faults(GONE, producer=22) == []
    assert faults(GONE) == []
