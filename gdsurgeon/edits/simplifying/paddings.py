"""Folds paddings into the convolution after them, and SpaceToBatchND around a convolution into its dilations."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.edits.claims import Site
from gdsurgeon.edits.simplifying.batch_norms import Unfit, check_place, integers
from gdsurgeon.edits.simplifying.fold_sites import Sites, computing
from gdsurgeon.graph.attrs import ints_value, string_value
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.node import Node, Output

PADDED = frozenset(("Conv2D", "DepthwiseConv2dNative"))
PADS = frozenset(("Pad", "PadV2"))
NOT_PADDED = "VALID"

Pairs = tuple[tuple[int, int], tuple[int, int]]
"""The padding before and after, of height and width."""


class _Folding(NamedTuple):
    """A convolution `conv` that will read `source` with other attrs, named `last`; the nodes `going` are removed."""

    conv: Node
    last: Node
    going: Sequence[Node]
    source: Output
    pads: Pairs
    dilations: tuple[int, int]


def paddings(sites: Sites) -> int:
    """Replaces SpaceToBatchND and BatchToSpaceND around convolutions by dilations, and folds paddings with zeros into
    convolutions; returns the number of folds.
    """
    return _fold(sites, {"SpaceToBatchND"}, _space_to_batch, "dilation") + _fold(sites, PADS, _padded, "padding")


def _fold(sites: Sites, ops: Container[str], look: Callable[[Sites, Node], _Folding | None], what: str) -> int:
    foldings: list[_Folding] = []
    for node in sites.with_ops(ops):
        try:
            folding = look(sites, node)
            if folding is not None:
                foldings.append(folding)
        except Unfit as unfit:
            sites.skip(node, unfit.why)
    shapes = infer_shapes(sites.graph, wanted=[each.source for each in foldings]) if foldings else None
    attrs = [_attrs(each, shapes) for each in foldings if shapes is not None]
    for folding, changed in zip(foldings, attrs, strict=True):
        conv, name = folding.conv, folding.last.name
        kept = {key: value for key, value in computing(conv).items() if key not in _PLACING}
        site = Site((folding.source.name,), ((name, name),), 1 if _is_second(conv) else -1, any_rows=True)
        inputs = [folding.source, *conv.inputs[1:]]
        sites.replace(folding.last, folding.going, conv.op, inputs, kept | changed, site)
        sites.folded[what, conv.op] += 1
    return len(foldings)


_PLACING = frozenset(("padding", "explicit_paddings"))


# -- paddings -------------------------------------------------------------------------------------------------


def _padded(sites: Sites, pad: Node) -> _Folding | None:
    """Returns the fold of a Pad into its consumer; None if that is not a convolution. Raises Unfit."""
    use = sites.only_use(pad)
    if use is None or use.slot != 0 or use.node.op not in PADDED:
        return None
    conv = use.node
    filler = constant(pad.inputs[2].node) if pad.op == "PadV2" else None
    if pad.op == "PadV2" and (filler is None or filler.shape or filler.values != [0]):
        return None
    first, numbers = 4 if _is_second(conv) else 2, integers(pad.inputs[1].node) or []
    top, bottom, left, right = numbers[first : first + 4] if len(numbers) == 8 else [-1] * 4
    if min((top, *numbers)) < 0 or any(numbers[:first] + numbers[first + 4 :]):
        raise Unfit("its paddings are not a constant for height and width only", "value-unknown")
    if conv.text_attr("padding") != NOT_PADDED:
        raise Unfit("the convolution also pads", "also-pads")
    check_place(sites, [pad, conv])
    _filter_sizes(conv)
    return _Folding(conv, conv, [pad], pad.inputs[0], ((top, bottom), (left, right)), _along(conv, "dilations"))


# -- dilations -----------------------------------------------------------------------------------------------------


def _space_to_batch(sites: Sites, there: Node) -> _Folding | None:
    """Returns the fold of a SpaceToBatchND, a convolution and a BatchToSpaceND; None for other consumers.

    If the data is padded by P and cropped by C, the convolution with dilations pads by P - C.

    Raises:
        Unfit: a convolution with dilations does not compute the same.
    """
    use = sites.only_use(there)
    if use is None or use.slot != 0 or use.node.op not in PADDED:
        return None
    conv = use.node
    use = sites.only_use(conv)
    if use is None or use.slot != 0 or use.node.op != "BatchToSpaceND":
        return None
    back = use.node
    blocks = [integers(node.inputs[1].node) for node in (there, back)]
    sizes = [integers(node.inputs[2].node) for node in (there, back)]
    if blocks[0] is None or len(blocks[0]) != 2 or sizes[0] is None or sizes[1] is None:
        raise Unfit("its paddings and crops are not constants for height and width only", "value-unknown")
    _filter_sizes(conv)
    is_plain = _along(conv, "strides") == _along(conv, "dilations") == (1, 1)
    is_plain &= conv.text_attr("padding") == NOT_PADDED
    if blocks[0] != blocks[1] or not is_plain or _is_second(conv):
        raise Unfit("the convolution has strides, dilations, paddings or a different layout", "has-strides")
    if conv.op == "DepthwiseConv2dNative":
        raise Unfit(
            "TensorFlow has no CPU kernel for depthwise convolutions with dilations on every machine", "no-kernel"
        )
    padded = [pad - crop for pad, crop in zip(sizes[0], sizes[1], strict=True)]
    if len(padded) != 4 or min(padded) < 0:
        raise Unfit("it crops more than it pads", "crops-more")
    check_place(sites, [there, conv, back])
    pairs = ((padded[0], padded[1]), (padded[2], padded[3]))
    return _Folding(conv, back, [there, conv], there.inputs[0], pairs, (blocks[0][0], blocks[0][1]))


# -- attrs ----------------------------------------------------------------------------------------------------


def _is_second(conv: Node) -> bool:
    return conv.text_attr("data_format") == "NCHW"


def _along(conv: Node, key: str) -> tuple[int, int]:
    """Returns the strides or dilations of a convolution, of height and width. Raises Unfit if they are not valid."""
    values, first = conv.ints_attr(key) or [1, 1, 1, 1], 2 if _is_second(conv) else 1
    if len(values) != 4:
        raise Unfit(f"its {key} are not valid", "bad-value")
    return values[first], values[first + 1]


def _filter_sizes(conv: Node) -> tuple[int, int]:
    """Returns the height and width of the filters. Raises Unfit if they are unknown."""
    filters = conv.inputs[1].node
    while filters.op == "Identity":
        filters = filters.inputs[0].node
    header = constant_header(filters) if filters.op == "Const" else None
    if header is None or header.dims is None or len(header.dims) != 4:
        raise Unfit("the size of the filter is unknown", "shape-unknown")
    return header.dims[0], header.dims[1]


def _attrs(folding: _Folding, shapes: Shapes) -> dict[str, bytes]:
    """Returns the attrs of a convolution for its paddings and dilations."""
    conv = folding.conv
    first = 2 if _is_second(conv) else 1
    shape = shapes.shape(folding.source)
    sizes = (None, None) if shape is None or len(shape) != 4 else (shape[first], shape[first + 1])
    windows = zip(_filter_sizes(conv), folding.dilations, _along(conv, "strides"), sizes, strict=True)
    out = {}
    if folding.dilations != _along(conv, "dilations"):
        dilations = [1, 1, 1, 1]
        dilations[first : first + 2] = folding.dilations
        out["dilations"] = ints_value(dilations)
    if folding.pads == ((0, 0), (0, 0)):
        out["padding"] = string_value(NOT_PADDED)
    elif folding.pads == tuple(_same_pads(*window) for window in windows):
        out["padding"] = string_value("SAME")
    else:
        pads = [0] * 8
        pads[2 * first : 2 * first + 4] = [size for pair in folding.pads for size in pair]
        out |= {"padding": string_value("EXPLICIT"), "explicit_paddings": ints_value(pads)}
    return {key: value.SerializeToString(deterministic=True) for key, value in out.items()}


def _same_pads(filters: int, dilation: int, stride: int, size: int | None) -> tuple[int, int] | None:
    """Returns the padding along an axis for ``SAME``; None if it depends on an unknown size.

    Source: tensorflow/core/framework/common_shape_fns.cc, GetWindowedOutputSizeVerbose.
    """
    reach = (filters - 1) * dilation + 1
    if stride == 1:
        total = reach - 1
    elif size is None or size < 0:
        return None
    else:
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2
