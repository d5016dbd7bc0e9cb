"""Folds into convolutions, compared with the original file.

The effect of nodes on a channel is found by computing them in float64, for a channel of zeros and one of ones. The
offset is the result for zeros; the factor is the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison, is_same_attr
from gdsurgeon.compare.intent import Altered, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import string_value
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import FLOAT32, FLOAT64
from gdsurgeon.ops.kinds import ASIDE, COLOCATION_ATTR, STATED_SHAPES
from gdsurgeon.specification.constants import Array, elements
from gdsurgeon.specification.nodes import kept_names

FILTERED = {"Conv2D": 0, "Conv2DBackpropInput": 2, "Conv3D": 0, "DepthwiseConv2dNative": 0, "MatMul": 0}
"""Ops whose input 1 is weights, and the index of the data input."""
_BINARY = frozenset(("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv"))
_UNARY = frozenset(("Identity", "Inv", "Neg", "Reciprocal", "Reshape", "Rsqrt", "Sqrt", "Square"))
_FACTORS = frozenset(("Div", "Mul", "RealDiv"))
_JOINTS = frozenset(("BatchToSpaceND", "ConcatV2"))
"""Ops that move whole channels."""
_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_GLOBAL = "BatchNormWithGlobalNormalization"
_STALE = frozenset((STATED_SHAPES, "_gradient_op_type"))
"""Attrs that describe the outputs or the gradient of the old op."""
_WHERE = frozenset(("padding", "explicit_paddings", "dilations"))
_LONGEST = 64
_ROUNDINGS = 8 * 2.0**-52
"""The relative error of a float64 computation, here and in the edit."""

Pads = tuple[tuple[int, int], tuple[int, int]]


class NotFolded(Exception):
    """A node is not a convolution followed by factors and sums; the message gives the reason."""


class Part:
    """A tensor that a convolution computes, after it and its neighbors were folded.

    Attributes:
        was: the original convolution.
        path: the folded nodes, and the convolution.
        links: the nodes between the convolution and the tensor, and the index of their input from it.

    Args:
        old: the node of the original that computes the tensor.
        new: the node that computes it now.

    Raises:
        NotFolded: it was not computed by a convolution with neighbors, or is not now, with a sum or without.
    """

    def __init__(self, old: Node, new: Node) -> None:
        self.path, self.links = [old], list[tuple[Node, int]]()
        self.sum = [read.node for read in new.inputs[1:]] if new.op == "BiasAdd" else []
        self.new, self.conv = new, new.inputs[0].node if self.sum else new
        shuffled: Node | None = None
        while (at := self.path[-1]).op not in FILTERED:
            slot = 0
            if at.op == "BatchToSpaceND" and shuffled is None:
                shuffled = at
            else:
                slot = _varying(at)
                if shuffled is not None:
                    raise NotFolded("a node is between the convolution and BatchToSpaceND")
                self.links.insert(0, (at, slot))
            self.path.append(at.inputs[slot].node)
            if len(self.path) > _LONGEST:
                raise NotFolded("the path to a convolution is too long")
        self.was = self.path[-1]
        filters = _array(self.was.inputs[1])
        if filters is None:
            raise NotFolded("its weights are not a constant")
        if self.conv.op != self.was.op or len(self.conv.inputs) != len(self.was.inputs):
            raise NotFolded("it is computed by more than a new convolution and a sum")
        self.count, self.axis, self.rank = _channels(self.was, filters)
        self._filters, self._source = filters, self.was.inputs[FILTERED[self.was.op]]
        self._pads: Pads | None = None
        self._gaps: tuple[int, int] | None = None
        if shuffled is not None:
            self._undo_shuffle(shuffled)
        while self._source.name != self.conv.inputs[FILTERED[self.was.op]].name and self._absorbs():
            pass

    def _undo_shuffle(self, shuffled: Node) -> None:
        """Moves the data input to before SpaceToBatchND, and computes the paddings and dilations."""
        conv, there = self.was, self._source.node
        if there.op != "SpaceToBatchND" or _pair(conv, "strides") != (1, 1) or _pair(conv, "dilations") != (1, 1):
            raise NotFolded("only one of SpaceToBatchND and BatchToSpaceND is there")
        block, pad, other, crop = (_integers(read) for read in (*there.inputs[1:], *shuffled.inputs[1:]))
        if len(block) != 2 or block != other or conv.text_attr("padding") != "VALID":
            raise NotFolded("SpaceToBatchND and BatchToSpaceND have different blocks")
        self._pads = ((pad[0] - crop[0], pad[1] - crop[1]), (pad[2] - crop[2], pad[3] - crop[3]))
        self._gaps = (block[0], block[1])
        self.path.append(there)
        self._source = there.inputs[0]

    def _absorbs(self) -> bool:
        """Moves the data input to before a factor or a padding with zeros; returns False if there is neither."""
        node, slot = self._source.node, 0
        if node.op in _FACTORS:
            slot = _varying(node)
            self._filters = self._filters * self._given(node, slot)
        elif node.op in ("Pad", "PadV2") and (self._pads or self.was.text_attr("padding") == "VALID"):
            listed, first = _integers(node.inputs[1]), _first(self.was)
            filler = _array(node.inputs[2]) if node.op == "PadV2" else None
            if (
                len(listed) != 8
                or any(listed[: 2 * first] + listed[2 * first + 4 :])
                or (filler is not None and filler)
            ):
                return False
            top, bottom, left, right = listed[2 * first : 2 * first + 4]
            (a, b), (c, d) = self._pads or ((0, 0), (0, 0))
            self._pads = (a + top, b + bottom), (c + left, d + right)
        else:
            return False
        self.path.append(node)
        self._source = node.inputs[slot]
        return True

    def _given(self, node: Node, slot: int) -> Array:
        """Returns the factors of the channels that the convolution reads, for its weights.

        A convolution of data with a different number of channels does not run.
        """
        value = _array(node.inputs[1 - slot])
        assert value is not None
        rank, axis = self.rank, {"Conv2DBackpropInput": 3, "MatMul": 0}.get(self.was.op, self.rank - 2)
        axis = 1 - axis if self.was.setting("transpose_b") else axis
        along = [*[1] * (rank - value.ndim), *value.shape]
        if value.ndim > rank or value.size not in (1, along[self.axis]) or (node.op != "Mul" and slot):
            raise NotFolded(f"{node.op} does not compute one number per channel")
        if value.size not in (1, self._filters.shape[axis]) or self.was.setting("transpose_a"):
            raise NotFolded(f"{node.op} is for different channels")
        spread = value.reshape([value.size if at == axis else 1 for at in range(rank)])
        return spread if node.op == "Mul" else 1 / spread

    def declare(self, intent: Intent, device: str, *, is_inner: bool) -> tuple[str, list[str], dict[str, bytes | None]]:
        """Adds the new nodes to `intent`; returns the op, the inputs and the attrs of the tensor's node.

        `is_inner`: whether this node is also new.
        """
        was, conv = self.was, self.conv
        inputs = [read.name for read in was.inputs]
        inputs[FILTERED[was.op]], inputs[1] = self._source.name, conv.inputs[1].name
        keys = {*was.attr_keys, *conv.attr_keys} - ASIDE - _WHERE
        attrs = {key: was.attr_bytes(key) for key in keys} | {key: conv.attr_bytes(key) for key in _WHERE}
        weights = [conv.inputs[1].node] if inputs[1] != was.inputs[1].name else []
        for node in (*weights, *self.sum):
            intent.add(node.name, "Const", device=device, attrs={"dtype": was.attr_bytes("T"), "value": None})
        added = {conv.name: (was.op, inputs, attrs)}
        if self.sum:
            is_second = was.text_attr("data_format").startswith("NC")
            second = string_value("NCHW").SerializeToString(deterministic=True) if is_second else None
            sums = [conv.name, *(node.name for node in self.sum)]
            added[self.new.name] = "BiasAdd", sums, {"T": was.attr_bytes("T"), "data_format": second}
        result = added[self.new.name] if is_inner else added.pop(self.new.name)
        for name, (op, reads, settings) in added.items():
            intent.add(name, op, reads, device=device)
            intent.altered += [Altered(name, f"attr {key}", value) for key, value in settings.items()]
        if conv.name in added:
            intent.altered.append(Altered(conv.name, "colocated", tuple(other.name for other in was.colocated)))
        return result

    def faults(self, name: str) -> Iterator[str]:
        """Yields the faults of paddings and dilations, a line each."""
        conv, was = self.conv, self.was
        for key in sorted(_WHERE) if self._pads is None else ():
            if (was.has_attr(key) or conv.has_attr(key)) and not is_same_attr(was, conv, key):
                yield f"{name} is computed by a convolution with a different {quoted(key)}"
        if self._pads is not None and _pair(conv, "dilations") != (self._gaps or _pair(was, "dilations")):
            yield f"{name} is computed by a convolution with different dilations"
        if self._pads is not None and self._pads not in _pads_of(conv, self._filters.shape):
            yield f"{name} is computed by a convolution with different padding"

    def wrong_numbers(self, name: str, effect: Effect) -> Iterator[str]:
        """Compares the weights and offsets, which are rounded once, with those computed in float64."""
        import numpy as np

        zeros, factor, rounding, peak = effect
        weights = _by_channel(self.was, self._filters, factor.reshape(-1))
        slack = _by_channel(self.was, np.abs(self._filters), rounding.reshape(-1))
        read = self.conv.inputs[1]
        precision = float(np.finfo(_kind(read)).eps)
        offset = _array(self.new.inputs[1]) if self.sum else np.zeros(self.count)
        for what, exact, found, allowed in (
            ("weights", weights, _array(read), slack), ("sums", zeros.reshape(-1), offset, peak * 1e-12)
        ):  # fmt: skip
            if found is None or exact.shape != found.shape:
                yield f"{name} has {what} of a different shape"
                continue
            with np.errstate(all="ignore"):
                wrong = ~(np.abs(exact - found) <= np.abs(exact) * precision + allowed)
            if wrong.any():
                differing = f"{int(wrong.sum()):,} of {exact.size:,}"
                yield f"{name} has wrong {what}: {differing} differ from those of the original nodes"


class Effect(NamedTuple):
    """The effect of nodes on channels.

    Attributes:
        zeros: the results for zeros.
        factor: the difference between the results for ones and for zeros.
        rounding: the largest error of `factor`.
        peak: the largest intermediate number.
    """

    zeros: Array
    factor: Array
    rounding: Array
    peak: float

    def after(self, links: Sequence[tuple[Node, int]]) -> Effect:
        """Returns the effect with further nodes, given with the index of their input."""
        import numpy as np

        zeros, factor, rounding, peak = self
        ones = zeros + factor
        with np.errstate(all="ignore"):
            for link, slot in links:
                before = np.abs(ones - zeros)
                others = [None if at == slot else _array(read) for at, read in enumerate(link.inputs)]
                zeros, ones = (_computed(link, [*others[:slot], value, *others[slot + 1 :]]) for value in (zeros, ones))
                peak = max(peak, float(np.abs(zeros).max(initial=0)))
                gain = np.where(before > 0, np.abs(ones - zeros) / np.where(before > 0, before, 1), 0)
                rounding = rounding * gain + np.maximum(np.abs(zeros), np.abs(ones)) * _ROUNDINGS
        if zeros.shape != self.zeros.shape or ones.shape != zeros.shape:
            raise NotFolded("it does not compute one number per channel")
        return Effect(zeros, ones - zeros, rounding, peak)


class Fold:
    """A node that is computed by convolutions with other weights, paddings or dilations.

    Args:
        comparison: of the graphs before and after.
        name: the name of the node.

    Raises:
        NotFolded: it was not computed by convolutions with neighbors, or is not now.
    """

    def __init__(self, comparison: Comparison, name: str) -> None:
        self._before, self._after = comparison.before, comparison.after
        self._old, self._new = comparison.before[name], comparison.after[name]
        self._joint: Node | None = None
        self._path, self._links = list[Node](), list[tuple[Node, int]]()
        if self._new.op in _JOINTS:
            at = self._old
            while at.op != self._new.op:
                slot = _varying(at)
                self._path.append(at)
                self._links.insert(0, (at, slot))
                at = at.inputs[slot].node
            self._joint = at
            self._path.append(at)
            joined = at.inputs[: len(at.inputs) - 1 if at.op == "ConcatV2" else 1]
            self._parts = [Part(old.node, new.node) for old, new in zip(joined, self._new.inputs, strict=False)]
            rank, axis = self._parts[0].rank, self._parts[0].axis
            sizes = _integers(at.inputs[len(joined)])
            is_whole = sizes in ([axis], [axis - rank]) if at.op == "ConcatV2" else len(sizes) < axis
            if not is_whole or {(part.rank, part.axis) for part in self._parts} != {(rank, axis)}:
                raise NotFolded(f"{at.op} does not move whole channels")
        else:
            self._parts = [Part(self._old, self._new)]
        inner = [part.conv for part in self._parts if part.conv is not self._new]
        inner += [part.new for part in self._parts if part.new is not self._new]
        if any(node.name in self._before for node in inner):
            raise NotFolded("it is computed by more than new convolutions and sums")

    def declare(self, intent: Intent) -> None:
        """Adds the changes to `intent`: how the node and the new nodes must be."""
        old, new, joint = self._old, self._new, self._joint
        found = [part.declare(intent, old.device, is_inner=joint is not None) for part in self._parts]
        op, inputs, attrs = found[0]
        if joint is not None:
            op = joint.op
            inputs = [part.new.name for part in self._parts] + [read.name for read in joint.inputs[len(found) :]]
            attrs = {key: joint.attr_bytes(key) for key in joint.attr_keys if key not in ASIDE}
        kept = {key: old.attr_bytes(key) for key in old.attr_keys if key[:1] == "_" and key not in _STALE}
        expected = {**dict.fromkeys((*old.attr_keys, *new.attr_keys)), **kept, **attrs}
        values = {f"attr {key}": value for key, value in expected.items() if key != COLOCATION_ATTR}
        intent.alter(new.name, {"op": op, "inputs": tuple(inputs), **values})

    def _nodes(self) -> list[Node]:
        return [*dict.fromkeys([*self._path, *(node for part in self._parts for node in part.path)])]

    def going(self) -> Iterator[str]:
        """Yields the nodes that this node does not need any more."""
        nodes = self._nodes()
        yield from (node.name for node in nodes if node is not self._old)
        parts = [read for node in nodes for read in node.inputs]
        for read in parts:  # grows while it is walked
            if read.node not in nodes and (_array(read) is not None or read.node.op == "Const"):
                yield read.node.name
                parts += read.node.inputs

    def faults(self) -> Iterator[str]:
        """Yields the faults, a line each. Raises NotFolded."""
        import numpy as np

        nodes, name = self._nodes(), quoted(self._new.name)
        if len({node.device for node in nodes}) > 1:
            yield f"{name} is computed on a different device"
        if any(node.controls for node in nodes):
            yield f"{name} or a node folded into it has control dependencies"
        for node in nodes:
            users = self._before.users(node)
            if node is not self._old and len(users) != 1:
                yield f"{quoted(node.name)} was folded into {name}, but has other consumers"
            if any(read.node is node and read.index for user in users for read in user.inputs):
                yield f"a node with several used outputs was folded into {name}"
        effects: list[Effect] = []
        for part in self._parts:
            yield from part.faults(name)
            weights = _past(part.was.inputs[1])
            if weights.name in self._after and weights.name != _past(part.conv.inputs[1]).name:
                yield f"{quoted(weights.name)} still exists next to the weights computed from it"
            shape = [part.count if place == part.axis else 1 for place in range(part.rank)]
            effects.append(Effect(np.zeros(shape), np.ones(shape), np.zeros(shape), 0.0).after(part.links))
        axis = self._parts[0].axis
        zeros, factor, rounding = (np.concatenate([each[at] for each in effects], axis) for at in (0, 1, 2))
        effect = Effect(zeros, factor, rounding, max(each.peak for each in effects)).after(self._links)
        first = 0
        for part in self._parts:
            channels = range(first, first := first + part.count)
            zeros, factor, rounding = (each.take(channels, axis) for each in effect[:3])
            yield from part.wrong_numbers(name, Effect(zeros, factor, rounding, effect.peak))


def _first(conv: Node) -> int:
    return 2 if conv.text_attr("data_format") == "NCHW" else 1


def _pair(conv: Node, key: str) -> tuple[int, int]:
    values, first = conv.ints_attr(key) or [1, 1, 1, 1], _first(conv)
    return values[first], values[first + 1]


def _pads_of(conv: Node, filters: Sequence[int]) -> list[Pads]:
    """Returns the possible paddings of a convolution; with strides they depend on the size of the input."""
    kind, first = conv.text_attr("padding"), _first(conv)
    if kind == "VALID":
        return [((0, 0), (0, 0))]
    if kind == "EXPLICIT":
        listed = conv.ints_attr("explicit_paddings")
        top, bottom, left, right = listed[2 * first : 2 * first + 4]
        rest = listed[: 2 * first] + listed[2 * first + 4 :]
        return [] if any(rest) else [((top, bottom), (left, right))]
    strides, gaps = _pair(conv, "strides"), _pair(conv, "dilations")
    ways: list[set[tuple[int, int]]] = []
    for axis in (0, 1):
        window = gaps[axis] * (filters[axis] - 1) + 1
        totals = {max(window - last, 0) for last in range(1, strides[axis] + 1)}
        ways.append({(total // 2, total - total // 2) for total in totals})
    return [(one, other) for one in ways[0] for other in ways[1]]


def _varying(node: Node) -> int:
    """Returns the index of the only input that is not a constant. Raises NotFolded."""
    if node.op in (*_NORMS, _GLOBAL, "BiasAdd"):
        return 0
    found = [slot for slot, read in enumerate(node.inputs) if _array(read) is None]
    if node.op not in _BINARY or len(found) != 1:
        raise NotFolded(f"{node.op} is neither a sum nor a factor")
    return found[0]


def _computed(node: Node, given: Sequence[Array | None]) -> Array:
    """Returns the result of a node for the values of its inputs. Raises NotFolded."""
    import numpy as np

    parts = [part for part in given if part is not None]
    if len(parts) < len(given):
        raise NotFolded("one of its inputs is not a constant")
    value, *others = parts
    if node.op in _BINARY:
        operation = {"Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "RealDiv": np.divide}
        out: Array = operation.get(node.op, np.add)(*parts)
        return out
    if node.op == "Reshape":
        return value.reshape(_integers(node.inputs[1]))
    if node.op in _UNARY:
        root = np.sqrt(value) if node.op in ("Rsqrt", "Sqrt") else value
        known = {"Identity": value, "Neg": -value, "Square": value * value, "Sqrt": root}
        return known[node.op] if node.op in known else 1.0 / root
    spread = [1] * value.ndim
    spread[1 if node.text_attr("data_format").startswith("NC") else -1] = -1
    rest = [part.reshape(spread) for part in others[:4]]
    if node.op == "BiasAdd":
        return value + rest[0]
    if node.op == _GLOBAL:
        mean, variance, beta, gamma = rest
        gamma = gamma if node.setting("scale_after_normalization") else np.ones_like(gamma)
        epsilon = node.setting("variance_epsilon")
    else:
        gamma, beta, mean, variance = rest
        epsilon = node.setting("epsilon")
        if node.setting("is_training"):
            raise NotFolded("it has is_training=true")
    if not isinstance(epsilon, float) or (variance + epsilon <= 0).any():
        raise NotFolded("a variance is not above 0")
    normal: Array = gamma * (value - mean) / np.sqrt(variance + epsilon) + beta
    return normal


def _channels(conv: Node, filters: Array) -> tuple[int, int, int]:
    """Returns the number of channels of a convolution's result, their axis, and the rank."""
    if conv.op == "MatMul":
        return filters.shape[0 if conv.setting("transpose_b") else 1], 1, 2
    rank = filters.ndim
    last, other = (int(size) for size in filters.shape[:-3:-1])
    counts = {"DepthwiseConv2dNative": last * other, "Conv2DBackpropInput": other}
    is_second = conv.text_attr("data_format").startswith("NC")
    return counts.get(conv.op, last), 1 if is_second else rank - 1, rank


