"""Folds batch norms, and other factors per channel, into the weights of convolutions and matrix products."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.edits.claims import Site
from gdsurgeon.edits.simplifying.fold_sites import Sites, computing
from gdsurgeon.errors import InputError, Remark
from gdsurgeon.graph.attrs import string_value, type_value
from gdsurgeon.graph.constants import constant, constant_header
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.ops.dtypes import DTYPES, FLOAT32, FLOAT64, dtype_name
from gdsurgeon.ops.kinds import FUSED_BATCH_NORMS, SUMS

if TYPE_CHECKING:
    from gdsurgeon.edits.simplifying.fold_sites import Array

GLOBAL = "BatchNormWithGlobalNormalization"
QUOTIENTS = frozenset(("Div", "RealDiv"))
AFFINE = FUSED_BATCH_NORMS | SUMS | QUOTIENTS | {GLOBAL, "BiasAdd", "Mul", "Sub"}
"""Ops that may multiply each channel by a number or add a number to it."""
MOST_NODES = 32
"""The largest number of nodes of an expression of constants; a batch norm has a dozen."""
MOST_ELEMENTS = 1 << 16
CANCELLED = 1e-5 / 2.0**-24
"""The largest ratio of a summand to the offset or the weights of its channel: beyond it, the rounding of the summand is
more than 1e-5 of the result.
"""


class Unfit(Exception):
    """A node cannot be folded.

    Attributes:
        why: the reason, with its code.
    """

    def __init__(self, why: str, code: str) -> None:
        super().__init__(why)
        self.why = Remark(why, code)


class Layout(NamedTuple):
    """The number of channels of a tensor, its rank, and its channel axis."""

    count: int  # type: ignore[assignment]  # a tuple's own count() is of no use here
    rank: int
    axis: int


class Affine(NamedTuple):
    """The function x * scale + offset of each channel.

    Attributes:
        scale, offset: arrays of shape [channels].
        peak: the largest summand of each offset.
        gains: the number of nodes that multiply.
    """

    scale: Array
    offset: Array
    peak: Array
    gains: int = 0


def after(done: Affine, node: Node, slot: int, layout: Layout) -> Affine | None:
    """Returns the effect of a chain extended by `node`, which reads it at `slot`; None if the node cannot be part of
    it.

    Raises:
        Unfit: the node is a batch norm that cannot be folded.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        if node.op in FUSED_BATCH_NORMS or node.op == GLOBAL:
            return _normalised(done, node, layout) if slot == 0 else None
        if node.op == "BiasAdd":
            value = (
                _vector(node.inputs[1], layout)
                if slot == 0 and _channel_axis(node, layout.rank) == layout.axis
                else None
            )
            return None if value is None else _added(done, value)
        if len(node.inputs) != 2:
            return None
        value = _broadcast(node.inputs[1 - slot], layout)
        if value is None:
            return None
        if node.op == "Mul" or (node.op in QUOTIENTS and slot == 0):
            return _multiplied(done, value if node.op == "Mul" else 1 / value)
        if node.op in SUMS:
            return _added(done, value)
        if node.op == "Sub":
            turned = done if slot == 0 else _multiplied(done, -np.ones(layout.count))._replace(gains=done.gains)
            return _added(turned, -value if slot == 0 else value)
    return None


def _unchanged(count: int) -> Affine:
    import numpy as np

    return Affine(np.ones(count), np.zeros(count), np.zeros(count))


def _multiplied(done: Affine, factor: Array) -> Affine:
    return Affine(done.scale * factor, done.offset * factor, done.peak * abs(factor), done.gains + 1)


def _added(done: Affine, value: Array) -> Affine:
    import numpy as np

    offset = done.offset + value
    return done._replace(offset=offset, peak=np.maximum(done.peak, np.maximum(abs(value), abs(offset))))


