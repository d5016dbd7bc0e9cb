"""simplify --fold-bn: folded nodes, kept nodes with reasons; results are equal up to rounding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import graphs
from support.desk import check_error
from support.drawing import Draw, below, pick
from support.evaluating import array
from support.folding import (
    as_function,
    atrous,
    conv,
    conv_and_norm,
    fused,
    image,
    ints,
    joined,
    numbers,
    picture,
    relu,
    spelt_out,
    statistics,
    whole,
)
from support.graphs import (
    DOUBLE,
    FLOAT,
    add,
    const,
    function,
    graph,
    identity,
    library,
    node,
    placeholder,
    scalar,
    typed,
    versions,
)
from support.running import run
from support.simplifying import simplified, stays
from support.v1_control_flow import while_loop

from gdsurgeon.analysis.checks.check import check_edited
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs, SameSites, Site
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.constants import raw_value
from gdsurgeon.graph.graph import Graph

pytestmark = pytest.mark.kernels

GAPS = [typed("SpaceToBatchND", "there", "x", "block", "pads", Tblock_shape=graphs.INT32, Tpaddings=graphs.INT32),
        whole("block", [2, 2])]  # fmt: skip
BACK = typed("BatchToSpaceND", "back", "n", "block", "crops", Tblock_shape=graphs.INT32, Tcrops=graphs.INT32)


def folded(found: Graph, *outputs: str) -> EditResult:
    """What folding alone makes of a graph; all of it is accounted for."""
    _, result = simplified(found, again=False, outputs=outputs, passes=["unread"], fold_bn=True)
    assert check_edited(found) == []
    return result


def folds(what: EditResult | NothingToDo) -> Any:
    """The folded nodes and the kept nodes, from the facts."""
    return what.facts["folds"]


def is_near(one: Any, other: Any) -> bool:
    a, b = (np.asarray(value) for value in (one, other))
    return a.shape == b.shape and bool(np.abs(a - b).max() <= 1e-5 * np.abs(a).max())


# -- forms ----------------------------------------------------------------------------------------------------


def test_a_fold_by_hand() -> None:
    """(c - 1) * 3 / sqrt(3 + 1) + 0.5, where c = 2 x + 5, is 3 x + 6.5; the name of the batch norm stays."""
    found = graph(
        image(1), const("w", [2.0], FLOAT, (1, 1, 1, 1)), const("b", [5.0]),
        typed("Conv2D", "c", "x", "w", padding="SAME", strides=ints((1, 1, 1, 1))),
        typed("BiasAdd", "d", "c", "b"), const("gamma", [3.0]), const("beta", [0.5]), const("mean", [1.0]),
        const("variance", [3.0]),
        typed("FusedBatchNormV3", "n", "d", "gamma", "beta", "mean", "variance", U=FLOAT, epsilon=1.0,
              is_training=False, _kept=True, _output_shapes=[(-1, -1, -1, 1)]), relu("n"),
    )  # fmt: skip
    result = folded(found)
    wanted = [
        image(1), const("n/weights", [3.0], FLOAT, (1, 1, 1, 1)), const("n/bias", [6.5]),
        typed("Conv2D", "n/Conv2D", "x", "n/weights", padding="SAME", strides=ints((1, 1, 1, 1))),
        typed("BiasAdd", "n", "n/Conv2D", "n/bias", _kept=True), relu("n"),
    ]  # fmt: skip
    assert graphs.parsed(found) == graphs.proto(*wanted)
    assert folds(result)["folded"] == [{"what": "batch norm", "into": "Conv2D", "count": 1}]
    outputs, sites = result.claims
    assert isinstance(outputs, SameOutputs)
    assert isinstance(sites, SameSites)
    assert sites.sites == (Site(("x",), (("n", "n"),), -1, any_rows=True),)
    assert outputs.also == ("n",)
    assert (sites.tolerance.of_largest, outputs.tolerance.of_largest) == (1e-4, 1e-3)


FORMS: dict[str, tuple[list[bytes], str, str]] = {
    "Conv2D": ([*conv("c", "x", (3, 3, 4, 3)), *fused("n", "c", 3)], "Conv2D", "BiasAdd"),
    "groups": ([*conv("c", "x", (3, 3, 2, 6)), *fused("n", "c", 6, "FusedBatchNormV2")], "Conv2D", "BiasAdd"),
    "depthwise": (
        [*conv("c", "x", (3, 3, 4, 2), "DepthwiseConv2dNative"), *fused("n", "c", 8, "FusedBatchNorm")],
        "DepthwiseConv2dNative", "BiasAdd",
    ),
    "bias between": (
        [*conv("c", "x", (3, 3, 4, 3)), numbers("b", [3]), typed("BiasAdd", "d", "c", "b"), *fused("n", "d", 3)],
        "Conv2D", "BiasAdd",
    ),
    "sum between": (
        [*conv("c", "x", (3, 3, 4, 3)), numbers("b", [1, 1, 1, 3]), typed("Add", "d", "b", "c"), *fused("n", "d", 3)],
        "Conv2D", "BiasAdd",
    ),
    "spelt out": ([*conv("c", "x", (3, 3, 4, 3)), *spelt_out("n", "c", 3)], "Conv2D", "BiasAdd"),
    "no sum": (
        [*conv("c", "x", (3, 3, 4, 3)), numbers("f", [3], 1, 2), typed("RealDiv", "n", "c", "f")],
        "", "Conv2D",
    ),
    "taken from": (
        [*conv("c", "x", (3, 3, 4, 3)), scalar("f", 3), numbers("g", [3]), typed("Sub", "d", "g", "c"),
         typed("Mul", "n", "f", "d")], "Conv2D", "BiasAdd",
    ),
    "transposed": (
        [whole("size", [2, 10, 10, 3]), numbers("w", [2, 2, 3, 4]),
         typed("Conv2DBackpropInput", "c", "size", "w", "x", padding="SAME", strides=ints((1, 2, 2, 1))),
         *fused("n", "c", 3)],
        "Conv2DBackpropInput", "BiasAdd",
    ),
    "product": (
        [whole("flat", [-1, 4]), typed("Reshape", "r", "x", "flat"), numbers("w", [4, 3]),
         typed("MatMul", "c", "r", "w"), *spelt_out("n", "c", 3)],
        "MatMul", "BiasAdd",
    ),
    "product, turned": (
        [whole("flat", [-1, 4]), typed("Reshape", "r", "x", "flat"), numbers("w", [3, 4]),
         typed("MatMul", "c", "r", "w", transpose_b=True), *spelt_out("n", "c", 3)],
        "MatMul", "BiasAdd",
    ),
    "Conv3D": (
        [whole("deep", [1, 2, 5, 5, 4]), typed("Reshape", "r", "x", "deep"), numbers("w", [2, 2, 2, 4, 3]),
         typed("Conv3D", "c", "r", "w", padding="SAME", strides=ints((1, 1, 1, 1, 1))), *spelt_out("n", "c", 3)],
        "Conv3D", "BiasAdd",
    ),
    "read through an Identity": (
        [numbers("w", [3, 3, 4, 3]), identity("i", "w"),
         typed("Conv2D", "c", "x", "i", padding="SAME", strides=ints((1, 1, 1, 1))), *fused("n", "c", 3)],
        "Conv2D", "BiasAdd",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_norm_goes_into_the_weights(form: str) -> None:
    records, op, last = FORMS[form]
    found = graph(image(), *records, relu("n"))
    before = graphs.written(found)
    (_, sites), after = folded(found).claims, graphs.ops(found)
    assert isinstance(sites, SameSites)
    assert sites.sites[0].inputs == ("r" if "r" in after else "x",)  # what is given numbers of all sizes
    assert after["n"] == last
    assert not any(name.startswith("Fused") for name in after.values())
    assert after.get(f"n/{op}", "") == op
    assert sum(kind == "Const" for kind in after.values()) <= 3
    assert len(graphs.written(found)) < len(before) + 64
    assert is_near(run(before, "y", x=picture()), run(found, "y", x=picture()))
    stays(graphs.from_bytes(graphs.written(found)), passes=["unread"], fold_bn=True)


def test_channels_may_be_the_second_axis() -> None:
    """What TensorFlow runs on no CPU: the constants are those of the same model with its channels last."""
    second = {"data_format": "NCHW"}
    found = graph(
        placeholder("x", FLOAT, (-1, 4, 5, 5)),
        *conv("c", "x", (3, 3, 4, 3), **second),
        numbers("b", [3, 1, 1]),
        add("d", "c", "b"),
        *fused("n", "d", 3, **second),
        relu("n"),
    )
    other = graph(
        image(),
        *conv("c", "x", (3, 3, 4, 3)),
        numbers("b", [3, 1, 1]),
        whole("all", [3]),
        typed("Reshape", "r", "b", "all"),
        add("d", "c", "r"),
        *fused("n", "d", 3),
        relu("n"),
    )
    (_, sites), _ = folded(found).claims, folded(other)
    for name in ("n/weights", "n/bias"):
        assert (array(found[name]) == array(other[name])).all()
    assert graphs.attrs(found, "n")["data_format"].s == b"NCHW"
    assert isinstance(sites, SameSites)
    assert sites.sites[0].channels == 1


def test_a_norm_of_other_channels_stays() -> None:
    found = graph(image(4), *conv("c", "x", (3, 3, 4, 5)), *fused("n", "c", 5, data_format="NCHW"), relu("n"))
    assert unfolded(found) == "other-channels"


def test_the_oldest_spelling() -> None:
    reads = ["c", "n/mean", "n/variance", "n/beta", "n/gamma"]
    norm = node("n", "BatchNormWithGlobalNormalization", reads, T=FLOAT, variance_epsilon=0.001,
                scale_after_normalization=True)  # fmt: skip
    found = graph(image(), *conv("c", "x", (3, 3, 4, 3)), *statistics("n", 3), norm, relu("n"), trailer=versions(8))
    other = conv_and_norm()
    folded(found)
    folded(other)
    for name in ("n/weights", "n/bias"):
        assert (array(found[name]) == array(other[name])).all()


def test_numbers_that_are_rounded_where_they_are_computed() -> None:
    """Of float64 the last bits differ by the way by which one computes; and large means leave small factors exact."""

    def doubles(name: str, values: Sequence[float], shape: Sequence[int]) -> bytes:
        value = raw_value(2, shape, np.array(values, "<f8").tobytes())
        return node(name, "Const", dtype=DOUBLE, value=value.SerializeToString())

    chance = np.random.default_rng(3)
    records = [doubles("w", chance.uniform(-1, 1, 300).tolist(), (10, 30))]
    records += [doubles(f"n/{part}", chance.uniform(0.1, 1, 30).tolist(), (30,))
                for part in ("variance", "mean", "gamma", "beta")]  # fmt: skip
    types = {"T": DOUBLE}
    made = [node("c", "MatMul", ["x", "w"], **types), doubles("n/epsilon", [0.001], ()),
            node("n/sum", "AddV2", ["n/variance", "n/epsilon"], **types), node("n/root", "Rsqrt", ["n/sum"], **types),
            node("n/mul", "Mul", ["n/root", "n/gamma"], **types), node("n/mul_1", "Mul", ["c", "n/mul"], **types),
            node("n/mul_2", "Mul", ["n/mean", "n/mul"], **types),
            node("n/sub", "Sub", ["n/beta", "n/mul_2"], **types), node("n", "AddV2", ["n/mul_1", "n/sub"], **types),
            node("y", "Relu", ["n"], **types)]  # fmt: skip
    folded(graph(placeholder("x", DOUBLE, (-1, 10)), *records, *made))
    far = [const("n/mean", [1e9, 1, 1]), const("n/variance", [1e6] * 3), const("n/gamma", [1e-3] * 3), N[1]]
    folded(graph(image(), *C, *far, N[-1], relu("n")))


# -- joined channels, and factors before a convolution ------------------------------------------------------


JOINED = {
    "ConcatV2": ([*joined(), *fused("n", "j", 5)], {"ConcatV2": 1, "Conv2D": 2, "BiasAdd": 2}),
    "ConcatV2, a factor": (
        [*joined(3), numbers("f", [9], 1, 2), typed("Mul", "n", "f", "j")], {"ConcatV2": 1, "Conv2D": 3},
    ),
    "ConcatV2, folded convolutions": (
        [*conv("a", "x", (3, 3, 4, 3)), numbers("f", [3], 1, 2), typed("Mul", "m", "a", "f"),
         *conv("b", "x", (1, 1, 4, 2)), const("axis", -1, graphs.INT32, ()),
         typed("ConcatV2", "j", "m", "b", "axis", N=2, Tidx=graphs.INT32), *fused("n", "j", 5)],
        {"ConcatV2": 1, "Conv2D": 2, "BiasAdd": 2},
    ),
    "BatchToSpaceND": (
        [*atrous("back"), *fused("n", "back", 8)],
        {"SpaceToBatchND": 1, "DepthwiseConv2dNative": 1, "BiasAdd": 1, "BatchToSpaceND": 1},
    ),
    "a number before": ([scalar("f", 0.25), typed("Mul", "m", "f", "x"), *conv("n", "m", (3, 3, 4, 3))], {"Conv2D": 1}),
    "a number before groups": (
        [scalar("f", 4), typed("RealDiv", "m", "x", "f"), *conv("n", "m", (3, 3, 2, 4))], {"Conv2D": 1},
    ),
    "channels before": (
        [numbers("f", [1, 1, 1, 4]), typed("Mul", "m", "x", "f"),
         *conv("n", "m", (3, 3, 4, 2), "DepthwiseConv2dNative")],
        {"DepthwiseConv2dNative": 1},
    ),
    "channels before, transposed": (
        [whole("size", [2, 12, 12, 3]), numbers("w", [2, 2, 3, 4]), numbers("f", [4]), typed("Mul", "m", "x", "f"),
         typed("Conv2DBackpropInput", "n", "size", "w", "m", padding="SAME", strides=ints((1, 2, 2, 1)))],
        {"Conv2DBackpropInput": 1},
    ),
    "channels before a product": (
        [whole("flat", [-1, 4]), typed("Reshape", "r", "x", "flat"), numbers("f", [4]), typed("Mul", "m", "r", "f"),
         numbers("w", [3, 4]), typed("MatMul", "n", "m", "w", transpose_b=True)], {"Reshape": 1, "MatMul": 1},
    ),
    "before and after": (
        [numbers("f", [4]), typed("Mul", "m", "x", "f"), *conv("c", "m", (3, 3, 4, 3)), *fused("n", "c", 3)],
        {"Conv2D": 1, "BiasAdd": 1},
    ),
    "before a padding": (
        [numbers("f", [4]), typed("Mul", "m", "x", "f"), whole("pads", [0, 0, 1, 1, 1, 1, 0, 0], (4, 2)),
         typed("Pad", "p", "m", "pads", Tpaddings=graphs.INT32), *conv("n", "p", (3, 3, 4, 3), padding="VALID")],
        {"Conv2D": 1},
    ),
    "before each of joined convolutions": (
        [numbers("f", [4]), typed("Mul", "a", "x", "f"), scalar("g", 3), typed("Mul", "b", "x", "g"),
         *conv("c", "a", (3, 3, 4, 3)), *conv("d", "b", (3, 3, 4, 2)), const("axis", 3, graphs.INT32, ()),
         typed("ConcatV2", "j", "c", "d", "axis", N=2, Tidx=graphs.INT32), *fused("n", "j", 5)],
        {"ConcatV2": 1, "Conv2D": 2, "BiasAdd": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", JOINED)
def test_joined_channels_and_factors_before_a_convolution(form: str) -> None:
    records, ops = JOINED[form]
    found = graph(image(side=6), *records, relu("n"))
    before = graphs.written(found)
    _, sites = folded(found).claims
    assert isinstance(sites, SameSites)
    inputs = {"t"} if form == "BatchToSpaceND" else {"r"} if "product" in form else {"x"}
    assert [{*site.inputs} for site in sites.sites] == [inputs]
    assert [site.outputs for site in sites.sites] == [(("n", "n"),)]
    counts = Counter(graphs.ops(found).values())
    assert {op: counts[op] for op in counts if op not in ("Const", "Placeholder", "Relu")} == ops
    assert is_near(run(before, "y", x=picture(side=6)), run(found, "y", x=picture(side=6)))
    stays(graphs.from_bytes(graphs.written(found)), passes=["unread"], fold_bn=True)


def test_joined_channels_and_factors_that_stay() -> None:
    other = [*joined(), relu("c0", "again", "Neg"), *fused("n", "j", 5), relu("n")]
    assert unfolded(graph(image(), *other)) == "outside-uses"
    along = [*joined()[:-2], const("axis", 1, graphs.INT32, ()), joined()[-1]]
    along = [*conv("c0", "x", (3, 3, 4, 2)), *conv("c1", "x", (3, 3, 4, 2)), *along[-2:]]
    assert unfolded(graph(image(), *along, *fused("n", "j", 2), relu("n"))) == "other-channels"
    mixed = [*conv("c0", "x", (3, 3, 4, 2)), typed("Neg", "c1", "x"), *joined()[-2:], *fused("n", "j", 6), relu("n")]
    assert unfolded(graph(image(), *mixed)) == "no-weights"
    few = [numbers("f", [4]), typed("Mul", "n", "x", "f"), *conv("c", "n", (3, 3, 4, 3)), relu("c")]
    assert unfolded(graph(image(1), *few)) == "other-channels"
    assert unfolded(graph(placeholder("x", FLOAT), *few)) == "shape-unknown"
    waiting = [few[0], typed("Mul", "n", "x", "f", "^also"), *few[2:], node("also", "NoOp", ["^x"])]
    assert unfolded(graph(image(), *waiting)) == "crosses-loop"


# -- functions ------------------------------------------------------------------------------------------------


def chosen(body: Any, side: int = 6, **options: Any) -> list[bytes]:
    """A graph in which an If calls a function, or a Neg."""
    ends = {"then_branch": graphs.func("F"), "else_branch": graphs.func("G"), "Tcond": graphs.BOOL}
    types = {"Tin": graphs.dtypes(FLOAT), "Tout": graphs.dtypes(FLOAT)}
    call = node("c", "If", ["p", "x"], **ends, **types, **options)
    other = as_function("G", relu("x", "n", "Neg"))
    return [placeholder("p", graphs.BOOL, ()), image(side=side), call, relu("c"), library(body, other)]


IN_BODIES = {
    **{name: (records, {last: 1} | ({op: 1} if op else {}), 5) for name, (records, op, last) in FORMS.items()},
    **{name: (records, ops, 6) for name, (records, ops) in JOINED.items()},
}


@pytest.mark.parametrize("form", IN_BODIES)
def test_a_fold_in_a_function(form: str) -> None:
    records, ops, side = IN_BODIES[form]
    found = graph(*chosen(as_function("F", *records), side))
    before = graphs.written(found)
    _, result = simplified(found, again=False, passes=["unread", "bodies"], fold_bn=True)
    counts = Counter(each.op for each in found.functions["F"].node_def if each.op not in ("Const", "Reshape"))
    assert counts == Counter({op: count for op, count in ops.items() if op != "Reshape"})
    (outputs,) = result.claims
    assert isinstance(outputs, SameOutputs)
    assert (outputs.tolerance.of_largest, outputs.as_written) == (1e-3, True)
    (note,) = result.notes
    check_error(note, "not-in-isolation", {"count": sum(each["count"] for each in folds(result)["folded"])})
    for p in (True, False):
        fed = {"x": picture(side=side), "p": p}
        assert is_near(run(before, "y", **fed), run(found, "y", **fed))
    stays(graphs.from_bytes(graphs.written(found)), passes=["unread", "bodies"], fold_bn=True)


def test_functions_that_are_not_folded() -> None:
    body = as_function("F", *C, *N)
    stays(*chosen(body), skip=["bodies"], fold_bn=True)
    stays(*chosen(body, _XlaMustCompile=True), fold_bn=True)
    body.signature.control_output.append("c")
    body.control_ret["c"] = "c"
    error = stays(*chosen(body), fold_bn=True)
    assert [(each["node"], each["code"]) for each in folds(error)["not_folded"]] == [("n in F", "outside-uses")]


# -- what stays -----------------------------------------------------------------------------------------------


def unfolded(found: Graph, *outputs: str) -> str:
    """The code of the reason why a batch norm or similar op is kept, in a graph with an additional unused node."""
    before = graphs.written(found)
    more = graphs.from_bytes(before.replace(graphs.VERSIONS, scalar("unread", 1) + graphs.VERSIONS))
    result = folded(more, *outputs)
    assert graphs.ops(more).get("n") in (None, graphs.ops(before)["n"])
    (skipped,) = folds(result)["not_folded"]
    return str(skipped["code"])


C, N = conv("c", "x", (3, 3, 4, 3)), fused("n", "c", 3)
STAYS = {
    "no-weights": [*fused("n", "x", 4), relu("n")],
    "shared-weights": [*C, *N, relu("n"), relu("c/w", "z", "Neg")],
    "outside-uses": [*C, *N, relu("n"), relu("c", "z", "Neg")],
    "bad-variance": [*C, *N[:3], const("n/variance", [1, -0.001, 1]), N[4], relu("n")],
    "is-training": [*C, *fused("n", "c", 3, is_training=True), relu("n")],
    "overflow": [*C, const("n/gamma", [1, 3e38, 1]), *N[1:3], const("n/variance", [1, 1e-6, 1]), N[4],
                          relu("n")],
    "underflow": [*C, const("n/gamma", [1, 1e-38, 1]), *N[1:], relu("n")],
    "cancels": [*C, const("n/beta", [0, 1e6, 0]), const("n/mean", [0, 1e6, 0]),
                                 const("n/gamma", [1, 1, 1]), const("n/variance", [0.999, 0.999, 0.999]), N[4],
                                 relu("n")],
    "not-finite": [*C, const("n/beta", [0, np.nan, 0]), N[0], *N[2:], relu("n")],
    "not-a-constant": [placeholder("c/w", FLOAT, (3, 3, 4, 3)), C[1], *N, relu("n")],
    "statistics-read": [*C, *N, relu("n"), relu("n:1", "z", "Neg")],
    "is-output": [*C, *N],
    "has-controls": [*C, *N[:4], typed("FusedBatchNorm", "n", "c", "n/gamma", "n/beta", "n/mean", "n/variance", "^x",
                                       is_training=False), relu("n")],
    "has-controls, on a device": [C[0], typed("Conv2D", "c", "x", "c/w", device="/cpu:1", padding="SAME",
                                              strides=ints((1, 1, 1, 1))), *N, relu("n")],
}  # fmt: skip


@pytest.mark.parametrize("why", STAYS)
def test_a_batch_norm_stays(why: str) -> None:
    assert unfolded(graph(image(), *STAYS[why])) == why.partition(",")[0]


def test_why_nothing_is_folded_is_told_where_nothing_else_is_done() -> None:
    error = stays(image(), *C, *N, relu("n"), relu("c/w", "z", "Neg"), passes=["unread"], fold_bn=True)
    ((name, op, code),) = ((each["node"], each["op"], each["code"]) for each in folds(error)["not_folded"])
    assert (name, op, code) == ("n", "FusedBatchNormV3", "shared-weights")


def test_what_is_asked_for_stays() -> None:
    assert unfolded(graph(image(), *C, *N, relu("n")), "c", "y") == "outside-uses"
    found = graph(image(), *C, *N)
    result = folded(found, "n")
    assert graphs.ops(found)["n"] == "BiasAdd"
    assert isinstance(result.claims[0], SameGiven)
    assert result.claims[0].outputs == (("n", "n"),)


def test_what_is_no_number_a_channel_stays() -> None:
    for shape in ((5, 1, 1), (1, 5, 5, 1), (2, 1, 1, 1)):
        records = [*C, numbers("f", shape), typed("Mul", "n", "c", "f"), relu("n")]
        stays(image(), *records, passes=["unread"], fold_bn=True)


def test_loops_and_functions_stay() -> None:
    body = function("F", *C, *N, relu("n"))
    call = node("call", "PartitionedCall", ["norm"], f=graphs.func("F"), Tin=graphs.dtypes(FLOAT),
                Tout=graphs.dtypes(FLOAT))  # fmt: skip
    two = graphs.tensor([2], FLOAT, (1, 1))
    inner = [node(f"w/{name}", "Const", ["^w/i"], dtype=FLOAT, value=two) for name in "kf"]
    inner += [typed("MatMul", "w/m", "w/v", "w/k"), typed("Mul", "w/mul", "w/m", "w/f")]
    loop = while_loop(*inner, result="w/mul")
    pictures = placeholder("pictures", FLOAT, (-1, 5, 5, 4))
    found = graph(
        *loop, pictures, *conv("c", "pictures", (3, 3, 4, 3)), *fused("norm", "c", 3), call, trailer=library(body)
    )
    folded(found)
    assert [graphs.ops(found)[name] for name in ("w/m", "w/mul")] == ["MatMul", "Mul"]
    assert graphs.parsed(found).library == graphs.parsed(found.pristine()).library
    assert graphs.ops(found)["norm"] == "BiasAdd"


# -- paddings and gaps ----------------------------------------------------------------------------------------


def padded(pads: Sequence[int], *after: bytes) -> Graph:
    pad = typed("Pad", "p", "x", "pads", Tpaddings=graphs.INT32)
    return graph(image(), whole("pads", pads, (4, 2)), pad, *after, relu("n"))


PADS = {
    "SAME": padded([0, 0, 1, 1, 1, 1, 0, 0], *conv("n", "p", (3, 3, 4, 3), padding="VALID")),
    "SAME, by the size": padded(
        [0, 0, 1, 1, 1, 1, 0, 0], *conv("n", "p", (3, 3, 4, 3), padding="VALID", strides=(1, 2, 2, 1))
    ),
    "EXPLICIT": padded([0, 0, 2, 1, 0, 3, 0, 0], *conv("n", "p", (3, 3, 4, 3), padding="VALID")),
    "EXPLICIT, depthwise": padded(
        [0, 0, 2, 2, 2, 2, 0, 0], *conv("n", "p", (3, 3, 4, 2), "DepthwiseConv2dNative", padding="VALID")
    ),
    "VALID": padded([0] * 8, *conv("n", "p", (3, 3, 4, 3), padding="VALID")),
    "EXPLICIT, with a batch norm": padded(
        [0, 0, 2, 1, 1, 1, 0, 0], *conv("c", "p", (3, 3, 4, 3), padding="VALID"), *fused("n", "c", 3)
    ),
    "SAME, gaps": graph(
        image(side=6), whole("pads", [2, 2, 2, 2], (2, 2)), whole("crops", [0] * 4, (2, 2)), *GAPS,
        *conv("n", "there", (3, 3, 4, 3), padding="VALID"), BACK, relu("back"),
    ),
    "EXPLICIT, gaps": graph(
        image(side=6), whole("pads", [1, 3, 3, 1], (2, 2)), whole("crops", [0, 1, 1, 0], (2, 2)), *GAPS,
        *conv("n", "there", (3, 3, 4, 3), padding="VALID"), BACK, relu("back"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", PADS)
def test_paddings_and_gaps_go_into_a_convolution(form: str) -> None:
    found = PADS[form]
    before = graphs.written(found)
    folded(found)
    (window,) = [name for name, op in graphs.ops(found).items() if "Conv" in op]
    assert graphs.attrs(found, window)["padding"].s.decode() == form.split(",")[0]
    fed = picture(side=6 if "gaps" in form else 5)
    assert is_near(run(before, "y", x=fed), run(found, "y", x=fed))


def test_paddings_stay_where_a_convolution_does_not_do_the_same() -> None:
    twice = conv("n", "p", (3, 3, 4, 3))
    assert unfolded(padded([0, 0, 1, 1, 1, 1, 0, 0], *twice)) == "also-pads"
    deep = conv("n", "p", (3, 3, 5, 3), padding="VALID")
    assert unfolded(padded([0, 0, 1, 1, 1, 1, 0, 1], *deep)) == "value-unknown"
    gaps = [image(side=6), whole("pads", [2, 2, 2, 2], (2, 2)), whole("crops", [0] * 4, (2, 2)), *GAPS]
    deeply = conv("n", "there", (3, 3, 4, 1), "DepthwiseConv2dNative", padding="VALID")
    assert unfolded(graph(*gaps, *deeply, BACK, relu("back"))) == "no-kernel"


# -- random chains --------------------------------------------------------------------------------------------


@st.composite
def chains(draw: st.DrawFn) -> bytes:
    """Convolutions of every kind with batch norms of every spelling, a Relu or none between them."""
    records, at, channels = [image()], "x", 4
    for i in range(draw(below(2)) + 1):
        made, at, channels = _block(draw, f"b{i}", at, channels)
        records += made
    return graphs.graph_bytes(*records, relu(at))


def _block(draw: Draw, name: str, at: str, channels: int) -> tuple[list[bytes], str, int]:
    kind = pick(draw, ("Conv2D", "DepthwiseConv2dNative", "groups", "joined"))
    count = draw(below(3)) + 1
    given = {"DepthwiseConv2dNative": channels, "groups": 1}.get(kind, channels)
    last = channels * count if kind == "groups" else count
    op = "DepthwiseConv2dNative" if kind == "DepthwiseConv2dNative" else "Conv2D"
    strides = pick(draw, ((1, 1, 1, 1), (1, 2, 2, 1)))
    records: list[bytes] = []
    if kind != "joined" and draw(below(2)):
        scale = numbers(f"{name}/s", [channels] if draw(below(2)) and kind != "groups" else [], 1, 2)
        records, at = [scale, typed("Mul", f"{name}/m", at, f"{name}/s")], f"{name}/m"
    parts = [f"{name}/c", f"{name}/e"] if kind == "joined" else [f"{name}/c"]
    records += [record for part in parts for record in conv(part, at, (2, 3, given, last), op, strides=strides)]
    channels, at = channels * count if kind in ("groups", "DepthwiseConv2dNative") else count, parts[0]
    if kind == "joined":
        axis = const(f"{name}/axis", 3, graphs.INT32, ())
        records += [axis, typed("ConcatV2", f"{name}/j", *parts, f"{name}/axis", N=2, Tidx=graphs.INT32)]
        channels, at = 2 * count, f"{name}/j"
    if draw(below(2)):
        records += [numbers(f"{name}/b", [channels]), typed("BiasAdd", f"{name}/d", at, f"{name}/b")]
        at = f"{name}/d"
    spelling = draw(below(4))
    if spelling < 2:
        records += fused(f"{name}/n", at, channels, pick(draw, ("FusedBatchNorm", "FusedBatchNormV3")))
    elif spelling < 3:
        records += spelt_out(f"{name}/n", at, channels, gamma=bool(draw(below(2))), beta=bool(draw(below(2))))
    else:
        records += [numbers(f"{name}/f", [channels]), typed("Mul", f"{name}/n", f"{name}/f", at)]
    end = pick(draw, ("Relu", "Relu6", ""))
    return ([*records, relu(f"{name}/n", name, end)], name, channels) if end else (records, f"{name}/n", channels)


@pytest.mark.tensorflow
@settings(max_examples=25)
@given(chains())
def test_random_chains_give_what_they_gave(data: bytes) -> None:
    found = graphs.from_bytes(data)
    folded(found)
    assert not {"Mul", "FusedBatchNorm", "FusedBatchNormV3"} & {*graphs.ops(found).values()}
    assert is_near(run(data, "y", x=picture()), run(found, "y", x=picture()))
