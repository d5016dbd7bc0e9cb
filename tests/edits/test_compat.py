"""compat: unknown ops, their older forms, control flow, refused models; equal values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.desk import Desk, check_raised
from support.expecting import expect, refused, sound
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    add,
    call,
    const,
    define,
    dtype,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    typed,
    versions,
)
from support.older import check_reason, older, same, unknown
from support.paths import FIXTURES
from support.running import outcome

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.compat import compat
from gdsurgeon.edits.downgrade import control_flow
from gdsurgeon.edits.downgrade.forms import RULES
from gdsurgeon.errors import UsageError, ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.operation.library import prove
from gdsurgeon.ops.kinds import CONTROL_FLOW
from gdsurgeon.ops.op_defs import graph_def_version, table_version
from gdsurgeon.ops.releases import release, releases
from gdsurgeon.proof.accounting import check_accounted

OLD = versions(24)
X = placeholder("x", shape=(2, 3))
ONES = [1, 1, 1, 1]


# -- the table ------------------------------------------------------------------------------------------------


def test_the_table_has_the_releases_and_the_one_that_editing_knows() -> None:
    assert [each.name for each in releases()][:2] == ["1.4", "1.5"]
    newest = releases()[-1]
    assert table_version().startswith(f"{newest.name}.") and newest.version == graph_def_version()
    assert len(releases()) == 34 and release("1.15.5") == release("1.15") is not None
    assert release("1.3") is None and release("1.x") is None


# -- what a release does not know -----------------------------------------------------------------------------


def test_all_that_is_unknown_is_listed_in_functions_too() -> None:
    found = graph(
        X,
        add("a", "x", "x"),
        add("b", "a", "a"),
        node("c", "Cast", ["b"], SrcT=FLOAT, DstT=FLOAT, Truncate=True),
        typed("Bitcast", "d", "c", type="uint32"),
        node("e", "Foo", ["d"]),
        node("f", "F", ["b"]),
        typed("Dequantize", "g", "c", "x", "x", kind="qint8", mode="NO"),
        trailer=library(function("F", add("y", "x", "x")), function("Unused", node("y", "Foo", ["x"]))) + OLD,
    )
    assert unknown(found, "1.4") == [
        ("", "a", "AddV2", "op", ""),
        ("", "b", "AddV2", "op", ""),
        ("", "c", "Cast", "attr", "Truncate"),
        ("", "d", "Bitcast", "value", "type"),
        ("", "d", "Bitcast", "value", "type"),
        ("", "e", "Foo", "op", ""),
        ("", "g", "Dequantize", "value", "mode"),
        ("F", "y", "AddV2", "op", ""),
    ]
    assert unknown(found, "2.8")[0] == ("", "e", "Foo", "op", "")


def test_inputs_and_outputs_that_are_no_longer_there_are_listed() -> None:
    found = graph(
        scalar("i", 1, INT32),
        node("l", "TensorListReserve", ["i", "i"], element_dtype=FLOAT, shape_type=INT32),
        node("s", "TensorListStack", ["l", "i"], element_dtype=FLOAT, num_elements=1),
    )
    assert unknown(found, "1.12") == [("", "s", "TensorListStack", "inputs", "")]


def test_kernels_that_take_two_dims_are_told() -> None:
    wide = ["s_t3", "s_any", "s_wide", "l_t3", "l_any"]
    assert [(name, kind) for _, name, _, kind, _ in unknown(graph(*ROWS), "1.10")] == [(n, "dims") for n in wide]
    assert unknown(graph(*ROWS), "1.12") == []
    ops = graphs.ops(older(ROWS, "1.10"))
    assert ops["s_t2"] == "Softmax" and ops["s_any"] == "Reshape"


def test_check_tells_and_writes_nothing(desk: Desk) -> None:
    desk.put("model.pb", graphs.graph_bytes(X, add("y", "x", "x"), trailer=OLD))
    check = ["check-ops", "model.pb", "--for"]
    ran = desk.run(*check, "tf1.15", "--json")
    assert (ran.code, ran.err, json.loads(ran.out)["unknown"]) == (0, "", [])
    assert b"AddV2" in desk.run(*check, "tf1.4").out
    found = desk.answer(*check, "tf1.4", code=4)
    assert [(each["node"], each["op"], each["kind"]) for each in found["unknown"]] == [("y", "AddV2", "op")]
    assert found["error"]["code"] == "not-compatible" and found["error"]["facts"]["target"] == "1.4"
    assert found["exit_code"] == 4 and [*desk.files()] == ["model.pb"]
    desk.refused(2, "conflicting-options", *check, "tf1.15", "--run", option="--run")


# -- attrs and versions ---------------------------------------------------------------------------------------


def conv(**attrs: object) -> bytes:
    return typed("Conv2D", "y", "x", "w", strides=ONES, padding="SAME", **attrs)  # type: ignore[arg-type]


IMAGE = [placeholder("x", shape=(1, 4, 4, 1)), const("w", [1.0], shape=(1, 1, 1, 1))]


def test_attrs_with_the_default_of_later_releases_go() -> None:
    before = [*IMAGE, conv(dilations=ONES, explicit_paddings=[], _note="kept")]
    after = [*IMAGE, conv(_note="kept")]
    result = expect(before, lambda g: compat(g, "1.4"), after, command="compat --for 1.4", trailer=OLD)
    assert len(result.facts["dropped"]) == 2


def test_versions_become_those_of_the_release() -> None:
    said = b"\x08\xda\x0e\x10\x80\x10\x18\x1b\x18\x1a"  # producer 1882, min_consumer 2048, bad_consumers 27 and 26
    before = graph(X, neg("y", "x"), trailer=graphs.encode_len(4, said))
    result = compat(before, "1.12")
    after = graphs.parsed(before).versions
    assert (after.producer, after.min_consumer, list(after.bad_consumers)) == (27, 27, [26])
    assert (result.facts["producer"], len(result.told)) == (27, 3)
    known = graph(X, neg("y", "x"), trailer=versions(27))
    refused(known, "nothing-to-do", partial(compat, target="1.12"))


def test_a_file_that_says_nothing_of_versions_goes_on_saying_nothing() -> None:
    expect(graph(X, add("y", "x", "x"), trailer=b""), lambda g: compat(g, "1.4"),
           [X, typed("Add", "y", "x", "x")], trailer=b"")  # fmt: skip


def test_what_has_another_default_is_written_out() -> None:
    ragged = {"RAGGED_RANK": 1, "Tvalues": FLOAT, "batched_input": False}
    before = [placeholder("s", INT64), X, node("y", "RaggedTensorToVariant", ["s", "x"], **ragged)]
    after = [*before[:2], node("y", "RaggedTensorToVariant", ["s", "x"], **ragged, Tsplits=INT64)]
    expect(before, lambda g: compat(g, "1.15"), after, trailer=versions(134))


# -- older forms ----------------------------------------------------------------------------------------------


def test_an_older_form_keeps_name_inputs_controls_and_device() -> None:
    before = [X, add("y", "x", "x", "^x", device="/cpu:0"), neg("z", "y")]
    after = [X, typed("Add", "y", "x", "x", "^x", device="/cpu:0"), before[2]]
    result = expect(before, lambda g: compat(g, "1.4"), after, command="compat --for 1.4", trailer=OLD)
    assert list(result.facts["replaced"].values()) == [1]


def test_a_constant_that_a_loop_needs_is_in_the_loop() -> None:
    found = graph(placeholder("x", shape=(2,)), typed("Enter", "enter", "x", frame_name="loop"),
                  typed("LeakyRelu", "y", "enter", alpha=0.5), typed("Exit", "exit", "y"))  # fmt: skip
    compat(found, "1.4")
    assert graphs.inputs(found)["y/Const"] == ["^enter"]


NMS = [placeholder("x", shape=(5, 4)), placeholder("s", shape=(5,)), scalar("n", 3, INT32), scalar("t", 0.5)]
HALF = dtype(19)
HALVES = [placeholder("x", HALF, (5, 4)), placeholder("s", HALF, (5,)), NMS[2], scalar("t", 0.5, HALF)]
UNREADABLE = [
    typed("FusedBatchNormV3", "b", "x", "s", "s", "s", "s", U=FLOAT, is_training=False), neg("y", "b:5"),
]  # fmt: skip
SELECTED = [
    scalar("z", 0), typed("NonMaxSuppressionV5", "b", "x", "s", "n", "t", "t", "z"), neg("y", "b:1"),
]  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("is_training", [False, True])
def test_a_batch_norm_that_is_the_output_has_one_output_less(is_training: bool) -> None:
    """Its reserve space is an output of the graph, as all outputs of the last node, and undefined."""
    weights = [const(name, [1.0, 2.0]) for name in "somv"]
    norm = typed("FusedBatchNormV3", "y", "x", *"somv", U=FLOAT, is_training=is_training)
    found = graph(placeholder("x", shape=(1, 2, 2, 2)), *weights, norm)
    result = compat(found, "1.12")
    assert graphs.ops(found)["y"] == "FusedBatchNormV2"
    assert {output.after for output in prove(found.pristine(), found, result).compared} >= {"y", "y:1", "y:2"}


def test_there_are_releases_of_which_there_is_no_table() -> None:
    for target, near in (("0.12", None), ("1.3", None), ("v1.15", "1.15")):
        edit = partial(compat, target=target)
        error = refused(graph(X), "no-such-release", edit, error=UsageError, target=target, near=near)
        assert "2.3" in error.facts["releases"]
        json.dumps(error.facts)


BROADCASTING = [
    placeholder("a", shape=(-1, 1, 2, 3)), placeholder("b", shape=(2, 3, 2)), placeholder("n"), placeholder("row"),
    typed("BatchMatMulV2", "m", "a", "b"), typed("BatchMatMulV2", "m2", "b", "n"),
    typed("BatchMatMulV2", "mx", "b", "b", adj_x=False, adj_y=True), scalar("zero", 0),
    typed("Greater", "c", "b", "zero"), node("c0", "All", ["c", "all"], Tidx=INT32), const("all", [0, 1, 2], INT32),
    const("last", [1], INT32), node("cl", "All", ["c", "last"], Tidx=INT32),  # (2, 2)
    typed("SelectV2", "s", "c", "zero", "b"), typed("SelectV2", "s2", "cl", "n", "zero"),
    typed("SelectV2", "s3", "c0", "b", "zero"), typed("SelectV2", "s4", "c", "b", "b"),
    typed("Greater", "cn", "row", "zero"), typed("SelectV2", "s5", "cn", "row", "b"),
    typed("BroadcastTo", "w", "n", "wide", Tidx=INT64), const("wide32", [2, 3, 2, 2], INT32),
    node("wide", "Cast", ["wide32"], SrcT=INT32, DstT=INT64),
]  # fmt: skip
"""Products and choices of tensors of several shapes, known and not."""
CONTRACTING = [
    placeholder("p", shape=(-1, 3, 2, 4)), placeholder("q", shape=(-1, 3, 2, 4)), placeholder("m", shape=(3, 2)),
    placeholder("k", shape=(2, 2)),
    *(typed("Einsum", name, a, b, N=2, equation=equation) for name, a, b, equation in (
        ("e0", "p", "q", "aecd,abcd->acbe"), ("e1", "p", "q", "abcd,aecd->aceb"), ("e5", "e0", "q", "acbe,aecd->abcd"),
        ("e6", "m", "m", "ab,cb->ca"), ("e7", "m", "k", "ij,jk->ik"))),
]  # fmt: skip
"""Products in the forms that attention has them in, and plain ones; those that keep the order add no Transpose."""
ROWS = [
    placeholder("t3", shape=(2, 3, 4)), placeholder("t2", shape=(-1, 3)), placeholder("any"),
    placeholder("wide", shape=(2, 2, -1)), *(typed("Softmax", f"s_{of}", of) for of in ("t3", "t2", "any", "wide")),
    *(typed("LogSoftmax", f"l_{of}", of) for of in ("t3", "any")),
]  # fmt: skip
"""Softmaxes of tensors of several ranks, known and not."""
BOXES = ["boxes", "scores", "k", "iou", "thr"]
OTHERS = [
    placeholder("i", shape=(-1, 3, 3, 2)), const("two", [1.5, 2.5]),
    typed("FusedBatchNormV3", "bn", "i", *["two"] * 4, U=FLOAT, is_training=False),
    typed("LeakyRelu", "v", "i", alpha=0.25), add("av", "v", "v"),
    typed("EnsureShape", "e", "v", shape=(-1, 3, 3, 2)), scalar("q", 0.5),
    typed("Equal", "eq", "i", "q", incompatible_shape_error=False), placeholder("boxes", shape=(-1, 4)),
    placeholder("scores", shape=(-1,)), scalar("k", 4, INT32), scalar("iou", 0.5), scalar("thr", 0.4),
    scalar("none", 0), typed("NonMaxSuppressionV3", "n3", *BOXES), typed("NonMaxSuppressionV4", "n4", *BOXES),
    typed("NonMaxSuppressionV5", "n5", *BOXES, "none"),
    *(identity(f"only_{name}", name, kind=INT32) for name in ("n4", "n5")),
]  # fmt: skip


ELSEWHERE = {
    "Conv2D", "DepthwiseConv2dNative", "MatrixDiagPartV2", "MatrixDiagPartV3", "MatrixDiagV2", "MatrixDiagV3",
    "MatrixSetDiagV2", "MatrixSetDiagV3", "MaxPool", "ParseExampleV2", "RegexFullMatch", "ResizeBicubic",
    "ResizeBilinear", "ResizeNearestNeighbor", "StaticRegexFullMatch", "StaticRegexReplace",
}  # fmt: skip
"""Forms that `test_compat_forms` checks."""


def test_older_forms_give_the_same_bit_for_bit() -> None:
    """All forms, in one graph for each kind of feed; the list is complete."""
    rng = np.random.default_rng(1)

    def normal(**shapes: tuple[int, ...]) -> dict[str, Any]:
        return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}

    corners = rng.uniform(0, 1, (9, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.1, 0.6, (9, 2))], 1).astype(np.float32)
    scores = rng.uniform(size=9).astype(np.float32)
    softmaxes = {"t3": (2, 3, 4), "wide": (2, 2, 3)}
    fed = [
        (BROADCASTING, normal(a=(3, 1, 2, 3), b=(2, 3, 2), n=(2, 2), row=(2,))),
        (BROADCASTING, normal(a=(0, 1, 2, 3), b=(2, 3, 2), n=(1, 2, 2), row=(1, 1, 3, 1))),
        (OTHERS, {**normal(i=(2, 3, 3, 2)), "boxes": boxes, "scores": scores}),
        (OTHERS, {**normal(i=(1, 3, 3, 2)), "boxes": boxes[:0], "scores": scores[:0]}),
        (ROWS, normal(**softmaxes, t2=(2, 3), any=(5,))),
        (ROWS, normal(**softmaxes, t2=(0, 3), any=(1, 2, 1, 3))),
        (CONTRACTING, normal(p=(2, 3, 2, 4), q=(2, 3, 2, 4), m=(3, 2), k=(2, 2))),
    ]
    seen = set()
    for records, feeds in fed:
        wanted = {name: op for name, op in graphs.ops(graph(*records)).items() if op in RULES}
        seen |= {*wanted.values()}
        same(records, "1.4", *wanted, feeds=[feeds])
    assert RULES.keys() - seen == {
        "BatchMatMulV3", "NotEqual", "TensorArrayV3", "DisableCopyOnRead", "StatelessCase", "GatherV2",
        "MatrixBandPart", *ELSEWHERE,
    }  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("least", [0.0, np.nan])
def test_boxes_that_are_not_finite_show_nothing(desk: Desk, least: float) -> None:
    """Both versions select the same of finite boxes only."""
    desk.put("m.pb", graphs.graph_bytes(*NMS, typed("NonMaxSuppressionV3", "y", "x", "s", "n", "t", "t")))
    np.savez("feeds.npz", x=np.float32([[least] * 4, *[[0, 0, 1, 1]] * 4]), s=np.float32([0.9, 0.8, 0.7, 0.6, 0.1]))
    command = ("compat", "m.pb", "--for", "1.4", "--feeds", "feeds.npz", "-o", "out.pb")
    if np.isfinite(least):
        desk.done(*command)
    else:
        desk.refused(7, "not-finite", *command, tensors=["x"])


STATE = [INT32, INT32, FLOAT]
LESS = define("less", {"i": INT32, "n": INT32, "v": FLOAT}, {"go": (BOOL, "l:z:0")},
                typed("Less", "l", "i", "n", kind=INT32))  # fmt: skip
STEP = define(
    "step", {"i": INT32, "n": INT32, "v": FLOAT}, {"a": (INT32, "j:z:0"), "b": (INT32, "n"), "c": (FLOAT, "w:z:0")},
    scalar("one", 1, INT32), add("j", "i", "one:output:0", kind=INT32), const("k", [1.5, -0.75]),
    add("s", "v", "k:output:0"), typed("Mul", "w", "s:z:0", "v"),
)  # fmt: skip
START = [placeholder("n", INT32, ()), placeholder("x", FLOAT, (2,)), scalar("zero", 0, INT32)]
TIMES = [{"n": n, "x": [0.5, -1.25]} for n in (0, 1, 5)]
SIDES = [{"p": p, "x": [0.5, -1.25]} for p in (True, False)]


def loop(body: str = "step", inputs: Sequence[str] = ("zero", "n", "x"), name: str = "while", **attrs: Any) -> bytes:
    wanted = {"cond": func("less"), "body": func(body), "T": dtypes(*STATE), "parallel_iterations": 3, **attrs}
    return node(name, "StatelessWhile", inputs, **wanted)


def choice(then: str, other: str, inputs: Sequence[str] = ("p", "x"), name: str = "if", kinds: Any = (FLOAT,)) -> bytes:
    return node(name, "If", inputs, Tcond=BOOL, Tin=dtypes(*[FLOAT] * (len(inputs) - 1)), Tout=dtypes(*kinds),
                then_branch=func(then), else_branch=func(other))  # fmt: skip


def lowered(records: Sequence[bytes], *fetches: str, feeds: Sequence[dict[str, Any]]) -> Graph:
    """The graph for 1.4; it must give what it gave, and hold no function."""
    found = same(records, "1.4", *fetches, feeds=feeds)
    assert not graphs.parsed(found).library.function and CONTROL_FLOW & set(graphs.ops(found).values())
    return found


@pytest.mark.tensorflow
def test_a_loop() -> None:
    """Its results are read by others, and fetched themselves under the name of the loop; nothing may run early."""
    out = [identity("y", "while:2"), identity("i", "while", kind=INT32), identity("late", "x", "^while")]
    found = lowered([*START, loop(), *out, library(LESS, STEP)], "y", "i", "late", "while:2", feeds=TIMES)
    assert graphs.ops(found)["while"] == "IdentityN"
    enters = [n for n in graphs.parsed(found).node if n.op == "Enter"]
    assert {(n.attr["frame_name"].s, n.attr["parallel_iterations"].i) for n in enters} == {(b"while", 3)}


@pytest.mark.tensorflow
def test_a_loop_that_waits_and_is_an_output() -> None:
    held = loop(inputs=("zero", "n", "x", "^x"))
    found = lowered([*START, held, library(LESS, STEP)], "while:2", "while", feeds=TIMES)
    assert "^x" in graphs.inputs(found)["while/Enter"] and "^x" in graphs.inputs(found)["while"]


NEGATED = define("negated", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "a"))
PASSED = define("passed", {"a": FLOAT}, {"o": (FLOAT, "a")})
CONSTANT = define("constant", {"a": FLOAT}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 8]))
NONE = define("none", {}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 8]))
OTHER = define("other", {}, {"o": (FLOAT, "k:output:0")}, const("k", [9, 8]))
GIVEN = [placeholder("p", BOOL, ()), placeholder("x", FLOAT, (2,))]


@pytest.mark.tensorflow
def test_a_conditional() -> None:
    """Branches that compute, pass on, and are constant; of no inputs; read by those who wait alone."""
    out = [choice("negated", "passed"), choice("constant", "negated", name="if2")]
    out += [choice("none", "other", ("p",), "if3"), choice("negated", "constant", ("p", "if"), "if4")]
    out += [identity("y", "x", "^if2")]
    records = [*GIVEN, *out, library(NEGATED, PASSED, CONSTANT, NONE, OTHER)]
    found = lowered(records, "if", "if2", "if3", "if4", "y", feeds=SIDES)
    assert graphs.ops(found)["if"] == "Identity"


@pytest.mark.tensorflow
def test_a_graph_of_tensorflow_2_at_every_count_and_on_both_sides() -> None:
    """A loop with a call of a call in it and a captured weight, a conditional, a call; no round, one, three, five."""
    before = (FIXTURES / "functions_tf2.pb").read_bytes()
    found = from_bytes(before)
    result = compat(found, "1.4")
    check_accounted(found, result, found.chunks())
    assert not graphs.parsed(found).library.function and sound(found)
    sides = set()
    for begin in (3, 2, 0, -2):  # it goes on while that is less than 3
        for sign in (1, -1):
            fed = {"x": [[0.5 * sign, -0.25, 0.75 * sign, 1.0 * sign], [0.1, 0.2 * sign, -0.1, 0.3 * sign]]}
            now, wanted = (outcome(each, "y", "while:2", "Greater", Const=begin, **fed) for each in (found, before))
            assert not isinstance(wanted, str) and now == wanted
            assert wanted[1] == max(begin, 3)
            sides.add(wanted[2])
    assert sides == {True, False}


CASES = [{"k": k, "x": [0.5, -1.25]} for k in (0, 1, 2, 3, -1)]
GIVEN_CASE = [placeholder("k", INT32, ()), placeholder("x", FLOAT, (2,))]


def case(*names: str, inputs: Sequence[str] = ("k", "x"), name: str = "case", op: str = "Case") -> bytes:
    """A Case of functions that take floats and give one."""
    return node(name, op, inputs, Tin=dtypes(*[FLOAT] * (len(inputs) - 1)), Tout=dtypes(FLOAT),
                branches=[func(each) for each in names], output_shapes=[])  # fmt: skip


@pytest.mark.tensorflow
def test_a_case() -> None:
    """Three branches with zero, two and one inputs; an invalid index selects the last; control edges are kept."""
    out = [case("negated", "passed", "constant"), case("none", "other", inputs=("k",), name="c2", op="StatelessCase")]
    out += [case("negated", name="c1"), case("constant", "negated", inputs=("k", "case"), name="c3")]
    out += [identity("y", "x", "^c2")]
    records = [*GIVEN_CASE, *out, library(NEGATED, PASSED, CONSTANT, NONE, OTHER)]
    found = lowered(records, "case", "c1", "c2", "c3", "y", feeds=CASES)
    assert graphs.ops(found)["case"] == "Identity"
    assert not {"Case", "StatelessCase", "_SwitchN"} & set(graphs.ops(found).values())


@pytest.mark.tensorflow
def test_a_case_in_a_loop_and_a_loop_in_a_case() -> None:
    """By the number of the round, so that each branch is taken, and the last twice."""
    state = {"i": INT32, "n": INT32, "v": FLOAT}
    looping = define(
        "looping", {"a": FLOAT}, {"o": (FLOAT, "w:output:2")}, scalar("z", 0, INT32), scalar("two", 2, INT32),
        loop(inputs=("z:output:0", "two:output:0", "a"), name="w"),
    )  # fmt: skip
    outer = define(
        "outer", state, {"a": (INT32, "j:z:0"), "b": (INT32, "n"), "c": (FLOAT, "chosen:output:0")},
        scalar("one", 1, INT32), add("j", "i", "one:output:0", kind=INT32),
        case("negated", "looping", "negated", inputs=("i", "v"), name="chosen"),
    )  # fmt: skip
    records = [*START, loop("outer"), identity("y", "while:2"), library(LESS, STEP, outer, NEGATED, looping)]
    lowered(records, "y", feeds=[{"n": n, "x": [0.5, -1.25]} for n in (0, 1, 2, 4)])


def test_what_a_branch_does_is_done() -> None:
    """A conditional without outputs that fails on one side: nodes that wait for it fail there."""
    failing = define("failing", {"a": FLOAT}, {}, const("no", False, BOOL),
                       node("t", "Assert", ["no:output:0", "a"], T=dtypes(FLOAT), summarize=3), effects=["t"],
                     stateful=True)  # fmt: skip
    nothing = define("nothing", {"a": FLOAT}, {})
    records = [*GIVEN, choice("failing", "nothing", kinds=()), identity("y", "x", "^if"), library(failing, nothing)]
    found = graph(*records)
    compat(found, "1.4")
    assert graphs.ops(found)["if"] == "NoOp"
    assert isinstance(outcome(found, "y", **SIDES[0]), str)
    assert outcome(found, "y", **SIDES[1]) == outcome(graphs.graph_bytes(*records), "y", **SIDES[1])


@pytest.mark.tensorflow
def test_an_output_that_is_returned_no_longer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compat that reads the other sides of the Switches of inputs: neither branch has both its inputs and its turn."""

    def other_side(of: Node, index: int = 0) -> Output:
        return Output(of, 1 - index if of.name.startswith("if/Switch_") else index)

    monkeypatch.setattr(control_flow, "Output", other_side)
    records = [*GIVEN, choice("negated", "passed"), identity("y", "if"), neg("z", "x"), library(NEGATED, PASSED)]
    found = graph(*records)
    result = compat(found, "1.4")
    check_raised(ValidationError, "does-not-run", lambda: prove(found.pristine(), found, result))


