"""The original and the edited graph on the same feeds, at the same time: what such trials have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from gdsurgeon.analysis.queries.function_usage import calling
from gdsurgeon.analysis.traversal.decisions import deciding_nodes
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.errors import Line, NotValidatedError, joined
from gdsurgeon.feeds.input_spec import InputSpec
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.plan import Assigned, FetchPlan, plan_with
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import (
    DO_WITHOUT,
    EDITED,
    ORIGINAL,
    ComparedPair,
    FeedSource,
    Fetch,
    SameFeed,
    Trial,
    TrialContext,
    TrialRun,
    chance_reasons,
    nodes_of,
)
from gdsurgeon.text import named


def deciding(context: TrialContext, outputs: Iterable[str]) -> list[str]:
    """The nodes of the original by which OUTPUTS of it are decided, as far as they are there after the edit."""
    nodes = deciding_nodes(context.change.before[name] for name in dict.fromkeys(outputs))
    return [node.name for node in nodes if context.has_after(node.name)]


def original_run(context: TrialContext, original: Subject, fed: Mapping[str, FeedSource] | None = None) -> TrialRun:
    """The original, whose inputs are reported by the names that they have after the edit."""
    return TrialRun(original, fed or {}, reported_as={spec.name: context.after(spec.name) for spec in original.specs})


def edited_plan(context: TrialContext, original: FetchPlan) -> FetchPlan:
    """What is run of the edited graph: the counterparts of what ORIGINAL says."""
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
    """The edited graph, on what ORIGINAL is fed.

    Args:
        context: of the claim.
        original: is fed its inputs, variables and random values.
        plan: what is fetched of the edited graph.
        fed: what it is fed beside that, or instead.
        specs: inputs that it alone has.
        unfed: what it is not fed.
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
    """Each fetch of the original with its counterpart.

    Args:
        context: of the claim.
        plan: that of the original.
        inside: its nodes that are no outputs.
        set_aside: fetches that are not compared, and why, beside those that depend on chance.
        sites: nodes that are no outputs either, and compared for what the edit has done there.
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
    """TRIAL, the tolerance of which is for what the edit reaches."""
    if not (trial.rtol or trial.atol or trial.of_largest):
        return trial
    reached = reached_after(context)
    for pair in trial.pairs:
        pair.exact = parse_tensor(pair.after).node not in reached
    return trial


def reached_after(context: TrialContext) -> AbstractSet[str]:
    """The nodes of the edited graph that the edit has made or changed, and what depends on them."""
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
