"""compat: paddings that an op says itself, and resizing about the middle of pixels, in releases that know neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import graphs
from support.desk import check_error
from support.graphs import DOUBLE, FLOAT, INT32, UINT8, call, const, define, dtype, graph, library, node, placeholder
from support.older import check_reason, older, same, unknown
from support.running import run

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.compat import compat
from gdsurgeon.edits.downgrade.candidate import Analysis
from gdsurgeon.edits.rewriting.rounds import PlannedRewrite
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.node import Node
from gdsurgeon.operation.library import prove
from gdsurgeon.proof.accounting import check_accounted

ONES = [1, 1, 1, 1]
PADS = [0, 0, 2, 1, 0, 3, 0, 0]
EXPLICIT = {"padding": "EXPLICIT", "explicit_paddings": PADS, "strides": ONES}
X = placeholder("x", shape=(-1, 5, 6, 2))


def pooled(**attrs: Any) -> bytes:
    return node("m", "MaxPool", ["x"], **{"T": FLOAT, **EXPLICIT, "ksize": [1, 4, 4, 1], **attrs})


def convolved() -> list[bytes]:
    return [
        X,
        const("w", np.linspace(-1, 1, 36).tolist(), shape=(3, 3, 2, 2)),
        node("c", "Conv2D", ["x", "w"], T=FLOAT, **EXPLICIT),
        node("d", "DepthwiseConv2dNative", ["x", "w"], T=FLOAT, **EXPLICIT),
    ]


def test_a_pad_stands_in_front_of_what_pads_by_numbers() -> None:
    before = [X, const("w", [1.0] * 4, shape=(1, 1, 2, 2)), node("c", "Conv2D", ["x", "w"], T=FLOAT, **EXPLICIT)]
    found = graph(*before, trailer=graphs.versions(27))
    result = compat(found, "1.13")
    check_accounted(found, result, found.chunks())
    assert graphs.inputs(found) == {"w": [], "x": [], "c": ["c/Pad", "w"], "c/Pad": ["x", "c/Const"], "c/Const": []}
    assert graphs.attrs(found, "c").keys() == {"T", "padding", "strides"}
    held = constant(found["c/Const"])
    assert held is not None and (list(held.values), held.shape) == (PADS, (4, 2))
    assert list(result.facts["replaced"].values()) == [1]


def test_what_a_release_pads_by_numbers_stays() -> None:
    found = older([*convolved(), pooled()], "2.3")
    assert graphs.inputs(found)["m"] == ["m/PadV2"]
    assert graphs.inputs(found)["c"] == graphs.inputs(found)["d"] == ["x", "w"]


def test_of_which_the_least_is_not_spelt_is_refused() -> None:
    half = [placeholder("x", dtype(14), (-1, 5, 6, 2)), pooled(T=dtype(14))]
    check_reason(half, "1.15", "unsupported-dtype", dtype="bfloat16")


@pytest.mark.tensorflow
def test_what_takes_the_place_of_a_node_is_run_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a Relu, no output shows that the padding is 0 in the place of the least number."""
    planned = Analysis.planned

    def zero(analysis: Analysis, node: Node, text: str) -> PlannedRewrite:
        return planned(analysis, node, text.replace("-inf", "0"))

    monkeypatch.setattr(Analysis, "planned", zero)
    pool = node("m", "MaxPool", ["r"], T=FLOAT, **EXPLICIT, ksize=[1, 4, 4, 1])
    found = graph(placeholder("x", shape=(1, 5, 6, 2)), node("r", "Relu", ["x"], T=FLOAT), pool)
    result = compat(found, "1.15")
    with pytest.raises(ValidationError) as caught:
        prove(found.pristine(), found, result)
    check_error(caught.value, "differs", {})


KINDS = {1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 19: np.float16}


@pytest.mark.tensorflow
@pytest.mark.parametrize("number", KINDS)
def test_pools_of_every_type_give_the_same(number: int) -> None:
    kind = dtype(number)
    records = [placeholder("f"), node("x", "Cast", ["f"], SrcT=FLOAT, DstT=kind), pooled(T=kind)]
    records += [node("y", "Cast", ["m"], SrcT=kind, DstT=DOUBLE)]
    fed = np.random.default_rng(5).uniform(0 if number == 4 else -9, 9, (2, 5, 6, 2)).astype(np.float32)
    same(records, "1.15", "y", feeds=[{"f": fed}])