def test_products_in_bodies_may_be_computed_by_another_kernel() -> None:
    product = define("product", {"a": FLOAT}, {"o": (FLOAT, "m:product:0")}, typed("MatMul", "m", "a", "a"))
    square = placeholder("s", FLOAT, (2, 2))
    for called, tolerance in ((product, 1e-5), (NEGATED, 0.0)):
        name = called.signature.name
        found = graph(square, call("c", name, ["s"], [FLOAT], [FLOAT]), library(called))
        (claim,) = compat(found, "1.4").claims
        assert isinstance(claim, SameOutputs) and claim.tolerance == (tolerance, tolerance, 0.0)


def test_what_cannot_be_lowered_is_refused_with_all_else() -> None:
    counting = define("count", {"i": INT32, "n": INT32, "v": FLOAT}, {"go": (INT32, "n")})
    odd = loop(cond=func("count"))
    records = [*START, odd, node("f", "Foo", ["x"]), library(LESS, STEP, counting)]
    facts = {"node": "while", "function": "count", "expected": "bool", "found": "int32"}
    error = check_reason(records, "1.4", "dtype-mismatch", **facts)
    assert [each["node"] for each in error.facts["unknown"]] == ["while", "f"]


SIDES_OF_IT = {"then_branch": func("negated"), "else_branch": func("negated")}
BY_FLOATS = node("if", "If", ["x", "x"], Tcond=FLOAT, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), **SIDES_OF_IT)


