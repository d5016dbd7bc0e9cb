"""Nodes that return their input, given known shapes: a Reshape to the same shape, a Slice of all, dropout."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from math import prod
from typing import NamedTuple

from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.edits.simplifying.graph_view import BITS, CONTROL, REDUCTIONS, GraphView
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import RESHAPES, SUMS


def may_refuse(view: GraphView, shapes: Shapes, number: int) -> bool:
    """Returns whether a Reshape to constant dims fails for some inputs of the known shape."""
    reads = view.data(number)
    wanted = dims_of(view, shapes, number)
    return wanted is not None and reshape_may_refuse(shape_of_tensor(view, shapes, reads[0]), wanted)


def dims_of(view: GraphView, shapes: Shapes, number: int) -> list[int] | None:
    """Returns the dims of a Reshape; None for other ops and for computed dims."""
    reads = view.data(number)
    if view.topology.op(number) != "Reshape" or len(reads) < 2:
        return None
    known = shapes.value(_output(view, reads[1]))
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


def shape_of_tensor(view: GraphView, shapes: Shapes, code: int) -> Shape:
    """Returns the known shape of a tensor."""
    return shapes.shape(_output(view, code))


def _output(view: GraphView, code: int) -> Output:
    return Output(view.topology.node(code >> BITS), code & CONTROL)


OPS = frozenset(("Mul", "Select", "SelectV2"))
"""Ops that drop elements."""
DRAWS = "RandomUniform"
MOST_SUMS = 4
"""The largest number of sums between the random values and the comparison."""


class Mask(NamedTuple):
    """A mask that keeps all elements: the kept tensor, the random node, and the codes of other tensors that
    are read.
    """

    kept: int
    drawing: int
    others: tuple[int, ...]


def keeps_all(view: GraphView, number: int) -> Mask | None:
    """Returns the mask of a node that drops elements with probability 0; otherwise None.

    Version 1 is ``x * floor(uniform + 1)``; version 2 is ``x * cast(uniform >= 0)``, or a Select. The uniform values
    are at least 0 and below 1.
    """
    reads = view.data(number)
    if view.topology.op(number) != "Mul":
        drawing = _always(view, reads[0]) if len(reads) == 3 else None
        return None if drawing is None else Mask(reads[1], drawing, (reads[2],))
    for slot, code in enumerate(reads):
        drawing = _ones(view, code)
        if drawing is not None:
            return Mask(reads[1 - slot], drawing, ())
    return None


def _ones(view: GraphView, code: int) -> int | None:
    """Returns the random node upstream of a tensor whose elements are all 1; otherwise None."""
    number = code >> BITS
    reads = view.data(number)
    if len(reads) != 1 or number in view.waiting:
        return None
    if view.topology.op(number) == "Cast":
        return _always(view, reads[0])
    if view.topology.op(number) != "Floor" or view.topology.op(reads[0] >> BITS) not in SUMS:
        return None
    return _uniform(view, reads[0], 1)


def _always(view: GraphView, code: int) -> int | None:
    """Returns the random node upstream of a tensor whose elements are all true; otherwise None."""
    number = code >> BITS
    reads = view.data(number)
    if view.topology.op(number) != "GreaterEqual" or len(reads) != 2 or number in view.waiting:
        return None
    least = _number(view, reads[1])
    return _uniform(view, reads[0], 0) if least is not None and least <= 0 else None


def _uniform(view: GraphView, code: int, plus: float) -> int | None:
    """Returns the random node of a tensor of uniform values plus `plus`; otherwise None."""
    added = 0.0
    for _ in range(MOST_SUMS):
        number = code >> BITS
        if number in view.waiting:
            break
        op, reads = view.topology.op(number), view.data(number)
        if op == DRAWS:
            return number if added == plus else None
        numbers = [_number(view, other) for other in reads] if op in SUMS else []
        slot = next((slot for slot, found in enumerate(numbers) if found in (0, 1)), None)
        if slot is None:
            break
        added += numbers[slot] or 0
        code = reads[1 - slot]
    return None


def _number(view: GraphView, code: int) -> float | None:
    """Returns the value of a scalar constant of floats; otherwise None."""
    value = view.constant(code)
    found = value.values[0] if value is not None and not value.shape else None
    return found if isinstance(found, float) else None


MOST_STEPS = 64
"""The largest number of Reshape nodes in a sequence that are examined."""


class Passed(NamedTuple):
    """The result of the pass.

    Attributes:
        moved: for each removed tensor, the tensor that replaces it.
        idle: nodes whose random values are not used any more.
    """

    moved: dict[str, str]
    idle: list[str]


def same_shape(view: GraphView, shapes: Shapes, passes: Container[str]) -> Passed:
    """Removes nodes that return their input, given known shapes; `passes` are the chosen passes."""
    found: dict[int, int] = {}
    idle: list[int] = []
    for number in view.with_ops(OPS) if "dropout" in passes and DRAWS in view.topology.ops() else ():
        mask = keeps_all(view, number)
        if mask is None or not _is_as_large(view, shapes, number, mask):
            continue
        if view.replace_all_uses(number, mask.kept, mask.others):
            found[number] = mask.kept
            idle.append(mask.drawing)
    passed_by = RULES.keys() | RESHAPES if "same-shape" in passes else ()
    for number in view.dirty_nodes("same-shape", passed_by, reach=2, through=RESHAPES):
        reads = view.data(number)
        if not reads:
            continue
        looked = _Looked(view, shapes, number, reads)
        source = _reshaped(looked) if view.topology.op(number) in RESHAPES else _neutral(looked)
        if source is not None and view.replace_all_uses(number, source, looked.others):
            found[number] = source
    moved = {view.topology.name(number): _spelt(view, view.now(source)) for number, source in found.items()}
    view.commit("same-shape")
    return Passed(moved, [view.topology.name(number) for number in idle])


def _is_as_large(view: GraphView, shapes: Shapes, number: int, mask: Mask) -> bool:
    """Returns whether the product of a mask and the kept tensor has the shape of the kept tensor."""
    drawing = view.data(mask.drawing)
    if not drawing or mask.drawing in view.waiting or not view.pure_cone[drawing[0] >> BITS]:
        return False
    kept, now = (shape_of_tensor(view, shapes, code) for code in (mask.kept, number << BITS))
    source = drawing[0] >> BITS
    is_its_own = view.topology.op(source) == "Shape" and view.data(source) == [mask.kept]
    if is_its_own and view.topology.op(number) == "Mul":
        return True
    return kept is not None and kept == now and min(kept, default=0) >= 0


def _spelt(view: GraphView, code: int) -> str:
    return Output(view.topology.node(code >> BITS), code & CONTROL).name


class _Looked:
    """A node with the known facts about its inputs.

    Attributes:
        node, reads: the node, and the codes of its inputs.
        others: the codes of further tensors that the node, or a node before it in the sequence, reads.
    """

    def __init__(self, view: GraphView, shapes: Shapes, number: int, reads: Sequence[int]) -> None:
        self.view, self.shapes, self.number, self.reads = view, shapes, number, reads
        self.node: Node = view.topology.node(number)
        self.others = list(reads[1:])

    def shape(self, code: int) -> Shape:
        """Returns the known shape of a tensor."""
        return shape_of_tensor(self.view, self.shapes, code)

    def value(self, slot: int) -> tuple[int | None, ...]:
        """Returns the known elements of an input; () if they are unknown."""
        if slot >= len(self.reads):
            return ()
        code = self.reads[slot]
        return self.shapes.value(Output(self.view.topology.node(code >> BITS), code & CONTROL)) or ()

    @property
    def result(self) -> Shape:
        """The known shape of the output."""
        return self.shapes.shape(self.node.output)


def _reshaped(looked: _Looked) -> int | None:
    """Returns the first tensor of a sequence of Reshape nodes that has the shape of the result."""
    view, result = looked.view, looked.result
    code, found = looked.reads[0], None
    if _may_refuse(looked, looked.number):
        return None
    others, passed = list(looked.others), list(looked.others)
    for _ in range(MOST_STEPS):
        if _is_same_count(looked.shape(code), result):
            found, others = code, list(passed)
        number = code >> BITS
        if view.topology.op(number) not in RESHAPES or number in view.waiting or _may_refuse(looked, number):
            break
        above = view.data(number)
        if not above or not all(view.pure_cone[other >> BITS] for other in above[1:]):
            break
        passed += above[1:]
        code = above[0]
    looked.others = others
    return found


def _may_refuse(looked: _Looked, number: int) -> bool:
    """Returns whether a Reshape or EnsureShape fails for some inputs."""
    if looked.view.topology.op(number) != "EnsureShape":
        return may_refuse(looked.view, looked.shapes, number)
    given = looked.shape(looked.view.data(number)[0])
    value = looked.view.topology.node(number).attr("shape")
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


def _neutral(looked: _Looked) -> int | None:
    source = looked.shape(looked.reads[0])
    if source is None:
        return None
    return looked.reads[0] if RULES[looked.node.op](looked, source) else None


def _is_known(looked: _Looked, source: Sequence[int]) -> bool:
    """Returns whether both shapes are known and equal."""
    return looked.result == tuple(source) and min(source, default=0) >= 0


def _whole_slice(looked: _Looked, source: Sequence[int]) -> bool:
    begin, size = looked.value(1), looked.value(2)
    if len(begin) != len(source) or len(size) != len(source):
        return False
    is_all = all(item == -1 or (item == dim and dim >= 0) for item, dim in zip(size, source, strict=True))
    return is_all and all(item == 0 for item in begin)


def _whole_strided_slice(looked: _Looked, source: Sequence[int]) -> bool:
    """A StridedSlice with steps of 1 from the beginning to the end of each dim."""
    masks = {key: looked.node.setting(f"{key}_mask") for key in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    steps = looked.value(3)
    if masks["ellipsis"] or masks["new_axis"] or masks["shrink_axis"] or any(step != 1 for step in steps) or not steps:
        return False
    result = looked.result
    if result is None or len(result) != len(source):
        return False
    begin, end = (bits if isinstance(bits, int) else 0 for bits in (masks["begin"], masks["end"]))
    for at, (dim, now) in enumerate(zip(source, result, strict=True)):
        is_whole = at >= len(steps) or (begin >> at & 1 and end >> at & 1)
        if not is_whole and not (dim == now and dim >= 0):
            return False
    return True


_Rule = Callable[[_Looked, Sequence[int]], bool]
RULES: dict[str, _Rule] = {
    "BroadcastTo": _is_known,
    "Slice": _whole_slice,
    "StridedSlice": _whole_strided_slice,
    **dict.fromkeys(REDUCTIONS, _is_known),
}
"""For each op, whether it returns its first input, whose shape is given."""
