"""Infers the shape of an input from its consumers, if the placeholder does not state it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from math import prod

from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.feeds.infer.consumers import Step, following, outlet_of, through_identities
from gdsurgeon.feeds.infer.numbers import ANY, role_shapes
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.body import argument_shape
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.graph import graph_of
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.placeholders import placeholder_shape
from gdsurgeon.ops.dtypes import INT32, INT64
from gdsurgeon.ops.kinds import CALLS, VARIABLE_READS, is_variable

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


_KEEPING: dict[str, Container[int]] = {**dict.fromkeys(_SHAPE_KEEPING, ANY), "Pad": (0,), "ExpandDims": (0,)}
"""Ops between an input and the consumers that determine its shape, with the data inputs whose shape they keep."""


def candidate_shapes(node: Node) -> list[tuple[int, ...]]:
    """Returns full shapes to try for a placeholder, likeliest first; at least one.

    Unknown dimensions come from the filter of a convolution, the constant of a MatMul or Reshape, or an op that reads
    the
    input as a shape, a permutation and the like. A batch is 1.
    """
    stated = placeholder_shape(node)
    if stated is not None and all(dim >= 0 for dim in stated):
        return [stated]
    out: list[tuple[int, ...]] = [()] if stated is None and _is_divisor(node) else []
    out += role_shapes(outlet_of(node), stated)
    out += [shape for shape in _from_consumers(node, stated) if compatible(shape, stated)]
    out.extend(_defaults(stated))
    return list(dict.fromkeys(out))


def _defaults(stated: Shape) -> Iterator[tuple[int, ...]]:
    """Yields shapes from the rank only: a batch of one; images if two dimensions are unknown."""
    if stated is None:
        yield from ((), (1,), (1, 1))
        for side in SIDES:
            yield (1, side, side, 3)
        return
    unknown = [i for i, dim in enumerate(stated) if dim < 0]
    if len(stated) in (3, 4) and len(unknown) >= 2:
        sides = [i for i in unknown if not (i == 0 and len(stated) == 4)]
        for side in SIDES:
            yield tuple(
                dim if dim >= 0 else (side if i in sides[:2] else (1 if i == 0 else 3)) for i, dim in enumerate(stated)
            )
        return
    for filler in (1, 8, 2, 16, 32, 64, 128):
        # The first unknown dimension is a batch; any other is a length.
        yield tuple(dim if dim >= 0 else (1 if i == unknown[0] == 0 else filler) for i, dim in enumerate(stated))
    yield tuple(dim if dim >= 0 else 2 for dim in stated)


def _from_consumers(node: Node, stated: Shape) -> Iterator[tuple[int, ...]]:
    """Yields shapes from the first consumers that are not elementwise, nearest first."""
    for step in following(outlet_of(node), _KEEPING):
        if step.op in _CONVOLUTIONS and step.slot == 0:
            yield from _from_convolution(step, stated)
        elif step.op == "MatMul":
            width = _matmul_width(step.place.node, step.slot)
            if width:
                # The operand's rows are its batch, unless it is the second one or transposed (both: as before).
                own = bool(step.place.node.setting("transpose_a" if step.slot == 0 else "transpose_b"))
                yield (1, width) if own == (step.slot == 1) else (width, 1)
        elif step.op == "Reshape" and step.slot == 0:
            yield from _from_reshape(step.place.node, stated)
        elif step.op in CALLS:
            yield from _from_call(step)


def _from_call(step: Step) -> Iterator[tuple[int, ...]]:
    """Yields the shape of the function's argument that reads the input; an unknown size is 1."""
    called = step.place.attr("f")
    function = graph_of(step.place.node).functions.get(called.func.name) if called is not None else None
    shape = argument_shape(function, step.slot) if function is not None else None
    dims = shape_of(shape) if shape is not None else None
    if dims is not None:
        yield tuple(1 if size < 0 else size for size in dims)


def _weights(node: Node, slot: int = 1) -> tuple[int, ...]:
    """Returns the shape of an input that is a constant or a variable; () for other inputs or an unknown shape."""
    if slot >= len(node.inputs):
        return ()
    source = through_identities(node.inputs[slot].node)
    if source.op in VARIABLE_READS and source.inputs:
        source = through_identities(source.inputs[0].node)
    if is_variable(source.op):
        value = source.attr("shape")
        dims = shape_of(value.shape) if value is not None else None
        return dims if dims is not None and min(dims, default=0) >= 0 else ()
    header = constant_header(source)
    return (header.dims if header is not None else None) or ()


