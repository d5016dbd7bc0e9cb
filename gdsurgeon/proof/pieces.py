"""Proves a sequence of edits, in as few pieces as possible.

A claim relates the values of two graphs. Claims can be joined: if the second edit replaces a tensor, and the first edit
replaced a tensor as well, both tensors of the first graph have other values, by their names in the last graph. If a
claim cannot be joined with the claims before it, the graph before its edit is the reference for the next piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import (
    Claim,
    EditResult,
    SameGiven,
    SameOutputs,
    SamePart,
    SameTensors,
    TensorPairs,
    equation,
)
from gdsurgeon.errors import EditError, GdsurgeonError, NotValidatedError, ValidationError, printable
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, node_of, nodes_of, parse_tensor
from gdsurgeon.proof.change import Change, Step
from gdsurgeon.proof.executor import Executor
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
    """Tests the claims of `steps` by execution.

    Args:
        executor: is loading the graph before the first step as ORIGINAL.
        steps: the edits, in order.
        load_last: makes the executor load the graph after the last step as EDITED.
        overrides: the user's feeds, by the names before the first edit or after the last one.
        each: prove each edit separately.
        meanwhile: is called, perhaps several times, while TensorFlow is busy.

    Raises:
        ValidationError, NotValidatedError, UsageError: see `prove`.
    """
    pieces = [Joined([step], step.result) for step in steps] if each else joined_steps(steps)
    is_whole = len(pieces) == 1
    if not is_whole:
        graphs = steps[0].before, steps[-1].after
        check_names(overrides, dict.fromkeys(node.name for graph in graphs for node in input_nodes(graph)))
    loaded, proofs = steps[0].before, list[Piece]()
    while pieces:
        piece, result = pieces.pop(0)
        before, after = piece[0].before, piece[-1].after
        if before is not loaded:
            executor.load_graph(ORIGINAL, before)
            loaded = before
        if pieces:
            executor.load_graph(EDITED, after)
        else:
            load_last()
        own = overrides if is_whole else _overrides_of(overrides, steps, piece)
        try:
            proof = prove(executor, Change(before, after, result), own, meanwhile)
        except GdsurgeonError as error:
            if len(piece) == 1 or not isinstance(error, EditError | NotValidatedError | ValidationError):
                error.place_at(piece[0].called if len(piece) < len(steps) else "")
                raise
            # Each edit alone may be provable, and otherwise the error names the wrong edit. The process may have ended.
            pieces[:0] = [Joined([step], step.result) for step in piece]
            is_whole = False
            executor.restart()
            executor.load_graph(ORIGINAL, before)
        else:
            proofs.append(Piece(_called(piece), proof))
    out = merged([proof for _, proof in proofs], apart=True)
    out.pieces = proofs if len(proofs) > 1 else []
    out.seconds = sum(proof.seconds for _, proof in proofs)
    return out


def _called(piece: Sequence[Step]) -> str:
    """Returns the name of a piece in messages: ``fix.gds:3``, or ``fix.gds:3 to 5``."""
    first, last = piece[0].called, piece[-1].called
    return first if len(piece) == 1 else f"{first} to {last.rpartition(':')[2]}"


def _overrides_of(overrides: Overrides, steps: Sequence[Step], piece: Sequence[Step]) -> Overrides:
    """Returns the overrides of the inputs of a piece, by their names in this piece."""
    start = steps.index(piece[0])
    intents = [step.result.intent for step in steps]
    earlier, later = (reduce(Intent.then, part, Intent()) for part in (intents[:start], intents[start:]))
    known = {node.name for node in input_nodes(piece[0].before)}
    names = {new: old for old, new in later.renamed.items() if old in known and new not in known}
    names |= {old: new for old, new in earlier.renamed.items() if new in known}
    known.update(node.name for node in input_nodes(piece[-1].after))
    return overrides.renamed(names).only(known)


@dataclass
class Relation:
    """The claims about two graphs, in the form in which they can be joined.

    Attributes:
        same: the claim that all outputs are the same; None if tensors get other values.
        given, outputs, constants, parts, sites: as in `SameGiven`.
        tensors: further tensors of the first graph that are compared, and whether a claim needs them: an edit reads
            them, but does not change them. Other tensors are dropped if they did not exist before the first edit.
    """

    same: SameOutputs | None = None
    given: dict[str, str] = field(default_factory=dict)
    outputs: TensorPairs = ()
    constants: dict[str, bytes] = field(default_factory=dict)
    parts: list[SamePart] = field(default_factory=list)
    sites: tuple[str, ...] = ()
    tensors: dict[str, bool] = field(default_factory=dict)


class Joined(NamedTuple):
    """Edits that are proven together.

    Attributes:
        steps: the edits.
        result: their intent and their claims about the first and the last graph.
    """

    steps: list[Step]
    result: EditResult


def joined_steps(steps: Sequence[Step]) -> list[Joined]:
    """Returns `steps` in as few pieces as possible."""
    pieces: list[tuple[list[Step], Relation | None, Intent]] = []
    for step in steps:
        relation, intent = _relation(step), step.result.intent
        piece, known, done = pieces[-1] if pieces else ([], None, Intent())
        both = _joined(known, done, relation, intent) if known is not None and relation is not None else None
        if both is not None:
            pieces[-1] = ([*piece, step], both, done.then(intent))
        else:
            pieces.append(([step], relation, intent))
    out: list[Joined] = []
    for piece, known, intent in pieces:
        result = piece[0].result
        if known is not None and len(piece) > 1:
            result = EditResult(intent, tuple(_claims(known, piece[0].before, intent, piece[-1].after)))
        out.append(Joined(piece, result))
    return out


def _relation(step: Step) -> Relation | None:
    """Returns the claims of an edit as a relation; None if they cannot be joined with other claims."""
    out = Relation(SameOutputs())
    for claim in step.result.claims:
        if isinstance(claim, SameTensors):
            out.tensors |= dict.fromkeys(claim.tensors, True)
        elif isinstance(claim, SamePart):
            out.parts.append(claim)
        elif isinstance(claim, SameOutputs):
            if not (claim.judged and claim.tolerance.is_exact) or claim.except_for:
                return None
            nodes = [step.before[name] for name in claim.also if name in step.before]
            out.same, also = claim, {output.name: False for node in nodes for output in node.outputs}
            out.tensors = also | out.tensors
        elif isinstance(claim, SameGiven):
            if claim.copies or claim.as_written or not claim.tolerance.is_exact:
                return None
            out.given |= claim.given
            out.parts += claim.parts
            if any(part.role for part in claim.parts):
                out.tensors |= {tensor: True for tensor, _ in claim.outputs}
                out.same = None if claim.given else out.same
            else:
                out.outputs, out.constants, out.sites = claim.outputs, dict(claim.constants), claim.sites
                out.same = None
        else:
            return None
    return out


def _joined(first: Relation, done: Intent, later: Relation, then: Intent) -> Relation | None:
    """Returns the claims of two edits together; None if the second edit changes additions of the first.

    Args:
        first, later: the claims of both edits.
        done, then: the intents of both edits.
    """
    whole, origin, now, removed = done.then(then), done.origins(), then.counterpart, frozenset(then.removed)
    made = {*done.added, *nodes_of(done.moved.values())}

    def is_lost(tensor: str) -> bool:
        """Returns whether the second edit removed the value of a tensor between the edits."""
        return node_of(tensor) in removed and tensor not in then.moved

    def read_instead(tensor: str) -> str:
        """Returns the tensor that the consumers of a tensor between the edits read in the end."""
        return later.given.get(tensor) or now(tensor)

    if not {*whole.removed}.isdisjoint([*whole.renamed.values(), *whole.added]):
        return None  # a removed node has the name of a new node
    given: dict[str, str] = {}
    for tensor, new in later.given.items():
        was = origin(tensor) if node_of(tensor) not in made else None
        if was is None:
            return None
        given[was] = new
    needed = [*first.given.values()]
    for part in first.parts:
        needed += [*part.inputs.values(), *(new for _, new in part.outputs)]
    if any(map(is_lost, needed)) or any(read_instead(new) != now(new) for _, new in first.outputs):
        return None
    parts = [
        replace(
            part,
            inputs={name: read_instead(tensor) for name, tensor in part.inputs.items()},
            outputs=tuple((mine, now(tensor)) for mine, tensor in part.outputs),
            copies={name: now(copy) for name, copy in part.copies.items()},
        )
        for part in first.parts
    ]
    # A frozen tensor is a constant, and does not have its own value.
    tensors = {t: is_needed for t, is_needed in first.tensors.items() if given.get(t) != whole.counterpart(t)}
    for tensor, is_needed in later.tensors.items():
        was = origin(tensor)
        if was is not None:
            is_frozen = first.given.get(was) == tensor or node_of(tensor) in first.constants
            tensors |= {was: is_needed} if not is_frozen else {}
        elif is_needed and not _is_of_a_part(parts, tensor, now(tensor)):
            return None
    outputs = [(old, now(new)) for old, new in first.outputs if not is_lost(new)]
    outputs += [(was, new) for old, new in later.outputs if (was := origin(old)) is not None]
    sites = {*first.sites, *(was for old in later.sites if (was := origin(old)) is not None)}
    sites -= {old for old, _ in first.outputs if old not in first.sites}
    same = None
    if first.same is not None and later.same is not None:
        same = SameOutputs(
            even_alone=first.same.even_alone and later.same.even_alone,
            as_written=first.same.as_written or later.same.as_written,
            deployed=first.same.deployed or later.same.deployed,
        )
    return Relation(
        same,
        given | {old: read_instead(new) for old, new in first.given.items()},
        tuple(dict.fromkeys(outputs)),
        {now(name): value for name, value in first.constants.items()} | later.constants,
        [*parts, *later.parts],
        tuple(old for old, _ in dict.fromkeys(outputs) if old in sites),
        tensors,
    )


def _is_of_a_part(parts: list[SamePart], tensor: str, now: str) -> bool:
    """Returns whether a tensor between two edits belongs to one of `parts`; adds it to the outputs of this part."""
    for place, part in enumerate(parts):
        if now in (new for _, new in part.outputs):
            return True
        own = [node for node, copy in part.copies.items() if copy == node_of(now)]
        if own:
            mine = format_input(own[0], parse_tensor(tensor).port)
            parts[place] = replace(part, outputs=(*part.outputs, (mine, now)))
            return True
    return False


def _claims(relation: Relation, before: Graph, intent: Intent, after: Graph) -> Iterable[Claim]:
    """Returns the claims that `relation` consists of, as few as possible."""
    given, removed = relation.given, frozenset(intent.removed)
    outputs = {node.name for node in output_nodes(before)} - removed - {*nodes_of(given)}  # are always compared
    tensors: list[str] = []
    for tensor in relation.tensors:
        node, counterpart = node_of(tensor), intent.counterpart(tensor)
        is_kept = node_of(counterpart) in after and (node not in removed or tensor in intent.moved)
        if is_kept and node not in outputs and given.get(tensor) != counterpart:
            tensors.append(tensor)
    if relation.same is not None:
        yield replace(relation.same, also=tuple(nodes_of(tensors)))
        yield from relation.parts
        return
    shown = [
        f"{printable(old)} := {'its value' if new in relation.constants else printable(new)}"
        for old, new in given.items()
    ]
    listed = [output.name for node in output_nodes(before) if node.name in outputs for output in node.outputs]
    pairs = dict.fromkeys([*relation.outputs, *((name, intent.counterpart(name)) for name in [*listed, *tensors])])
    # In one trial, the edited graph runs only once for all parts.
    within = [part for part in relation.parts if part.in_place and part.outputs]
    yield SameGiven(
        given, tuple(pairs), equation(shown), constants=relation.constants, parts=within, sites=relation.sites
    )
    yield from (part for part in relation.parts if part not in within)