@pytest.mark.parametrize(
    ("records", "code", "facts"),
    [
        ([placeholder("x", shape=(1, 2, 2, 1)), const("s", [1.0]), *UNREADABLE], "output-read", {}),
        ([X, typed("LeakyRelu", "y", "x", alpha=1.5)], "bad-value", {}),
        ([placeholder("x", DOUBLE, (2,)), typed("LeakyRelu", "y", "x", kind=DOUBLE, alpha=0.5)], "unsupported-dtype",
         {"dtype": "float64"}),
        ([placeholder("x", shape=(-1,)), typed("Equal", "y", "x", "x", incompatible_shape_error=False)],
         "shape-unknown", {}),
        ([*NMS, typed("NonMaxSuppressionV4", "y", "x", "s", "n", "t", "t", pad_to_max_output_size=True)],
         "pads-output", {}),
        ([*NMS, typed("NonMaxSuppressionV5", "y", "x", "s", "n", "t", "t", "t")], "lowers-scores", {}),
        ([*NMS, *SELECTED], "output-read", {}),
        ([*NMS, *SELECTED[:-1]], "output-read", {}),
        ([*HALVES, typed("NonMaxSuppressionV4", "y", "x", "s", "n", "t", "t", kind=HALF, T_threshold=HALF)],
         "dtype-mismatch", {"found": "float16"}),
        *(([X, node("y", "Einsum", ["x"] * count, T=FLOAT, N=count, equation=equation)], "not-a-product",
           {"equation": equation}) for count, equation in ((2, "ab,bc->a"), (2, "ab,b...->a..."), (1, "ab->ba"))),
        ([placeholder("x", "int8", (2, 2)), node("y", "BatchMatMulV3", ["x", "x"], Ta="int8", Tb="int8", Tout=INT32)],
         "dtype-mismatch", {}),
        ([*IMAGE, conv(dilations=[1, 2, 2, 1])], "has-dilations", {}),
        ([*GIVEN_CASE, case()], "wrong-count", {"node": "case"}),
        ([*GIVEN, BY_FLOATS, library(NEGATED)], "dtype-mismatch", {"node": "if", "tensor": "x", "found": "float32"}),
    ],
)  # fmt: skip
def test_what_has_no_older_form_is_refused_with_the_reason(
    records: list[bytes], code: str, facts: dict[str, Any]
) -> None:
    check_reason(records, "1.4", code, **facts)