def _from_convolution(step: Step, stated: Shape) -> Iterator[tuple[int, ...]]:
    taps = _weights(step.place.node)
    if len(taps) != 4:
        return
    is_expanded = any(before.op == "ExpandDims" for before in step.path())
    channels_first = step.place.text("data_format") == "NCHW"
    side = _side_from_dense(step.place.node)
    for s in ([side] if side else []) + list(SIDES):
        shape: tuple[int, ...] = (1, taps[2], s, s) if channels_first else (1, s, s, taps[2])
        shape = shape[1:] if is_expanded else shape
        if stated is None or len(stated) == len(shape):
            yield tuple(d if w < 0 else w for d, w in zip(shape, stated or (-1,) * len(shape), strict=True))


def _matmul_width(node: Node, slot: int) -> int:
    """Returns the width that the other, constant operand of a MatMul requires; 0 if it is not constant."""
    other = _weights(node, 1 - slot) if slot in (0, 1) and len(node.inputs) == 2 else ()
    if len(other) != 2:
        return 0
    transposed = node.plain_attr("transpose_b" if slot == 0 else "transpose_a")
    return other[1 if bool(transposed) == (slot == 0) else 0]


def _is_divisor(node: Node) -> bool:
    """Returns whether the input is a divisor, like the keep probability of dropout: such an input is a scalar."""
    return any(
        user.op in ("RealDiv", "Div") and len(user.inputs) == 2 and user.inputs[1].node is node
        for user in graph_of(node).users(node)
    )


def _from_reshape(node: Node, stated: Shape) -> Iterator[tuple[int, ...]]:
    """Yields shapes that a Reshape to a constant shape accepts: one row with the product of the known dimensions."""
    target = _target_dims(node.inputs[1].node) if len(node.inputs) > 1 else []
    if not target:
        return
    product = prod(max(dim, 1) for dim in target)
    if stated is not None and sum(dim < 0 for dim in stated) == 1:
        known = prod(max(dim, 1) for dim in stated)
        if known and product % known == 0:
            yield tuple(dim if dim >= 0 else product // known for dim in stated)
    yield (1, product)
    if len(target) > 1 and all(dim > 0 for dim in target[1:]):
        yield (max(target[0], 1), *target[1:])
    yield (product,)


def _target_dims(node: Node) -> list[int]:
    """Returns the target shape of a Reshape, -1 for dimensions that are not constant; [] if none is."""
    node = through_identities(node)
    found = constant(node)
    if found is not None:
        return [int(dim) for dim in found.values] if found.dtype in (INT32, INT64) else []
    if node.op != "Pack":
        return []
    parts = [constant(through_identities(read.node)) for read in node.inputs]
    known = [part is not None and part.shape == () and part.dtype in (INT32, INT64) for part in parts]
    return [int(part.values[0]) if part is not None and fits else -1 for part, fits in zip(parts, known, strict=True)]


def _side_from_dense(node: Node) -> int:
    """Returns the side of the image for which the flattened result of convolutions fits the MatMul after them.

    The search follows one consumer after each node, starting at a convolution; 0 if it does not reach a MatMul.
    """
    chain: list[Node] = []
    channels = 0
    wanted = 0
    for _ in range(200):
        if node.op in _CONVOLUTIONS:
            taps = _weights(node)
            if len(taps) != 4:
                return 0
            channels = taps[3] * (taps[2] if "Depthwise" in node.op else 1)
            chain.append(node)
        elif node.op in _POOLS:
            chain.append(node)
        elif node.op == "MatMul":
            wanted = _matmul_width(node, 0)
            break
        elif node.op not in _SHAPE_KEEPING and node.op not in ("Reshape", "Squeeze"):
            return 0
        users = [u for u in graph_of(node).users(node) if u.op != "Shape" and any(r.node is node for r in u.inputs)]
        if not users:
            return 0
        node = users[0]
    if not wanted or not channels:
        return 0
    for side in range(4, 1025):
        if _flattened(chain, side, channels) == wanted:
            return side
    return 0


def _flattened(chain: Sequence[Node], side: int, channels: int) -> int:
    """Returns the number of elements of an image after the convolutions and pools of `chain`."""
    size = side
    for node in chain:
        strides = node.ints_attr("strides") or [1, 1, 1, 1]
        stride = max(strides[1:3]) if len(strides) == 4 else 1
        if node.op in _POOLS:
            window = max((node.ints_attr("ksize") or [1, 1, 1, 1])[1:3])
        else:
            window = (_weights(node) or (1,))[0]
        size = -(-size // stride) if node.plain_attr("padding") == b"SAME" else (size - window) // stride + 1
        if size <= 0:
            return 0
    return size * size * channels