def _normalised(done: Affine, node: Node, layout: Layout) -> Affine:
    """Extends a chain by a batch norm with constant statistics."""
    import numpy as np

    if node.op == GLOBAL:
        epsilon, is_scaled = node.setting("variance_epsilon"), bool(node.setting("scale_after_normalization"))
        mean, variance, beta, gamma = (_vector(read, layout) for read in node.inputs[1:5])
    else:
        if node.setting("is_training"):
            raise Unfit("it has is_training=true", "is-training")
        epsilon, is_scaled = node.setting("epsilon"), True
        gamma, beta, mean, variance = (_vector(read, layout) for read in node.inputs[1:5])
    if gamma is None or beta is None or mean is None or variance is None or not isinstance(epsilon, float):
        raise Unfit("its statistics are not constants with one number per channel", "value-unknown")
    if _channel_axis(node, layout.rank) != layout.axis:
        raise Unfit("its channels differ from those of the convolution", "other-channels")
    if not (variance + epsilon > 0).all():
        raise Unfit("a variance plus epsilon is not above 0", "bad-variance")
    scaled = _multiplied(_added(done, -mean), 1 / np.sqrt(variance + epsilon))
    return _added(_multiplied(scaled, gamma) if is_scaled else scaled, beta)


def _channel_axis(node: Node, rank: int) -> int:
    """Returns the channel axis of a node with a data format."""
    return 1 if rank == 2 or node.text_attr("data_format") in ("NCHW", "NCDHW") else rank - 1


def _vector(read: Output, layout: Layout) -> Array | None:
    """Returns a constant with one number for each channel; otherwise None."""
    value = expression(read)
    return value if value is not None and value.shape == (layout.count,) else None


def _broadcast(read: Output, layout: Layout) -> Array | None:
    """Returns a constant that broadcasts to one number for each channel; otherwise None."""
    import numpy as np

    value = expression(read)
    if value is None or value.ndim > layout.rank or value.size not in (1, layout.count):
        return None
    axis = layout.axis - layout.rank + value.ndim
    if value.size != 1 and (axis < 0 or value.shape[axis] != value.size):
        return None
    return np.broadcast_to(value.reshape(-1), (layout.count,))


# -- constants ------------------------------------------------------------------------------------------------


def expression(read: Output) -> Array | None:
    """Returns the value of an expression of constants in float64; None if it contains other nodes or integers."""
    import numpy as np

    known: dict[Node, Array | None] = {}
    pending = [read.node]
    with np.errstate(all="ignore"):
        while pending:
            node = pending[-1]
            if node in known:
                pending.pop()
                continue
            if len(known) + len(pending) > MOST_NODES:
                return None
            parts = node.inputs[: 2 if node.op in _BINARY else 1 if node.op in _UNARY else 0]
            missing = [part.node for part in parts if part.node not in known]
            if missing and not any(part is node for part in missing):
                pending += missing
                continue
            known[node] = _value(node, [known.get(part.node) for part in parts])
            pending.pop()
    return known[read.node] if read.index == 0 else None


def _value(node: Node, parts: list[Array | None]) -> Array | None:
    """Returns the value of a node of an expression, given the values of its inputs."""
    import numpy as np

    if node.op == "Const":
        return constant_array(node)
    given = [part for part in parts if part is not None]
    if not given or len(given) < len(parts) or len(parts) < (2 if node.op in _BINARY else 1) or node.controls:
        return None
    try:
        if node.op == "Reshape":
            dims = integers(node.inputs[1].node)
            return None if dims is None else given[0].reshape(dims)
        found: Array = np.asarray(_BINARY[node.op](*given) if node.op in _BINARY else _UNARY[node.op](*given))
    except ValueError:
        return None
    return found if found.size <= MOST_ELEMENTS else None


def constant_array(node: Node) -> Array | None:
    """Returns a constant of floats in float64; None if it is too large, or has another dtype or control inputs."""
    import numpy as np

    try:
        values = values_of(node)
    except InputError:
        return None
    if values.dtype not in (FLOAT32, FLOAT64) or values.count > MOST_ELEMENTS or node.controls:
        return None
    return values.numbers(0, values.count).reshape(values.shape).astype(np.float64)


def integers(node: Node) -> list[int] | None:
    """Returns the elements of a small constant of integers; None for other nodes."""
    found = constant(node) if not node.controls else None
    if found is None or found.dtype not in DTYPES or not DTYPES[found.dtype].is_integer:
        return None
    return [int(value) for value in found.values]


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": operator.add, "AddV2": operator.add, "Div": operator.truediv, "Mul": operator.mul,
    "RealDiv": operator.truediv, "Sub": operator.sub,
}  # fmt: skip
_UNARY: dict[str, Callable[[Array], Array]] = {
    "Identity": operator.pos,
    "Inv": lambda a: 1 / a,
    "Neg": operator.neg,
    "Reciprocal": lambda a: 1 / a,
    "Reshape": operator.pos,
    "Rsqrt": lambda a: a**-0.5,
    "Sqrt": lambda a: a**0.5,
    "Square": lambda a: a * a,
}


