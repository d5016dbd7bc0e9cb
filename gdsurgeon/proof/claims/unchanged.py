"""An edit that changes values on purpose: the graph loads and runs, and what the edit does not reach is unchanged."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gdsurgeon.analysis.queries.function_usage import calling
from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.edits.claims import Unchanged
from gdsurgeon.errors import GdsurgeonError, ValidationError, printable
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.claims.side_by_side import deciding, reached_after
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    EDITED,
    ORIGINAL,
    ComparedPair,
    Fetch,
    RunRefusal,
    SameFeed,
    Trial,
    TrialContext,
    TrialRun,
    both_load,
    chance_reasons,
)

STATEMENT = "outputs not downstream of the edit == original(x)"
_PLAIN = SubjectOptions(batches=False)  # the edit may have fixed the batch of one input, and not of another


def unchanged_trial(context: TrialContext, claim: Unchanged | None = None) -> Trial:
    """The edited graph is planned on its own: other inputs may be needed, and other ops reached, than before."""
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
    """The original does not run here, and that is why it was edited: that the edited graph runs is what can be shown.

    WHY says what TensorFlow has against the original.
    """
    trial = unchanged_trial(context)
    warning = f"{context.change.name} does not run here, so nothing can be compared: {printable(why)}"
    run = replace(trial.runs[-1], fed={})
    for pair in trial.pairs:
        pair.reason = "the original does not run here"
    return replace(trial, runs=[run], warnings=[warning], loads={EDITED: "the result does not load"})


def _blame(context: TrialContext, refusal: RunRefusal) -> GdsurgeonError:
    """Where the original runs, on feeds for the same inputs, that the result does not is the edit's doing."""
    if refusal.error is None or refusal.bound or context.original_runs():
        return ValidationError(f"the result does not run: {refusal.text}", code="does-not-run")
    return refusal.error


def _changed(context: TrialContext) -> frozenset[str]:
    """The nodes of the original that the edit has rewired or changed, or that call a function which it has changed."""
    intent = context.change.intent
    callers = calling(context.change.before, intent.functions.changed) if intent.functions.changed else ()
    names = [*(slot.node for slot in intent.rewired), *intent.changed, *(node.name for node in callers)]
    return frozenset(name for name in names if context.change.before.find(name) is not None)


def _pairs(
    context: TrialContext, original: Subject, edited: Subject, changed: frozenset[str], *, is_measured: bool
) -> list[ComparedPair]:
    """What the edited graph returns, with what the original returns if that must be the same, or is measured."""
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
