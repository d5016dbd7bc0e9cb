"""Shapes for inputs that do not state theirs, from what consumes them; the first candidates run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.failing import renaming
from support.feeding import subject_of
from support.graphs import FLOAT, INT32, Builder, add, const, identity, neg, node, placeholder, typed
from support.operating import operated, refused

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.feeds.input_spec import SIDES, candidate_shapes
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.executor import Executor


def candidates(m: Builder, name: str = "x") -> list[tuple[int, ...]]:
    return candidate_shapes(m.graph()[name])


def settled(executor: Executor, m: Builder) -> dict[str, tuple[int, ...]]:
    """The shapes with which the graph runs."""
    subject = subject_of(executor, m)
    subject.run(0, {})
    return subject.shapes


def takes(stated: tuple[int, ...] | None, *records: bytes) -> Builder:
    return Builder(placeholder("x", FLOAT, stated), *records)


def conv(op: str, name: str, source: str, weights: str, stride: int = 1, **attrs: Any) -> bytes:
    attrs = {"padding": "SAME", "data_format": "NHWC", **attrs}
    return typed(op, name, source, weights, strides=[1, stride, stride, 1], **attrs)


def convolution(
    stated: tuple[int, ...] | None,
    *,
    channels: int = 5,
    op: str = "Conv2D",
    through: tuple[str, ...] = (),
    **attrs: Any,
) -> Builder:
    names = ["x", *(f"middle_{i}" for i in range(len(through)))]
    return takes(
        stated,
        const("filter", np.ones((3, 3, channels, 2))),
        identity("weights", "filter"),
        *(typed(middle, name, source) for middle, source, name in zip(through, names, names[1:], strict=False)),
        conv(op, "y", names[-1], "weights", **attrs),
    )


def test_what_is_stated_in_full_is_taken() -> None:
    assert candidates(convolution((2, 9, 9, 5))) == [(2, 9, 9, 5)]


@pytest.mark.parametrize("op", ["Conv2D", "DepthwiseConv2dNative"])
@pytest.mark.parametrize(
    ("stated", "first"),
    [
        (None, (1, 64, 64, 5)),
        ((-1, -1, -1, -1), (1, 64, 64, 5)),
        ((-1, -1, -1, 5), (1, 64, 64, 5)),
        ((-1, 48, 32, 5), (1, 48, 32, 5)),
        ((7, -1, -1, -1), (7, 64, 64, 5)),
    ],
)
def test_a_convolution_tells_the_channels(op: str, stated: tuple[int, ...] | None, first: tuple[int, ...]) -> None:
    assert candidates(convolution(stated, op=op))[0] == first


def test_filters_that_are_a_variable_tell_the_channels() -> None:
    handle = node("handle", "VarHandleOp", dtype="float32", shape=(3, 3, 5, 2))
    read = node("read", "ReadVariableOp", ["handle"], dtype="float32")
    m = takes(None, handle, read, identity("weights", "read"), conv("Conv2D", "y", "x", "weights"))
    assert candidates(m)[0] == (1, 64, 64, 5)


@pytest.mark.parametrize("stated", [None, (-1, 5, -1, -1)])
def test_a_convolution_with_channels_first(stated: tuple[int, ...] | None) -> None:
    assert candidates(convolution(stated, data_format="NCHW"))[0] == (1, 5, 64, 64)


def test_all_sides_are_tried_in_turn() -> None:
    found = candidates(convolution(None))
    assert found[: len(set(SIDES))] == [(1, side, side, 5) for side in dict.fromkeys(SIDES)]


@pytest.mark.tensorflow
@pytest.mark.parametrize("through", [(), ("Relu",), ("Neg", "Square", "Relu")])
def test_a_convolution_behind_elementwise_ops_runs(executor: Executor, through: tuple[str, ...]) -> None:
    assert settled(executor, convolution(None, through=through)) == {"x": (1, 64, 64, 5)}


def product(slot: int, *, transpose_a: bool, transpose_b: bool, stated: tuple[int, ...] | None = None) -> Builder:
    """x times a constant, or a constant times x; the constant is 7 wide where the two meet."""
    transposed = transpose_b if slot == 0 else transpose_a
    other = (7, 3) if (slot == 0) != transposed else (3, 7)
    operands = ["x", "w"] if slot == 0 else ["w", "x"]
    times = typed("MatMul", "y", *operands, transpose_a=transpose_a, transpose_b=transpose_b)
    return takes(stated, const("w", np.ones(other)), times)


@pytest.mark.tensorflow
@pytest.mark.parametrize("stated", [None, (-1, -1)], ids=["unknown rank", "unknown sizes"])
@pytest.mark.parametrize("transpose_b", [False, True], ids=["b", "b transposed"])
@pytest.mark.parametrize("transpose_a", [False, True], ids=["a", "a transposed"])
@pytest.mark.parametrize("slot", [0, 1])
def test_a_product_tells_the_width(
    executor: Executor, slot: int, transpose_a: bool, transpose_b: bool, stated: tuple[int, ...] | None
) -> None:
    m = product(slot, transpose_a=transpose_a, transpose_b=transpose_b, stated=stated)
    own_transposed = transpose_a if slot == 0 else transpose_b
    width_last = (slot == 0) != own_transposed
    wanted = (1, 7) if width_last else (7, 1)
    assert candidates(m)[0] == wanted
    assert settled(executor, m) == {"x": wanted}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("target", "stated", "wanted"),
    [
        ((-1, 28, 28, 1), None, (1, 784)),
        ((-1, 784), None, (1, 784)),
        ((-1, 28, 28, 1), (-1, -1), (1, 784)),
        ((-1, 28, 28, 1), (-1, 28, 28), (1, 28, 28)),
        ((12,), (-1,), (12,)),
        ((3, 4), (-1, 2, 2), (3, 2, 2)),
        ((2, -1, 6), (-1, 6), (2, 6)),
    ],
)
def test_a_reshape_tells_the_product(
    executor: Executor, target: tuple[int, ...], stated: tuple[int, ...] | None, wanted: tuple[int, ...]
) -> None:
    m = takes(stated, const("shape", target, INT32), typed("Reshape", "y", "x", "shape", Tshape="int32"))
    assert settled(executor, m) == {"x": wanted}


@pytest.mark.tensorflow
def test_a_reshape_whose_shape_is_packed_at_run_time(executor: Executor) -> None:
    """The batch comes from the input's own shape, the rest is constant: as Keras writes a Flatten or a Reshape."""
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"), 0)
    m = takes(
        None,
        typed("Shape", "shape", "x", out_type="int32"),
        const("zeros", [0], INT32),
        const("ones", [1], INT32),
        const("side", 28, INT32),
        typed(
            "StridedSlice",
            "batch",
            "shape",
            "zeros",
            "ones",
            "ones",
            kind=INT32,
            Index=INT32,
            shrink_axis_mask=1,
            **masks,
        ),
        typed("Pack", "target", "batch", "side", "side", kind=INT32, N=3, axis=0),
        typed("Reshape", "y", "x", "target", Tshape="int32"),
    )
    assert np.prod(settled(executor, m)["x"][1:]) == 784


