"""An edit that changes no value: every output equals its counterpart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from gdsurgeon.analysis.queries.ranked import chosen_from
from gdsurgeon.analysis.queries.signature import can_be_fetched, output_nodes
from gdsurgeon.edits.claims import SameOutputs, SameSites, SameTensors
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.dtypes import FLOATING
from gdsurgeon.proof.claims.other_attrs import OtherAttrs, as_written, load_with, of_one_seed
from gdsurgeon.proof.claims.side_by_side import (
    counterpart_pairs,
    deciding,
    edited_plan,
    edited_run,
    original_run,
    something_compared,
    within_tolerance,
)
from gdsurgeon.proof.claims.substituted import tensors_given_trial
from gdsurgeon.proof.claims.unchanged import alone_trial
from gdsurgeon.proof.plan import FetchPlan, Skipped, plan_with
from gdsurgeon.proof.proof import DiffersError
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import DO_WITHOUT, ORIGINAL, Trial, TrialContext, TrialState, both_load, nodes_of
from gdsurgeon.text import listed


def same_outputs_trial(context: TrialContext, claim: SameOutputs) -> Trial:
    """What the original gives is fetched of both graphs, and what CLAIM names besides."""
    others = [as_written()] if claim.as_written else []
    if others:
        load_with(context, others)
    plan, inside = same_outputs_plan(context, claim)
    trial = within_tolerance(context, side_by_side_trial(context, plan, claim, inside, _sites(context, claim, inside)))
    if not claim.judged:
        return replace(trial, judged=False, steady=None, conditions=[])
    if claim.finite:
        trial.accuse = partial(_outside_domain, context, claim)
    if claim.even_alone:
        trial.otherwise = partial(alone_trial, context)
    seeds = of_one_seed(context.change.after) if plan.random else []
    if seeds:
        trial.otherwise = partial(_seeded_trial, context, claim, [*others, *seeds], trial.runs[0].subject)
    return trial


def _seeded_trial(
    context: TrialContext, claim: SameOutputs, others: Sequence[OtherAttrs], original: Subject, why: str
) -> Trial:
    """The trial where all depends on what is drawn inside of a function, and cannot be fed: of one seed for all.

    It is in step in both graphs, which must take the first feed: in shapes that the ORIGINAL has been found to take.
    Graphs that differ then may have drawn in another order: then it is as it was without, and WHY.
    """
    load_with(context, others)
    plan, inside = same_outputs_plan(context, claim)
    names = listed(map(quoted, plan.random_ops), 3)
    plan = replace(plan, random=set(), draws=[])
    trial = within_tolerance(context, side_by_side_trial(context, plan, claim, inside, _sites(context, claim, inside)))
    trial.runs[0].subject.settle_as(original)
    trial.warnings = [f"{names}: random; both graphs run with the same seed"]
    trial.accuse = lambda *_: NotValidatedError(why, code="nothing-comparable", advice=DO_WITHOUT)
    return replace(trial, steady=None, planned=None)


def _outside_domain(
    context: TrialContext, claim: SameOutputs, state: TrialState, differs: DiffersError, _wrong: Sequence[str]
) -> GdsurgeonError:
    """Returns the error for outputs that differ: nothing is shown if CLAIM does not hold for the values that were fed.

    Tensors inside loops cannot be fetched; the tensors that they are computed from stand for them.
    """
    names = _fetchable(context.change.before, claim.finite)
    executor = context.executor
    executor.wait(executor.run(state.subject(ORIGINAL).key, _DOMAIN, state.fed[ORIGINAL], names))
    found = zip(names, executor.statistics(_DOMAIN), strict=True)
    bad = [name for name, values in found if values.nan or values.infinite]
    executor.drop(_DOMAIN)
    if not bad:
        return differs
    text = f"outputs differ, but {listed(map(quoted, bad), 3)} is not finite for these inputs"
    return NotValidatedError(
        text, code="not-finite", facts={"tensors": bad}, details=differs.details, advice=("give-others", DO_WITHOUT)
    )


_DOMAIN = "values that must be finite"


def _fetchable(graph: Graph, tensors: Sequence[str]) -> list[str]:
    """Returns the floating-point tensors, among TENSORS and what they are computed from, that are fetched first."""
    pending = dict.fromkeys(graph.tensor(name) for name in tensors if parse_tensor(name).node in graph)
    found: list[str] = []
    for tensor in (queue := list(pending)):  # grows during the loop
        is_array = tensor.node.op.startswith("TensorArray")  # it holds values that are computed elsewhere
        if not is_array and tensor.dtype in FLOATING and can_be_fetched(graph, tensor.node):
            found.append(tensor.name)
        else:
            more = [read for read in tensor.node.inputs if read not in pending]
            pending |= dict.fromkeys(more)
            queue += more
    return found[:MOST_FETCHED]


MOST_FETCHED = 100


def _sites(context: TrialContext, claim: SameOutputs, inside: Collection[str]) -> set[str]:
    """What is compared besides the outputs, and what these are decided by."""
    return {*claim.also} - {*inside} - {node.name for node in output_nodes(context.change.before)}


def _chosen_from(context: TrialContext, claim: SameOutputs) -> set[str]:
    """Of what CLAIM names besides the outputs what these are chosen from, and where the edit has done nothing.

    Empty unless differences of the excepted outputs are accepted, as for folds.
    """
    if not claim.may_differ:
        return set()
    claims = context.change.result.claims
    sites = [site for each in claims if isinstance(each, SameSites) for site in each.sites]
    here = nodes_of(old for site in sites for old, _ in site.outputs)
    return {*chosen_from(context.change.before, picks=True)} & {*claim.also} - {*here}


def same_outputs_plan(context: TrialContext, claim: SameOutputs) -> tuple[FetchPlan, set[str]]:
    """What is fetched of the original, and which of its nodes are no outputs."""
    change = context.change
    served = dict.fromkeys(node.name for node in output_nodes(change.before))
    inside = [*deciding(context, served), *_chosen_from(context, claim)]
    outputs = list(dict.fromkeys([*served, *claim.also, *inside]))
    removed = frozenset(change.intent.removed)
    idle = frozenset(claim.idle)
    plan = plan_with(context.executor.settings, change.before, outputs, undrawable=removed, idle=idle)
    barred = _barred(context, plan) | {
        name: why for name, why in claim.except_for.items() if name in plan.fetches and not context.has_after(name)
    }
    skipped = [skipped for skipped in plan.skipped if skipped.name in served]
    plan.skipped = skipped + [Skipped(name, reason) for name, reason in barred.items()]
    kept = {name for name in plan.fetches if name not in barred and _is_paired(context, name, served)}
    return plan.only(kept), {name for name in inside if name not in served}


def side_by_side_trial(
    context: TrialContext, plan: FetchPlan, claim: SameOutputs, inside: Collection[str], sites: Collection[str] = ()
) -> Trial:
    """The trial of what PLAN fetches of the original; the nodes INSIDE are no outputs, and SITES neither."""
    change = context.change
    original = context.original(plan)
    renamed = " under the new names" if change.intent.renamed or change.intent.moved else ""
    statement = f"edited(x) == original(x){renamed}"
    aside = {} if claim.may_differ else claim.except_for
    pairs = counterpart_pairs(context, plan, inside, aside, sites)
    for pair in pairs if claim.may_differ else ():  # rounding may well leave them as they are
        pair.excuse = claim.except_for.get(pair.before, "")
    return Trial(
        statement,
        [original_run(context, original), edited_run(context, original, edited_plan(context, plan))],
        pairs,
        both_load(change),
        samples=original.calls,
        rtol=claim.rtol,
        atol=claim.atol,
        of_largest=claim.of_largest,
        conditions=[]
        if any(pair.excuse for pair in pairs)
        else [partial(something_compared, by_sites=not claim.may_differ)],
        skipped=plan.reasons,
        planned=plan,
        steady=ORIGINAL,
    )


def same_tensors_trial(context: TrialContext, claim: SameTensors) -> Trial:
    """Some tensors are what they were; those that cannot be fetched are left to the proof of what depends on them."""
    if claim.given:
        return tensors_given_trial(context, claim)
    plan = plan_with(context.executor.settings, context.change.before, nodes_of(claim.tensors))
    barred = _barred(context, plan)
    plan = replace(plan.only({*claim.tensors} - barred.keys()), skipped=[])
    trial = side_by_side_trial(context, plan, SameOutputs(), ())
    return replace(trial, runs=trial.runs if plan.fetches else [], conditions=[])


def _barred(context: TrialContext, plan: FetchPlan) -> dict[str, str]:
    """What must not be run of the edited graph; only where that may depend on ops that it did not depend on before."""
    intent = context.change.intent
    if intent.added or intent.changed or intent.functions.added or intent.functions.changed:
        return context.barred(plan.fetches)
    return {}


def _is_paired(context: TrialContext, tensor: str, served: Collection[str]) -> bool:
    """Whether TENSOR is compared: each output; of the rest what has a counterpart."""
    node, intent, after = parse_tensor(tensor).node, context.change.intent, context.change.after
    if node in served or tensor in intent.moved:
        return True
    counterpart = after.find(intent.after(node))
    count = counterpart.output_count if counterpart is not None else 0
    return count is None or parse_tensor(tensor).port < count
