"""Several edits of a graph, and what is proven of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gdsurgeon.container.load import Model
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.operation.sequence import Instruction, carry_out
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.change import Change, Step
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.pieces import Joined, joined_steps
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.wire.output import OutputFile

Edit = Callable[[Graph], EditResult]


def carried_out(
    model: bytes,
    edits: Sequence[Edit],
    spoils: Mapping[int, Callable[[Graph], None]] | None = None,
    *,
    check: bool = True,
) -> list[Step]:
    """The steps that EDITS of MODEL are.

    Args:
        model: a GraphDef.
        edits: one after the other.
        spoils: undeclared changes after some of the edits, by their places.
        check: whether each is accounted for. Raises ValidationError then.
    """
    wrong = spoils or {}

    def spoilt(place: int, edit: Edit) -> Edit:
        def spoiling(graph: Graph) -> EditResult:
            result = edit(graph)
            wrong[place](graph)
            return result

        return spoiling

    done = [spoilt(place, edit) if place in wrong else edit for place, edit in enumerate(edits)]
    instructions = [Instruction(edit, f"edit {place}") for place, edit in enumerate(done, 1)]
    carried = carry_out(Model(from_bytes(model, "model.pb"), None), instructions, OutputFile("-"), check=check)
    last = carried.steps[-1]
    if check:
        check_accounted(last.after, last.result, last.after.chunks())
    return carried.steps


def pieces_of(steps: Sequence[Step]) -> list[int]:
    """How many steps each piece has that is proven at once."""
    return [len(piece.steps) for piece in joined_steps(steps)]


def proven_pieces(executor: Executor, pieces: Sequence[Joined], overrides: Overrides | None = None) -> list[Proof]:
    """The proof of each of PIECES, of what is claimed of its first and last graph: nothing else is tried."""
    out = []
    for steps, result in pieces:
        change = Change(steps[0].before, steps[-1].after, result)
        executor.load_graph(ORIGINAL, change.before)
        executor.load_graph(EDITED, change.after)
        out.append(prove(executor, change, overrides or Overrides()))
    return out
