"""Older forms of ops on texts, lists, matrices, images and convolutions."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.desk import check_raised
from support.expecting import expect, refused
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    STRING,
    UINT8,
    add,
    call,
    const,
    define,
    dtype,
    dtypes,
    encode_len,
    func,
    graph,
    library,
    node,
    placeholder,
    relu,
    scalar,
    typed,
    versions,
)
from support.older import check_reason, older, same, unknown
from support.running import run

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.compat import compat
from gdsurgeon.edits.downgrade.candidate import Analysis
from gdsurgeon.edits.rewriting.rounds import PlannedRewrite
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.operation.library import prove
from gdsurgeon.proof.accounting import check_accounted

S3 = "^s3://.*"


def match(pattern: str = S3, read: str = "s", name: str = "y") -> bytes:
    return node(name, "StaticRegexFullMatch", [read], pattern=pattern)


def test_a_pattern_is_an_input_where_it_is_no_attr() -> None:
    replaced = node("z", "StaticRegexReplace", ["s"], pattern="a", rewrite="b")
    after = [
        placeholder("s", STRING), node("y", "RegexFullMatch", ["s", "y/Const"]), const("y/Const", ".*a.b", STRING),
        node("z", "RegexReplace", ["s", "z/Const", "z/Const_1"]), const("z/Const", "a", STRING),
        const("z/Const_1", "b", STRING),
    ]  # fmt: skip
    before, command = [after[0], match(".*a.b"), replaced], "compat --for 1.10"
    expect(before, lambda g: compat(g, "1.10"), after, command=command, trailer=versions(26))


MATCHED = ["s3://", "s3://bucket/x", "s3:/", "", "xs3://", "S3://", "s3://a\n", "s3://a\nb", "\ns3://", "s3://\n"]


@pytest.mark.parametrize("pattern", [S3, "s3://.*$"])
def test_a_beginning_is_matched_without_patterns(pattern: str) -> None:
    records = [placeholder("s", STRING, ()), match(pattern)]
    found = same(records, "1.4", "y", feeds=[{"s": np.array(fed.encode(), object)} for fed in MATCHED])
    answers = [run(found, "y", s=np.array(fed.encode(), object))[0] for fed in MATCHED]
    assert answers == [True, True, *[False] * 8]


# -- records --------------------------------------------------------------------------------------------------


def parsing(shape: tuple[int, ...] = (-1,), ragged: Sequence[bytes] = (), **attrs: Any) -> list[bytes]:
    """Two sparse features and two dense ones, one with a default."""
    keys = {"names": [], "sparse": ["words", "ids"], "dense": ["x", "y"], "ragged": []}
    out = [placeholder("s", STRING, shape)]
    out += [const(key, held, STRING) for key, held in keys.items()]
    out += [const("none", []), const("seven", [7.0])]
    wanted = {
        "Tdense": dtypes(FLOAT, FLOAT), "num_sparse": 2, "sparse_types": dtypes(STRING, INT64),
        "dense_shapes": [(2,), (1,)], "ragged_value_types": [*ragged], "ragged_split_types": [*ragged], **attrs,
    }  # fmt: skip
    return [*out, node("p", "ParseExampleV2", ["s", *keys, "none", "seven"], **wanted)]


def parsing_by(key: str) -> bytes:
    """The same by keys that are read from elsewhere."""
    read = ["s", "names", key, "dense", "ragged", "none", "seven"]
    return node("p", "ParseExampleV2", read, Tdense=dtypes(FLOAT, FLOAT), num_sparse=2, dense_shapes=[(2,), (1,)],
                sparse_types=dtypes(STRING, INT64))  # fmt: skip


def example(**features: list[Any]) -> bytes:
    """A serialised tf.Example."""
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], str):
            held = encode_len(1, b"".join(encode_len(1, value.encode()) for value in values))
        elif isinstance(values[0], float):
            held = encode_len(2, encode_len(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            held = encode_len(3, encode_len(1, bytes(values)))
        entries += encode_len(1, encode_len(1, name.encode()) + encode_len(2, held))
    return encode_len(1, entries)


def test_records_are_parsed_the_same() -> None:
    given = [example(words=["a", "b"], ids=[3], x=[1.0, 2.0]), example(words=["c"], x=[0.5, 0.25], y=[9.0])]
    feeds = [{"s": np.array(fed, object)} for fed in (given, given[:0])]
    found = same(parsing(), "1.15", *(f"p:{index}" for index in range(8)), feeds=feeds)
    assert graphs.ops(found)["p"] == "ParseExample"
    assert graphs.inputs(found)["p"] == [
        "s", "names", "p/Const", "p/Const_1", "p/Const_2", "p/Const_3", "none", "seven",
    ]  # fmt: skip


LIST = "variant"
OF = {"element_dtype": FLOAT}
STATE = {"i": INT32, "n": INT32, "given": LIST, "out": LIST, "last": LIST}
LESS = define("less", STATE, {"go": (BOOL, "l:z:0")}, typed("Less", "l", "i", "n", kind=INT32))
STEP = define(
    "step", STATE,
    {"a": (INT32, "j:z:0"), "b": (INT32, "n"), "c": (LIST, "given"), "d": (LIST, "set:output_handle:0"),
     "e": (LIST, "kept:output_handle:0")},
    scalar("one", 1, INT32), scalar("zero", 0, INT32), const("es", [2], INT32),
    add("j", "i", "one:output:0", kind=INT32), node("get", "TensorListGetItem", ["given", "i", "es:output:0"], **OF),
    typed("Mul", "square", "get:item:0", "get:item:0"),
    node("set", "TensorListSetItem", ["out", "i", "square:z:0"], **OF),
    node("kept", "TensorListSetItem", ["last", "zero:output:0", "square:z:0"], **OF),
)  # fmt: skip
MADE = [
    placeholder("x", shape=(-1, 2)), placeholder("n", INT32, ()), scalar("zero", 0, INT32), scalar("one", 1, INT32),
    const("es", [2], INT32), node("given", "TensorListFromTensor", ["x", "es"], **OF, shape_type=INT32),
    node("out", "TensorListReserve", ["es", "n"], **OF, shape_type=INT32),
    node("last", "TensorListReserve", ["es", "one"], **OF, shape_type=INT32, _output_shapes=[()]),
]  # fmt: skip
ENDS = [
    node("all", "TensorListStack", ["while:3", "es"], **OF),
    node("only", "TensorListStack", ["while:4", "es"], **OF, num_elements=1),
    node("places", "TensorListLength", ["while:3"]),
]


def loop(state: Sequence[str] = ("zero", "n", "given", "out", "last")) -> bytes:
    return node("while", "StatelessWhile", state, cond=func("less"), body=func("step"), T=dtypes(*STATE.values()))


def fed(*rows: int) -> list[dict[str, Any]]:
    return [{"x": np.arange(2 * n, dtype=np.float32).reshape(n, 2), "n": n} for n in rows]


@pytest.mark.parametrize("target", ["1.4", "1.12"])
def test_lists_that_go_round(target: str) -> None:
    """One is read, one written place by place, and one of one place again and again; no time, once, five times."""
    records = [*MADE, loop(), *ENDS, library(LESS, STEP)]
    found = same(records, target, "all", "only", "places", feeds=fed(0, 1, 5))
    assert not [op for op in graphs.ops(found).values() if op.startswith("TensorList")]
    entered = [n for n in graphs.parsed(found).node if n.op == "Enter" and n.attr["is_constant"].b]
    assert len(entered) == 2 and {n.attr["frame_name"].s for n in entered} == {b"while"}


def test_a_list_that_is_written_before_the_loop() -> None:
    """As tf.scan does: the first place is written in front, read behind, and the loop begins with the second."""
    begun = node("begun", "TensorListSetItem", ["out", "zero", "first"], **OF)
    again = node("again", "TensorListGetItem", ["while:3", "zero", "es"], **OF)
    looping = loop(["one", "n", "given", "begun", "last"])
    same([*MADE, FIRST, begun, looping, *ENDS, again, library(LESS, STEP)], "1.4", "all", "again", feeds=fed(1, 2, 4))


FIRST = node("first", "TensorListGetItem", ["given", "zero", "es"], **OF)


def test_a_list_that_grows_as_it_is_written() -> None:
    """As tf.TensorArray(dynamic_size=True) is in TensorFlow 2: it begins with no places."""
    begun = node("begun", "TensorListReserve", ["es", "zero"], **OF, shape_type=INT32)
    grows = {**OF, "resize_if_index_out_of_bounds": True}
    grown = [node("a", "TensorListSetItem", ["begun", "zero", "first"], **grows),
             node("b", "TensorListSetItem", ["a", "one", "first"], **grows)]  # fmt: skip
    records = [*MADE, begun, FIRST, *grown, node("all", "TensorListStack", ["b", "es"], **OF)]
    found = same(records, "1.4", "all", feeds=[{"x": np.ones((1, 2), np.float32), "n": 1}])
    arrays = [each for each in graphs.parsed(found).node if each.op == "TensorArrayV3"]
    assert [each.name for each in arrays if each.attr["dynamic_size"].b] == ["begun/TensorArrayV3"]


def test_releases_that_have_them_keep_them() -> None:
    found = older([*MADE, loop(), *ENDS, library(LESS, STEP)], "1.15")
    assert graphs.ops(found)["given"] == "TensorListFromTensor" and graphs.ops(found)["while"] == "StatelessWhile"


X, M = placeholder("x", shape=(-1, 3)), placeholder("m", shape=(-1, 3, 4))
NUMBERS = [
    scalar("k", 0, INT32),
    const("k1", [0], INT32),
    scalar("n", -1, INT32),
    scalar("z", 0),
    scalar("one", 1, INT32),
]
DIAGONALS = [
    X, M, *NUMBERS, typed("MatrixDiagV3", "diag", "x", "k1", "n", "n", "z", align="RIGHT_LEFT"),
    typed("MatrixDiagV2", "diag2", "x", "k", "n", "n", "z"),
    typed("MatrixDiagPartV3", "part", "m", "k", "z", align="LEFT_RIGHT"),
    typed("MatrixDiagPartV2", "part2", "m", "k1", "z"), typed("MatrixSetDiagV3", "set", "m", "x", "k"),
    typed("MatrixSetDiagV2", "set2", "m", "x", "k"), typed("MatrixBandPart", "band", "m", "one", "n", Tindex=INT32),
]  # fmt: skip


def gather(name: str, read: str, indices: str, axis: str, batch_dims: int, kind: bytes = INT32) -> bytes:
    kinds = {"Tparams": FLOAT, "Tindices": kind, "Taxis": INT32}
    return node(name, "GatherV2", [read, indices, axis], batch_dims=batch_dims, **kinds)


GATHERS = [
    placeholder("p", shape=(2, -1, 5, 3)), placeholder("i", INT32, (2, -1, 2)), placeholder("j", INT32, (2, -1)),
    scalar("one", 1, INT32), scalar("two", 2, INT32), node("wide", "Cast", ["j"], SrcT=INT32, DstT=INT64),
    gather("two_dims", "p", "i", "two", 2), gather("one_dim", "p", "wide", "one", 1, INT64), placeholder("u"),
    placeholder("v", INT32), gather("any", "u", "v", "one", 1), gather("plain", "p", "j", "one", 0),
]  # fmt: skip


def test_diagonals_and_bands_give_the_same() -> None:
    names = ["diag", "diag2", "part", "part2", "set", "set2", "band"]
    feeds = [{"x": np.arange(3.0 * rows).reshape(rows, 3), "m": np.arange(12.0 * rows).reshape(rows, 3, 4) + 1}
             for rows in (0, 2)]  # fmt: skip
    found = same(DIAGONALS, "1.4", *names, feeds=feeds)
    ops = {graphs.ops(found)[name] for name in names}
    assert ops == {"MatrixDiag", "MatrixDiagPart", "MatrixSetDiag", "MatrixBandPart"}


def test_gathers_of_batches_give_the_same() -> None:
    rng = np.random.default_rng(3)
    for rows in (1, 4):
        fed = {"p": rng.normal(size=(2, rows, 5, 3)), "i": rng.integers(0, 5, (2, rows, 2)), "j": [[rows - 1, 0]] * 2}
        fed |= {"u": rng.normal(size=(3, 2)), "v": [[0], [1], [0]]}
        same(GATHERS, "1.12", "two_dims", "one_dim", "any", "plain", feeds=[fed])


POOLING = {"T": FLOAT, "Targmax": INT64, "padding": "VALID", "ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}


@pytest.mark.parametrize("op", ["MaxPoolWithArgmax", "MaxPoolGradWithArgmax"])
def test_places_of_maxima_that_a_release_counts_otherwise_are_refused(op: str) -> None:
    """Up to 1.13 they are always counted through the batch: False is not a default that can be removed."""
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


ONES = [1, 1, 1, 1]
PADS = [0, 0, 2, 1, 0, 3, 0, 0]
EXPLICIT = {"padding": "EXPLICIT", "explicit_paddings": PADS, "strides": ONES}
IMAGES = placeholder("x", shape=(-1, 5, 6, 2))


def pooled(**attrs: Any) -> bytes:
    return node("m", "MaxPool", ["x"], **{"T": FLOAT, **EXPLICIT, "ksize": [1, 4, 4, 1], **attrs})


CONVOLVED = [
    IMAGES, const("w", np.linspace(-1, 1, 36).tolist(), shape=(3, 3, 2, 2)),
    typed("Conv2D", "c", "x", "w", **EXPLICIT), typed("DepthwiseConv2dNative", "d", "x", "w", **EXPLICIT),
]  # fmt: skip


def close(records: list[bytes], found: Graph, channels: int, *fetches: str) -> None:
    """FOUND gives what RECORDS give, but for rounding: for no images and for two."""
    for rows in (0, 2):
        fed = np.random.default_rng(6).normal(size=(rows, 5, 6, channels)).astype(np.float32)
        now, before = (run(which, *fetches, x=fed) for which in (found, graphs.graph_bytes(*records)))
        for one, other in zip(now, before, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_pad_stands_in_front_of_what_pads_by_numbers() -> None:
    before = [IMAGES, const("w", [1.0] * 4, shape=(1, 1, 2, 2)), typed("Conv2D", "c", "x", "w", **EXPLICIT)]
    found = graph(*before, trailer=graphs.versions(27))
    result = compat(found, "1.13")
    check_accounted(found, result, found.chunks())
    assert graphs.inputs(found) == {"w": [], "x": [], "c": ["c/Pad", "w"], "c/Pad": ["x", "c/Const"], "c/Const": []}
    assert graphs.attrs(found, "c").keys() == {"T", "padding", "strides"}
    held = constant(found["c/Const"])
    assert held is not None and (list(held.values), held.shape) == (PADS, (4, 2))
    assert list(result.facts["replaced"].values()) == [1]


def test_what_a_release_pads_by_numbers_stays() -> None:
    found = older([*CONVOLVED, pooled()], "2.3")
    assert graphs.inputs(found)["m"] == ["m/PadV2"]
    assert graphs.inputs(found)["c"] == graphs.inputs(found)["d"] == ["x", "w"]


@pytest.mark.tensorflow
def test_what_takes_the_place_of_a_node_is_run_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a Relu, no output shows that the padding is 0 instead of the lowest number."""
    planned = Analysis.planned

    def zero(analysis: Analysis, node: Node, text: str) -> PlannedRewrite:
        return planned(analysis, node, text.replace("-inf", "0"))

    monkeypatch.setattr(Analysis, "planned", zero)
    pool = typed("MaxPool", "m", "r", **EXPLICIT, ksize=[1, 4, 4, 1])
    found = graph(placeholder("x", shape=(1, 5, 6, 2)), relu("r", "x"), pool)
    result = compat(found, "1.15")
    check_raised(ValidationError, "differs", lambda: prove(found.pristine(), found, result))


