"""Proves a sequence of edits, in as few pieces as possible.

A claim relates the values of two graphs. Claims can be joined: if the second edit replaces a tensor, and the first edit
replaced a tensor as well, both tensors of the first graph have other values, by their names in the last graph. If a
claim cannot be joined with the claims before it, the graph before its edit is the reference for the next piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.compare.intent import Intent
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
            # Each edit alone may be provable, and then the error names the wrong edit.
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
    """Returns the name of a piece in messages: ``fix.gds:3``, or ``fix.gds:3 to 5``."""
    first, last = piece[0].called, piece[-1].called
    return first if len(piece) == 1 else f"{first} to {last.rpartition(':')[2]}"


def _check_known(overrides: Overrides, steps: Sequence[Step]) -> None:
    """Raises UsageError if an override has a name that is not an input before or after the edits."""
    names = [node.name for graph in (steps[0].before, steps[-1].after) for node in input_nodes(graph)]
    check_names(overrides, list(dict.fromkeys(names)))


def _said_of(overrides: Overrides, steps: Sequence[Step], piece: Sequence[Step]) -> Overrides:
    """Returns the overrides of the inputs of a piece, by their names in this piece."""
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
    """The claims about two graphs, in the form in which they can be joined.

    Attributes:
        same: the claim that all outputs are the same; None if tensors get other values.
        given, outputs, constants, sites: as in `SameGiven`.
        parts: added graphs.
        tensors: tensors that an edit read and did not change.
        also: nodes of the first graph that are compared like outputs, as in `SameOutputs`.
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
    """Returns `steps` in as few pieces as possible; the claims of a piece relate its first and its last graph."""
    return [piece for piece, _, _ in _joined_pieces(steps)]


def result_of(steps: Sequence[Step]) -> EditResult:
    """Returns the intent and the claims of a piece of `joined_steps` about its first and its last graph."""
    if len(steps) == 1:
        return steps[0].result
    ((_, relation, intent),) = _joined_pieces(steps)
    assert relation is not None
    return EditResult(intent, tuple(_claims(relation, steps[0].before, intent, steps[-1].after)))


def _joined_pieces(steps: Sequence[Step]) -> list[tuple[list[Step], Relation | None, Intent]]:
    """Returns the pieces of `joined_steps`, each with its claims and its intent; None: claims that cannot be joined."""
    pieces: list[tuple[list[Step], Relation | None, Intent]] = []
    for step in steps:
        relation, intent = relation_of(step.result), step.result.intent
        piece, known, done = pieces[-1] if pieces else ([], None, Intent())
        both = _joined(known, done, relation, intent) if known is not None and relation is not None else None
        if both is not None:
            pieces[-1] = ([*piece, step], *both)
        else:
            pieces.append(([step], relation, intent))
    return pieces


def _claims(relation: Relation, before: Graph, intent: Intent, after: Graph) -> Iterable[Claim]:
    """Returns the claims that `relation` consists of, as few as possible."""
    also = [output.name for node in relation.also if node in before for output in before[node].outputs]
    lost, given = frozenset(intent.removed), {*nodes_of(relation.given)}
    served = {node.name for node in output_nodes(before)} - lost - given  # outputs are always compared
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
        # In one trial, the edited graph runs only once for all parts.
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
    """Returns the claims of an edit as a relation; None if they cannot be joined with other claims."""
    out = Relation()
    same: SameOutputs | None = SameOutputs()
    for claim in result.claims:
        if isinstance(claim, SameTensors):
            out.tensors.append(claim)
        elif isinstance(claim, SamePart):
            out.parts.append(claim)
        elif isinstance(claim, SameOutputs):
            if not claim.judged or claim.rtol or claim.atol or claim.of_largest or claim.except_for:
                return None
            same, out.also = claim, claim.also
        elif isinstance(claim, SameGiven):
            if claim.copies or claim.beside or claim.as_written or claim.of_largest:
                return None
            out.given |= claim.given
            out.parts += claim.parts
            if any(part.role for part in claim.parts):
                out.tensors.append(SameTensors(tuple(tensor for tensor, _ in claim.outputs)))
                same = None if claim.given else same
            else:
                out.outputs, out.constants, out.sites, same = claim.outputs, dict(claim.constants), claim.sites, None
        else:
            return None
    out.same = same
    return out


# -- the claims of two -----------------------------------------------------------------------------------------


def _joined(first: Relation, done: Intent, later: Relation, then: Intent) -> tuple[Relation, Intent] | None:
    """Returns the claims and the intent of two edits together; None if the second changes additions of the first."""
    whole, names = done.then(then), _Names(done, later, then)
    if not {*whole.removed}.isdisjoint([*whole.renamed.values(), *whole.added]):
        return None  # a removed node has the name of a new node
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
    """The names of tensors before two edits, between them, and after them.

    Args:
        done: the intent of the first edit.
        later: the claims of the second edit.
        then: the intent of the second edit.
    """

    def __init__(self, done: Intent, later: Relation, then: Intent) -> None:
        self.origin = done.origins()
        self.now = then.counterpart
        self._given, self._then = later.given, then
        self._gone = frozenset(then.removed)
        self._made = {*done.added, *(parse_tensor(tensor).node for tensor in done.moved.values())}

    def seen(self, tensor: str) -> str:
        """Returns the tensor that the consumers of `tensor`, a tensor between the edits, read in the end."""
        return self._given.get(tensor) or self.now(tensor)

    def is_gone(self, tensor: str) -> bool:
        """Returns whether the second edit removed the value of `tensor`, a tensor between the edits."""
        return parse_tensor(tensor).node in self._gone and tensor not in self._then.moved

    def stood_for(self, tensor: str) -> str | None:
        """Returns the tensor before the edits whose consumers read `tensor` between them; None if it does not exist."""
        return self.origin(tensor) if parse_tensor(tensor).node not in self._made else None


def _tensors_before(first: Relation, before: dict[str, str], whole: Intent, names: _Names) -> list[SameTensors]:
    """Returns the claims of the first edit about tensors, with the values that both edits replace.

    A tensor that is replaced itself is compared with its own value. The claim about a frozen tensor is dropped, because
    it
    is a constant.
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
    """Returns the claim of the second edit that it did not change `tensor`, by the name before the first edit.

    The second edit replaces only tensors after `tensor`, except those in `beside`. If the first edit replaced `tensor`,
    it
    is compared with its own value.
    """
    given = {**beside, **{old: names.now(new) for old, new in first.given.items()}}
    given.pop(tensor, None)
    now = done.counterpart(tensor)
    is_frozen = first.given.get(tensor) == now or parse_tensor(now).node in first.constants
    return [] if is_frozen else [SameTensors((tensor,), given)]


def _is_of_a_part(parts: list[SamePart], names: _Names, tensor: str) -> bool:
    """Returns whether `tensor`, between the edits, belongs to one of `parts`; adds it to the outputs of this part."""
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
    """Yields the tensors of the edited graph that replace other tensors, or that added graphs read."""
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
