"""Generates a feed for a placeholder from its dtype, its shape and its consumers, or uses the user's values."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from math import prod
from typing import NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.errors import Line, NotValidatedError, UsageError, quoted
from gdsurgeon.feeds.consumers import Consumer, following
from gdsurgeon.feeds.given import given_feeds
from gdsurgeon.feeds.numbers import (
    ANY,
    MOST_TEXTS,
    Content,
    Picture,
    generated,
    inputs_of,
    role_shapes,
    setting_of,
)
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.feeds.texts import content_of
from gdsurgeon.graph.attrs import FullShape, Shape, format_shape, shape_of
from gdsurgeon.graph.body import argument_shape
from gdsurgeon.graph.constants import Constant
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, placeholder_shape
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.kinds import CALLS, PLACEHOLDERS, UNSET_PLACEHOLDERS
from gdsurgeon.runtime.tensor import Tensor

MOST_BYTES = 1 << 30
"""The largest generated feed in bytes."""


class InputSpec(NamedTuple):
    """How a placeholder is fed.

    Attributes:
        name: the node.
        dtype: DataType.
        stated: the shape in the graph.
        shapes: full shapes to try, likeliest first.
        content: the kind of the values.
        given: the user's values, one for each sample; later samples use the first value. Empty without user values.
        has_default: whether the input has a default value.
        default: the default, if it is a small constant.
    """

    name: str
    dtype: int
    stated: Shape
    shapes: tuple[FullShape, ...]
    content: Content
    given: tuple[Tensor, ...] = ()
    has_default: bool = False
    default: Constant | None = None


def input_spec(node: Node) -> InputSpec:
    """Returns how a placeholder is fed, if its graph determines this.

    Raises:
        NotValidatedError: no feed with this dtype is possible.
    """
    dtype = dtypes.base_dtype(node.output.dtype)
    if dtype != dtypes.STRING and not dtypes.element_size(dtype):
        what = dtypes.dtype_name(dtype) if dtype else "unknown"
        raise NotValidatedError(
            f"no feed can be generated for {quoted(node.name)}: its dtype is {what}",
            advice="cannot-be-fed",
        )
    content = content_of(Consumer(node), dtype)
    shapes = tuple(candidate_shapes(node))
    if dtype == dtypes.STRING:  # a string is a recording or an image: one tensor does not hold a million of them
        shapes = tuple(shape for shape in shapes if prod(shape) <= MOST_TEXTS) or shapes[:1]
    stated, has_default = placeholder_shape(node), node.op not in UNSET_PLACEHOLDERS
    default = Consumer(node).constant(0) if has_default else None
    if default is not None and compatible(default.shape, stated):
        shapes = tuple(dict.fromkeys([default.shape, *shapes]))
    return InputSpec(node.name, dtype, stated, shapes, content, has_default=has_default, default=default)


def narrowed(spec: InputSpec, most: int) -> InputSpec:
    """Returns `spec` with integers below `most`, if nothing is known about its numbers."""
    content, is_number = spec.content, spec.dtype in dtypes.FLOATING or dtypes.DTYPES[spec.dtype].is_integer
    if spec.given or not is_number or content.kind not in ("number", "index"):
        return spec
    bound = min(content.bound or most, most)
    values = f"whole numbers below {bound}" if bound > 1 else "0"
    return spec._replace(content=Content("index", f"{values}: the graph refuses other values", bound=bound))


def overridden(spec: InputSpec, overrides: Overrides) -> InputSpec:
    """Returns `spec` with the user's values and shape.

    Raises:
        UsageError: these do not fit.
    """
    given = given_feeds(spec.name, spec.dtype, spec.stated, overrides)
    for sample, value in enumerate(given):
        if value.dtype != spec.dtype or not compatible(value.shape, spec.stated):
            of = f", sample {sample}," if sample else ""
            found = f"{dtypes.dtype_name(value.dtype)} {format_shape(value.shape)}"
            raise UsageError(
                f"the feed for {quoted(spec.name)}{of} is {found}, but {dtypes.dtype_name(spec.dtype)} "
                f"{format_shape(spec.stated)} is expected",
                code="dtype-mismatch" if value.dtype != spec.dtype else "shape-mismatch",
                node=spec.name,
            )
    if given:
        return spec._replace(shapes=(given[0].shape,), given=given)
    shape = overrides.shapes.get(spec.name)
    if shape is None:
        return spec
    if not compatible(shape, spec.stated):
        raise UsageError(
            Line(
                "{name} accepts {stated}, but {shapes} gives {given}",
                name=quoted(spec.name),
                stated=format_shape(spec.stated),
                given=format_shape(shape),
            )
        )
    return spec._replace(shapes=(shape,))


def description(spec: InputSpec, shape: FullShape | None = None) -> str:
    """Returns the feed of an input and its reason in a few words; `shape` is its shape if it is not the likeliest."""
    if spec.given:
        return "given"
    made = _used_content(spec, spec.shapes[0] if shape is None else shape).made
    return f"{made}; also its default, on one more sample" if spec.has_default else made


def _used_content(spec: InputSpec, shape: FullShape) -> Content:
    """Returns the content of an input for a shape; a setting with a default differs from this default."""
    setting = setting_of(spec.name, spec.dtype, shape, spec.content)
    if setting is None or spec.default is None or shape or spec.default.shape:
        return setting or spec.content
    choices, usual, different = setting.choices, spec.default.values[0], "different from its default"
    if spec.dtype == dtypes.BOOL:
        return Content("side", different, choices=(not usual, usual))
    if choices == (usual,) and not isinstance(usual, bytes):
        choices = () if spec.dtype in dtypes.FLOATING else (usual + 1,)
    return Content("setting" if choices else "random", different, choices=choices)


def make_feed(
    spec: InputSpec,
    shape: FullShape,
    seed: int,
    picture: Picture = None,
    *,
    wide: bool = False,
    sample: int = 0,
) -> Tensor:
    """Returns a value for an input.

    Args:
        spec: how to feed the input; the user's values are not changed.
        shape: the full shape.
        seed: for random values.
        picture: height and width of images in pixels, if they are fixed.
        wide: for feeds that should differ from others: floats are also negative, and integer settings are larger by
            one.
        sample: its number, which chooses the given value, and the side of a condition.

    Raises:
        NotValidatedError: the value cannot be generated, or is too large.
    """
    if spec.given:
        return spec.given[sample if sample < len(spec.given) else 0]
    if spec.content.kind == "none":
        raise NotValidatedError(f"no feed can be generated for {quoted(spec.name)}: {spec.content.made}", advice="feed")
    if prod(shape) * (dtypes.element_size(spec.dtype) or 64) > MOST_BYTES:
        raise NotValidatedError(
            f"a feed for {quoted(spec.name)} {format_shape(shape)} would be too large", advice="feed"
        )
    content = _used_content(spec, shape)
    data = generated(content, spec.dtype, shape, seed, picture=picture, wide=wide, sample=sample)
    return Tensor(spec.dtype, shape, data)


def given_shapes(graph: Graph, overrides: Overrides) -> dict[str, FullShape]:
    """Returns the shapes of inputs that the user gave, directly or by values.

    Raises:
        UsageError: a value cannot be read, or does not fit.
    """
    nodes = map(graph.find, overrides.values) if overrides.archive is None else graph.nodes()
    inputs = [node for node in nodes if node is not None and node.op in PLACEHOLDERS]
    found = {n.name: given_feeds(n.name, n.output.dtype, placeholder_shape(n), overrides) for n in inputs}
    return {name: values[0].shape for name, values in found.items() if values} | overrides.shapes


# -- shapes ----------------------------------------------------------------------------------------------

SIDES = (64, 224, 128, 299, 300, 256, 32, 28, 96, 160, 321, 416, 512, 512)
"""Heights and widths to try for images of any size: small ones first, then those of common models."""

_CONVOLUTIONS = frozenset(("Conv2D", "DepthwiseConv2dNative", "_FusedConv2D", "_FusedDepthwiseConv2dNative"))
_POOLS = frozenset(("MaxPool", "AvgPool", "MaxPoolV2"))
_SHAPE_KEEPING = frozenset(
    """
    Identity Cast Sub Add AddV2 Mul RealDiv Div Maximum Minimum Relu Relu6 Elu Selu Sigmoid Tanh LeakyRelu BiasAdd
    FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 Softplus Neg Square Sqrt Rsqrt Exp Log StopGradient
    PlaceholderWithDefault CheckNumerics Swish LRN BiasAddV1
    """.split()
)
_KEEPING: dict[str, Container[int]] = dict.fromkeys(_SHAPE_KEEPING, ANY) | inputs_of("Pad ExpandDims", 0)
"""Ops between an input and the consumers that determine its shape, with the data inputs whose shape they keep."""


def candidate_shapes(node: Node) -> list[FullShape]:
    """Returns full shapes to try for a placeholder, likeliest first; at least one.

    Unknown dimensions come from the filter of a convolution, the constant of a MatMul or Reshape, or an op that reads
    the input as a shape, a permutation and the like. A batch is 1.
    """
    stated, start = placeholder_shape(node), Consumer(node)
    if stated is not None and all(dim >= 0 for dim in stated):
        return [stated]
    out: list[FullShape] = []
    if stated is None and any(user.op in ("RealDiv", "Div") and user.slot == 1 for user in start.readers(None)):
        out.append(())  # a divisor, like the keep probability of dropout, is a scalar
    out += role_shapes(start, stated)
    out += [shape for shape in _from_consumers(start, stated) if compatible(shape, stated)]
    return list(dict.fromkeys([*out, *_defaults(stated)]))


def _defaults(stated: Shape) -> Iterator[FullShape]:
    """Yields shapes from the rank only: a batch of one; images if two dimensions are unknown."""
    if stated is None:
        yield from ((), (1,), (1, 1))
        stated = (1, -1, -1, 3)
    unknown = [i for i, dim in enumerate(stated) if dim < 0]
    if len(stated) in (3, 4) and len(unknown) >= 2:
        sides = [i for i in unknown if i or len(stated) == 3][:2]
        for side in SIDES:
            yield _filled(stated, [side if i in sides else 3 if i else 1 for i in range(len(stated))])
        return
    for filler in (1, 8, 2, 16, 32, 64, 128):
        # The first unknown dimension is a batch; any other is a length.
        yield _filled(stated, [1 if i == unknown[0] == 0 else filler for i in range(len(stated))])
    yield _filled(stated, (2,) * len(stated))


def _filled(stated: Shape, dims: Sequence[int]) -> FullShape:
    """Returns the stated shape, with `dims` for unknown dimensions."""
    return tuple(d if s < 0 else s for d, s in zip(dims, stated or (-1,) * len(dims), strict=True))


def _from_consumers(start: Consumer, stated: Shape) -> Iterator[FullShape]:
    """Yields shapes from the first consumers that are not elementwise, nearest first."""
    for step in following(start, passing=_KEEPING):
        if step.op in _CONVOLUTIONS and step.slot == 0:
            yield from _from_convolution(step, stated)
        elif step.op == "MatMul" and (width := _matmul_width(step)):
            # The rows of the operand are its batch; not if it is the second one or transposed, but if it is both.
            own = bool(step.node.setting("transpose_b" if step.slot else "transpose_a"))
            yield (1, width) if own == (step.slot == 1) else (width, 1)
        elif step.op == "Reshape" and step.slot == 0:
            yield from _from_reshape(step, stated)
        elif step.op in CALLS and (called := step.node.attr("f")) is not None:
            function = graph_of(step.node).functions.get(called.func.name)
            shape = argument_shape(function, step.slot) if function is not None else None
            dims = shape_of(shape) if shape is not None else None
            if dims is not None:
                yield tuple(1 if size < 0 else size for size in dims)


def _from_convolution(step: Consumer, stated: Shape) -> Iterator[FullShape]:
    taps = step.weights(1)
    if len(taps) != 4:
        return
    is_expanded = any(before.op == "ExpandDims" for before in step.path())
    side = _side_from_dense(step)
    for s in filter(None, (side, *SIDES)):
        shape = (1, taps[2], s, s) if step.setting("data_format", "") == "NCHW" else (1, s, s, taps[2])
        dims = shape[1:] if is_expanded else shape
        if stated is None or len(stated) == len(dims):
            yield _filled(stated, dims)


def _matmul_width(step: Consumer) -> int:
    """Returns the width that the other, constant operand of a MatMul requires; 0 if it is not constant."""
    other = step.weights(1 - step.slot)
    transposed = bool(step.node.plain_attr("transpose_a" if step.slot else "transpose_b"))
    return other[transposed == (step.slot == 0)] if len(other) == 2 else 0


def _from_reshape(step: Consumer, stated: Shape) -> Iterator[FullShape]:
    """Yields shapes that a Reshape to a constant shape accepts: one row with the product of the known dimensions."""
    target, packed = step.ints(1), step.origin(1)
    if not target and packed is not None and packed[0].op == "Pack":
        target = tuple((packed[0].ints(i) or (-1,))[0] for i in range(len(packed[0].node.inputs)))
    if not target:
        return
    product = prod(max(dim, 1) for dim in target)
    if stated is not None and sum(dim < 0 for dim in stated) == 1:
        known = prod(max(dim, 1) for dim in stated)
        if known and product % known == 0:
            yield _filled(stated, (product // known,) * len(stated))
    yield (1, product)
    if len(target) > 1 and all(dim > 0 for dim in target[1:]):
        yield (max(target[0], 1), *target[1:])
    yield (product,)


def _side_from_dense(step: Consumer) -> int:
    """Returns the side of the image for which the flattened result of convolutions fits the MatMul after them.

    The search follows one consumer after each node, starting at a convolution; 0 if it does not reach a MatMul.
    """
    chain: list[tuple[int, int, bool]] = []  # the window, the stride, and whether the border is padded
    channels = 0
    for _ in range(200):
        taps = step.weights(1) if step.op in _CONVOLUTIONS else ()
        if len(taps) == 4:
            channels = taps[3] * (taps[2] if "Depthwise" in step.op else 1)
        if len(taps) == 4 or step.op in _POOLS:
            window, stride = (
                max(sizes[1:3], default=1)
                for sizes in (taps[:1] * 2 or step.node.ints_attr("ksize"), step.node.ints_attr("strides"))
            )
            chain.append((window, stride, step.node.plain_attr("padding") == b"SAME"))
        elif step.op not in _SHAPE_KEEPING and step.op not in ("Reshape", "Squeeze"):
            break
        consumer = next((user for user in step.readers(None) if user.op != "Shape"), None)
        if consumer is None:
            break
        step = consumer
    width = _matmul_width(step) if step.op == "MatMul" else 0
    for side in range(4, 1025) if width and channels else ():
        size = side
        for window, stride, is_padded in chain:
            size = -(-size // stride) if is_padded else max((size - window) // stride + 1, 0)
        if size * size * channels == width:
            return side
    return 0