@pytest.mark.tensorflow
def test_convolutions_give_the_same_but_for_rounding() -> None:
    found = graph(*convolved())
    result = compat(found, "1.4")
    check_accounted(found, result, found.chunks())
    for rows in (0, 2):
        fed = np.random.default_rng(6).normal(size=(rows, 5, 6, 2)).astype(np.float32)
        now, before = (run(which, "c", "d", x=fed) for which in (found, graphs.graph_bytes(*convolved())))
        for one, other in zip(now, before, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert [(claim.rtol, claim.atol) for claim in result.claims if isinstance(claim, SameOutputs)] == [(1e-5, 1e-5)]
    exact = compat(graph(*convolved()), "1.4", rtol=0.0, atol=0.0).claims[0]
    assert isinstance(exact, SameOutputs) and exact.rtol == exact.atol == 0.0


# -- groups of channels ---------------------------------------------------------------------------------------

EACH = {  # the dims of filters of which each sees a part of six channels, and what such a convolution becomes
    "one channel": ((3, 3, 1, 12), {}, "DepthwiseConv2dNative"),
    "three channels": ((3, 3, 3, 8), {}, "ConcatV2"),
    "other strides": ((3, 3, 1, 6), {"strides": [1, 1, 2, 1]}, "ConcatV2"),
    "paddings": ((3, 3, 2, 6), EXPLICIT, "ConcatV2"),
}


def in_groups(case: str) -> list[bytes]:
    dims, attrs, _ = EACH[case]
    weights = np.linspace(-1, 1, int(np.prod(dims))).tolist()
    wanted = {"T": FLOAT, "strides": ONES, "padding": "SAME", "use_cudnn_on_gpu": True, **attrs}
    return [
        placeholder("x", shape=(-1, 5, 6, 6)),
        const("w", weights, shape=dims),
        node("y", "Conv2D", ["x", "w"], **wanted),
    ]


@pytest.mark.tensorflow
@pytest.mark.parametrize("target", ["1.13", "1.15"])
@pytest.mark.parametrize("case", EACH)
def test_convolutions_of_several_groups(case: str, target: str) -> None:
    found = older(in_groups(case), target)
    assert graphs.ops(found)["y"] == EACH[case][2]
    for rows in (0, 2):
        fed = np.random.default_rng(8).normal(size=(rows, 5, 6, 6)).astype(np.float32)
        now, before = (run(which, "y", x=fed)[0] for which in (found, graphs.graph_bytes(*in_groups(case))))
        np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-5)


def test_groups_in_a_function_are_known_from_its_call() -> None:
    """One that calls another, which convolves, as Keras has it."""
    taken = {"a": FLOAT, "b": FLOAT}
    inner = define("inner", taken, {"o": (FLOAT, "y:output:0")},
                   node("y", "Conv2D", ["a", "b"], T=FLOAT, strides=ONES, padding="SAME"))  # fmt: skip
    outer = define("outer", taken, {"o": (FLOAT, "c:output:0")}, call("c", "inner", ["a", "b"], [FLOAT] * 2, [FLOAT]))
    records = [*in_groups("three channels")[:2], call("y", "outer", ["x", "w"], [FLOAT] * 2, [FLOAT])]
    found = graph(*records, library(outer, inner))
    assert unknown(found, "1.15") == [("inner", "y", "Conv2D", "dims", "")]
    found = older([*records, library(outer, inner)], "1.15")
    ops = {each.name: each.op for each in found.functions["inner"].node_def}
    assert ops["y"] == "ConcatV2" and ops["y/Conv2D_1"] == "Conv2D"


def test_groups_that_are_not_known_are_not_told() -> None:
    records = in_groups("one channel")
    assert unknown(graph(*records), "2.4") == [("", "y", "Conv2D", "dims", "")]
    assert unknown(graph(placeholder("x"), *records[1:]), "2.4") == unknown(graph(*records), "2.5") == []


# -- resizing -------------------------------------------------------------------------------------------------


def resized(**attrs: Any) -> list[bytes]:
    """Both resizings, to a size that is fed, of floats and of bytes."""
    out = [X, placeholder("size", INT32, (2,)), node("bytes", "Cast", ["x"], SrcT=FLOAT, DstT=UINT8)]
    for name, read, kind in (("", "x", FLOAT), ("_bytes", "bytes", UINT8)):
        for op in ("ResizeBilinear", "ResizeNearestNeighbor"):
            wanted = {"T": kind, "half_pixel_centers": True, "align_corners": False, **attrs}
            out.append(node(op + name, op, [read, "size"], **wanted))
    return out


@pytest.mark.tensorflow
@pytest.mark.parametrize("size", [(5, 6), (1, 1), (7, 3), (64, 61), (2, 640)])
def test_resizing_about_the_middle_gives_the_same(size: tuple[int, int]) -> None:
    """Larger and smaller, by whole factors and not; of one row, of no images."""
    names = [name for name, op in graphs.ops(graph(*resized())).items() if op.startswith("Resize")]
    rng = np.random.default_rng(7)
    feeds = [{"x": rng.uniform(0, 255, (rows, 5, 6, 2)).astype(np.float32), "size": size} for rows in (0, 2)]
    found = same(resized(), "1.13", *names, feeds=feeds)
    assert graphs.ops(found)["ResizeBilinear"] == "Add" and graphs.ops(found)["ResizeNearestNeighbor"] == "GatherV2"


def test_resizing_as_the_release_knows_it_stays() -> None:
    found = older(resized(half_pixel_centers=False), "1.13")
    assert graphs.ops(found)["ResizeBilinear"] == "ResizeBilinear"
    assert "half_pixel_centers" not in graphs.attrs(found, "ResizeBilinear")
    found = older(resized(), "1.15")
    assert graphs.attrs(found, "ResizeBilinear")["half_pixel_centers"].b


def test_bicubic_resizing_about_the_middle_is_refused() -> None:
    cubic = node("y", "ResizeBicubic", ["x", "size"], T=FLOAT, half_pixel_centers=True)
    check_reason([X, placeholder("size", INT32, (2,)), cubic], "1.13", "half-pixel-centers")
