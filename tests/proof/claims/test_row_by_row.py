"""A batch that an input takes now: each row gives what it gives alone, or the edit is refused where rows mix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.desk import Desk, Ran, check_error
from support.graphs import FLOAT, INT32, add, const, graph_bytes, identity, node, placeholder, scalar, typed

pytestmark = pytest.mark.tensorflow

X = placeholder("x", FLOAT, (1, 4, 3))


def op(name: str, kind: str, *inputs: str, **attrs: Any) -> bytes:
    return node(name, kind, inputs, **{"T": FLOAT, **attrs})


def ints(name: str, *values: int) -> bytes:
    return const(name, values, INT32)


def set_shape(desk: Desk, records: Sequence[bytes] | bytes, *arguments: str) -> Ran:
    desk.put("model.pb", records if isinstance(records, bytes) else graph_bytes(*records))
    return desk.run("set-shape", "model.pb", *arguments, "-o", "out.pb")


FLAT_GATHER = [
    X,
    ints("s", -1, 3),
    op("flat", "Reshape", "x", "s", Tshape=INT32),
    ints("i", 2, 0, 1, 3),
    scalar("axis", 0, INT32),
    node("g", "GatherV2", ["flat", "i", "axis"], Tparams=FLOAT, Tindices=INT32, Taxis=INT32, batch_dims=0),
    ints("t", -1, 4, 3),
    op("y", "Reshape", "g", "t", Tshape=INT32),
]
"""Boxes of all images in one list; the boxes of the first image are used."""

FIRST = [
    X,
    ints("begin", 0, 0, 0),
    ints("size", 1, -1, -1),
    op("first", "Slice", "x", "begin", "size", Index=INT32),
    op("y", "Neg", "first"),
]
CENTRED = [
    X,
    ints("axes", 0),
    op("mean", "Mean", "x", "axes", Tidx=INT32, keep_dims=True),
    op("centred", "Sub", "x", "mean"),
    op("y", "Abs", "centred"),
]


@pytest.mark.parametrize("shape", ["?,4,3", "3,4,3", "2,4,3", "8,4,3"])
@pytest.mark.parametrize(
    ("records", "where"),
    [(FLAT_GATHER, "g"), (FIRST, "first"), (CENTRED, "mean")],
)
def test_rows_that_mix_are_refused_where_they_do_first(
    desk: Desk, records: Sequence[bytes], where: str, shape: str
) -> None:
    ran = set_shape(desk, records, f"x={shape}")
    assert ran.code == 4, ran.err
    check_error(ran.error, "rows-mixed", {"node": where})
    assert ran.error is not None and ran.error.advice == ("no-batch-check",) and "out.pb" not in desk.files()
    ran = set_shape(desk, records, f"x={shape}", "--no-batch-check")
    assert ran.code == 0, ran.err


def test_a_batch_that_is_not_taken_at_all_is_refused(desk: Desk) -> None:
    """Behind a comparison of values nothing can be said of the shape before it is run."""
    records = [X, ints("s", 12), op("flat", "Reshape", "x", "s", Tshape=INT32), op("y", "Neg", "flat")]
    ran = set_shape(desk, records, "x=?,4,3")
    assert ran.code == 4, ran.err
    assert ran.error is not None and ran.error.code == "shape-mismatch"


def pooled(shape: tuple[int, ...]) -> list[bytes]:
    """Of an image the sum of each channel, its largest one, what does not depend on the image, and the sums turned."""
    return [
        placeholder("x", FLOAT, shape),
        ints("axes", 1, 2),
        op("sums", "Sum", "x", "axes", Tidx=INT32, keep_dims=False),
        scalar("axis", 1, INT32),
        typed("ArgMax", "largest", "sums", "axis", Tidx=INT32, output_type=INT32),
        const("k", [1, 2, 3]),
        op("constant", "Neg", "k"),
        ints("order", 1, 0),
        op("turned", "Transpose", "sums", "order", Tperm=INT32),
    ]


FLAT = [X, ints("s", 1, 12), op("flat", "Reshape", "x", "s", Tshape=INT32), op("y", "Neg", "flat")]


DRAW = [typed("Shape", "shape", "x"), typed("RandomUniform", "draw", "shape", kind=INT32, dtype=FLOAT)]


@pytest.mark.parametrize(
    ("records", "arguments", "words"),
    [
        *(
            (pooled((1, 4, 4, 3)), f"x={shape}", f"edited({rows} rows) == {of}(each row)")
            for shape, rows, of in (
                ("?,4,4,3", 3, "original"),
                ("3,4,4,3", 3, "original"),
                ("7,4,4,3", 7, "original"),
                ("?,6,5,3", 3, "edited"),
            )
        ),
        (pooled((2, 4, 4, 3)), "x=4,4,4,3", "edited(2 rows)"),
        (FLAT, "x=?,4,3 --fix-batch", "edited(3 rows)"),
        # other inputs are shared, or take part
        (
            [placeholder("x", FLOAT, (1, 3)), placeholder("scale", FLOAT, (3,)), placeholder("bias", FLOAT, (-1, 3)),
             op("m", "Mul", "x", "scale"), add("y", "m", "bias")],
            "x=?,3", "edited(3 rows)",
        ),
        # chance is not compared
        ([placeholder("x", FLOAT, (1, 3)), *DRAW, add("noisy", "x", "draw"), op("y", "Neg", "x")], "x=?,3",
         "edited(3 rows)"),
        # what is only passed on
        ([placeholder("x", FLOAT, (1, 2)), identity("y", "x")], "x=?,2", "(batch 1 and 3)"),
    ],
)  # fmt: skip
def test_rows_that_stay_apart_are_proven(desk: Desk, records: list[bytes], arguments: str, words: str) -> None:
    ran = set_shape(desk, records, *arguments.split())
    assert ran.code == 0 and words in ran.err, ran.err


def test_maps_over_the_batch_with_suppression_inside(desk: Desk, tf: Any) -> None:
    def of_one(boxes: Any) -> Any:
        scores = tf.reduce_sum(boxes, 1)
        kept = tf.image.non_max_suppression(boxes, scores, 3, 0.5)
        return tf.gather(scores, tf.pad(kept, [[0, 3 - tf.size(kept)]]))

    def built(baked: bool) -> bytes:
        tf.compat.v1.disable_control_flow_v2()
        try:
            with tf.Graph().as_default() as found:
                x = tf.compat.v1.placeholder(tf.float32, (1, 6, 4), name="x")
                given = x if baked else tf.compat.v1.placeholder_with_default(x, (None, 6, 4))
                tf.identity(tf.map_fn(of_one, given), name="y")
        finally:
            tf.compat.v1.enable_control_flow_v2()
        return bytes(found.as_graph_def().SerializeToString())

    ran = set_shape(desk, built(baked=False), "x=?,6,4")
    assert ran.code == 0 and "edited(3 rows)" in ran.err, ran.err
    ran = set_shape(desk, built(baked=True), "x=?,6,4")
    assert ran.code == 4, ran.err


def test_a_slice_of_a_fixed_batch_is_refused(desk: Desk) -> None:
    baked = [*FLAT, ints("b", 0, 0), ints("e", 1, 12), op("z", "Slice", "y", "b", "e", Index=INT32)]
    ran = set_shape(desk, baked, "x=?,4,3", "--fix-batch")
    assert ran.code == 4, ran.err
    check_error(ran.error, "rows-mixed", {"node": "z"})
