"""quantize: stored forms, kept constants with reasons, refused requests; errors are exact."""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.desk import Desk, check_error
from support.expecting import expect, refused
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    add,
    call,
    const,
    define,
    dtype,
    dtypes,
    func,
    function,
    graph,
    graph_bytes,
    identity,
    library,
    neg,
    node,
    ops,
    placeholder,
    scalar,
    shape_proto,
    typed,
)
from support.running import run

from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.queries.deciding import chosen_from
from gdsurgeon.edits.quantize import as_half, as_int8, quantize
from gdsurgeon.errors import EditError, NothingToDo, UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.ops.dtypes import BFLOAT16, DTYPES, FLOAT16
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.wire.fields import encode_len

HALF, INT8 = dtype(19), dtype(6)
X = placeholder("x", shape=(1, 64))
WIDE = [0.5 * i for i in range(512)]


def test_halves_are_cast_under_the_name_of_the_constant() -> None:
    result = expect(
        [X, const("w", WIDE, shape=(64, 8), _note="a"), typed("MatMul", "y", "x", "w"), scalar("one", 1)],
        lambda found: quantize(found, "float16"),
        [
            X, node("w", "Cast", ["w/small"], _note="a", SrcT=HALF, DstT=FLOAT), const("w/small", WIDE, HALF, (64, 8)),
            typed("MatMul", "y", "x", "w"), scalar("one", 1),
        ],
        command="quantize --dtype float16",
    )  # fmt: skip
    assert result.facts["constants"] == [
        {"constant": "w", "bytes_before": 2048, "bytes_after": 1024,
         "max_error": 0.0, "relative_error": 0.0, "flushed": 0}
    ]  # fmt: skip


CHANNELS = {
    "Conv2D": ((2, 2, 8, 16), {}, ["x", "w"], (1, 1, 1, 16)),
    "DepthwiseConv2dNative": ((2, 2, 64, 2), {}, ["x", "w"], (1, 1, 64, 2)),
    "Conv2DBackpropInput": ((2, 2, 8, 16), {}, ["x", "w", "x"], (1, 1, 8, 1)),
    "GatherV2": ((32, 16), {}, ["w", "i", "i"], (32, 1)),
    "MatMul": ((32, 16), {}, ["x", "w"], (1, 16)),
    "MatMul of a turned one": ((32, 16), {"transpose_b": True}, ["x", "w"], (32, 1)),
    "MatMul from the left": ((32, 16), {}, ["w", "x"], (32, 1)),
    "BatchMatMulV2": ((2, 32, 16), {}, ["x", "w"], (2, 1, 16)),
    "AddV2": ((32, 16), {}, ["x", "w"], (1, 16)),
}


@pytest.mark.parametrize("op", CHANNELS)
def test_the_channels_are_those_of_the_outputs_of_the_reader(op: str) -> None:
    shape, attrs, inputs, wanted = CHANNELS[op]
    count = int(np.prod(shape))
    found = graph(
        X,
        placeholder("i", INT32),
        const("w", [1.0 + i for i in range(count)], shape=shape),
        identity("passed", "w"),
        node("y", op.partition(" ")[0], ["passed" if name == "w" else name for name in inputs], T=FLOAT, **attrs),
    )
    quantize(found, "int8")
    assert values_of(found["w/scale"]).shape == wanted


STAYS = {
    "shape-source": [const("w", WIDE), node("c", "Cast", ["w"], SrcT=FLOAT, DstT=INT32),
                                typed("Reshape", "y", "x", "c", Tshape=INT32)],
    "read-as-it-is": [
        const("w", WIDE), node("v", "VarHandleOp", dtype=FLOAT, shape=(512,)),
        node("y", "AssignVariableOp", ["v", "w"], dtype=FLOAT)],
    "not-smaller": [
        node("w", "Const", dtype=FLOAT, value=encode_len(8, b"\x08\x01\x12\x05\x12\x03\x08\x80\x04\x2a\x04\0\0\0\0")),
        identity("y", "w")],
    "typed-by-calls": [const("w", [1.0])],
}  # fmt: skip