KINDS = {1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 19: np.float16}


@pytest.mark.parametrize("number", KINDS)
def test_pools_of_every_type_give_the_same(number: int) -> None:
    kind = dtype(number)
    records = [placeholder("f"), node("x", "Cast", ["f"], SrcT=FLOAT, DstT=kind), pooled(T=kind)]
    records += [node("y", "Cast", ["m"], SrcT=kind, DstT=DOUBLE)]
    fed = np.random.default_rng(5).uniform(0 if number == 4 else -9, 9, (2, 5, 6, 2)).astype(np.float32)
    same(records, "1.15", "y", feeds=[{"f": fed}])


@pytest.mark.tensorflow
def test_convolutions_give_the_same_but_for_rounding() -> None:
    found = graph(*CONVOLVED)
    result = compat(found, "1.4")
    check_accounted(found, result, found.chunks())
    close(CONVOLVED, found, 2, "c", "d")
    assert [claim.tolerance for claim in result.claims if isinstance(claim, SameOutputs)] == [(1e-5, 1e-5, 0.0)]
    exact = compat(graph(*CONVOLVED), "1.4", rtol=0.0, atol=0.0).claims[0]
    assert isinstance(exact, SameOutputs) and exact.tolerance.is_exact


# -- groups of channels ---------------------------------------------------------------------------------------