def flattened(side: int, *, padding: str = "VALID", pool: bool = False, depthwise: bool = False) -> Builder:
    """Convolutions, flattened, then a product; only its width determines the side."""
    m = Builder(placeholder("observation", FLOAT, ()), producer=0)  # means unknown, for so old a producer
    size, last, channels = side, "observation", 1
    for i, (window, stride, features) in enumerate(((5, 2, 4), (3, 2, 8))):
        m.const(f"filter_{i}", np.full((window, window, channels, features), 0.01))
        m.add("", conv("Conv2D", f"conv_{i}", last, f"filter_{i}", stride, padding=padding))
        last = m.typed("Relu", f"relu_{i}", f"conv_{i}")
        channels = features
        size = -(-size // stride) if padding == "SAME" else (size - window) // stride + 1
    if pool:
        window_2 = [1, 2, 2, 1]
        last = m.typed("MaxPool", "pool", last, strides=window_2, ksize=window_2, padding="VALID", data_format="NHWC")
        size = (size - 2) // 2 + 1
    if depthwise:
        m.const("filter_d", np.full((3, 3, channels, 2), 0.01))
        last = m.add("depthwise", conv("DepthwiseConv2dNative", "depthwise", last, "filter_d"))
        channels *= 2
    m.const("flat", [-1, size * size * channels], "int32")
    m.typed("Reshape", "flattened", last, "flat", Tshape="int32")
    m.const("w", np.full((size * size * channels, 2), 0.01))
    m.typed("MatMul", "y", "flattened", "w")
    return m


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("side", "options"),
    [
        (31, {}),
        (84, {}),
        (31, {"padding": "SAME"}),
        (50, {"pool": True}),
        (31, {"depthwise": True}),
    ],
)
def test_a_flattened_chain_of_convolutions_tells_the_side(
    executor: Executor, side: int, options: dict[str, Any]
) -> None:
    found = settled(executor, flattened(side, **options))["observation"]
    assert found[0] == 1 and found[3] == 1 and found[1] == found[2]
    # Several sides may come to the same size; the smallest is as good as any.
    assert found[1] <= side