@pytest.mark.parametrize("why", STAYS)
def test_what_is_needed_as_it_is_stays_and_that_is_said(why: str) -> None:
    body = function("F", const("inner", [1.0]), add("y", "x", "x"))
    body.signature.input_arg[0].type = 0
    body.signature.input_arg[0].type_attr = "T"
    body.signature.attr.add(name="T", type="type")
    trailer = library(body) if why == "typed-by-calls" else b""
    found = graph(X, *STAYS[why], const("other", WIDE), add("z", "other", "other"), trailer=trailer)
    result = quantize(found, "float16")
    assert result.intent.changed == ["other"]
    (note,) = result.notes
    check_error(note, why, {"count": 1})


@pytest.mark.parametrize("number", [3, 4, 8, 9, 14, 18, 19])
def test_constants_of_other_types_stay(number: int) -> None:
    size = 512 * DTYPES[number].size
    value = encode_len(8, b"\x08" + bytes([number]) + encode_len(2, shape_proto((8, 64))) + encode_len(4, bytes(size)))
    other = node("o", "Const", dtype=dtype(number), value=value)
    for to in ("float16", "bfloat16", "int8"):
        found = graph(const("w", WIDE, shape=(8, 64)), add("z", "w", "w"), other)
        assert quantize(found, to).intent.changed == ["w"]


def test_vectors_and_what_is_kept_or_small_stay() -> None:
    def found() -> Graph:
        return graph(const("v", WIDE), const("w", WIDE, shape=(8, 64)), add("y", "v", "w"), add("z", "w", "w"))

    assert quantize(found(), "int8").intent.changed == ["w"]
    assert quantize(found(), "float16", keep="^v$").intent.changed == ["w"]
    refused(found(), "nothing-to-do", lambda g: quantize(g, "float16", least=513), error=NothingToDo)
    refused(found(), "nothing-matched", lambda g: quantize(g, "float16", keep="u"), value="u")
    refused(found(), "bad-value", lambda g: quantize(g, "int4"), error=UsageError, value="int4")


def test_what_overflows_or_underflows_is_refused_by_name_all_at_once() -> None:
    def found() -> Graph:
        large, tiny = [1e6, *WIDE[1:]], [1e-9 * i for i in range(512)]
        return graph(
            const("large", large),
            const("tiny", tiny),
            const("w", WIDE),
            *[add(n, n[1:], n[1:]) for n in ("alarge", "atiny", "aw")],
        )

    unfit = {"constants": ["large", "tiny"], "problems": ["overflow", "underflow"]}
    error = refused(found(), "does-not-fit", lambda g: quantize(g, "float16"), **unfit)
    assert len(error.details) == 2
    assert quantize(found(), "float16", keep=error.facts["pattern"]).intent.changed == ["w"]
    assert quantize(found(), "bfloat16").intent.changed == ["large", "tiny", "w"]
    for values, problem in (([float("inf"), *WIDE[1:]], "not-finite"), ([1e-37] * 512, "underflow")):
        matrix = graph(const("w", values, shape=(8, 64)), add("y", "w", "w"))
        refused(matrix, "does-not-fit", lambda g: quantize(g, "int8"), constants=["w"], problems=[problem])


def test_a_few_elements_that_become_0_beside_large_ones_are_counted() -> None:
    result = quantize(graph(const("w", [*WIDE[1:], 1e-9]), add("y", "w", "w")), "float16")
    assert json.dumps(result.facts["constants"]).count('"flushed": 1') == 1


@pytest.mark.parametrize("casts_inside", [True, False])
def test_shapes_that_follow_from_what_a_function_returns(casts_inside: bool) -> None:
    def cast(source: str) -> bytes:
        return node("c", "Cast", [source], SrcT=FLOAT, DstT=INT32)

    kind, result = (INT32, "c:y:0") if casts_inside else (FLOAT, "w:output:0")
    inside = [const("w", WIDE), *([cast("w:output:0")] if casts_inside else ())]
    body = define("F", {"a": FLOAT}, {"o": (kind, result)}, *inside)
    outside = [call("call", "F", ["x"], [FLOAT], [kind]), *(() if casts_inside else [cast("call")])]
    read = "call" if casts_inside else "c"
    y = typed("Reshape", "y", "x", read, Tshape=INT32)
    found = graph(X, *outside, y, const("other", WIDE), add("z", "other", "other"), trailer=library(body))
    result_ = quantize(found, "float16")
    assert result_.intent.changed == ["other"] and result_.intent.functions.changed == []
    check_error(result_.notes[0], "shape-source", {"count": 1})


