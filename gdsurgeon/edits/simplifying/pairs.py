"""Pairs that cancel: Transposes, Casts to a wider type and back, a Pack and its Unpack, and what is done twice."""

from __future__ import annotations

from collections.abc import Callable

from gdsurgeon.edits.simplifying.draft import BITS, CONTROL, Draft
from gdsurgeon.edits.simplifying.refusing import dims_of, may_refuse, refuses_as_much, shape_of_tensor
from gdsurgeon.ops.dtypes import BOOL, DTYPES, DType

TWICE_IS_ONCE = frozenset(("Abs", "Ceil", "Floor", "Relu", "Relu6", "Rint", "Round"))
TWICE_IS_NOTHING = frozenset(("LogicalNot", "Neg"))
RESHAPES = frozenset(("ExpandDims", "Reshape", "Squeeze"))


def pairs(draft: Draft) -> None:
    """Who reads the second of a pair reads what the first reads; a Reshape of a Reshape reads what that one does."""
    _unpack(draft)
    for number in draft.again("pairs", _SECOND, reach=2):
        reads = draft.data(number)
        inner = reads[0] >> BITS if reads and not reads[0] & CONTROL else -1
        if inner < 0 or draft.has_controls(inner):
            continue
        first = draft.data(inner)
        source = _SECOND[draft.topology.op(number)](draft, number, inner) if first else None
        if source is not None:
            draft.bypass(number, source, [*first[1:], *reads[1:]])
    draft.settle("pairs")
    for number in draft.again("pairs of reshapes", ("Reshape",), reach=2, through=RESHAPES):
        _read_past(draft, number)


def _unpack(draft: Draft) -> None:
    """Who reads what comes out of an Unpack of a Pack reads what went in."""
    for number in draft.again("pairs of Unpacks", ("Unpack",), reach=2):
        reads = draft.data(number)
        inner = reads[0] >> BITS if reads and not reads[0] & CONTROL else -1
        if inner < 0 or draft.topology.op(inner) != "Pack" or draft.has_controls(inner):
            continue
        sources = draft.data(inner)
        if _are_alike(draft, inner, number, len(sources)):
            draft.bypass_each(number, sources)
    draft.settle("pairs")


def _are_alike(draft: Draft, pack: int, unpack: int, count: int) -> bool:
    """Whether a Pack and an Unpack are of COUNT tensors along one axis."""
    packs, unpacks = draft.topology.node(pack), draft.topology.node(unpack)
    return unpacks.setting("num") == packs.setting("N") == count and packs.setting("axis") == unpacks.setting("axis")


def _read_past(draft: Draft, number: int) -> None:
    """Has a Reshape read what the Reshapes that it reads do."""
    codes = list(draft.topology.inputs(number))
    source = start = codes[0]
    while draft.topology.op(source >> BITS) in RESHAPES and not draft.has_controls(source >> BITS):
        above = draft.data(source >> BITS)
        if not all(draft.harmless[code >> BITS] for code in above[1:]) or _is_needed(draft, source >> BITS, number):
            break
        source = above[0]
    if source != start and not draft.gives_reference(source):
        draft.set_inputs(number, [source, *codes[1:]])
        draft.counts["pairs"] += 1


def _is_needed(draft: Draft, inner: int, outer: int) -> bool:
    """Whether a Reshape refuses what that which reads it would take: who knows of it counts on that."""
    if draft.topology.op(inner) != "Reshape":
        return False
    shapes = draft.shapes()
    if not may_refuse(draft, shapes, inner):
        return False
    first, then = dims_of(draft, shapes, inner), dims_of(draft, shapes, outer)
    return first is None or then is None or not refuses_as_much(then, first)


_Rule = Callable[[Draft, int, int], "int | None"]


def _same_op(draft: Draft, number: int, inner: int) -> bool:
    return draft.topology.op(number) == draft.topology.op(inner)


def _once(draft: Draft, number: int, inner: int) -> int | None:
    return inner << BITS if _same_op(draft, number, inner) else None


def _nothing(draft: Draft, number: int, inner: int) -> int | None:
    return draft.data(inner)[0] if _same_op(draft, number, inner) else None


def _back(draft: Draft, number: int, inner: int) -> int | None:
    """A Transpose of a Transpose that puts the dims where they were."""
    orders = [draft.constant(code) for each in (inner, number) for code in draft.data(each)[1:2]]
    if not _same_op(draft, number, inner) or len(orders) < 2 or orders[0] is None or orders[1] is None:
        return None
    first, then = ([int(place) for place in order.values] for order in orders if order is not None)
    size = len(first)
    if len(then) != size or not all(0 <= place < size for place in then):
        return None
    return draft.data(inner)[0] if [first[place] for place in then] == list(range(size)) else None


def _cast_back(draft: Draft, number: int, inner: int) -> int | None:
    """A Cast to a type that holds all of another's values, and back to that."""
    if not _same_op(draft, number, inner):
        return None
    nodes = [draft.topology.node(each) for each in (inner, number)]
    kinds = [node.plain_attr(key) for node in nodes for key in ("SrcT", "DstT")]
    types = [DTYPES.get(kind) if isinstance(kind, int) else None for kind in kinds]
    given, wide, _, back = types
    if given is None or wide is None or back != given or not _holds(wide, given):
        return None
    return draft.data(inner)[0]


def _packed_again(draft: Draft, number: int, inner: int) -> int | None:
    """A Pack of all that comes out of an Unpack, in its order."""
    reads = draft.data(number)
    if draft.topology.op(inner) != "Unpack" or reads != [inner << BITS | port for port in range(len(reads))]:
        return None
    if not _are_alike(draft, number, inner, len(reads)):
        return None
    source, axis = draft.data(inner)[0], draft.topology.node(inner).setting("axis")
    shape = shape_of_tensor(draft, draft.shapes(), source)
    if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return source if shape[axis] == len(reads) else None  # it refuses others, and who knows of it counts on that


_DIGITS = {"half": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Bits of the integers that a type of floats has all of."""


def _holds(wide: DType, given: DType) -> bool:
    """Whether WIDE has each value of GIVEN."""
    if given == BOOL:
        return wide.is_integer or wide.is_float
    if given.is_integer and wide.is_integer:
        (low, high), (least, most) = given.bounds, wide.bounds
        return least <= low and high <= most
    if given.is_integer and wide.is_float:
        low, high = given.bounds
        return max(-low, high) <= 1 << _DIGITS.get(wide.name, 0)
    if given.is_float and wide.is_float:
        return wide == given or (wide.name == "float64" and given.name in _DIGITS) or (
            wide.name == "float32" and given.name in ("half", "float16", "bfloat16")
        )  # fmt: skip
    return False


_SECOND: dict[str, _Rule] = {
    **dict.fromkeys(sorted(TWICE_IS_ONCE), _once),
    **dict.fromkeys(sorted(TWICE_IS_NOTHING), _nothing),
    "Cast": _cast_back,
    "Pack": _packed_again,
    "Transpose": _back,
}