def _by_channel(conv: Node, filters: Array, factor: Array) -> Array:
    """Returns the weights multiplied by the factor of each channel."""
    if conv.op == "DepthwiseConv2dNative":
        out: Array = (filters.reshape(*filters.shape[:2], -1) * factor).reshape(filters.shape)
    elif conv.op == "Conv2DBackpropInput" or (conv.op == "MatMul" and conv.setting("transpose_b")):
        out = (filters.swapaxes(-1, -2) * factor).swapaxes(-1, -2)
    else:
        out = filters * factor
    return out


# -- constants ------------------------------------------------------------------------------------------------


def _past(read: Output) -> Node:
    """Returns the node whose value `read` forwards."""
    while read.node.op == "Identity" and read.node.inputs:
        read = read.node.inputs[0]
    return read.node


def _kind(read: Output) -> str:
    """Returns the NumPy dtype of a constant of floats."""
    return "float64" if _past(read).plain_attr("dtype") == 2 else "float32"


def _integers(read: Output) -> list[int]:
    node = _past(read)
    if node.op != "Const":
        raise NotFolded("a size is not a constant")
    found = elements(node)
    listed: list[int] = [] if found is None else found.array().reshape(-1).tolist()
    return listed


def _array(read: Output) -> Array | None:
    """Returns the value of an expression of float constants in float64; None if it contains other nodes."""
    import numpy as np

    values: dict[Node, Array | None] = {}
    stack = [read.node]
    while stack:
        node = stack.pop()
        if node in values:
            continue
        parts = [part.node for part in node.inputs] if node.op in _BINARY | _UNARY else []
        parts = parts[:1] if node.op == "Reshape" else parts
        ahead = [part for part in parts if part not in values]
        if len(values) + len(stack) > _LONGEST:
            return None
        if ahead:
            stack += [node, *ahead]
            continue
        inner = [values[part] for part in parts]
        if not inner or any(part is None for part in inner):
            values[node] = _held(node) if node.op == "Const" and not node.controls else None
        else:
            with np.errstate(all="ignore"):
                values[node] = _computed(node, inner)
    return values[read.node] if not read.index else None


def _held(node: Node) -> Array | None:
    """Returns the elements of a constant of floats."""
    found = elements(node)
    return found.array().astype("float64") if found is not None and found.dtype in (FLOAT32, FLOAT64) else None


def fold_batch_norms(comparison: Comparison, outputs: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    facts = comparison.facts
    intent, going = Intent(), dict[str, None]()
    for name in dict.fromkeys([*facts.altered, *(slot.node for slot in facts.rewired)]):
        try:
            fold = Fold(comparison, name)
            yield from fold.faults()
        except NotFolded as why:
            yield f"{quoted(name)} was changed, but is not a convolution with folded neighbors: {why}"
            continue
        fold.declare(intent)
        going |= dict.fromkeys(fold.going())
    named = kept_names(comparison.before, outputs)
    for name in facts.removed:
        if name in going and name not in named and any(True for _ in comparison.before.users(comparison.before[name])):
            intent.removed.append(name)
    yield from audit(comparison, intent)