def test_functions_are_looked_into() -> None:
    body = function("F", const("w", WIDE), add("y", "x", "w:output:0"))
    found = graph(placeholder("x"), node("call", "F", ["x"]), trailer=library(body))
    result = quantize(found, "bfloat16")
    check_accounted(found, result, found.chunks())
    inner = {each.name: each.op for each in found.functions["F"].node_def}
    assert inner == {"w": "Cast", "w/small": "Const", "y": "AddV2"}
    again = graph(placeholder("x"), node("call", "F", ["x"]), trailer=library(body))
    edit = partial(quantize, dtype="float16", keep="^F/w$")
    refused(again, "nothing-to-do", edit, error=NothingToDo, stays={"kept": 1})


# -- exact errors ----------------------------------------------------------------------------------------------

ANY = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1e-45, -1e-40, 65504.0, 65520.0, 3.4e38, 6e-8, float("nan")])


@st.composite
def constants(draw: st.DrawFn) -> bytes:
    """A constant of floats of some shape, without elements too, spelt in several ways, with all kinds of numbers."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    count = int(np.prod(shape))
    values = draw(st.lists(ANY if draw(st.booleans()) else st.floats(-9, 9, width=32), min_size=count, max_size=count))
    kind = draw(st.sampled_from([FLOAT, DOUBLE]))
    fewer = draw(st.booleans()) and count > 1
    packed = struct.pack(f"<{count}{'f' if kind == FLOAT else 'd'}", *values)
    size = 4 if kind == FLOAT else 8
    data = encode_len(5 if kind == FLOAT else 6, packed[:size]) if fewer else encode_len(4, packed)
    value = encode_len(8, b"\x08" + kind[1:] + encode_len(2, shape_proto(shape)) + data)
    return node("w", "Const", dtype=kind, value=value)


@settings(max_examples=150, deadline=None)
@given(constants(), st.sampled_from([FLOAT16, BFLOAT16, None]))
def test_the_error_is_that_of_what_is_written(record: bytes, to: Any) -> None:
    values = values_of(graph(record)["w"])
    rank = len(values.shape)
    form = as_half(values, to) if to is not None else as_int8(values, range(rank)[-1:])
    exact = values.numbers(0, values.count).astype(np.float64)
    with np.errstate(all="ignore"):
        if to == FLOAT16:
            made = np.frombuffer(form.content, np.float16).astype(np.float64)
        elif to == BFLOAT16:
            made = (np.frombuffer(form.content, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        elif form.content or not values.count:
            scale = np.frombuffer(form.scale, exact.dtype if values.dtype == 2 else np.float32).reshape(
                form.scale_shape
            )
            made = (np.frombuffer(form.content, np.int8).reshape(values.shape).astype(scale.dtype) * scale).ravel()
        else:
            check_error(form.problem, "not-finite", {})
            assert not np.isfinite(exact).all()
            return
    assert made.size == exact.size
    assert (np.isnan(made) == np.isnan(exact)).all()
    if np.isfinite(exact[np.isinf(made)]).any():
        check_error(form.problem, "overflow", {})
        return
    kept = np.isfinite(exact)
    assert form.error.largest == max(np.abs(exact[kept] - made[kept]), default=0.0)
    assert form.error.flushed == int(((made == 0) & (exact != 0)).sum())
    if not form.problem and kept.any() and to is not None:
        assert form.error.largest <= np.abs(exact[kept]).max() * (2**-11 if to == FLOAT16 else 2**-8)


@settings(max_examples=60, deadline=None)
@given(constants(), st.sampled_from(["float16", "bfloat16", "int8"]))
def test_whatever_a_constant_holds_it_is_refused_or_accounted_for(record: bytes, to: str) -> None:
    found = graph(record, const("v", [1.5] * 512, shape=(8, 64)), add("y", "v", "v"))
    try:
        result = quantize(found, to, least=1)
    except EditError as error:
        check_error(error, "does-not-fit", {"constants": ["w"]})
        return
    check_accounted(found, result, found.chunks())


def test_tensorflow_makes_of_it_what_is_said() -> None:
    rng = np.random.default_rng(7)
    values = (rng.normal(size=(16, 64)) * np.geomspace(1e-3, 1e3, 64)).astype(np.float32)
    record = const("w", values.ravel().tolist(), shape=(16, 64))
    for to in ("float16", "bfloat16", "int8"):
        found = graph(record, add("y", "w", "w"))
        result = quantize(found, to)
        made = np.array(run(found, "w")[0])
        wanted = json.loads(json.dumps(result.facts["constants"]))[0]["max_error"]
        assert np.abs(made - values.astype(np.float64)).max() == wanted > 0


# -- the proof -------------------------------------------------------------------------------------------------


def detector() -> bytes:
    rng = np.random.default_rng(3)
    box = const("w", rng.normal(size=64 * 40).astype(np.float32).tolist(), shape=(64, 40))
    return graph_bytes(
        X, box, typed("MatMul", "raw", "x", "w"), scalar("k", 5, INT32),
        typed("TopKV2", "top", "raw", "k"), identity("values", "top"), typed("Softmax", "p", "raw"),
    )  # fmt: skip


def test_what_is_put_in_order_is_compared_before_it_is() -> None:
    assert chosen_from(from_bytes(detector())) == ["raw"]
    side = graph(
        X, placeholder("p", BOOL, ()), neg("raw", "x"), scalar("k", 5, INT32),
        typed("Switch", "s", "raw", "p"), neg("i", "s:1"), typed("TopKV2", "top", "i", "k"),
    )  # fmt: skip
    assert chosen_from(side) == ["raw"]


@pytest.mark.tensorflow
def test_errors_are_measured_and_a_tolerance_is_a_claim(desk: Desk) -> None:
    desk.put("model.pb", detector())
    ran = desk.done("quantize", "model.pb", "--dtype", "int8", "-o", "out.pb", "--report", "report.json")
    assert "measured but not judged" in ran.err and "  measured " in ran.err, ran.err
    report = json.loads(desk.files()["report.json"])
    assert report["proof"]["judged"] is False and report["edit"]["bytes_after"] < report["edit"]["bytes_before"]
    by_name = {each["edited"]: each for each in report["proof"]["outputs"]}
    needed = by_name["raw"]["of_largest"]
    assert 0 < by_name["raw"]["max_abs_difference"] < 1 and not by_name["raw"]["equal"]
    ran = desk.done("quantize", "model.pb", "--dtype", "int8", "--tolerance", "0.2", "-v", "-o", "out.pb")
    assert "within 0.2 of the largest" in ran.err and "(not compared: " in ran.err, ran.err
    ran = desk.run("quantize", "model.pb", "--dtype", "int8", "--tolerance", str(needed / 10), "-o", "wrong.pb")
    assert ran.code == 5 and "raw: 40 of 40" in ran.err and "wrong.pb" not in desk.files(), ran.err
    assert ops(desk.files()["out.pb"])["w"] == "Mul"  # type: ignore[arg-type]


@pytest.mark.tensorflow
def test_a_tolerance_is_for_what_calls_a_function_that_is_another(desk: Desk) -> None:
    values = np.random.default_rng(4).normal(size=512).astype(np.float32).tolist()
    body = function("F", const("w", values), add("y", "x", "w:output:0"))
    call = node("c", "PartitionedCall", ["x"], f=func("F"), Tin=dtypes(FLOAT), Tout=dtypes(FLOAT))
    desk.put("model.pb", graph_bytes(placeholder("x", shape=(512,)), call, trailer=library(body)))
    ran = desk.done("quantize", "model.pb", "--dtype", "float16", "--tolerance", "0.01", "-o", "out.pb")
    assert "within 0.01 of the largest" in ran.err, ran.err
