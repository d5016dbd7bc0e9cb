"""The comparison of two models from two files: paired by name, run on the same feeds, output by output."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.edits.claims import Postprocessed, Preprocessed
from gdsurgeon.errors import UsageError, ValidationError, printable, quoted
from gdsurgeon.feeds.input_spec import InputSpec, input_spec, overridden
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.ops import dtypes
from gdsurgeon.proof.claims.composed import PRE, Parts, parts_around, parts_trial
from gdsurgeon.proof.claims.same_outputs import counterpart_pairs, deciding
from gdsurgeon.proof.engine import Failure
from gdsurgeon.proof.models.divergence import DivergenceSearch, ModelSide
from gdsurgeon.proof.models.run_model import Recording
from gdsurgeon.proof.plan import FetchPlan, Skipped, plan_with
from gdsurgeon.proof.trial import EDITED, ORIGINAL, Trial, TrialContext, TrialState, chance_reasons, nodes_of
from gdsurgeon.text import first_lines, near_miss

OPTIMIZED_TOLERANCE = 1e-4
"""By how much floats may differ by default, relatively or absolutely, where TensorFlow has optimised the graphs.

It merges and reorders arithmetic, and does so by what stands around it: two graphs that give the same bits as they are
written need not do so then.
"""
HOW_TO_PAIR = "pair-names"


class ComparisonRequest(NamedTuple):
    """What is compared, and how strictly.

    Attributes:
        outputs: tensors of the model to compare; none: the outputs of both.
        rtol, atol: by how much floats may differ.
        front, back: what stands before and behind the model.
        judged: whether a difference is a failure; else it is only reported.
        recording: is told of each sample.
    """

    outputs: Sequence[str] = ()
    rtol: float = 0.0
    atol: float = 0.0
    front: Preprocessed | None = None
    back: Postprocessed | None = None
    judged: bool = True
    recording: Recording | None = None


class ModelComparison(NamedTuple):
    """``other(x) = model(x)``, perhaps with a graph before and behind the model; whatever has no partner fails.

    Attributes:
        context: the model as the original, the other one as the edited graph; the intent says which names of the one
            are which of the other.
        parts: what is run of the model, and of what stands around it.
        trial: of the two.
    """

    context: TrialContext
    parts: Parts
    trial: Trial


def models_compared(context: TrialContext, request: ComparisonRequest) -> ModelComparison:
    """The comparison of two models.

    Raises:
        ValidationError: something has no partner in the other model, or fits no partner.
        NotValidatedError: what stands before or behind cannot be run here.
    """
    change = context.change
    served = {i.name for i in request.back.outputs} if request.back is not None else set()
    tensors = _tensors(context, request.outputs, served)
    inside = deciding(context, nodes_of(tensors)) if not request.outputs else []
    plan = _plan(context, [*nodes_of([*tensors, *served]), *inside])
    if request.outputs:
        plan = plan.only({*tensors, *served})
    parts = parts_around(context, plan, request.front, request.back)
    inputs = _paired_inputs(context, parts)
    inner = f"{_stem(change.before)}({'pre(x)' if request.front is not None else 'x'})"
    outer = f"post({inner})" if request.back is not None else inner
    trial = parts_trial(context, parts, f"{_stem(change.after)}(x) == {outer}", inputs.extra, inputs.alone)
    # Of what stands behind POST only what is served has a partner.
    pairs = counterpart_pairs(context, plan, {*inside} - {*nodes_of(tensors)}, inputs.set_aside)
    trial.pairs = [*trial.pairs, *(pair for pair in pairs if pair.before not in served)]
    trial.rtol, trial.atol = request.rtol, request.atol
    if not request.judged:
        trial.judged, trial.steady = False, None
    if request.recording is not None:
        trial.each = partial(_note, request.recording)
    return ModelComparison(context, parts, trial)


def optimized_again(trial: Trial) -> Trial:
    """The same on the graphs that are loaded then, which TensorFlow optimises."""
    rtol, atol = (trial.rtol, trial.atol) if trial.rtol or trial.atol else (OPTIMIZED_TOLERANCE, OPTIMIZED_TOLERANCE)
    return replace(trial, rtol=rtol, atol=atol, optimized=True, each=None)


def _note(recording: Recording, state: TrialState, sample: int) -> None:
    fed = state.fed[EDITED] if PRE in state.fed else state.fed[ORIGINAL]
    recording.note(state.executor, sample, fed, state.subject(ORIGINAL))


# -- pairing --------------------------------------------------------------------------------------------------


def _plan(context: TrialContext, outputs: Sequence[str]) -> FetchPlan:
    """What is fetched of the model for the nodes OUTPUTS, as far as the other one can be run for it too."""
    settings, before = context.executor.settings, context.change.before
    draws = nodes_of(plan_with(settings, before).draws)
    undrawable = frozenset(name for name in draws if not context.has_after(name))
    plan = plan_with(settings, before, list(dict.fromkeys(outputs)), undrawable=undrawable)
    barred = context.barred(plan.fetches)
    plan.skipped += [Skipped(name, reason) for name, reason in barred.items()]
    return plan.only({*plan.fetches} - barred.keys())


def _tensors(context: TrialContext, wanted: Sequence[str], served: Collection[str]) -> list[str]:
    """What is compared, by the names in the model; a node stands for all of its outputs."""
    model, other = context.change.before, context.change.after
    for name in wanted:
        model.tensor(name)
        node = parse_tensor(context.after(name.removesuffix(":0"))).node
        if node not in other:
            raise ValidationError(
                f"{context.change.called} has no {quoted(node)}.{near_miss(node, other.names())}",
                code="no-such-node",
                facts={"node": node},
                advice=HOW_TO_PAIR,
            )
    if wanted:
        return [name.removesuffix(":0") for name in wanted]
    intent = context.change.intent
    before = {parse_tensor(new).node: old for old, new in (*intent.renamed.items(), *intent.moved.items())}
    mine = [node.name for node in output_nodes(model)]
    theirs = [node.name for node in output_nodes(other)]
    partners = {name: before.get(name, name) for name in theirs}
    names = (context.change.name, mine), (printable(other.source_name), theirs)
    lonely = [f"{names[0][0]} returns {quoted(name)}" for name in mine if not context.has_after(name)]
    lonely += [
        f"{names[1][0]} returns {quoted(n)}" for n, old in partners.items() if old not in model and n not in served
    ]
    if lonely:
        raise ValidationError(
            f"{len(lonely)} output{'s have' if len(lonely) > 1 else ' has'} no counterpart in the other model:",
            code="no-partner",
            facts={"count": len(lonely)},
            details=first_lines(lonely, 20),
            advice=HOW_TO_PAIR,
        )
    return list(dict.fromkeys([*mine, *nodes_of(old for old in partners.values() if old in model)]))


class _Inputs(NamedTuple):
    """How the inputs of two models go together.

    Attributes:
        extra: those that the other model alone has; the user gives their values.
        alone: what those of the model that the other one has not would be called there.
        set_aside: fetches of the model whose counterparts depend on chance, and why.
    """

    extra: list[InputSpec]
    alone: set[str]
    set_aside: dict[str, str]


def _paired_inputs(context: TrialContext, parts: Parts) -> _Inputs:
    """Sees to it that both take the same inputs, in shapes that both take."""
    change, model = context.change, parts.model
    mine = [*model.specs, *(parts.pre.specs if parts.pre is not None else [])]
    fed = {context.after(spec.name): spec for spec in model.specs}
    fed |= {context.after(i.name): _named(mine, i.part_input) for i in parts.taken}
    variables = {context.after(variable.name) for variable in model.variables}
    plan = _other_plan(context, model.plan)
    chance = chance_reasons(plan)
    set_aside = {name: chance[context.after(name)] for name in model.plan.fetches if context.after(name) in chance}
    extra: list[InputSpec] = []
    lonely: list[str] = []
    for name in [*plan.placeholders, *(name for name in plan.defaults if name in fed)]:
        spec = overridden(input_spec(change.after[name]), context.overrides)
        if name in fed:
            _fit(context, parts, fed[name], spec)
        elif spec.given:
            extra.append(spec)
        else:
            lonely.append(name)
    if extra:
        model.hold_batch()  # what one of them alone is given is of one batch
    lonely += [name for name in plan.variables if name not in variables]
    if lonely:
        raise _unpaired(change.called, lonely, change.name)
    alone = {name for name in fed if name not in plan.placeholders and name not in change.after}
    given = {spec.name for spec in model.specs if spec.given}
    unfed = [spec.name for name, spec in fed.items() if name in alone and spec.name not in given]
    if unfed:
        raise _unpaired(change.name, unfed, change.called)
    return _Inputs(extra, alone, set_aside)


def _unpaired(model: str, inputs: Sequence[str], other: str) -> ValidationError:
    return ValidationError(
        f"{model} has the inputs {', '.join(map(quoted, inputs[:8]))}, which {other} does not have",
        code="no-partner",
        facts={"inputs": list(inputs)},
        advice="pair-or-feed",
    )


def _other_plan(context: TrialContext, plan: FetchPlan) -> FetchPlan:
    """What the other model needs for what is compared; its own random ops are not drawn for both."""
    settings, other = context.executor.settings, context.change.after
    outputs = [name for name in nodes_of(map(context.after, plan.fetches)) if name in other]
    drawn = {*nodes_of(map(context.after, plan.draws))}
    own = [node for node in nodes_of(plan_with(settings, other, outputs).draws) if node not in drawn]
    return plan_with(settings, other, outputs, undrawable=frozenset(own))


def _fit(context: TrialContext, parts: Parts, mine: InputSpec, theirs: InputSpec) -> None:
    """Has the input be made in shapes that the other model takes too."""
    names = f"{quoted(mine.name)} of {context.change.name}", f"{quoted(theirs.name)} of {context.change.called}"
    if mine.dtype != theirs.dtype:
        raise ValidationError(
            f"{names[0]} is {dtypes.dtype_name(mine.dtype)}, but {names[1]} is {dtypes.dtype_name(theirs.dtype)}",
            code="dtype-mismatch",
            facts={"node": names[1]},
            advice="put-in-front",
        )
    shapes = [s for s in mine.shapes if compatible(s, theirs.stated)]
    shapes = shapes or [s for s in theirs.shapes if compatible(s, mine.stated)]
    if not shapes:
        raise ValidationError(
            f"no shape fits both {names[0]} and {names[1]}", code="shape-mismatch", facts={"node": names[1]}
        )
    stated = mine.stated
    if stated is not None and theirs.stated is not None:
        stated = tuple(max(a, b) for a, b in zip(stated, theirs.stated, strict=True))
    fitted = mine._replace(shapes=tuple(shapes), stated=stated if stated is not None else theirs.stated)
    for subject in (parts.model, parts.pre):
        if subject is not None:
            subject.specs = [fitted if spec is mine else spec for spec in subject.specs]


def _named(specs: Sequence[InputSpec], name: str) -> InputSpec:
    found = next((spec for spec in specs if spec.name == name), None)
    if found is None:
        raise UsageError(
            f"the preprocessing graph has no input {quoted(name)}", code="no-such-input", facts={"node": name}
        )
    return found


def _renamed(names: Mapping[str, str], tensor: str) -> str:
    return names.get(tensor, tensor)


def _stem(graph: Graph) -> str:
    """A short name for a graph, in an equation."""
    return printable(os.path.splitext(os.path.basename(graph.source_name.rstrip("/")))[0]) or "model"


# -- what is to blame -----------------------------------------------------------------------------------------


def divergence_search(comparison: ModelComparison, failure: Failure) -> DivergenceSearch:
    """The search for what is to blame for FAILURE of the comparison; the values are still there."""
    context, parts = comparison.context, comparison.parts
    intent = context.change.intent
    back = {theirs: mine for mine, theirs in intent.renamed.items()}
    moved = {theirs: mine for mine, theirs in intent.moved.items()}
    served = {i.name: i.part_result for i in parts.served}
    taken = {i.name: i.part_result for i in parts.taken}

    def of_model(tensor: str) -> str | None:
        ref = parse_tensor(tensor)
        if ref.node in served:
            return None
        return moved.get(tensor) or format_input(back.get(ref.node, ref.node), ref.port)

    def in_other(tensor: str) -> str:
        return taken.get(tensor) or context.after(tensor)

    sides = [ModelSide(ORIGINAL, parts.model.graph, failure.fed[ORIGINAL], of_model, in_other)]
    for part, results, interfaces in ((parts.pre, {}, parts.taken), (parts.post, served, parts.served)):
        if part is not None and part.name in failure.fed:
            names = {i.part_input: i.name for i in interfaces}
            renamed = partial(_renamed, results), partial(_renamed, names)
            sides.append(ModelSide(part.key, part.graph, failure.fed[part.name], *renamed))
    return DivergenceSearch(context, comparison.trial, failure, sides)