class _Weighted(NamedTuple):
    """An op whose input 1 is its weights.

    Attributes:
        rank: the rank of the data, of the result and of the weights.
        reads: the index of the data input.
        counted: the axes of the weights for the channels of the result.
        given: the axis of the weights for the channels of the data.
    """

    rank: int
    reads: int
    counted: tuple[int, ...]
    given: int


WEIGHTED = {
    "Conv2D": _Weighted(4, 0, (3,), 2),
    "Conv2DBackpropInput": _Weighted(4, 2, (2,), 3),
    "Conv3D": _Weighted(5, 0, (4,), 3),
    "DepthwiseConv2dNative": _Weighted(4, 0, (2, 3), 2),
    "MatMul": _Weighted(2, 0, (1,), 0),
}
JOINTS = frozenset(("BatchToSpaceND", "ConcatV2"))
"""Ops that may stand between convolutions and a batch norm: they keep each channel whole."""
MULTIPLYING = FUSED_BATCH_NORMS | QUOTIENTS | {GLOBAL, "Mul"}
SHARED = "its weights are also used elsewhere"
ELSEWHERE = "its input is also used elsewhere, or is an output"
APART = "it has control dependencies, or is on a different device"
MOST_SUMS = 4
"""The largest number of sums with constants between a convolution and a factor."""
ALLOWED = 16
"""The number of elements that each removed node may add: the record of a node is larger."""


class _Part(NamedTuple):
    """A convolution with constant weights, and the layout of its result."""

    conv: Node
    weights: Node
    layout: Layout


class _Chain(NamedTuple):
    """The nodes after convolutions that are folded into them.

    Attributes:
        parts: the convolutions; several if `joint` is a ConcatV2.
        joint: a node between the convolutions and the links, or None.
        links: the nodes that are folded.
        does: the effect of the links on the channels of all parts.
    """

    parts: Sequence[_Part]
    joint: Node | None
    links: list[Node]
    does: Affine


class _New(NamedTuple):
    """The weights and offsets of a part after a fold, and by how many elements its weights grow."""

    weights: Array
    offset: Array
    more: int


def batch_norms(sites: Sites) -> int:
    """Folds factors into the convolutions before them; returns the number of folds."""
    chains: list[tuple[_Chain, list[_New]]] = []
    for start in sites.with_ops(WEIGHTED.keys() | JOINTS):
        first = _first_gain(sites, start)
        if first is None:
            continue
        try:
            chain = _chain(sites, start, first)
            if chain is not None:
                chains.append((chain, _folded(sites, chain)))
        except Unfit as unfit:
            sites.skip(first, unfit.why)
    for (parts, joint, links, _), found in chains:
        convs = [part.conv for part in parts]
        between = [*convs, *links[:-1]] if joint is None else [*convs, joint, *links[:-1]]
        _put(sites, links[-1], between, parts, found, joint)
        sites.folded["batch norm", convs[0].op] += 1
    for node in sites.with_ops(FUSED_BATCH_NORMS | {GLOBAL}):
        if node.name not in sites.skipped:
            sites.skip(node, Remark("its input does not come from an op with weights", "no-weights"))
    return len(chains)


def _first_gain(sites: Sites, start: Node) -> Node | None:
    """Returns the nearest factor after a node, past sums with constants; None if there is no factor."""
    node = start
    for _ in range(MOST_SUMS):
        uses = [use for use in sites.graph.uses(node.output) if use.node.op in AFFINE]
        gains = [use.node for use in uses if use.node.op in MULTIPLYING and _is_by_constants(use)]
        if gains:
            return gains[0]
        sums = [use.node for use in uses if use.node.op not in MULTIPLYING and _is_by_constants(use)]
        if len(sums) != 1:
            return None
        node = sums[0]
    return None


def _is_by_constants(use: Use) -> bool:
    """Returns whether a node is a batch norm of the tensor, or combines it with constants."""
    if use.node.op in FUSED_BATCH_NORMS or use.node.op == GLOBAL:
        return use.slot == 0
    others = [read for slot, read in enumerate(use.node.inputs) if slot != use.slot]
    return all(expression(other) is not None for other in others)


