"""Which inputs a Reshape refuses: what was concluded from what it gives holds only as long as it is there to refuse."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.edits.simplifying.draft import BITS, CONTROL, Draft
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output


def may_refuse(draft: Draft, shapes: Shapes, number: int) -> bool:
    """Whether a Reshape to dims that are constants does not take all that it may be given."""
    reads = draft.data(number)
    wanted = dims_of(draft, shapes, number)
    return wanted is not None and reshape_may_refuse(shape_of_tensor(draft, shapes, reads[0]), wanted)


def dims_of(draft: Draft, shapes: Shapes, number: int) -> list[int] | None:
    """The dims to which a node reshapes; None where it is no Reshape, or one of them is computed."""
    reads = draft.data(number)
    if draft.topology.op(number) != "Reshape" or len(reads) < 2:
        return None
    known = shapes.value(_output(draft, reads[1]))
    dims = [dim for dim in known or () if dim is not None]
    return dims if known is not None and len(dims) == len(known) else None


def reshape_may_refuse(given: Shape, wanted: Sequence[int]) -> bool:
    """Whether a Reshape to the dims WANTED (-1: what is left) does not take some tensor of the shape GIVEN."""
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
    """Whether a Reshape to the dims OUTER takes no number of elements that one to INNER does not."""
    known, wanted = (prod(dim for dim in dims if dim >= 0) for dims in (inner, outer))
    if -1 in inner:
        return known > 0 and wanted % known == 0
    return -1 not in outer and wanted == known


def shape_of_tensor(draft: Draft, shapes: Shapes, code: int) -> Shape:
    """The shape of a tensor."""
    return shapes.shape(_output(draft, code))


def _output(draft: Draft, code: int) -> Output:
    return Output(draft.topology.node(code >> BITS), code & CONTROL)
