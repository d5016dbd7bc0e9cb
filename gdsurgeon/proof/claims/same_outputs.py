"""Claims about the original and the edited graph on the same feeds: equal values, equal shapes, or no claim."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

from gdsurgeon.analysis.queries.discrete_choices import chosen_from, deciding_nodes
from gdsurgeon.analysis.queries.signature import can_be_fetched, output_nodes
from gdsurgeon.analysis.queries.usage import calling, op_counts
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.edits.claims import SameOutputs, SameShapes, SameSites, Unchanged
from gdsurgeon.errors import GdsurgeonError, Line, NotValidatedError, ValidationError, joined, printable, quoted
from gdsurgeon.feeds.input_spec import InputSpec
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.dtypes import FLOATING
from gdsurgeon.proof.graphs import OtherAttrs, as_written, load_with, of_one_seed
from gdsurgeon.proof.plan import Assigned, FetchPlan, Skipped, plan_with
from gdsurgeon.proof.proof import DiffersError, Proof
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    DO_WITHOUT,
    EDITED,
    ORIGINAL,
    ComparedPair,
    FeedSource,
    Fetch,
    RunRefusal,
    SameFeed,
    Trial,
    TrialContext,
    TrialRun,
    TrialState,
    both_load,
    chance_reasons,
    nodes_of,
)
from gdsurgeon.text import counted, listed, named


def deciding(context: TrialContext, outputs: Iterable[str]) -> list[str]:
    """Returns the nodes of the original by which `outputs` are decided, if they exist after the edit."""
    nodes = deciding_nodes(context.change.before[name] for name in dict.fromkeys(outputs))
    return [node.name for node in nodes if context.has_after(node.name)]


def original_run(context: TrialContext, original: Subject, fed: Mapping[str, FeedSource] | None = None) -> TrialRun:
    """Returns the run of the original; the report has the names of its inputs after the edit."""
    return TrialRun(original, fed or {}, reported_as={spec.name: context.after(spec.name) for spec in original.specs})


def edited_plan(context: TrialContext, original: FetchPlan) -> FetchPlan:
    """Returns the plan of the edited graph: the counterparts of the plan of the original."""
    groups = [[context.after(name) for name in names] for names in original.groups]
    assigned: list[Assigned] = []
    if original.assigned:
        after = context.change.after
        outputs = [name for name in nodes_of(tensor for names in groups for tensor in names) if name in after]
        seeds = {context.after(found.variable): found.seed for found in original.assigned}
        own = plan_with(context.executor.settings, after, outputs).assigned
        assigned = [found._replace(seed=seeds.get(found.variable, found.seed)) for found in own]
    return FetchPlan(groups, initializers=[context.after(name) for name in original.initializers], assigned=assigned)


def edited_run(
    context: TrialContext,
    original: Subject,
    plan: FetchPlan,
    *,
    fed: Mapping[str, FeedSource] | None = None,
    specs: Sequence[InputSpec] = (),
    unfed: Collection[str] = (),
) -> TrialRun:
    """Returns the run of the edited graph on the feeds of the original.

    Args:
        context: of the claim.
        original: its inputs, variables and random values are fed.
        plan: the fetches of the edited graph.
        fed: additional feeds.
        specs: inputs that only the edited graph has.
        unfed: inputs that are not fed.
    """
    subject = Subject(context.executor, EDITED, context.change.after, plan=plan)
    subject.specs = list(specs)
    shared = {context.after(name): SameFeed(ORIGINAL, name) for name in original.feedable}
    shared = {name: source for name, source in shared.items() if parse_tensor(name).node not in unfed}
    return TrialRun(subject, {**shared, **(fed or {})}, accused=context.change.called, beside=ORIGINAL)


def counterpart_pairs(
    context: TrialContext,
    plan: FetchPlan,
    inside: Collection[str] = (),
    set_aside: Mapping[str, str] | None = None,
    sites: Collection[str] = (),
) -> list[ComparedPair]:
    """Returns each fetch of the original with its counterpart.

    Args:
        context: of the claim.
        plan: of the original.
        inside: nodes that are not outputs.
        set_aside: fetches that are not compared, in addition to random ones, with the reason.
        sites: nodes that are not outputs, at which the edit changed the computation.
    """
    reasons = chance_reasons(plan) | dict(set_aside or {})
    return [
        ComparedPair(
            name,
            context.after(name),
            Fetch(ORIGINAL, name),
            Fetch(EDITED, context.after(name)),
            reason=reasons.get(name, ""),
            inside=parse_tensor(name).node in inside or name in plan.beside,
            site=parse_tensor(name).node in sites,
        )
        for name in plan.fetches
    ]


def within_tolerance(context: TrialContext, trial: Trial) -> Trial:
    """Returns `trial`; tensors that do not depend on the edit get no tolerance."""
    if not (trial.rtol or trial.atol or trial.of_largest):
        return trial
    reached = reached_after(context)
    for pair in trial.pairs:
        pair.exact = parse_tensor(pair.after).node not in reached
    return trial


def reached_after(context: TrialContext) -> AbstractSet[str]:
    """Returns the nodes of the edited graph that the edit added or changed, and the nodes that depend on them."""
    intent = context.change.intent
    names = [*intent.added, *intent.changed, *(slot.node for slot in intent.rewired)]
    others = [*intent.functions.added, *intent.functions.changed]
    names += [node.name for node in calling(context.change.after, others)] if others else []
    return depending_on(context.change.after, names)


def something_compared(proof: Proof, *, by_sites: bool | None = None) -> None:
    """Raises NotValidatedError if nothing was compared.

    Inner tensors at sites count if `by_sites` is true; None: unless differences are parts of the largest element.
    """
    sites = not proof.of_largest if by_sites is None else by_sites
    if not any(not o.inside or (o.site and sites) for o in proof.compared):
        found = dict.fromkeys(o.reason for o in proof.outputs if o.reason)
        reasons = joined("; ", found or ["no output has a counterpart that can be run"])
        text = Line("nothing could be compared: {reasons}", reasons=reasons)
        raise NotValidatedError(text, code="nothing-comparable", advice=DO_WITHOUT)
    empty = [o.after for o in proof.compared if not proof.elements.get(o.after)]
    if len(empty) == len(proof.compared):
        raise NotValidatedError(
            f"nothing could be compared: on these feeds {named(empty, 5)} "
            f"{'has' if len(empty) == 1 else 'have'} no elements",
            code="nothing-comparable",
            facts={"tensors": empty},
            advice=("give-others", DO_WITHOUT),
        )
    nan = [o.after for o in proof.compared if o.after not in empty and not proof.numbers.get(o.after)]
    for names, what in ((empty, "{} no elements"), (nan, "{} all NaN")):
        if names:
            verbs = ("has", "have") if names is empty else ("is", "are")
            line = (
                "on these feeds {names} {what}, so there is nothing in {them} to compare; use {feeds} to "
                "give other inputs"
            )
            facts = {"what": what.format(verbs[len(names) > 1]), "them": "it" if len(names) == 1 else "them"}
            proof.warnings.append(Line(line, names=named(names, 5), **facts))


def same_outputs_trial(context: TrialContext, claim: SameOutputs) -> Trial:
    """Returns the trial of the outputs of both graphs, and of the other tensors of the claim."""
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
    """Returns the trial for outputs that depend on random ops in functions: all random ops get the same seed.

    Both graphs must accept the first feed, in the shapes that `original` accepted. Graphs that differ may have sampled
    in a
    different order. Then the error states `why` nothing could be compared without equal seeds.
    """
    load_with(context, others)
    plan, inside = same_outputs_plan(context, claim)
    names = listed(map(quoted, plan.random_ops), 3)
    plan = replace(plan, random=set(), draws=[], chance=[], enclosed=[])
    trial = within_tolerance(context, side_by_side_trial(context, plan, claim, inside, _sites(context, claim, inside)))
    trial.runs[0].subject.settle_as(original)
    trial.warnings = [f"{names}: random; both graphs run with the same seed"]
    trial.accuse = lambda *_: NotValidatedError(why, code="nothing-comparable", advice=DO_WITHOUT)
    return replace(trial, steady=None)


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
    """Returns the nodes that are compared in addition to outputs and the tensors that decide them."""
    return {*claim.also} - {*inside} - {node.name for node in output_nodes(context.change.before)}


def _chosen_from(context: TrialContext, claim: SameOutputs) -> set[str]:
    """Returns the nodes of the claim that outputs are chosen from, and at which the edit changed nothing.

    Empty unless differences of the excepted outputs are accepted, as for folded layers.
    """
    if not claim.may_differ:
        return set()
    claims = context.change.result.claims
    sites = [site for each in claims if isinstance(each, SameSites) for site in each.sites]
    here = nodes_of(old for site in sites for old, _ in site.outputs)
    return {*chosen_from(context.change.before, picks=True)} & {*claim.also} - {*here}


def same_outputs_plan(context: TrialContext, claim: SameOutputs) -> tuple[FetchPlan, set[str]]:
    """Returns the plan of the original, and its nodes that are not outputs."""
    change = context.change
    served = dict.fromkeys(node.name for node in output_nodes(change.before))
    inside = [*deciding(context, served), *_chosen_from(context, claim)]
    outputs = list(dict.fromkeys([*served, *claim.also, *inside]))
    removed = frozenset(change.intent.removed)
    idle = frozenset(claim.idle)
    plan = plan_with(context.executor.settings, change.before, outputs, undrawable=removed, idle=idle)
    barred = barred_counterparts(context, plan) | {
        name: why for name, why in claim.except_for.items() if name in plan.fetches and not context.has_after(name)
    }
    skipped = [skipped for skipped in plan.skipped if skipped.name in served]
    plan.skipped = skipped + [Skipped(name, reason) for name, reason in barred.items()]
    kept = {name for name in plan.fetches if name not in barred and _is_paired(context, name, served)}
    return plan.only(kept), {name for name in inside if name not in served}


def side_by_side_trial(
    context: TrialContext, plan: FetchPlan, claim: SameOutputs, inside: Collection[str], sites: Collection[str] = ()
) -> Trial:
    """Returns the trial of the fetches of `plan`; `inside` and `sites` are nodes that are not outputs."""
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
        steady=ORIGINAL,
    )


def barred_counterparts(context: TrialContext, plan: FetchPlan) -> dict[str, str]:
    """Returns the counterparts that must not run, if the edit may have added dependencies on ops."""
    intent = context.change.intent
    if intent.added or intent.changed or intent.functions.added or intent.functions.changed:
        return context.barred(plan.fetches)
    return {}


def _is_paired(context: TrialContext, tensor: str, served: Collection[str]) -> bool:
    """Returns whether a tensor is compared: each output, and other tensors that have a counterpart."""
    node, intent, after = parse_tensor(tensor).node, context.change.intent, context.change.after
    if node in served or tensor in intent.moved:
        return True
    counterpart = after.find(intent.after(node))
    count = counterpart.output_count if counterpart is not None else 0
    return count is None or parse_tensor(tensor).port < count


STATEMENT = "outputs not downstream of the edit == original(x)"
_PLAIN = SubjectOptions(batches=False)  # the edit may have fixed the batch of one input, and not of another


def unchanged_trial(context: TrialContext, claim: Unchanged | None = None) -> Trial:
    """Returns the trial of an edit that changes values on purpose.

    The edited graph has its own plan, because it may need other inputs and depend on other ops.
    """
    is_measured = claim is not None and claim.measured
    change, settings = context.change, context.executor.settings
    overrides = context.overrides_before()
    served = [node.name for node in output_nodes(change.before)]
    inside = [name for name in deciding(context, served) if name not in served] if is_measured else []
    original = context.original(plan_with(settings, change.before, [*served, *inside]), _PLAIN)
    names = served if not is_measured else [context.after(name) for name in (*served, *inside)]
    names = [*names, *(node.name for node in output_nodes(change.after))]
    outputs = [name for name in dict.fromkeys(names) if name in change.after]
    plan_after = plan_with(settings, change.after, outputs)
    edited = Subject(context.executor, EDITED, change.after, plan=plan_after, overrides=overrides, options=_PLAIN)
    changed = _changed(context)
    behind = {context.after(name) for name in inside}
    pairs = _pairs(context, original, edited, changed, is_measured=is_measured)
    for pair in pairs:
        pair.inside = parse_tensor(pair.after).node in behind
    run = TrialRun(edited, accused=change.called, blame=partial(_blame, context))
    runs = [run]
    if any(pair.mine is not None for pair in pairs):
        # What the edit has changed of an input may be its shape: it is fed anew.
        shared = [name for name in original.feedable if parse_tensor(name).node not in changed]
        run.fed = {name: SameFeed(ORIGINAL, name) for name in shared}
        runs = [TrialRun(original), run]
    return Trial(
        STATEMENT,
        runs,
        pairs,
        both_load(change),
        lead=EDITED,
        samples=edited.calls,
        skipped=plan_after.reasons,
        otherwise=partial(alone_trial, context) if is_measured else None,
    )


def alone_trial(context: TrialContext, why: str) -> Trial:
    """Returns the trial of the edited graph only, because the original does not run here, for the reason `why`."""
    trial = unchanged_trial(context)
    warning = f"{context.change.name} does not run here, so nothing can be compared: {printable(why)}"
    run = replace(trial.runs[-1], fed={})
    for pair in trial.pairs:
        pair.reason = "the original does not run here"
    return replace(trial, runs=[run], warnings=[warning], loads={EDITED: "the result does not load"})


def _blame(context: TrialContext, refusal: RunRefusal) -> GdsurgeonError:
    """Returns the error for an edited graph that does not run; the edit is wrong if the original runs."""
    if refusal.error is None or refusal.bound or context.original_runs():
        return ValidationError(f"the result does not run: {refusal.text}", code="does-not-run")
    return refusal.error


def _changed(context: TrialContext) -> frozenset[str]:
    """Returns the nodes of the original that the edit changed, or that call a changed function."""
    intent = context.change.intent
    callers = calling(context.change.before, intent.functions.changed) if intent.functions.changed else ()
    names = [*(slot.node for slot in intent.rewired), *intent.changed, *(node.name for node in callers)]
    return frozenset(name for name in names if context.change.before.find(name) is not None)


def _pairs(
    context: TrialContext, original: Subject, edited: Subject, changed: frozenset[str], *, is_measured: bool
) -> list[ComparedPair]:
    """Returns the outputs of the edited graph, with the expected or measured output of the original."""
    reached = {*depending_on(context.change.before, changed)}
    if is_measured:  # that may have taken nodes away and added others
        reached |= reached_after(context)
    reasons = chance_reasons(edited.plan) | chance_reasons(original.plan)
    before = {context.after(name) if is_measured else name: name for name in original.plan.fetches}
    out: list[ComparedPair] = []
    for name in edited.plan.fetches:
        reason, measured = reasons.get(name, ""), False
        if not reason and parse_tensor(name).node in reached:
            reason = "downstream of the edit"
            measured = is_measured and name in before
        elif not reason and name not in before:
            reason = "not an output before"
        was = before.get(name, name)
        mine = Fetch(ORIGINAL, was) if measured or not reason else None
        out.append(ComparedPair(was, name, mine, Fetch(EDITED, name), reason, measured=measured))
    return out


REASON = "same dtype and shape; values are not compared"
OTHER_SHAPE = "its size depends on values"
_SHAPED_BY_VALUES = re.compile(
    "Where$|Unique|NonMaxSuppression|DynamicPartition|ListDiff|StringSplit|Ragged|Sparse|Deserialize|Parse|CTC|Exit$"
    "|While|If$|Case$|Call|TensorArray|TensorList|Decode|Range$|Sample|Bincount|Merge"
)
"""Ops whose output shapes can depend on the values of their inputs."""


def same_shapes_trial(context: TrialContext, claim: SameShapes) -> Trial:
    """Returns the trial of the dtypes and shapes of outputs on the same feeds."""
    del claim  # it says no more
    plan, inside = same_outputs_plan(context, SameOutputs())
    trial = side_by_side_trial(context, plan.only({*plan.fetches} - inside), SameOutputs(), ())
    for pair in trial.pairs:
        pair.reason = REASON
    for run in trial.runs:
        run.blame = _refused if run.accused else None
    return replace(
        trial,
        statement="dtypes and shapes of edited(x) == dtypes and shapes of original(x)",
        conditions=[],
        steady=None,
        each=partial(_compare, trial, _shaped_by_values(context.change.before)),
        otherwise=partial(alone_trial, context),
    )


def _shaped_by_values(graph: Graph) -> frozenset[str]:
    """Returns the nodes whose shapes may depend on values."""
    shaping = [op for op in op_counts(graph) if _SHAPED_BY_VALUES.search(op) or op in graph.functions]
    return depending_on(graph, [node.name for node in graph.nodes() if node.op in shaping])


def _compare(trial: Trial, shaped: frozenset[str], state: TrialState, sample: int) -> None:
    """Raises DiffersError if an output does not have the dtype and shape of the original."""
    wrong = []
    for pair, output in zip(trial.pairs, state.proof.outputs, strict=True):
        assert isinstance(pair.mine, Fetch)
        was, now = state.given(pair.mine), state.given(pair.theirs)
        if (was.dtype, len(was.shape)) == (now.dtype, len(now.shape)) and parse_tensor(pair.before).node in shaped:
            output.reason = REASON if was.shape == now.shape else OTHER_SHAPE
        elif (was.dtype, was.shape) != (now.dtype, now.shape):
            wrong.append(f"{quoted(pair.after)} has the shape {list(now.shape)}, but had {list(was.shape)}")
    if wrong:
        raise DiffersError(
            f"{counted(len(wrong), 'output')} with a different shape, on sample {sample + 1}:",
            state.proof,
            details=tuple(wrong),
            advice="keep-constants",
        )


def _refused(refusal: RunRefusal) -> GdsurgeonError:
    if refusal.error is not None:
        return NotValidatedError(refusal.error.message, code=refusal.error.code, advice=DO_WITHOUT)
    return ValidationError(
        f"the result does not run without its weights: {refusal.text}", code="does-not-run", advice="keep-constants"
    )