def _chain(sites: Sites, start: Node, first: Node) -> _Chain | None:
    """Returns the chain after a convolution or a joint; None if it has no factor, or a joint has other inputs.

    Raises:
        Unfit: `first`, which is a factor, cannot be folded.
    """
    joint = None if start.op in WEIGHTED else start
    parts = [_part(sites, start)] if joint is None else _joined(sites, joint)
    if not parts:
        return None
    layout = parts[0].layout._replace(count=sum(part.layout.count for part in parts))
    links: list[Node] = []
    does = _unchanged(layout.count)
    node = start
    while True:
        use = sites.only_use(node)
        if use is None and not does.gains:
            raise Unfit(ELSEWHERE, "outside-uses")
        if use is None or use.node.op not in AFFINE or use.node.controls or use.node.device != start.device:
            break
        found = after(does, use.node, use.slot, layout)
        if found is None:
            break
        does, node = found, use.node
        links.append(node)
        if node.op not in FUSED_BATCH_NORMS:
            continue
        if any(read.node is node and read.index for user in sites.graph.users(node) for read in user.inputs):
            raise Unfit("its statistics are used", "statistics-read")
        if node in sites.whole:
            why = "all its outputs are outputs of the graph: name only the first one with outputs"
            raise Unfit(why, "is-output")
    if not does.gains:
        if first.op in FUSED_BATCH_NORMS or first.op == GLOBAL:
            raise Unfit(APART, "has-controls")
        return None
    check_place(sites, [start, *(part.conv for part in parts), *links])
    return _Chain(parts, joint, links, does)


def _joined(sites: Sites, joint: Node) -> list[_Part]:
    """Returns the convolutions whose channels a joint joins; none if there is a different input.

    Raises:
        Unfit: they cannot be folded into.
    """
    is_concat = joint.op == "ConcatV2"
    count = len(joint.inputs) - 1 if is_concat else 1
    reads, numbers = joint.inputs[:count], integers(joint.inputs[count].node)  # the axis, or the sizes of a block
    if not all(read.node.op in WEIGHTED for read in reads):
        return []
    if any((use := sites.only_use(read.node)) is None or use.node is not joint for read in reads):
        raise Unfit(ELSEWHERE, "outside-uses")
    parts = [_part(sites, read.node) for read in reads]
    rank, axis = parts[0].layout[1:]
    is_whole = numbers in ([axis], [axis - rank]) if is_concat else numbers is not None and len(numbers) < axis
    if not is_whole or {part.layout[1:] for part in parts} != {(rank, axis)}:
        raise Unfit("its channels differ from those of the convolution", "other-channels")
    return parts


def check_place(sites: Sites, nodes: Sequence[Node]) -> None:
    """Raises Unfit if nodes are in a loop, have control inputs, or are on different devices."""
    if any(node.controls for node in nodes) or sites.runs_in_a_loop(nodes):
        raise Unfit("it is in a loop, or has control dependencies", "crosses-loop")
    if len({node.device for node in nodes}) > 1:
        raise Unfit("the convolution is on a different device", "other-device")


# -- factors before a convolution -----------------------------------------------------------------------------


def factors(sites: Sites) -> int:
    """Folds factors into the convolutions after them; returns the number of folds."""
    wanted = [(conv, use) for conv in sites.with_ops(WEIGHTED) if (use := _factor(sites, conv)) is not None]
    if not wanted:
        return 0
    tensors = [tensor for _, (factor, slot) in wanted for tensor in (factor.inputs[slot], factor.output)]
    shapes = infer_shapes(sites.graph, wanted=tensors)
    found: list[tuple[_Part, Use, _New]] = []
    for conv, use in wanted:
        try:
            part = _part(sites, conv)
            found.append((part, use, _scaled(sites, part, use, shapes)))
        except Unfit as unfit:
            sites.skip(use.node, unfit.why)
    for part, (factor, slot), new in found:
        _put(sites, part.conv, [factor], [part], [new], source=factor.inputs[slot])
        sites.folded["factor", part.conv.op] += 1
    return len(found)


def _factor(sites: Sites, conv: Node) -> Use | None:
    """Returns the use of a tensor by a factor whose only consumer is a convolution; None if there is no factor."""
    reads = WEIGHTED[conv.op].reads
    factor = conv.inputs[reads].node
    if factor.op not in QUOTIENTS | {"Mul"} or conv.setting("transpose_a") or sites.only_use(factor) != (conv, reads):
        return None
    slots = [slot for slot, read in enumerate(factor.inputs) if expression(read) is None]
    return Use(factor, slots[0]) if len(slots) == 1 and (factor.op == "Mul" or slots == [0]) else None


