"""What changes no shape and no element, as far as shapes are known: a Reshape to what there is, a Slice of all."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from math import prod
from typing import NamedTuple

from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.edits.simplifying.draft import BITS, CONTROL, Draft
from gdsurgeon.edits.simplifying.dropout import DRAWS, OPS, Mask, keeps_all
from gdsurgeon.edits.simplifying.neutral import REDUCTIONS
from gdsurgeon.edits.simplifying.refusing import may_refuse, shape_of_tensor
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import RESHAPES

MOST_STEPS = 64
"""How many Reshapes and the like one looks through."""


class Passed(NamedTuple):
    """What was passed by.

    Attributes:
        moved: the tensors, each with what is read instead.
        idle: nodes that have drawn for what dropped nothing.
    """

    moved: dict[str, str]
    idle: list[str]


def same_shape(draft: Draft, shapes: Shapes, passes: Container[str]) -> Passed:
    """Has those who read what gives what it reads read that, by those of PASSES that need shapes."""
    found: dict[int, int] = {}
    idle: list[int] = []
    for number in draft.with_ops(OPS) if "dropout" in passes and DRAWS in draft.topology.ops() else ():
        mask = keeps_all(draft, number)
        if mask is None or not _is_as_large(draft, shapes, number, mask):
            continue
        if draft.bypass(number, mask.kept, mask.beside):
            found[number] = mask.kept
            idle.append(mask.drawing)
    passed_by = RULES.keys() | RESHAPES if "same-shape" in passes else ()
    for number in draft.again("same-shape", passed_by, reach=2, through=RESHAPES):
        reads = draft.data(number)
        if not reads:
            continue
        looked = _Looked(draft, shapes, number, reads)
        source = _reshaped(looked) if draft.topology.op(number) in RESHAPES else _neutral(looked)
        if source is not None and draft.bypass(number, source, looked.beside):
            found[number] = source
    moved = {draft.topology.name(number): _spelt(draft, draft.now(source)) for number, source in found.items()}
    draft.settle("same-shape")
    return Passed(moved, [draft.topology.name(number) for number in idle])


def _is_as_large(draft: Draft, shapes: Shapes, number: int, mask: Mask) -> bool:
    """Whether what comes of a mask and of what it keeps has the shape of that."""
    drawing = draft.data(mask.drawing)
    if not drawing or draft.has_controls(mask.drawing) or not draft.harmless[drawing[0] >> BITS]:
        return False
    kept, now = (shape_of_tensor(draft, shapes, code) for code in (mask.kept, number << BITS))
    source = drawing[0] >> BITS
    is_its_own = draft.topology.op(source) == "Shape" and draft.data(source) == [mask.kept]
    if is_its_own and draft.topology.op(number) == "Mul":
        return True
    return kept is not None and kept == now and min(kept, default=0) >= 0


def _spelt(draft: Draft, code: int) -> str:
    return Output(draft.topology.node(code >> BITS), code & CONTROL).name


class _Looked:
    """A node with what is known of what it reads.

    Attributes:
        node, reads: the node, and the codes of what it reads.
        beside: the codes of what it, and what was looked through, reads besides.
    """

    def __init__(self, draft: Draft, shapes: Shapes, number: int, reads: Sequence[int]) -> None:
        self.draft, self.shapes, self.number, self.reads = draft, shapes, number, reads
        self.node: Node = draft.topology.node(number)
        self.beside = list(reads[1:])

    def shape(self, code: int) -> Shape:
        """The shape of a tensor."""
        return shape_of_tensor(self.draft, self.shapes, code)

    def value(self, slot: int) -> tuple[int | None, ...]:
        """The elements of what is read at SLOT; () where nothing is known."""
        if slot >= len(self.reads):
            return ()
        code = self.reads[slot]
        return self.shapes.value(Output(self.draft.topology.node(code >> BITS), code & CONTROL)) or ()

    @property
    def result(self) -> Shape:
        """The shape of the node's output."""
        return self.shapes.shape(self.node.output)


def _reshaped(looked: _Looked) -> int | None:
    """The first of the tensors with the same elements that has the same shape."""
    draft, result = looked.draft, looked.result
    code, found = looked.reads[0], None
    if _may_refuse(looked, looked.number):
        return None
    beside, passed = list(looked.beside), list(looked.beside)
    for _ in range(MOST_STEPS):
        if _is_same_count(looked.shape(code), result):
            found, beside = code, list(passed)
        number = code >> BITS
        if draft.topology.op(number) not in RESHAPES or draft.has_controls(number) or _may_refuse(looked, number):
            break
        above = draft.data(number)
        if not above or not all(draft.harmless[other >> BITS] for other in above[1:]):
            break
        passed += above[1:]
        code = above[0]
    looked.beside = beside
    return found


def _may_refuse(looked: _Looked, number: int) -> bool:
    """Whether a node does more than what is known says: some inputs do not come through an EnsureShape, a Reshape."""
    if looked.draft.topology.op(number) != "EnsureShape":
        return may_refuse(looked.draft, looked.shapes, number)
    given = looked.shape(looked.draft.data(number)[0])
    value = looked.draft.topology.node(number).attr("shape")
    wanted = shape_of(value.shape) if value is not None else None
    if wanted is None:
        return False
    if given is None or len(given) != len(wanted):
        return True
    return any(dim not in (-1, known) for known, dim in zip(given, wanted, strict=True))


def _is_same_count(a: Shape, b: Shape) -> bool:
    """Whether two shapes of as many elements are one: they are but for one dim at most, which follows from the rest."""
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
    """Whether both shapes are known, and one."""
    return looked.result == tuple(source) and min(source, default=0) >= 0


def _whole_slice(looked: _Looked, source: Sequence[int]) -> bool:
    begin, size = looked.value(1), looked.value(2)
    if len(begin) != len(source) or len(size) != len(source):
        return False
    is_all = all(item == -1 or (item == dim and dim >= 0) for item, dim in zip(size, source, strict=True))
    return is_all and all(item == 0 for item in begin)


def _whole_strided_slice(looked: _Looked, source: Sequence[int]) -> bool:
    """Steps of 1 through all: from the beginning of each dim that is not known to its end, or as many as there are."""
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
"""When the output of an op is its first input, whose shape is given."""
