"""Proves edits that followed each other, in as few pieces as can be.

Where a claim cannot be joined with those before it, the graph between is the reference for what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdsurgeon.analysis.queries.signature import input_nodes
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.errors import EditError, GdsurgeonError, NotValidatedError, ValidationError
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.change import Change, Step
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.joining import check_shown, joined_steps, result_of
from gdsurgeon.proof.proof import Piece, Proof, merged
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL


def prove_pieces(
    executor: Executor,
    steps: Sequence[Step],
    load_last: Callable[[], None],
    overrides: Overrides,
    *,
    each: bool,
    meanwhile: Callable[[], object] = lambda: None,
) -> Proof:
    """Checks by execution what is claimed of STEPS.

    Args:
        executor: is loading the graph before the first step as ORIGINAL.
        steps: the edits, in order.
        load_last: has it load the graph after the last step as EDITED.
        overrides: what the user says of feeds, by the names before the first edit or after the last one.
        each: prove one edit after the other.
        meanwhile: called, perhaps several times, while TensorFlow is busy.

    Raises:
        ValidationError, NotValidatedError, UsageError: see `prove`.
    """
    pieces = [[step] for step in steps] if each else joined_steps(steps)
    is_whole = len(pieces) == 1
    if not is_whole:
        _check_known(overrides, steps)
    loaded, seconds, proofs = steps[0].before, 0.0, list[Piece]()
    while pieces:
        piece = pieces.pop(0)
        before, after = piece[0].before, piece[-1].after
        if before is not loaded:
            executor.load_source(ORIGINAL, before)
            loaded = before
        if pieces:
            executor.is_barred(EDITED, after)
            executor.load_graph(EDITED, after)
        else:
            load_last()
        said = overrides if is_whole else _said_of(overrides, steps, piece)
        try:
            proof = prove(executor, Change(before, after, result_of(piece)), said, meanwhile)
            check_shown(piece, proof)
        except (EditError, NotValidatedError, ValidationError) as error:
            if len(piece) == 1:
                error.place_at(_called(piece) if len(steps) > 1 else "")
                raise
            # What cannot be shown of all of them may be shown of each, and what is wrong is the doing of one.
            pieces[:0] = [[step] for step in piece]
            is_whole = False
            executor.load_again(ORIGINAL)
            continue
        except GdsurgeonError as error:
            error.place_at(piece[0].called if len(piece) < len(steps) else "")
            raise
        seconds += proof.seconds
        proofs.append(Piece(_called(piece), proof))
    out = merged([proof for _, proof in proofs], apart=True)
    out.pieces = proofs if len(proofs) > 1 else []
    out.seconds = seconds
    return out


def _called(piece: Sequence[Step]) -> str:
    """What PIECE is called: ``fix.gds:3``, or ``fix.gds:3 to 5``."""
    first, last = piece[0].called, piece[-1].called
    return first if len(piece) == 1 else f"{first} to {last.rpartition(':')[2]}"


def _check_known(overrides: Overrides, steps: Sequence[Step]) -> None:
    """Raises UsageError where something is said of what is an input neither before nor after."""
    names = [node.name for graph in (steps[0].before, steps[-1].after) for node in input_nodes(graph)]
    check_names(overrides, list(dict.fromkeys(names)))


def _said_of(overrides: Overrides, steps: Sequence[Step], piece: Sequence[Step]) -> Overrides:
    """What is said of the inputs of PIECE, by the names that they have there."""
    start = next(number for number, step in enumerate(steps) if step is piece[0])
    earlier, later = Intent(), Intent()
    for step in steps[:start]:
        earlier = earlier.then(step.result.intent)
    for step in steps[start:]:
        later = later.then(step.result.intent)
    known = {node.name for node in input_nodes(piece[0].before)}
    names = {new: old for old, new in later.renamed.items() if old in known and new not in known}
    names |= {old: new for old, new in earlier.renamed.items() if new in known}
    known.update(node.name for node in input_nodes(piece[-1].after))
    return overrides.renamed(names).only(known)