def _scaled(sites: Sites, part: _Part, use: Use, shapes: Shapes) -> _New:
    """Returns the weights of a convolution with the factor before it. Raises Unfit."""
    import numpy as np

    (factor, slot), (conv, weights, layout) = use, part
    header = constant_header(weights)
    assert header is not None and header.dims is not None
    given = 1 - WEIGHTED[conv.op].given if conv.setting("transpose_b") else WEIGHTED[conv.op].given
    count = header.dims[given]
    dims = [shapes.shape(tensor) for tensor in (factor.inputs[slot], factor.output)]
    if any(shape is None or len(shape) != layout.rank or shape[layout.axis] < 0 for shape in dims):
        raise Unfit("the shape of its input is unknown", "shape-unknown")
    does = after(_unchanged(count), factor, slot, layout._replace(count=count))
    if does is None or len({shape[layout.axis] for shape in dims if shape is not None}) > 1:
        raise Unfit("it is not one number, or one for each channel of the convolution", "other-channels")
    check_place(sites, [conv, factor])
    scale = does.scale.reshape([count if axis == given else 1 for axis in range(layout.rank)])
    found = _rounded(part, scale, np.zeros(layout.count), np.zeros(layout.count))
    _check_growth(sites, [found], [factor])
    return found


# -- weights --------------------------------------------------------------------------------------------------


def _part(sites: Sites, conv: Node) -> _Part:
    """Returns a convolution with constant weights. Raises Unfit if they are not, or have a wrong rank or dtype."""
    weights, rank = _weights(sites, conv), WEIGHTED[conv.op].rank
    header = constant_header(weights)
    if header is None or header.dims is None or len(header.dims) != rank:
        raise Unfit("its weights are not a constant", "not-a-constant")
    if header.dtype not in (FLOAT32, FLOAT64):
        raise Unfit(f"its weights are {dtype_name(header.dtype)}", "dtype-mismatch")
    count = prod(header.dims[axis] for axis in _counted(conv))
    return _Part(conv, weights, Layout(count, rank, _channel_axis(conv, rank)))


def _weights(sites: Sites, conv: Node) -> Node:
    """Returns the constant with the weights. Raises Unfit if they are not a constant, or are needed elsewhere."""
    reader, node = conv, conv.inputs[1].node
    while node.op == "Identity" and node.inputs and not node.controls:
        if not sites.may_go(node) or sites.graph.users(node) != [reader]:
            raise Unfit(SHARED, "shared-weights")
        reader, node = node, node.inputs[0].node
    if node.op != "Const" or node.controls:
        raise Unfit("its weights are not a constant", "not-a-constant")
    beside = [other for other in sites.graph.colocated_with(node) if other is not node and other is not reader]
    if node in sites.kept or beside or len(sites.graph.users(node)) != 1 or len(sites.graph.uses(node.output)) != 1:
        raise Unfit(SHARED, "shared-weights")
    return node


def _counted(conv: Node) -> tuple[int, ...]:
    """Returns the channel axes of the weights."""
    if conv.op == "MatMul" and conv.setting("transpose_b"):
        return (0,)
    return WEIGHTED[conv.op].counted


def _folded(sites: Sites, chain: _Chain) -> list[_New]:
    """Returns the weights with the factors of a chain, and its offsets. Raises Unfit."""
    found: list[_New] = []
    first = 0
    for part in chain.parts:
        scale, offset, peak = (each[first : first + part.layout.count] for each in chain.does[:3])
        first += part.layout.count
        counted, rank = _counted(part.conv), part.layout.rank
        dims = values_of(part.weights).shape
        shape = [dims[axis] if axis in counted else 1 for axis in range(rank)]
        found.append(_rounded(part, scale.reshape(shape), offset, peak))
    _check_growth(sites, found, chain.links)
    return found


