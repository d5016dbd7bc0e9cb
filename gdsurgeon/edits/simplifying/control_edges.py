"""Control edges that say nothing: who waits for what only computes, and computes in any case, need not wait."""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.edits.simplifying.draft import BITS, CONTROL, Draft


def control_edges(draft: Draft) -> None:
    """Drops edges from what has no effect, before it or itself, and no branch or loop around it.

    Also those from a node that is read as well. Who waits for a NoOp waits for what that waits for, where that is one
    node alone.
    """
    top = draft.topology
    for number in draft.again("control-edges", top.ops()):
        codes = top.inputs(number)
        if [code for code in codes if code & CONTROL == CONTROL]:
            codes = list(codes)
            needed = list(_needed(draft, codes))
            if needed != codes:
                draft.counts["control-edges"] += len(codes) - len(needed)
                draft.set_inputs(number, needed)
    for number in draft.again("control-edges of NoOps", ("NoOp",)):
        awaited = list(top.inputs(number))
        if len(awaited) == 1 and not draft.is_named(number) and top.users(number):
            draft.wait_instead(number, awaited[0] >> BITS)
    draft.settle("control-edges")


def _needed(draft: Draft, codes: list[int]) -> Iterator[int]:
    read = {code >> BITS for code in codes if code & CONTROL != CONTROL}
    for code in codes:
        producer = code >> BITS
        if code & CONTROL != CONTROL:
            yield code
        elif producer not in read and not draft.harmless[producer]:
            read.add(producer)
            yield code
