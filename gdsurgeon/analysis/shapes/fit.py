"""Whether a graph accepts different input shapes: constants that do not fit, and Reshapes that can be fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import UNKNOWN, Call, Value, as_dims, compatible, count, known_product
from gdsurgeon.analysis.shapes.array_rules import format_target
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.errors import Json, Remark, printable, quoted
from gdsurgeon.graph.attrs import Shape, format_shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node

BATCH_FACTOR, FACTOR = 2, 3
"""An unknown dim is tried at this multiple of its old size; the batch has its own factor, to distinguish it."""
BATCH, SIZE = 2, 96
"""A dim that is unknown in both the old and the new shape is tried at this size."""


class Fix(NamedTuple):
    """A Reshape whose constant shape `old` contains a batch size.

    `new` is the shape for any batch size; `got` is the shape of the new input.
    """

    node: Node
    old: tuple[int, ...]
    new: tuple[int, ...]
    got: tuple[int, ...]


class Fit(NamedTuple):
    """The result of new input shapes.

    Attributes:
        tried: for each input the shape that was tried.
        misfits: the nodes that do not accept the new shapes, one remark each; its facts name the node and op.
        fixes: the Reshapes in which only the batch size does not fit.
        warnings: the nodes that run but perhaps not as intended, one line each.
    """

    tried: dict[Node, Shape]
    misfits: list[Remark]
    fixes: list[Fix]
    warnings: list[str]


def trial_shape(old: Shape, new: Shape) -> Shape:
    """Returns a shape that `new` allows, to be tried instead of it.

    A dim that becomes unknown gets a multiple of its old size; a dim that was unknown stays unknown. If the graph fits
    at both sizes, no constant prevents the change. If the input shape was unknown, a batch size other than 1 is tried.
    """
    if old is None and new and new[0] < 0:
        return (BATCH, *new[1:])
    if new is None or old is None or len(old) != len(new):
        return new
    factors = [BATCH_FACTOR] + [FACTOR] * len(new)
    return tuple(
        dim if dim >= 0 or before < 0 else max(before, 1) * factor
        for before, dim, factor in zip(old, new, factors, strict=False)
    )


def fit(graph: Graph, old: Mapping[Node, Shape], new: Mapping[Node, Shape]) -> Fit:
    """Infers the shapes with `old` and with `new` input shapes, and checks whether the constants fit the new shapes.

    A node with a conflict at the old shapes is not reported. Functions, and values that return in v1 while loops, are
    not followed. Linear in the size of the graph.
    """
    tried = {node: trial_shape(old[node], shape) for node, shape in new.items()}
    stated = infer_shapes(graph)
    is_open = any(shape is None or UNKNOWN in shape[1:] for shape in new.values())
    found = _fit(graph, stated, old, tried, is_open)
    # Infer again with sizes for dims that are unknown in both: values computed from shapes are then known.
    filled = {node: _filled(old[node], shape) for node, shape in tried.items()}
    if any(after != tried[node] for node, (_, after) in filled.items()):
        old_filled = {node: before for node, (before, _) in filled.items()}
        before = infer_shapes(graph, {node.output: shape for node, shape in old_filled.items()})
        new_filled = {node: after for node, (_, after) in filled.items()}
        found = _joined(found, _fit(graph, before, old_filled, new_filled, is_open))
    return found._replace(misfits=[*_defaults(stated, new), *found.misfits])


def _fit(graph: Graph, before: Shapes, old: Mapping[Node, Shape], new: dict[Node, Shape], is_open: bool) -> Fit:
    """Returns the conflicts with the input shapes `new` that did not exist with `old`; `before`: from `old`."""
    fitting = _Fitting(before, [(old[node], shape) for node, shape in new.items()], is_open)
    given = {node.output: shape for node, shape in new.items()}
    after = infer_shapes(graph, given, settle=fitting.settle)
    excused = {conflict.node for conflict in before.conflicts}
    misfits = [misfit(node, text) for node, text in after.conflicts if node not in excused]
    return Fit(new, misfits, fitting.fixes, fitting.warnings)


def _filled(old: Shape, new: Shape) -> tuple[Shape, Shape]:
    """Returns `old` and `new` with a size for each dim that is unknown in both."""
    if old is None or new is None or len(old) != len(new):
        return old, new
    sizes = [BATCH] + [SIZE] * len(new)
    pairs = [(n, n) if a < 0 and b < 0 else (a, b) for a, b, n in zip(old, new, sizes, strict=False)]
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _joined(first: Fit, second: Fit) -> Fit:
    """Returns the results of both, each node once; `first` has priority."""
    known = {remark.facts["node"] for remark in first.misfits} | {item.node.name for item in first.fixes}
    misfits = [remark for remark in second.misfits if remark.facts["node"] not in known]
    fixes = [item for item in second.fixes if item.node.name not in known]
    # A replacement for a -1 would depend on a size that was only tried.
    misfits += [misfit(item.node, baked_batch(item.old, item.got)) for item in fixes if -1 in item.old]
    fixes = [item for item in fixes if -1 not in item.old]
    return Fit(
        second.tried if misfits or fixes else first.tried,
        first.misfits + misfits,
        first.fixes + fixes,
        list(dict.fromkeys((*first.warnings, *second.warnings))),
    )


def misfit(node: Node, text: str) -> Remark:
    """Returns the remark `text`, which describes a misfit, with `node` added to its text and facts."""
    assert isinstance(text, Remark)
    return Remark(f"{_shown(node)}: {text}", text.code, node=node.name, op=node.op, **text.facts)


def _defaults(before: Shapes, new: Mapping[Node, Shape]) -> list[Remark]:
    """Returns a remark for each input whose default does not fit its new shape."""
    out: list[Remark] = []
    for node, shape in new.items():
        default = before.shape(node.inputs[0]) if node.op == "PlaceholderWithDefault" and node.inputs else None
        if not compatible(default, shape):
            text = (
                f"its default has the shape {format_shape(default)}, which does not fit its new shape "
                f"{format_shape(shape)}"
            )
            out.append(misfit(node, Remark(text, "wrong-default", shape=default)))
    return out


def _shown(node: Node) -> str:
    return f"{quoted(node.name)} ({printable(node.op)})"


class _Fitting:
    """Examines each node as its new shapes are inferred. A conflict is reported once: later nodes see it as fixed.

    Args:
        before: the old shapes.
        inputs: the old and the new shape of each input.
        is_open: whether dims of the new shapes other than the batch are unknown, so that their sizes are only tried.
    """

    def __init__(self, before: Shapes, inputs: Iterable[tuple[Shape, Shape]], is_open: bool) -> None:
        self.before = before
        self.is_open = is_open
        self.batches = {
            (UNKNOWN if a is None else a[0], b[0])
            for a, b in inputs
            if b and (a is None or len(a) == len(b)) and b[0] >= 0 and (a is None or a[0] != b[0])
        }
        self.fixes: list[Fix] = []
        self.warnings: list[str] = []

    def settle(self, call: Call, shapes: Sequence[Shape], text: str | None) -> tuple[Sequence[Shape], str | None]:
        if call.op == "Reshape" and len(call.shapes) == 2:
            return self._reshape(call, shapes, text)
        if call.op in ("Slice", "StridedSlice") and text is None:
            self._cut(call, shapes)
        return shapes, None if text is None else self._with_unmoved(call, text)

    def _with_unmoved(self, call: Call, text: str) -> Remark:
        """Returns `text` with up to three inputs that kept their shape, unless all did.

        Inputs with known values, such as axes, do not count.
        """
        found = zip(call.node.inputs, call.shapes, call.values, strict=False)
        reads = [(read, shape) for read, shape, value in found if shape and value is None]
        same = [(read, shape) for read, shape in reads if self.before.shape(read) == shape]
        same = same[:3] if len(same) < len(reads) else []
        names = [f"{quoted(read.name)} still has the shape {format_shape(shape)}" for read, shape in same]
        more = f"; {', '.join(names)}" if names else ""
        unmoved = [read.name for read, _ in same]
        return Remark(text + more, "shape-mismatch", shapes=list(call.shapes), unmoved=unmoved)

    # -- Reshape ------------------------------------------------------------------------------------------------

    def _reshape(self, call: Call, shapes: Sequence[Shape], text: str | None) -> tuple[Sequence[Shape], str | None]:
        target, new = call.value(1), call.shape(0)
        old = self.before.shape(call.node.inputs[0])
        if target is None or self.before.value(call.node.inputs[1]) != target:
            return shapes, text  # not constant: the target changes with the input
        if text is not None:
            line = f"its shape {format_target(target)} cannot hold {format_shape(new)}{_elements(new)}"
            text = Remark(line, "wrong-size", target=target, shape=new)
        if old is None and new:
            old = (UNKNOWN,) * len(new)
        if not target or not old or not new or len(old) != len(new):
            return shapes, text
        lead, row = self._scaled_lead(old, new, target), _row(target)
        if lead is not None and text is None and -1 in target and count(new[1:]) == row:
            # The dims after the -1 are one row, so the -1 is the number of rows. That may be intended or not.
            shown = f"{_shown(call.node)} reshapes {format_shape(new)} with its shape {format_target(target)} to"
            out = shapes[0] if shapes else None
            made: dict[str, Json] = {"node": call.node.name, "target": target, "shape": new, "found": out}
            self.warnings.append(Remark(f"{shown} {format_shape(out)}", "batch-absorbed", **made))
        elif lead is not None:
            return self._baked_batch(call, lead, target, old, new)
        if target[0] == -1 and row > 1 and count(old[1:]) == row and (count(new[1:]) or row) != row:
            line = (
                f"its shape {format_target(target)} is for rows of {row:,} elements, but those of "
                f"{format_shape(new)} have "
            )
            facts: dict[str, Json] = {"target": target, "shape": new, "expected": row, "found": count(new[1:])}
            return [(new[0], *as_dims(target[1:]))], Remark(f"{line}{count(new[1:]):,}", "baked-row", **facts)
        return shapes, text

    def _scaled_lead(self, old: tuple[int, ...], new: tuple[int, ...], target: tuple[int | None, ...]) -> int | None:
        """Returns the required first dim of a Reshape's target if it contains the batch size; else None.

        The target contains the batch size if the first dim of the reshaped tensor scales with the batch, and the first
        dim of the target scales too: in row-major order both count the same rows.
        """
        lead = target[0]
        if lead is None or lead < 0 or old[0] == new[0]:
            return None
        for a, b in self.batches:
            if a < 0:
                scaled = new[0] if old[0] < 0 and new[0] == b else None
            else:
                scaled = lead * b // a if a and old[0] * b == new[0] * a and not lead * b % a else None
            if scaled is None or scaled == lead:
                continue
            return scaled
        return None

    def _baked_batch(
        self, call: Call, lead: int, target: tuple[int | None, ...], old: tuple[int, ...], new: tuple[int, ...]
    ) -> tuple[Sequence[Shape], str | None]:
        rest = list(target[1:])
        total, rows = count(new), lead * known_product(as_dims(rest))
        # The replacement for a -1 must not depend on a size that was only tried.
        is_definite = not self.is_open or new[1:] == old[1:]
        if rest.count(-1) == 1 and None not in rest and total is not None and rows and not total % rows and is_definite:
            rest[rest.index(-1)] = total // rows
        dims = as_dims(rest)
        out = (lead, *dims)
        if UNKNOWN in dims or total != known_product(out):
            return [out], baked_batch(target, new, _elements(new))
        self.fixes.append(Fix(call.node, tuple(dim for dim in target if dim is not None), (-1, *dims), new))
        return [out], None

    # -- Slice, StridedSlice -------------------------------------------------------------------------------------

    def _cut(self, call: Call, shapes: Sequence[Shape]) -> None:
        """Adds a warning for a slice with constant bounds that read all of a dim and now reads only a part of it."""
        node = call.node
        reads = list(zip(node.inputs, call.values, strict=False))
        if any(self.before.value(read) != value for read, value in reads[1:]):
            return
        old_in, old_out = self.before.shape(node.inputs[0]), self.before.shape(node.output)
        new_in, new_out = call.shape(0), shapes[0] if shapes else None
        if old_in is None or new_in is None or old_out is None or new_out is None:
            return
        if len({len(shape) for shape in (old_in, new_in, old_out, new_out)}) == 1:
            for axis, (a, b, c, d) in enumerate(zip(old_in, old_out, new_in, new_out, strict=True)):
                if a == b and a >= 0 and b == d and d < c:
                    text = f"read all {a} along axis {axis} of its input, but now reads only {d} of {c}"
                    facts: dict[str, Json] = {"node": node.name, "axis": axis, "took": a, "takes": d, "size": c}
                    self.warnings.append(Remark(f"{_shown(node)} {text}", "cuts-off", **facts))
        elif (old_in[0], new_in[0]) in self.batches and old_in[0] == 1 and self._takes_one(call, len(old_in)):
            text = f"{_shown(node)} reads only one element of the batch of {new_in[0]}; the others are lost"
            self.warnings.append(Remark(text, "takes-one", node=node.name, size=new_in[0]))

    @staticmethod
    def _takes_one(call: Call, rank: int) -> bool:
        """Returns whether the node is a StridedSlice that reads one element along axis 0."""
        if call.op != "StridedSlice" or not rank:
            return False
        shrink, ellipsis, new_axis = (call.number(f"{key}_mask") for key in ("shrink_axis", "ellipsis", "new_axis"))
        return bool(shrink & 1 and not (ellipsis | new_axis) & 1)


def baked_batch(target: Value, new: Shape, more: str = "") -> Remark:
    """Returns the remark that a Reshape to `target` contains the batch size but gets the input shape `new`.

    `more` is text that is appended.
    """
    text = f"its shape {format_target(target)} contains the batch size, but its new input is {format_shape(new)}{more}"
    return Remark(text, "baked-batch", target=target, shape=new)


def _row(target: Value) -> int:
    """Returns the product of the dims of `target` after the first, without any -1; 0 if one of them is unknown."""
    rest = (target or ())[1:]
    return 0 if None in rest else known_product(as_dims(rest))


def _elements(shape: Shape) -> str:
    found = count(shape)
    return f": {found:,} elements" if found is not None else ""
