"""Proves edits that followed each other, in as few pieces as can be.

Where a claim cannot be joined with those before it, the graph between is the reference for what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import (
    Claim,
    EditResult,
    SameGiven,
    SameOutputs,
    SamePart,
    SameTensors,
    equation,
)
from gdsurgeon.errors import EditError, GdsurgeonError, NotValidatedError, ValidationError, printable
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.proof.change import Change, Step
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Piece, Proof, merged
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL, nodes_of
from gdsurgeon.values import Data


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


@dataclass(eq=False, repr=False)
class Relation(Data):
    """What is claimed of two graphs, in the one form in which claims can be joined.

    Attributes:
        same: the claim that all outputs are the same; None where something is given.
        given, outputs, constants, sites: as in `SameGiven`.
        parts: that were added.
        tensors: that were read.
        also: nodes of the first graph of which the same holds as of outputs, as in `SameOutputs`.
    """

    same: SameOutputs | None = None
    given: dict[str, str] = field(default_factory=dict)
    outputs: tuple[tuple[str, str], ...] = ()
    constants: dict[str, bytes] = field(default_factory=dict)
    parts: list[SamePart] = field(default_factory=list)
    tensors: list[SameTensors] = field(default_factory=list)
    also: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()


def joined_steps(steps: Sequence[Step]) -> list[list[Step]]:
    """STEPS in as few pieces as can be: what the steps of one promise is a claim about its first and last graph."""
    pieces: list[list[Step]] = []
    known: tuple[Relation, Intent] | None = None
    for step in steps:
        relation, intent = relation_of(step.result), step.result.intent
        both = _joined(*known, relation, intent) if known is not None and relation is not None else None
        if both is not None:
            pieces[-1].append(step)
            known = both
        else:
            pieces.append([step])
            known = None if relation is None else (relation, intent)
    return pieces


def result_of(steps: Sequence[Step]) -> EditResult:
    """What STEPS, a piece of `joined_steps`, come to: what they intend and claim of the first graph and the last."""
    if len(steps) == 1:
        return steps[0].result
    known: tuple[Relation, Intent] | None = None
    for step in steps:
        relation, intent = relation_of(step.result), step.result.intent
        assert relation is not None
        known = (relation, intent) if known is None else _joined(*known, relation, intent)
        assert known is not None
    relation, intent = known  # type: ignore[misc]
    return EditResult(intent, tuple(_claims(relation, steps[0].before, intent, steps[-1].after)))


def _claims(relation: Relation, before: Graph, intent: Intent, after: Graph) -> Iterable[Claim]:
    """RELATION of the graphs BEFORE and AFTER as claims, as few as can be."""
    also = [output.name for node in relation.also if node in before for output in before[node].outputs]
    lost, given = frozenset(intent.removed), {*nodes_of(relation.given)}
    served = {node.name for node in output_nodes(before)} - lost - given  # they are compared in any case
    tensors: dict[tuple[tuple[str, str], ...], dict[str, None]] = {}
    for claim in [*relation.tensors, SameTensors(tuple(also), relation.given)]:
        for tensor in claim.tensors:
            node = parse_tensor(tensor).node
            is_there = parse_tensor(intent.counterpart(tensor)).node in after and (
                node not in lost or tensor in intent.moved
            )
            if is_there and node not in served and tensor not in claim.given:
                tensors.setdefault(tuple(sorted(claim.given.items())), {})[tensor] = None
    parts = relation.parts
    if relation.same is not None:
        yield replace(relation.same, also=tuple(dict.fromkeys(parse_tensor(t).node for t in tensors.pop((), ()))))
    else:
        told = [
            f"{printable(old)} := {'its value' if new in relation.constants else printable(new)}"
            for old, new in relation.given.items()
        ]
        # In one trial, what the edited graph gives is computed once for all.
        within = [part for part in parts if part.in_place and part.outputs]
        parts = [part for part in parts if not (part.in_place and part.outputs)]
        yield SameGiven(
            relation.given,
            relation.outputs,
            equation(told),
            constants=relation.constants,
            parts=within,
            sites=relation.sites,
        )
    yield from parts
    for known, names in tensors.items():
        yield SameTensors(tuple(names), dict(known))


# -- the claims of one edit ------------------------------------------------------------------------------------


def relation_of(result: EditResult) -> Relation | None:
    """What RESULT claims; None where that cannot be joined with what others claim."""
    out = Relation()
    for claim in result.claims:
        add = _RELATED.get(type(claim))
        if add is None or not add(out, claim, result.intent):
            return None
    if out.same is None and not out.given and not any(isinstance(claim, SameGiven) for claim in result.claims):
        out.same = SameOutputs()
    return out


def _same_outputs(out: Relation, claim: SameOutputs, _intent: Intent) -> bool:
    out.same, out.also = claim, claim.also
    return claim.judged and not (claim.rtol or claim.atol or claim.of_largest or claim.except_for)


def _same_given(out: Relation, claim: SameGiven, _intent: Intent) -> bool:
    out.given |= claim.given
    out.parts += claim.parts
    if any(part.role for part in claim.parts):
        out.tensors.append(SameTensors(tuple(tensor for tensor, _ in claim.outputs)))
        out.same = None if claim.given else SameOutputs()
    else:
        out.outputs, out.constants, out.sites, out.same = claim.outputs, dict(claim.constants), claim.sites, None
    return not (claim.copies or claim.beside or claim.as_written or claim.of_largest)


def _same_tensors(out: Relation, claim: SameTensors, _intent: Intent) -> bool:
    out.tensors.append(claim)
    return True


def _same_part(out: Relation, claim: SamePart, _intent: Intent) -> bool:
    out.parts.append(claim)
    return True


_RELATED: Mapping[type[Claim], Callable[..., bool]] = {
    SameOutputs: _same_outputs,
    SameGiven: _same_given,
    SameTensors: _same_tensors,
    SamePart: _same_part,
}
"""What adds a claim to a relation, and whether it can be joined; those of other claims cannot."""


# -- the claims of two -----------------------------------------------------------------------------------------


def _joined(first: Relation, done: Intent, later: Relation, then: Intent) -> tuple[Relation, Intent] | None:
    """What two edits claim one after the other; None where the later one alters what the first has added."""
    whole, names = done.then(then), _Names(done, later, then)
    if not {*whole.removed}.isdisjoint([*whole.renamed.values(), *whole.added]):
        return None  # what is gone would be taken for what has its name now
    if any(names.stood_for(tensor) is None for tensor in later.given):
        return None
    if any(map(names.is_gone, _read_by(first))) or any(names.is_gone(new) for p in first.parts for _, new in p.outputs):
        return None
    if any(later.given.get(new, names.now(new)) != names.now(new) for _, new in first.outputs):
        return None
    before = {was: new for old, new in later.given.items() if (was := names.stood_for(old)) is not None}
    parts = [_moved_part(part, names) for part in first.parts]
    tensors = _tensors_before(first, before, whole, names)
    for tensor, beside in {t: claim.given for claim in later.tensors for t in claim.tensors}.items():
        was = names.origin(tensor)
        if was is not None:
            others = {other: new for old, new in beside.items() if (other := names.origin(old)) is not None}
            tensors += _tensor_between(first, done, was, others, names)
        elif not _is_of_a_part(parts, names, tensor):
            return None
    outputs = [(old, names.now(new)) for old, new in first.outputs if not names.is_gone(new)]
    outputs += [(was, new) for old, new in later.outputs if (was := names.origin(old)) is not None]
    sites = {*first.sites, *(was for old in later.sites if (was := names.origin(old)) is not None)}
    sites -= {old for old, _ in first.outputs if old not in first.sites}
    relation = Relation(
        _same_twice(first.same, later.same),
        before | {old: names.seen(new) for old, new in first.given.items()},
        tuple(dict.fromkeys(outputs)),
        {names.now(name): value for name, value in first.constants.items()} | later.constants,
        [*parts, *later.parts],
        tensors,
        tuple(dict.fromkeys([*first.also, *(was for node in later.also if (was := names.origin(node)) is not None)])),
        tuple(old for old, _ in dict.fromkeys(outputs) if old in sites),
    )
    return relation, whole


class _Names:
    """What tensors are called in the graph before two edits, between them, and behind them.

    Args:
        done: what the first edit has done.
        later: what the second one claims.
        then: what that has done.
    """

    def __init__(self, done: Intent, later: Relation, then: Intent) -> None:
        self.origin = done.origins()
        self.now = then.counterpart
        self._given, self._then = later.given, then
        self._gone = frozenset(then.removed)
        self._made = {*done.added, *(parse_tensor(tensor).node for tensor in done.moved.values())}

    def seen(self, tensor: str) -> str:
        """What is read in the end where TENSOR was read between."""
        return self._given.get(tensor) or self.now(tensor)

    def is_gone(self, tensor: str) -> bool:
        """Whether nothing has the value of TENSOR, which there was between."""
        return parse_tensor(tensor).node in self._gone and tensor not in self._then.moved

    def stood_for(self, tensor: str) -> str | None:
        """What TENSOR was before, where whatever reads it read that: not a value alone is the same."""
        return self.origin(tensor) if parse_tensor(tensor).node not in self._made else None


def _tensors_before(first: Relation, before: dict[str, str], whole: Intent, names: _Names) -> list[SameTensors]:
    """What the first edit claims of tensors: they are what they were, where what is BEFORE them is given, too.

    One that is given itself is held against what it is by itself; one that was frozen is a constant by now.
    """
    out: list[SameTensors] = []
    for claim in first.tensors:
        for tensor in claim.tensors:
            given = before | {old: names.seen(new) for old, new in claim.given.items()}
            own = given.pop(tensor, None)
            if own != whole.counterpart(tensor):
                out.append(SameTensors((tensor,), given))
    return out


def _tensor_between(
    first: Relation, done: Intent, tensor: str, beside: Mapping[str, str], names: _Names
) -> list[SameTensors]:
    """What is claimed of TENSOR (before the first edit) where the second one says that it has not changed it.

    What the second one gives is behind it, but for what is BESIDE it; of what the first one gives, it is held against
    what that is by itself.
    """
    given = {**beside, **{old: names.now(new) for old, new in first.given.items()}}
    given.pop(tensor, None)
    now = done.counterpart(tensor)
    is_frozen = first.given.get(tensor) == now or parse_tensor(now).node in first.constants
    return [] if is_frozen else [SameTensors((tensor,), given)]


def _is_of_a_part(parts: list[SamePart], names: _Names, tensor: str) -> bool:
    """Whether TENSOR, of the graph between, came with one of PARTS, which then says what it is."""
    ref, now = parse_tensor(tensor), names.now(tensor)
    for place, part in enumerate(parts):
        if now in (new for _, new in part.outputs):
            return True
        own = [node for node, copy in part.copies.items() if copy == parse_tensor(now).node]
        if own:
            parts[place] = replace(part, outputs=(*part.outputs, (format_input(own[0], ref.port), now)))
            return True
    return False


def _read_by(relation: Relation) -> Iterable[str]:
    """The tensors of the edited graph that stand for others, or are read by what was added."""
    yield from relation.given.values()
    for part in relation.parts:
        yield from part.inputs.values()


def _moved_part(part: SamePart, names: _Names) -> SamePart:
    return replace(
        part,
        inputs={name: names.seen(tensor) for name, tensor in part.inputs.items()},
        outputs=tuple((mine, names.now(tensor)) for mine, tensor in part.outputs),
        copies={name: names.now(copy) for name, copy in part.copies.items()},
    )


def _same_twice(first: SameOutputs | None, later: SameOutputs | None) -> SameOutputs | None:
    if first is None or later is None:
        return None
    return SameOutputs(
        even_alone=first.even_alone and later.even_alone,
        as_written=first.as_written or later.as_written,
        deployed=first.deployed or later.deployed,
    )
