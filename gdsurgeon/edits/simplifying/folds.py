"""What changes no value but for rounding: batch norms, paddings and gaps into convolutions; again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from gdsurgeon.analysis.queries.discrete_choices import chosen_from, reordered
from gdsurgeon.edits.claims import Claim, EditResult, SameGiven, SameOutputs, Site, Stage
from gdsurgeon.edits.simplifying.batch_norms import batch_norms
from gdsurgeon.edits.simplifying.inlining import written
from gdsurgeon.edits.simplifying.paddings import paddings, shuffles
from gdsurgeon.edits.simplifying.replaced import Sites
from gdsurgeon.edits.sites import claims_apart, nodes_of_sites
from gdsurgeon.errors import Json, NothingToDo, Remark
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.specification.asked import Asked
from gdsurgeon.text import Entry, counted, first_lines

FOLD_BN = "fold-bn"
"""What the folds are called among the passes, where one is skipped or taken back."""
TOLERANCE = 1e-3
"""The default tolerance for folds: the largest |a - b| of a tensor, divided by the largest |a|."""
MOST_REASONS = 3
"""Reasons for which nothing is folded that are told where nothing else is done."""
ISOLATED = 10
"""A fold in isolation must agree within the tolerance divided by this: no rounding before it adds up."""


class Folded(NamedTuple):
    """How a graph is folded.

    Attributes:
        kept: nodes whose names have to stay.
        tolerance: the largest |a - b| of a tensor may be this part of its largest |a|; a tenth of that for a fold in
            isolation.
        spells_out: whether constants have all their elements, though one that is repeated would do.
    """

    kept: Collection[Node]
    tolerance: float
    spells_out: bool = False


def with_folds(graph: Graph, result: EditResult, ends: Sequence[Output], how: Folded) -> EditResult:
    """What was done with a graph, RESULT, and then the folds.

    Args:
        graph: changed in place.
        result: of what was done with it before.
        ends: the tensors that it is there for, where that was said.
        how: it is folded.

    Raises:
        NothingToDo: nothing was done before, and nothing can be folded.
    """
    was_changed = graph.is_changed
    before = written(graph) if was_changed else graph.pristine()
    firsts = {end.node for end in ends} - {end.node for end in ends if end.index}
    sites = Sites(graph, how.kept, [node for node in how.kept if node not in firsts], spells_out=how.spells_out)
    while shuffles(sites) + paddings(sites) + batch_norms(sites):
        pass
    passes = cast("dict[str, Json]", result.facts["passes"]) | {FOLD_BN: sites.folded.total()}
    told, facts = [*result.told, *_told(sites)], {**result.facts, "passes": passes, "folds": _facts(sites)}
    there = _in_file(graph.pristine(), [*sites.found.values()])
    hidden = len(sites.found) - len(there)
    notes = [*result.notes, *([_hidden(hidden)] if hidden else [])]
    if not graph.is_changed:
        why = "; ".join(first_lines([each.text for each in _told(sites) if each.label == "not folded"], MOST_REASONS))
        message = f"nothing would change: no pass found anything to simplify{why and '; not folded: '}{why}"
        raise NothingToDo(message, facts={"folds": _facts(sites)})
    if not sites.found:
        return replace(result, told=told, facts=facts)
    later = EditResult(sites.intent(), asked=Asked("fold_batch_norms", {"outputs": tuple(end.name for end in ends)}))
    earlier = (result.stages or (Stage(graph.pristine(), result),)) if was_changed else ()
    intent = result.intent.then(later.intent)
    intent.rewired = [slot for slot in intent.rewired if slot.node not in later.intent.changed]
    return replace(
        result,
        intent=intent,
        claims=tuple(_claims(graph, result.claims, there, how.tolerance)),
        notes=notes,
        told=told,
        facts=facts,
        stages=(*earlier, Stage(before, later)),
    )


def _in_file(before: Graph, sites: Sequence[Site]) -> list[Site]:
    """Those of SITES that the file itself has: others were in functions, whose bodies have taken the place of calls."""

    def is_there(tensor: str) -> bool:
        return parse_tensor(tensor).node in before

    return [s for s in sites if all(map(is_there, (*s.inputs, *(old for old, _ in s.outputs))))]


def _hidden(count: int) -> Remark:
    places = counted(count, "fold")
    text = (
        f"{places} in functions that were inlined: {'it is' if count == 1 else 'they are'} compared only at the outputs"
    )
    return Remark(text, "not-in-isolation", count=count)


def _claims(graph: Graph, claims: Sequence[Claim], found: Sequence[Site], tolerance: float) -> Iterator[Claim]:
    """What is claimed of the outputs, but for rounding, and of each place FOUND where something was folded."""
    before = graph.pristine()
    for claim in claims:
        if isinstance(claim, SameOutputs):
            also = tuple(dict.fromkeys([*claim.also, *chosen_from(before, picks=True), *nodes_of_sites(found)]))
            aside = {**claim.except_for, **reordered(before, also, picks=True)}
            yield replace(claim, of_largest=tolerance, may_differ=True, also=also, except_for=aside)
        elif isinstance(claim, SameGiven):
            pairs = [pair for pair in claim.outputs if parse_tensor(pair[1]).node in graph]
            ends = {old for old, _ in claim.outputs} - {*claim.sites}
            pairs += [pair for site in found for pair in site.outputs]
            chosen = (before[name] for name in chosen_from(before, picks=True) if name in graph)
            pairs += [(output.name, output.name) for node in chosen for output in node.outputs]
            inside = tuple(old for old, _ in dict.fromkeys(pairs) if old not in ends)
            aside = reordered(before, (parse_tensor(old).node for old, _ in pairs), picks=True)
            pairs = list(dict.fromkeys(pairs))
            yield replace(claim, of_largest=tolerance, outputs=tuple(pairs), sites=inside, except_for=aside)
        else:
            yield claim
    yield from claims_apart(found, tolerance / ISOLATED)


# -- what is told ---------------------------------------------------------------------------------------------


def _told(sites: Sites) -> Iterator[Entry]:
    """An entry of the summary for each kind of fold, and for each reason for which nodes were not folded."""
    kinds: dict[str, list[str]] = {}
    for (what, op), count in sites.folded.items():
        kinds.setdefault(what, []).append(f"{count:,} into {op}")
    yield from (Entry("folded", f"{what}s: {', '.join(into)}") for what, into in kinds.items())
    reasons = Counter(sites.skipped.values())
    first = {why: name for name, why in reversed(sites.skipped.items())}
    for (op, why), count in reasons.items():
        yield Entry("not folded", f"{counted(count, op)}: {why} ({first[op, why]})")


def _facts(sites: Sites) -> Json:
    """The same for the report, with all names."""
    folded: list[Json] = [{"what": what, "into": op, "count": count} for (what, op), count in sites.folded.items()]
    skipped: list[Json] = [
        {"node": name, "op": op, "reason": str(why), "code": why.code} for name, (op, why) in sites.skipped.items()
    ]
    return {"folded": folded, "not_folded": skipped, "compared_at": [*sites.found]}
