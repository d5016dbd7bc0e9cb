"""Folds batch norms, factors, paddings and dilations into convolutions. Values change only by rounding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import cast

from gdsurgeon.analysis.queries.deciding import chosen_from, reordered
from gdsurgeon.edits.claims import Claim, EditResult, SameGiven, SameOutputs, Site, claims_apart, nodes_of_sites
from gdsurgeon.edits.simplifying.batch_norms import batch_norms, factors
from gdsurgeon.edits.simplifying.fold_sites import Sites
from gdsurgeon.edits.simplifying.paddings import paddings
from gdsurgeon.edits.simplifying.stages import Step, kept_in
from gdsurgeon.errors import Json, NothingToDo, Remark
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.text import Entry, counted, first_lines
from gdsurgeon.values import Tolerance

FOLD_BN = "fold-bn"
"""The name of the folds as a pass."""
TOLERANCE = 1e-3
"""The default tolerance of folds: max |a - b| / max |a| of each tensor."""
MOST_REASONS = 3
"""The number of reasons that are reported if nothing was changed."""
ISOLATED = 10
"""In isolation a fold must agree within the tolerance divided by this number, because no earlier rounding adds up."""


def fold(graph: Graph, ends: Sequence[Output], kept: Collection[Node], *, spells_out: bool) -> Sites:
    """Folds into convolutions; returns the folds.

    Args:
        graph: changed in place.
        ends: the requested outputs.
        kept: nodes that must keep their names.
        spells_out: whether constants store all their elements, even if they are equal.
    """
    firsts = {end.node for end in ends} - {end.node for end in ends if end.index}
    sites = Sites(graph, kept, [node for node in kept if node not in firsts], spells_out=spells_out)
    while paddings(sites) + batch_norms(sites) + factors(sites):
        pass
    return sites


def fold_body(body: Body, sites: Sites) -> Step | None:
    """Folds into the convolutions of a function; returns None if there are no folds. `sites` get the details."""
    inner = fold(body.graph, (), kept_in(body), spells_out=sites.spells_out)
    sites.folded += inner.folded
    sites.hidden += inner.folded.total()
    sites.skipped |= {f"{name} in {body.name}": why for name, why in inner.skipped.items()}
    return Step("fold_batch_norms", inner.intent()) if inner.folded else None


def check_folded(graph: Graph, sites: Sites) -> None:
    """Raises NothingToDo if the graph was not changed, also not by an earlier edit."""
    if not graph.is_changed:
        why = "; ".join(first_lines([each.text for each in told_of(sites) if each.label == "not folded"], MOST_REASONS))
        message = f"nothing would change: no pass found anything to simplify{why and '; not folded: '}{why}"
        raise NothingToDo(message, facts={"folds": facts_of(sites)})


def with_folds(graph: Graph, result: EditResult, sites: Sites, tolerance: float) -> EditResult:
    """Returns the result of simplify with claims about the folds.

    Args:
        graph: after the folds.
        result: of all stages.
        sites: the folds.
        tolerance: the largest max |a - b| / max |a| of a tensor; for a fold in isolation a tenth of that.
    """
    before = graph.pristine()
    there = [  # others were in functions that were inlined
        site
        for site in sites.found.values()
        if all(parse_tensor(tensor).node in before for tensor in (*site.inputs, *(old for old, _ in site.outputs)))
    ]
    notes = [*result.notes]
    if hidden := sites.hidden + len(sites.found) - len(there):
        text = f"{counted(hidden, 'fold')} in functions, which cannot run in isolation: only the outputs are compared"
        notes.append(Remark(text, "not-in-isolation", count=hidden))
    claims = tuple(_claims(graph, result.claims, there, tolerance)) if sites.folded else result.claims
    passes = cast("dict[str, Json]", result.facts["passes"]) | {FOLD_BN: sites.folded.total()}
    told, facts = [*result.told, *told_of(sites)], {**result.facts, "passes": passes, "folds": facts_of(sites)}
    return replace(result, claims=claims, notes=notes, told=told, facts=facts)


def _claims(graph: Graph, claims: Sequence[Claim], found: Sequence[Site], tolerance: float) -> Iterator[Claim]:
    """Returns the claims about the outputs, up to rounding, and about each fold."""
    before, allowed = graph.pristine(), Tolerance(of_largest=tolerance)
    (claim,) = claims
    if isinstance(claim, SameOutputs):
        also = tuple(dict.fromkeys([*claim.also, *chosen_from(before, picks=True), *nodes_of_sites(found)]))
        aside = {**claim.except_for, **reordered(before, also, picks=True)}
        yield replace(claim, tolerance=allowed, may_differ=True, also=also, except_for=aside)
    elif isinstance(claim, SameGiven):
        ends = {old for old, _ in claim.outputs} - {*claim.sites}
        pairs = [*claim.outputs, *(pair for site in found for pair in site.outputs)]
        chosen = (before[name] for name in chosen_from(before, picks=True) if name in graph)
        pairs += [(output.name, output.name) for node in chosen for output in node.outputs]
        inside = tuple(old for old, _ in dict.fromkeys(pairs) if old not in ends)
        aside = reordered(before, (parse_tensor(old).node for old, _ in pairs), picks=True)
        outputs = tuple(dict.fromkeys(pairs))
        yield replace(claim, tolerance=allowed, outputs=outputs, sites=inside, except_for=aside)
    yield from claims_apart(found, Tolerance(of_largest=tolerance / ISOLATED))


# -- the summary ----------------------------------------------------------------------------------------------


def told_of(sites: Sites) -> Iterator[Entry]:
    """Yields a summary entry for each kind of fold, and for each reason why nodes were not folded."""
    kinds: dict[str, list[str]] = {}
    for (what, op), count in sites.folded.items():
        kinds.setdefault(what, []).append(f"{count:,} into {op}")
    yield from (Entry("folded", f"{what}s: {', '.join(into)}") for what, into in kinds.items())
    reasons = Counter(sites.skipped.values())
    first = {why: name for name, why in reversed(sites.skipped.items())}
    for (op, why), count in reasons.items():
        yield Entry("not folded", f"{counted(count, op)}: {why} ({first[op, why]})")


def facts_of(sites: Sites) -> Json:
    """Returns the same for the report, with all names."""
    folded: list[Json] = [{"what": what, "into": op, "count": count} for (what, op), count in sites.folded.items()]
    skipped: list[Json] = [
        {"node": name, "op": op, "reason": str(why), "code": why.code} for name, (op, why) in sites.skipped.items()
    ]
    return {"folded": folded, "not_folded": skipped, "compared_at": [*sites.found]}
