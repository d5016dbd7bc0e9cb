"""compat: diagonals, gathers of batches and bands in releases that know fewer forms of them."""

from __future__ import annotations

import numpy as np
import pytest
from support import graphs
from support.expecting import refuse
from support.folding import ints
from support.graphs import FLOAT, INT32, INT64, const, graph, node, placeholder, scalar
from support.running import run

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.compat import compat
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.accounting import check_accounted

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
    found = graph(*DIAGONALS)
    result = compat(found, "1.4")
    check_accounted(found, result, found.chunks())
    names = ["diag", "diag2", "part", "part2", "set", "set2", "band"]
    assert {graphs.ops(found)[name] for name in names} == {
        "MatrixDiag", "MatrixDiagPart", "MatrixSetDiag", "MatrixBandPart",
    }  # fmt: skip
    for rows in (0, 2):
        fed = {"x": np.arange(3.0 * rows).reshape(rows, 3), "m": np.arange(12.0 * rows).reshape(rows, 3, 4) + 1}
        assert run(found, *names, **fed) == run(graphs.graph_bytes(*DIAGONALS), *names, **fed)


@pytest.mark.tensorflow
def test_gathers_of_batches_give_the_same() -> None:
    found = graph(*GATHERS)
    result = compat(found, "1.12")
    check_accounted(found, result, found.chunks())
    rng = np.random.default_rng(3)
    for rows in (1, 4):
        fed = {"p": rng.normal(size=(2, rows, 5, 3)), "i": rng.integers(0, 5, (2, rows, 2)), "j": [[rows - 1, 0]] * 2}
        fed |= {"u": rng.normal(size=(3, 2)), "v": [[0], [1], [0]]}
        names = ["two_dims", "one_dim", "any", "plain"]
        assert run(found, *names, **fed) == run(graphs.graph_bytes(*GATHERS), *names, **fed)


REFUSED = {
    "rows: only the main diagonal": [
        X, *NUMBERS, scalar("r", 5, INT32), node("y", "MatrixDiagV3", ["x", "k", "r", "n", "z"], T=FLOAT),
    ],
    "what is beside them: only the main diagonal": [
        X, *NUMBERS, scalar("r", 5), node("y", "MatrixDiagV3", ["x", "k", "n", "n", "r"], T=FLOAT),
    ],
    "diagonals: only the main diagonal": [M, *NUMBERS, node("y", "MatrixDiagPartV3", ["m", "one", "z"], T=FLOAT)],
    "along the axis batch_dims, a constant": [
        *GATHERS[:5],
        node("y", "GatherV2", ["p", "j", "two"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32, batch_dims=1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_has_no_older_form_is_refused(why: str) -> None:
    refuse(graph(*REFUSED[why]), why, lambda g: compat(g, "1.12"))


POOLING = {
    "T": FLOAT, "Targmax": INT64, "padding": "VALID", "ksize": ints([1, 2, 2, 1]), "strides": ints([1, 2, 2, 1]),
}  # fmt: skip


@pytest.mark.parametrize("op", ["MaxPoolWithArgmax", "MaxPoolGradWithArgmax"])
def test_places_of_maxima_that_a_release_counts_otherwise_are_refused(op: str) -> None:
    """Up to 1.13 they are counted through the batch whoever asks: False is no default that merely goes there."""
    reads = ["x", "x", "p"] if "Grad" in op else ["x"]
    said = node("said", op, reads, **POOLING, include_batch_in_index=False)
    records = [placeholder("x"), placeholder("p", INT64), said, node("unsaid", op, reads, **POOLING)]
    wrong = refuse(graph(*records), f"{op} has no attr 'include_batch_in_index', which is False", for_1_13)
    assert any("'include_batch_in_index' is True" in line and "'unsaid'" in line for line in wrong.details)
    written_there = graph(*records[:2], records[3], trailer=graphs.versions(27))
    with pytest.raises(NothingToDo):
        for_1_13(written_there)


def for_1_13(found: Graph) -> EditResult:
    return compat(found, "1.13")
