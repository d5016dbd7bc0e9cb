"""compat: diagonals, gathers of batches and bands in releases that know fewer forms of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from support import graphs
from support.expecting import refused
from support.graphs import FLOAT, INT32, INT64, const, graph, node, placeholder, scalar
from support.older import check_reason, same

from gdsurgeon.edits.compat import compat

X, M = placeholder("x", shape=(-1, 3)), placeholder("m", shape=(-1, 3, 4))
NUMBERS = [
    scalar("k", 0, INT32),
    const("k1", [0], INT32),
    scalar("n", -1, INT32),
    scalar("z", 0),
    scalar("one", 1, INT32),
]
DIAGONALS = [
    X, M, *NUMBERS,
    node("diag", "MatrixDiagV3", ["x", "k1", "n", "n", "z"], T=FLOAT, align="RIGHT_LEFT"),
    node("diag2", "MatrixDiagV2", ["x", "k", "n", "n", "z"], T=FLOAT),
    node("part", "MatrixDiagPartV3", ["m", "k", "z"], T=FLOAT, align="LEFT_RIGHT"),
    node("part2", "MatrixDiagPartV2", ["m", "k1", "z"], T=FLOAT),
    node("set", "MatrixSetDiagV3", ["m", "x", "k"], T=FLOAT),
    node("set2", "MatrixSetDiagV2", ["m", "x", "k"], T=FLOAT),
    node("band", "MatrixBandPart", ["m", "one", "n"], T=FLOAT, Tindex=INT32),
]  # fmt: skip
GATHERS = [
    placeholder("p", shape=(2, -1, 5, 3)), placeholder("i", INT32, (2, -1, 2)), placeholder("j", INT32, (2, -1)),
    scalar("one", 1, INT32), scalar("two", 2, INT32), node("wide", "Cast", ["j"], SrcT=INT32, DstT=INT64),
    node("two_dims", "GatherV2", ["p", "i", "two"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32, batch_dims=2),
    node("one_dim", "GatherV2", ["p", "wide", "one"], Tparams=FLOAT, Tindices=INT64, Taxis=INT32, batch_dims=1),
    placeholder("u"), placeholder("v", INT32),
    node("any", "GatherV2", ["u", "v", "one"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32, batch_dims=1),
    node("plain", "GatherV2", ["p", "j", "one"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32, batch_dims=0),
]  # fmt: skip


@pytest.mark.tensorflow
def test_diagonals_and_bands_give_the_same() -> None:
    names = ["diag", "diag2", "part", "part2", "set", "set2", "band"]
    feeds = [{"x": np.arange(3.0 * rows).reshape(rows, 3), "m": np.arange(12.0 * rows).reshape(rows, 3, 4) + 1}
             for rows in (0, 2)]  # fmt: skip
    found = same(DIAGONALS, "1.4", *names, feeds=feeds)
    ops = {graphs.ops(found)[name] for name in names}
    assert ops == {"MatrixDiag", "MatrixDiagPart", "MatrixSetDiag", "MatrixBandPart"}


@pytest.mark.tensorflow
def test_gathers_of_batches_give_the_same() -> None:
    rng = np.random.default_rng(3)
    for rows in (1, 4):
        fed = {"p": rng.normal(size=(2, rows, 5, 3)), "i": rng.integers(0, 5, (2, rows, 2)), "j": [[rows - 1, 0]] * 2}
        fed |= {"u": rng.normal(size=(3, 2)), "v": [[0], [1], [0]]}
        same(GATHERS, "1.12", "two_dims", "one_dim", "any", "plain", feeds=[fed])


ROWS = [scalar("r", 5, INT32), node("y", "MatrixDiagV3", ["x", "k", "r", "n", "z"], T=FLOAT)]
BESIDE = [scalar("r", 5), node("y", "MatrixDiagV3", ["x", "k", "n", "n", "r"], T=FLOAT)]
PART = [node("y", "MatrixDiagPartV3", ["m", "one", "z"], T=FLOAT)]
ONE_BATCH = node("y", "GatherV2", ["p", "j", "two"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32, batch_dims=1)


@pytest.mark.parametrize(
    ("records", "code", "facts"),
    [
        ([X, *NUMBERS, *ROWS], "other-diagonal", {"what": "rows"}),
        ([X, *NUMBERS, *BESIDE], "other-diagonal", {"what": "what is beside them"}),
        ([M, *NUMBERS, *PART], "other-diagonal", {"what": "diagonals"}),
        ([*GATHERS[:5], ONE_BATCH], "other-axis", {}),
    ],
)
def test_what_has_no_older_form_is_refused(records: list[bytes], code: str, facts: dict[str, str]) -> None:
    check_reason(records, "1.12", code, **facts)


POOLING = {"T": FLOAT, "Targmax": INT64, "padding": "VALID", "ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}


@pytest.mark.parametrize("op", ["MaxPoolWithArgmax", "MaxPoolGradWithArgmax"])
def test_places_of_maxima_that_a_release_counts_otherwise_are_refused(op: str) -> None:
    """Up to 1.13 they are counted through the batch whoever asks: False is no default that merely goes there."""
    reads = ["x", "x", "p"] if "Grad" in op else ["x"]
    said = node("said", op, reads, **POOLING, include_batch_in_index=False)
    records = [placeholder("x"), placeholder("p", INT64), said, node("unsaid", op, reads, **POOLING)]
    error = refused(graph(*records), "not-compatible", FOR_1_13)
    assert [(each["node"], each["kind"], each["attr"]) for each in error.facts["unknown"]] == [
        ("said", "attr", "include_batch_in_index"),
        ("unsaid", "default", "include_batch_in_index"),
    ]
    written_there = graph(*records[:2], records[3], trailer=graphs.versions(27))
    refused(written_there, "nothing-to-do", FOR_1_13)


FOR_1_13 = partial(compat, target="1.13")