EACH = {  # the dims of filters that each read a part of six channels, and the converted convolution
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
    close(in_groups(case), found, 6, "y")


def test_groups_in_a_function_are_known_from_its_call() -> None:
    """One that calls another, which convolves, as Keras has it."""
    taken = {"a": FLOAT, "b": FLOAT}
    inner = define("inner", taken, {"o": (FLOAT, "y:output:0")},
                   typed("Conv2D", "y", "a", "b", strides=ONES, padding="SAME"))  # fmt: skip
    outer = define("outer", taken, {"o": (FLOAT, "c:output:0")}, call("c", "inner", ["a", "b"], [FLOAT] * 2, [FLOAT]))
    records = [*in_groups("three channels")[:2], call("y", "outer", ["x", "w"], [FLOAT] * 2, [FLOAT]),
               library(outer, inner)]  # fmt: skip
    assert unknown(graph(*records), "1.15") == [("inner", "y", "Conv2D", "dims", "")]
    found = older(records, "1.15")
    ops = {each.name: each.op for each in found.functions["inner"].node_def}
    assert ops["y"] == "ConcatV2" and ops["y/Conv2D_1"] == "Conv2D"


def test_groups_that_are_not_known_are_not_told() -> None:
    records = in_groups("one channel")
    assert unknown(graph(*records), "2.4") == [("", "y", "Conv2D", "dims", "")]
    assert unknown(graph(placeholder("x"), *records[1:]), "2.4") == unknown(graph(*records), "2.5") == []


# -- resizing -------------------------------------------------------------------------------------------------


def resized(**attrs: Any) -> list[bytes]:
    """Both resizings, to a size that is fed, of floats and of bytes."""
    out = [IMAGES, placeholder("size", INT32, (2,)), node("bytes", "Cast", ["x"], SrcT=FLOAT, DstT=UINT8)]
    for name, read, kind in (("", "x", FLOAT), ("_bytes", "bytes", UINT8)):
        for op in ("ResizeBilinear", "ResizeNearestNeighbor"):
            wanted = {"T": kind, "half_pixel_centers": True, "align_corners": False, **attrs}
            out.append(node(op + name, op, [read, "size"], **wanted))
    return out


@pytest.mark.parametrize("size", [(5, 6), (1, 1), (7, 3), (64, 61), (2, 640)])
def test_resizing_about_the_middle_gives_the_same(size: tuple[int, int]) -> None:
    """Larger and smaller, by whole factors and not; of one row, of no images."""
    names = [name for name, op in graphs.ops(graph(*resized())).items() if op.startswith("Resize")]
    rng = np.random.default_rng(7)
    feeds = [{"x": rng.uniform(0, 255, (rows, 5, 6, 2)).astype(np.float32), "size": size} for rows in (0, 2)]
    found = same(resized(), "1.13", *names, feeds=feeds)
    assert graphs.ops(found)["ResizeBilinear"] == "Add" and graphs.ops(found)["ResizeNearestNeighbor"] == "GatherV2"


# -- what has no older form -----------------------------------------------------------------------------------

TEXT, SIZE = placeholder("s", STRING, ()), placeholder("size", INT32, (2,))
TWO = [typed("Switch", "s", "out", "p", kind=LIST), placeholder("p", BOOL, ()),
       typed("Merge", "m", "s", "given", kind=LIST, N=2)]  # fmt: skip
FIVE_ROWS = [scalar("r", 5, INT32), typed("MatrixDiagV3", "y", "x", "k", "r", "n", "z")]
FILLED = [scalar("r", 5), typed("MatrixDiagV3", "y", "x", "k", "n", "n", "r")]


@pytest.mark.parametrize(
    ("records", "target", "code", "facts"),
    [
        ([TEXT, match("a.*b.*")], "1.4", "not-a-prefix", {}),
        ([TEXT, match("^s3://")], "1.4", "not-a-prefix", {}),
        ([placeholder("s", STRING, (3,)), match()], "1.4", "shape-unknown", {}),
        ([TEXT, node("y", "RegexFullMatch", ["s", "s"])], "1.4", "not-a-prefix", {}),
        (parsing(()), "1.15", "wrong-shape", {"shape": ()}),
        (parsing(ragged=[INT64]), "1.15", "ragged-output", {}),
        ([placeholder("k", STRING), *parsing()[:-1], parsing_by("k")], "1.15", "not-a-constant", {}),
        ([*MADE, node("pushed", "TensorListPushBack", ["out", "x"], **OF)], "1.4", "unsupported-op",
         {"node": "pushed", "op": "TensorListPushBack"}),
        ([*MADE, node("asked", "TensorListLength", ["last"])], "1.4", "value-unknown", {"node": "asked"}),
        ([*MADE, *TWO], "1.4", "several-lists", {"tensor": "m"}),
        ([X, *NUMBERS, *FIVE_ROWS], "1.12", "other-diagonal", {"what": "rows"}),
        ([X, *NUMBERS, *FILLED], "1.12", "other-diagonal", {"what": "the values off the diagonal"}),
        ([M, *NUMBERS, typed("MatrixDiagPartV3", "y", "m", "one", "z")], "1.12", "other-diagonal",
         {"what": "diagonals"}),
        ([*GATHERS[:5], gather("y", "p", "j", "two", 1)], "1.12", "other-axis", {}),
        ([placeholder("x", dtype(14), (-1, 5, 6, 2)), pooled(T=dtype(14))], "1.15", "unsupported-dtype",
         {"dtype": "bfloat16"}),
        ([IMAGES, SIZE, typed("ResizeBicubic", "y", "x", "size", half_pixel_centers=True)], "1.13",
         "half-pixel-centers", {}),
    ],
)  # fmt: skip
def test_what_has_no_older_form_is_refused(records: list[bytes], target: str, code: str, facts: dict[str, Any]) -> None:
    check_reason(records, target, code, **facts)
