"""The effect of a chain of nodes on each channel of a convolution's result: a factor and an offset, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.errors import InputError, Remark
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import DTYPES, FLOAT32, FLOAT64
from gdsurgeon.ops.kinds import FUSED_BATCH_NORMS, SUMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

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


def nothing_yet(layout: Layout) -> Affine:
    """Returns the effect of an empty chain."""
    import numpy as np

    return Affine(np.ones(layout.count), np.zeros(layout.count), np.zeros(layout.count))


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
            value = _vector(node.inputs[1], layout) if slot == 0 and _is_laid_out(node, layout) else None
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
    if not _is_laid_out(node, layout):
        raise Unfit("its channels differ from those of the convolution", "other-channels")
    if not (variance + epsilon > 0).all():
        raise Unfit("a variance plus epsilon is not above 0", "bad-variance")
    scaled = _multiplied(_added(done, -mean), 1 / np.sqrt(variance + epsilon))
    return _added(_multiplied(scaled, gamma) if is_scaled else scaled, beta)


def _is_laid_out(node: Node, layout: Layout) -> bool:
    """Returns whether the channel axis of a node with a data format is that of `layout`."""
    is_second = node.text_attr("data_format") in ("NCHW", "NCDHW")
    return layout.axis == (1 if is_second else layout.rank - 1) or layout.rank == 2


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
            rule = _RULES.get(node.op)
            parts = node.inputs[: rule.parts] if rule is not None else ()
            missing = [part.node for part in parts if part.node not in known]
            if missing and not any(part is node for part in missing):
                pending += missing
                continue
            known[node] = _value(node, rule, [known.get(part.node) for part in parts])
            pending.pop()
    return known[read.node] if read.index == 0 else None


class _Rule(NamedTuple):
    """The number of inputs of an op that determine its value, and its function."""

    parts: int
    value: Callable[..., Any]


def _value(node: Node, rule: _Rule | None, parts: list[Array | None]) -> Array | None:
    import numpy as np

    if node.op == "Const":
        return constant_array(node)
    if rule is None or len(parts) < rule.parts or any(part is None for part in parts) or node.controls:
        return None
    if node.op == "Reshape":
        dims = _dims(node.inputs[1].node)
        return None if dims is None or parts[0] is None else _reshaped(parts[0], dims)
    try:
        found: Array = np.asarray(rule.value(*parts))
    except ValueError:
        return None
    return found if found.size <= MOST_ELEMENTS else None


def constant_array(node: Node, most: int = MOST_ELEMENTS) -> Array | None:
    """Returns a constant of floats in float64; None if it has more than `most` elements, another dtype or control
    inputs.
    """
    import numpy as np

    try:
        values = values_of(node)
    except InputError:
        return None
    if values.dtype not in (FLOAT32, FLOAT64) or values.count > most or node.controls:
        return None
    return values.numbers(0, values.count).reshape(values.shape).astype(np.float64)


def _dims(node: Node) -> tuple[int, ...] | None:
    try:
        values = values_of(node) if node.op == "Const" else None
    except InputError:
        return None
    if values is None or not DTYPES[values.dtype].is_integer or values.count > 8:
        return None
    return tuple(int(size) for size in values.numbers(0, values.count))


def _reshaped(value: Array, dims: tuple[int, ...]) -> Array | None:
    try:
        return value.reshape(dims)
    except ValueError:
        return None


_RULES = {
    "Add": _Rule(2, lambda a, b: a + b),
    "AddV2": _Rule(2, lambda a, b: a + b),
    "Div": _Rule(2, lambda a, b: a / b),
    "Identity": _Rule(1, lambda a: a),
    "Inv": _Rule(1, lambda a: 1 / a),
    "Mul": _Rule(2, lambda a, b: a * b),
    "Neg": _Rule(1, lambda a: -a),
    "RealDiv": _Rule(2, lambda a, b: a / b),
    "Reciprocal": _Rule(1, lambda a: 1 / a),
    "Reshape": _Rule(1, lambda a: a),
    "Rsqrt": _Rule(1, lambda a: a**-0.5),
    "Sqrt": _Rule(1, lambda a: a**0.5),
    "Square": _Rule(1, lambda a: a * a),
    "Sub": _Rule(2, lambda a, b: a - b),
}