def test_a_scalar_of_an_old_producer_means_an_unknown_shape() -> None:
    for producer, known in ((0, False), (23, False), (24, True), (2474, True)):
        found = candidates(Builder(placeholder("x", FLOAT, ()), neg("y", "x"), producer=producer))
        assert found == [()] if known else {(), (1,), (1, 1), (1, 64, 64, 3)} <= set(found)


@pytest.mark.parametrize(
    ("stated", "first"),
    [
        (None, ()),
        ((-1,), (1,)),
        ((-1, 4), (1, 4)),
        ((-1, -1), (1, 1)),
        ((4, -1), (4, 1)),
        ((-1, 5, 3), (1, 5, 3)),
        ((-1, -1, 3), (64, 64, 3)),
        ((-1, -1, -1, 3), (1, 64, 64, 3)),
        ((-1, 3, -1, -1), (1, 3, 64, 64)),
    ],
)
def test_without_a_telling_consumer_the_rank_decides(stated: tuple[int, ...] | None, first: tuple[int, ...]) -> None:
    assert candidates(takes(stated, typed("Cos", "y", "x")))[0] == first


@pytest.mark.parametrize("stated", [None, (-1, -1), (-1, 4), (-1, -1, 3), (-1, -1, -1, 3), (0, -1)])
def test_every_candidate_is_full_and_fits_what_is_stated(stated: tuple[int, ...] | None) -> None:
    for m in (convolution(stated, channels=3), product(0, transpose_a=False, transpose_b=False, stated=stated)):
        found = candidates(m)
        assert found and len(found) == len(set(found))
        for shape in found:
            assert all(dim >= 0 for dim in shape)
            if stated is not None:
                assert len(shape) == len(stated)
                assert all(s in (-1, d) for s, d in zip(stated, shape, strict=True))


@pytest.mark.tensorflow
def test_two_inputs_of_unknown_shape(executor: Executor) -> None:
    m = Builder(
        placeholder("a"),
        placeholder("b"),
        const("w", np.ones((6, 2))),
        const("v", np.ones((9, 2))),
        typed("MatMul", "left", "a", "w"),
        typed("MatMul", "right", "b", "v"),
        add("y", "left", "right"),
    )
    assert settled(executor, m) == {"a": (1, 6), "b": (1, 9)}


@pytest.mark.tensorflow
def test_where_no_shape_fits_that_is_said_with_the_option_that_helps(tmp_path: Path) -> None:
    m = takes(
        None,
        const("axis", 1, INT32),
        typed("Split", "parts", "axis", "x", num_split=17),
        typed("ConcatV2", "y", "parts:16", "parts", "axis", Tidx="int32", N=2),
    )
    error = refused(tmp_path, m, renaming)
    assert error.exit_code == 7
    assert error.message.startswith(f"{tmp_path / 'model.pb'} does not run on generated feeds (x [")
    assert "--shape NAME=1,2,3" in (hint_of(error) or "")
    proof = operated(tmp_path, m, renaming, overrides=Overrides(shapes={"x": (4, 17)})).proof
    assert proof.feeds == {"x": "float32 [4,17]"}
    assert proof.outputs[0].shape == (4, 2)


@pytest.mark.parametrize("shape", [(1, 2, 3), (4, 16)])
@pytest.mark.tensorflow
def test_a_shape_that_does_not_fit_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    error = refused(tmp_path, takes((-1, 17), neg("y", "x")), renaming, overrides=Overrides(shapes={"x": shape}))
    said = f"'x' accepts [?,17], but shapes gives [{','.join(map(str, shape))}]"
    assert (error.exit_code, error.message) == (2, said)
