"""Edits that followed each other, joined to one: what all of them promise, said of the first graph and the last.

A claim says what a graph gives if another has some of its tensors given to it. That composes: a tensor of the first
graph that is given in the end is one that either edit gives, by the name that its substitute has in the last graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import (
    Claim,
    EditResult,
    Interface,
    Postprocessed,
    Preprocessed,
    SameGiven,
    SameOutputs,
    SamePart,
    SameTensors,
    equation,
)
from gdsurgeon.errors import printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.proof.change import Step
from gdsurgeon.values import Data


@dataclass(eq=False, repr=False)
class Relation(Data):
    """What is claimed of two graphs, in the one form in which claims can be joined.

    Attributes:
        same: the claim that all outputs are the same; None where something is given.
        given, outputs, constants: as in `SameGiven`.
        parts: that were added.
        tensors: that were read.
    """

    same: SameOutputs | None = None
    given: dict[str, str] = field(default_factory=dict)
    outputs: tuple[tuple[str, str], ...] = ()
    constants: dict[str, bytes] = field(default_factory=dict)
    parts: list[SamePart] = field(default_factory=list)
    tensors: list[SameTensors] = field(default_factory=list)


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
    return EditResult(intent, tuple(_claims(relation)))


def _claims(relation: Relation) -> Iterable[Claim]:
    if relation.same is not None:
        yield relation.same
    else:
        given = [f"{printable(old)} := {printable(new)}" for old, new in relation.given.items()]
        yield SameGiven(relation.given, relation.outputs, equation(given), constants=relation.constants)
    yield from relation.parts
    yield from relation.tensors


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
    out.same = claim
    return not (claim.rtol or claim.atol or claim.except_for or claim.measured)


def _same_given(out: Relation, claim: SameGiven, _intent: Intent) -> bool:
    out.same = None
    out.given |= claim.given
    out.outputs, out.constants = claim.outputs, dict(claim.constants)
    return not (claim.copies or claim.beside)


def _same_tensors(out: Relation, claim: SameTensors, _intent: Intent) -> bool:
    out.tensors.append(claim)
    return True


def _same_part(out: Relation, claim: SamePart, _intent: Intent) -> bool:
    out.parts.append(claim)
    return True


def _preprocessed(out: Relation, claim: Preprocessed, intent: Intent) -> bool:
    out.given |= {interface.name: interface.raw for interface in claim.inputs}
    out.parts.append(_part(claim.pre, claim.inputs, intent, lambda i: i.name, lambda i: i.raw))
    return True


def _postprocessed(out: Relation, claim: Postprocessed, intent: Intent) -> bool:
    out.parts.append(_part(claim.post, claim.outputs, intent, lambda i: i.raw, lambda i: i.name))
    return True


def _part(
    part: Graph,
    interfaces: Sequence[Interface],
    intent: Intent,
    read: Callable[[Interface], str],
    given: Callable[[Interface], str],
) -> SamePart:
    """That PART computes in the edited graph what it computes on its own: its results, and what else it gives."""
    results = {interface.part_result: given(interface) for interface in interfaces}
    for node in output_nodes(part):
        for output in node.outputs if node.name in intent.copied else ():
            results.setdefault(output.name, format_input(intent.copied[node.name], output.index))
    return SamePart(part, {i.part_input: read(i) for i in interfaces}, tuple(results.items()), intent.copied)


_RELATED: Mapping[type[Claim], Callable[..., bool]] = {
    SameOutputs: _same_outputs,
    SameGiven: _same_given,
    SameTensors: _same_tensors,
    SamePart: _same_part,
    Preprocessed: _preprocessed,
    Postprocessed: _postprocessed,
}
"""What adds a claim to a relation, and whether it can be joined; those of other claims cannot."""


# -- the claims of two -----------------------------------------------------------------------------------------


def _joined(first: Relation, done: Intent, later: Relation, then: Intent) -> tuple[Relation, Intent] | None:
    """What two edits claim one after the other; None where the later one alters what the first has added."""
    origin, gone = done.origins(), frozenset(then.removed)
    if any(origin(tensor) is None for tensor in later.given):
        return None

    def now(tensor: str) -> str:
        return then.counterpart(tensor)

    def seen(tensor: str) -> str:
        """What is read in the end where TENSOR was read between."""
        return later.given.get(tensor) or now(tensor)

    def is_gone(tensor: str) -> bool:
        return parse_tensor(tensor).node in gone and tensor not in then.moved

    parts = [_moved_part(part, now, seen) for part in first.parts]
    if any(map(is_gone, _read_by(first))) or any(is_gone(new) for part in first.parts for _, new in part.outputs):
        return None
    given = {old: seen(new) for old, new in first.given.items()}
    before = {was: new for old, new in later.given.items() if (was := origin(old)) is not None}
    tensors = [replace(claim, given={old: seen(new) for old, new in claim.given.items()}) for claim in first.tensors]
    for claim in later.tensors:
        names = tuple(was for tensor in claim.tensors if (was := origin(tensor)) is not None)
        tensors += [SameTensors(names, dict(given))] if names else []
    outputs = [(old, now(new)) for old, new in first.outputs if not is_gone(new)]
    outputs += [(was, new) for old, new in later.outputs if (was := origin(old)) is not None]
    relation = Relation(
        _same_twice(first.same, later.same, origin),
        before | given,
        tuple(dict.fromkeys(outputs)),
        {now(name): value for name, value in first.constants.items() if not is_gone(name)} | later.constants,
        [*parts, *later.parts],
        tensors,
    )
    return relation, done.then(then)


def _read_by(relation: Relation) -> Iterable[str]:
    """The tensors of the edited graph that stand for others, or are read by what was added."""
    yield from relation.given.values()
    for part in relation.parts:
        yield from part.inputs.values()


def _moved_part(part: SamePart, now: Callable[[str], str], seen: Callable[[str], str]) -> SamePart:
    return replace(
        part,
        inputs={name: seen(tensor) for name, tensor in part.inputs.items()},
        outputs=tuple((mine, now(tensor)) for mine, tensor in part.outputs),
        copies={name: now(copy) for name, copy in part.copies.items()},
    )


def _same_twice(
    first: SameOutputs | None, later: SameOutputs | None, origin: Callable[[str], str | None]
) -> SameOutputs | None:
    if first is None or later is None:
        return None
    also = (*first.also, *(was for name in later.also if (was := origin(name)) is not None))
    return SameOutputs(
        also=tuple(dict.fromkeys(also)),
        even_alone=first.even_alone and later.even_alone,
        as_written=first.as_written or later.as_written,
    )
