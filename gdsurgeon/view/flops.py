"""How much nodes compute: floating-point operations of convolutions and matrix products, a multiply-add being two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from math import prod

from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Node

Sizes = Sequence[int]


def flops(op: str, node: Node, shapes: Shapes) -> int:
    """Returns the number of floating-point operations of `node`; 0 for ops that are not counted, or with unknown
    shapes.

    A dim that is not known (a batch, mostly) counts as one.
    """
    count = _COUNTS.get(op)
    if count is None:
        return 0
    inputs = [_sizes(shapes.shape(tensor)) for tensor in node.inputs]
    output = _sizes(shapes.shape(node.output))
    known = [sizes for sizes in inputs if sizes is not None]
    if output is None or len(known) < 2 or len(known) < len(inputs):
        return 0
    return count(node, known, output)


def _sizes(shape: Shape) -> Sizes | None:
    return None if shape is None else [max(size, 1) for size in shape]


def _convolution(_node: Node, inputs: Sequence[Sizes], output: Sizes) -> int:
    """Each element of the output is a sum over a window and the channels that the filter reads."""
    return 2 * prod(output) * prod(inputs[1][:-1])


def _depthwise(_node: Node, inputs: Sequence[Sizes], output: Sizes) -> int:
    """Each element of the output is a sum over a window of one channel."""
    return 2 * prod(output) * prod(inputs[1][:-2])


def _transposed(_node: Node, inputs: Sequence[Sizes], _output: Sizes) -> int:
    """Each element of what is read (input 2) is spread over a window and the channels that the filter gives."""
    return 2 * prod(inputs[2]) * prod(inputs[1][:-1]) if len(inputs) > 2 else 0


def _product(node: Node, inputs: Sequence[Sizes], output: Sizes) -> int:
    if len(inputs[0]) < 2:
        return 0
    turned = any(node.plain_attr(key) for key in ("transpose_a", "adj_x"))
    return 2 * prod(output) * inputs[0][-2 if turned else -1]


def _einsum(node: Node, inputs: Sequence[Sizes], _output: Sizes) -> int:
    """The product of the sizes of all labels; the leading dims of an ellipsis are broadcast."""
    size_of: dict[str, int] = {}
    broadcast: list[list[int]] = []
    for term, sizes in zip(node.text_attr("equation").split("->")[0].split(","), inputs, strict=False):
        before, dots, after = term.strip().partition("...")
        stop = len(sizes) - len(after)
        named = [*zip(before, sizes, strict=False), *(zip(after, sizes[stop:], strict=False) if dots else ())]
        for label, size in named:
            size_of[label] = max(size_of.get(label, 1), size)
        if dots:
            broadcast.append(list(reversed(sizes[len(before) : stop])))
    leading = (max(dims) for dims in zip_longest(*broadcast, fillvalue=1))
    return 2 * prod(size_of.values()) * prod(leading)


_COUNTS: dict[str, Callable[[Node, Sequence[Sizes], Sizes], int]] = {
    **dict.fromkeys(("Conv2D", "Conv3D", "_FusedConv2D", "QuantizedConv2D"), _convolution),
    "DepthwiseConv2dNative": _depthwise,
    **dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), _transposed),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "_FusedMatMul"), _product),
    "Einsum": _einsum,
}
