"""Conditionals of version 1 that are decided before anything is run: one side stays, the other goes."""

from __future__ import annotations

from gdsurgeon.analysis.traversal.control_flow import decided, loop_heads, untaken_branches
from gdsurgeon.edits.simplifying.draft import BITS, CONTROL, Draft
from gdsurgeon.ops.kinds import CONTROL_FLOW, MERGE, SWITCH


def conditions(draft: Draft) -> None:
    """Who reads a Switch of a constant predicate reads what that reads; a Merge is the only input that it has left.

    All of them, or none where a decided Switch or its Merge is more than the half of a plain conditional.
    """
    top = draft.topology
    dead = untaken_branches(top, {})
    sides = _sides(draft, dead)
    if not sides:
        return
    heads = loop_heads(top)
    merges: dict[int, int] = {}
    for number in draft.with_ops(MERGE):
        if dead[number] or number in heads:
            continue
        codes = list(top.inputs(number))
        alive = [code for code in codes if not dead[code >> BITS] and sides.get(code >> BITS) in (None, code & CONTROL)]
        if len(alive) == len(codes):
            continue
        if len(alive) != 1 or top.op(number) != "Merge" or _is_counted(draft, number):
            return
        merges[number] = alive[0]
    going = [number for number in range(top.size) if dead[number] and not draft.gone[number]]
    if any(map(draft.kept.__getitem__, going)) or any(map(draft.has_controls, (*sides, *merges))):
        return
    for number, side in sides.items():
        data = draft.data(number)[0]
        draft.read_instead(number << BITS | side, data)
        draft.wait_instead(number, data >> BITS)
    _join(draft, merges)
    draft.remove(going, "conditions")
    draft.settle("conditions")
    draft.refresh()


def _sides(draft: Draft, dead: bytearray) -> dict[int, int]:
    """The output of each Switch that is taken in any case; {} where one of these is none to be taken away."""
    out: dict[int, int] = {}
    for number in draft.with_ops(SWITCH):
        reads = draft.data(number)
        value = decided(draft.topology, reads[1] >> BITS, {}) if len(reads) > 1 and not dead[number] else None
        if value is None:
            continue
        is_plain = draft.topology.op(number) == "Switch" and not draft.gives_reference(reads[0])
        if not is_plain or draft.is_named(number) or not draft.harmless[reads[1] >> BITS]:
            return {}
        out[number] = int(value)
    return out


def _is_counted(draft: Draft, number: int) -> bool:
    """Whether somebody reads which input of a Merge has come."""
    code = number << BITS | 1
    return any(code in draft.topology.inputs(user) for user in draft.topology.users(number))


def _join(draft: Draft, merges: dict[int, int]) -> None:
    for number, code in merges.items():
        source = draft.now(code)
        is_bare = draft.topology.op(source >> BITS) in CONTROL_FLOW and draft.is_waited_for(number)
        if draft.is_named(number) or is_bare or draft.gives_reference(source):
            draft.become_identity(number, code)
        else:
            draft.read_instead(number << BITS, source)
            draft.wait_instead(number, source >> BITS)
