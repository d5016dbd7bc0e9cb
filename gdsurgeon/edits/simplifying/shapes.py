"""Nodes that return their input, given known shapes: a Reshape to the same shape, a Slice of all, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.edits.simplifying.graph_view import BITS, GraphView
from gdsurgeon.edits.simplifying.rules import Match
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.ops.kinds import RESHAPES
from gdsurgeon.patterns.exact import rules_by_op


def may_refuse(view: GraphView, shapes: Shapes, number: int) -> bool:
    """Returns whether a Reshape to constant dims fails for some inputs of the known shape."""
    wanted, top = dims_of(view, shapes, number), view.topology
    return wanted is not None and reshape_may_refuse(shapes.shape(top.tensor(view.data(number)[0])), wanted)


def dims_of(view: GraphView, shapes: Shapes, number: int) -> list[int] | None:
    """Returns the dims of a Reshape; None for other ops and for computed dims."""
    reads, top = view.data(number), view.topology
    known = shapes.value(top.tensor(reads[1])) if top.op(number) == "Reshape" and len(reads) > 1 else None
    dims = [dim for dim in known or () if dim is not None]
    return dims if known is not None and len(dims) == len(known) else None


def reshape_may_refuse(given: Shape, wanted: Sequence[int]) -> bool:
    """Returns whether a Reshape to `wanted` (-1: inferred) fails for some tensors of the shape `given`."""
    known = prod(dim for dim in wanted if dim >= 0)
    if -1 in wanted and known == 1:
        return False
    if given is None or not known:
        return True
    count = prod(dim for dim in given if dim >= 0)
    if -1 in wanted:
        return count % known != 0
    return min(given, default=0) < 0 or count != known


def refuses_as_much(outer: Sequence[int], inner: Sequence[int]) -> bool:
    """Returns whether a Reshape to `outer` fails for all numbers of elements for which one to `inner` fails."""
    known, wanted = (prod(dim for dim in dims if dim >= 0) for dims in (inner, outer))
    if -1 in inner:
        return known > 0 and wanted % known == 0
    return -1 not in outer and wanted == known


MOST_STEPS = 64
"""The largest number of Reshape nodes in a sequence that are examined."""


def dropout(view: GraphView) -> None:
    """Removes nodes that drop elements with probability 0."""
    if "RandomUniform" not in view.topology.ops():
        return
    rules, shapes = rules_by_op(["dropout"]), view.shapes()
    for number in view.with_ops(rules):
        for rule in rules[view.ops[number]]:
            match = Match(view, rule)
            source = match.kept(number)
            if source is None or not _is_as_large(view, shapes, number, match):
                continue
            if view.replace_all_uses(number, source, match.others):
                view.moved[number] = view.now(source)
                view.idle.append(match.nodes["draw"])
                break
    view.commit("dropout")


def same_shape(view: GraphView) -> None:
    """Removes nodes that return their input, given known shapes."""
    rules, shapes = rules_by_op(["same-shape"]), view.shapes()
    for number in view.dirty_nodes("same-shape", rules.keys() | RESHAPES, reach=2, through=RESHAPES):
        source, others = None, view.data(number)
        if others and view.ops[number] in RESHAPES:
            source, others = _reshaped(view, shapes, number)
        elif others and Match(view, rules[view.ops[number]][0]).kept(number) is not None:
            first, *others = others
            source = first if _is_whole(view, shapes, number) else None
        if source is not None and view.replace_all_uses(number, source, others):
            view.moved[number] = view.now(source)
    view.commit("same-shape")


def _is_as_large(view: GraphView, shapes: Shapes, number: int, match: Match) -> bool:
    """Returns whether the product of a mask and the kept tensor has the shape of the kept tensor."""
    kept, shape = match.tensors["x"], match.tensors["shape"] >> BITS
    if view.ops[number] == "Mul" and view.ops[shape] == "Shape" and view.data(shape) == [kept]:
        return True
    known, now = (shapes.shape(view.topology.tensor(code)) for code in (kept, number << BITS))
    return known is not None and known == now and min(known, default=0) >= 0


def _reshaped(view: GraphView, shapes: Shapes, number: int) -> tuple[int | None, list[int]]:
    """Returns the first tensor of a sequence of Reshape nodes that has the shape of the result, and the codes of the
    other tensors that the nodes after it read.
    """
    top, result = view.topology, shapes.shape(view.topology.tensor(number << BITS))
    code, *passed = view.data(number)
    found, others = None, list(passed)
    if _may_refuse(view, shapes, number):
        return None, others
    for _ in range(MOST_STEPS):
        if _is_same_count(shapes.shape(top.tensor(code)), result):
            found, others = code, list(passed)
        number = code >> BITS
        if top.op(number) not in RESHAPES or number in view.waiting or _may_refuse(view, shapes, number):
            break
        above = view.data(number)
        if not above or not all(view.pure_cone[other >> BITS] for other in above[1:]):
            break
        passed += above[1:]
        code = above[0]
    return found, others


def _may_refuse(view: GraphView, shapes: Shapes, number: int) -> bool:
    """Returns whether a Reshape or EnsureShape fails for some inputs."""
    top = view.topology
    if top.op(number) != "EnsureShape":
        return may_refuse(view, shapes, number)
    given, value = shapes.shape(top.tensor(view.data(number)[0])), top.node(number).attr("shape")
    wanted = shape_of(value.shape) if value is not None else None
    if wanted is None:
        return False
    if given is None or len(given) != len(wanted):
        return True
    return any(dim not in (-1, known) for known, dim in zip(given, wanted, strict=True))


def _is_same_count(a: Shape, b: Shape) -> bool:
    """Returns whether two shapes with the same number of elements are equal: at most one dim is unknown."""
    if a is None or b is None or len(a) != len(b):
        return False
    unknown = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x < 0 or y < 0]
    if len(unknown) > 1 or any(x != y for i, (x, y) in enumerate(zip(a, b, strict=True)) if i not in unknown):
        return False
    return not unknown or prod(x for i, x in enumerate(a) if i != unknown[0]) > 0


def _is_whole(view: GraphView, shapes: Shapes, number: int) -> bool:
    """Returns whether a slice, a reduction or a BroadcastTo has the shape of its input."""
    node, reads = view.topology.node(number), [view.topology.tensor(code) for code in view.data(number)]
    source, result = shapes.shape(reads[0]), shapes.shape(node.output)
    if source is None:
        return False
    if node.op == "Slice":
        size = shapes.value(reads[2]) or ()
        return len(size) == len(source) and all(n == -1 or n == dim >= 0 for n, dim in zip(size, source, strict=True))
    if node.op != "StridedSlice":
        return result == tuple(source) and min(source, default=0) >= 0
    begin, end, count = node.setting("begin_mask"), node.setting("end_mask"), len(shapes.value(reads[3]) or ())
    if not (count and isinstance(begin, int) and isinstance(end, int)) or result is None or len(result) != len(source):
        return False
    masked = [at >= count or bool(begin & end & 1 << at) for at in range(len(source))]
    return all(is_all or dim == now >= 0 for is_all, dim, now in zip(masked, source, result, strict=True))