def _rounded(part: _Part, scale: Array, offset: Array, peak: Array) -> _New:
    """Returns the weights multiplied by `scale`, and `offset`, each rounded once; `peak`: as in `Affine`.

    Raises:
        Unfit: they cannot be read, or rounding would change the result too much.
    """
    import numpy as np

    try:
        values = values_of(part.weights)
    except InputError:
        raise Unfit("its weights cannot be read", "unreadable") from None
    old = values.numbers(0, values.count).reshape(values.shape)
    with np.errstate(all="ignore"):
        exact: Array = old.astype(np.float64) * scale
        weights, offset = exact.astype(old.dtype), offset.astype(old.dtype)
        if not (np.isfinite(weights).all() and np.isfinite(offset).all()):
            if np.isfinite(old).all() and not np.isnan(exact).any() and not np.isnan(offset).any():
                raise Unfit("the folded weights would overflow", "overflow")
            raise Unfit("its weights or parameters are not finite", "not-finite")
        tiny = np.finfo(old.dtype).tiny
        if ((np.abs(exact) < tiny) & (exact != 0) & (np.abs(old) >= tiny)).any():
            raise Unfit("the folded weights would underflow", "underflow")
        others = tuple(axis for axis in range(old.ndim) if axis not in _counted(part.conv))
        norms = np.sqrt(np.square(exact).sum(axis=others)).reshape(-1)
        left = np.maximum(norms, np.abs(offset))
    if (peak > CANCELLED * left).any():
        raise Unfit("its sums would cancel, up to rounding", "cancels")
    is_splat = values.stored < values.count and bool((weights == weights.flat[0]).all())
    return _New(weights, offset, 0 if is_splat else values.count - values.stored)


def _check_growth(sites: Sites, found: Sequence[_New], links: Sequence[Node]) -> None:
    """Raises Unfit if the new weights and offsets need more space than the removed constants."""
    comes = sum(new.more + (new.offset.size if new.offset.any() else 0) for new in found)
    parts = {read.node for node in links for read in node.inputs if read.node.op == "Const"}
    goes = 0
    for part in parts:
        header = constant_header(part)
        if header is not None and sites.may_go(part) and len(sites.graph.users(part)) == 1:
            goes += header.content_bytes // (DTYPES[header.dtype].size or 1) + header.values
    if comes > goes + ALLOWED * len(links):
        raise Unfit("the folded weights would need more bytes than are saved", "too-large")


# -- carrying out ---------------------------------------------------------------------------------------------


def _put(
    sites: Sites,
    last: Node,
    going: Sequence[Node],
    parts: Sequence[_Part],
    found: Sequence[_New],
    joint: Node | None = None,
    source: Output | None = None,
) -> None:
    """Makes a node a convolution with other weights, plus the offsets.

    Args:
        sites: get the fold.
        last: the node.
        going: the nodes that are removed.
        parts: the convolutions; several if the node becomes a `joint` of the new ones.
        found: their new weights.
        joint: a node between the convolutions and `last`.
        source: the data of the only convolution, if it changes.
    """
    sources: list[Output] = []
    joined: list[Output] = []
    for (conv, _, layout), new in zip(parts, found, strict=True):
        reads = WEIGHTED[conv.op].reads
        sources.append(source or conv.inputs[reads])
        weights = sites.constant(last, "weights", new.weights, sources[-1].node)
        given = {reads: sources[-1], 1: weights.output}
        inputs = [given.get(slot, read) for slot, read in enumerate(conv.inputs)]
        op, attrs = conv.op, computing(conv)
        if new.offset.any():
            bias = sites.constant(last, "bias", new.offset, weights)
            inputs = [sites.copy(last, conv, inputs, bias).output, bias.output]
            op, attrs = "BiasAdd", {"T": type_value(inputs[0].dtype).SerializeToString()}
            if layout.axis != layout.rank - 1:
                attrs["data_format"] = string_value("NCHW").SerializeToString()
        if joint is not None:
            behind = inputs[op != "BiasAdd"].node
            copy = (
                sites.copy(last, conv, inputs, behind) if op == conv.op else sites.add(last, op, inputs, attrs, behind)
            )
            joined.append(copy.output)
    if joint is not None:
        op, inputs, attrs = joint.op, [*joined, *joint.inputs[len(joined) :]], computing(joint)
    layout = parts[0].layout
    axis = -1 if layout.axis == layout.rank - 1 else 1
    any_rows = "Conv2DBackpropInput" not in (conv.op for conv, *_ in parts) and op != "BatchToSpaceND"
    names = tuple(dict.fromkeys(tensor.name for tensor in sources))
    sites.replace(last, going, op, inputs, attrs, Site(names, ((last.name, last.name),), axis, any_rows))
