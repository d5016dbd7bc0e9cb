"""Compares two models from two files: nodes are paired by name, and run on the same feeds."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.errors import ValidationError, printable, quoted
from gdsurgeon.feeds.input_spec import InputSpec, input_spec, overridden
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops import dtypes
from gdsurgeon.proof.claims.same_outputs import (
    counterpart_pairs,
    deciding,
    edited_plan,
    edited_run,
    original_run,
)
from gdsurgeon.proof.plan import FetchPlan, Skipped, plan_with
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import ORIGINAL, Session, Trial, chance_reasons, nodes_of
from gdsurgeon.text import first_lines, near_miss

OPTIMIZED_TOLERANCE = 1e-4
"""The default tolerance if TensorFlow optimizes the graphs, relative or absolute.

The optimizer merges and reorders operations depending on the surrounding nodes. Two graphs that are bit-identical as
written can therefore differ.
"""
HOW_TO_PAIR = "pair-names"


class ComparisonRequest(NamedTuple):
    """The comparison and its tolerance.

    Attributes:
        outputs: tensors of the model to compare; empty: the outputs of both.
        rtol, atol: by how much floats may differ.
        around: the equation of the composed model, such as ``post(model(x))``; '' for the model itself.
        ignored: nodes of the composed model whose outputs are not compared.
        judged: whether a difference is an error; otherwise it is only reported.
    """

    outputs: Sequence[str] = ()
    rtol: float = 0.0
    atol: float = 0.0
    around: str = ""
    ignored: Collection[str] = ()
    judged: bool = True


class ModelComparison(NamedTuple):
    """The comparison of two models; fails for an input or output without a counterpart.

    Attributes:
        session: the model as the original, and the other model as the edited graph. The intent pairs their names.
        trial: the trial of both.
    """

    session: Session
    trial: Trial


def models_compared(session: Session, request: ComparisonRequest) -> ModelComparison:
    """Returns the comparison of two models.

    Raises:
        ValidationError: an input or output has no counterpart in the other model, or does not fit the counterpart.
    """
    change = session.change
    tensors = _tensors(session, request)
    inside = deciding(session, nodes_of(tensors)) if not request.outputs else []
    plan = _plan(session, [*nodes_of(tensors), *inside])
    if request.outputs:
        plan = plan.only({*tensors})
    model = session.original(plan)
    inputs = _paired_inputs(session, model)
    edited = edited_run(session, model, edited_plan(session, plan), specs=inputs.extra, unfed=inputs.alone)
    trial = Trial(
        session.executor,
        f"{stem(change.after)}(x) == {request.around or f'{stem(change.before)}(x)'}",
        [original_run(session, model), edited],
        counterpart_pairs(session, plan, {*inside} - {*nodes_of(tensors)}, inputs.set_aside),
        session.both_load(),
        samples=model.calls,
        rtol=request.rtol,
        atol=request.atol,
        skipped=plan.reasons,
        steady=ORIGINAL if request.judged else None,
        judged=request.judged,
    )
    return ModelComparison(session, trial)


def optimized_again(trial: Trial) -> Trial:
    """Returns the trial for the graphs that are loaded then, which TensorFlow optimizes."""
    rtol, atol = (trial.rtol, trial.atol) if trial.rtol or trial.atol else (OPTIMIZED_TOLERANCE, OPTIMIZED_TOLERANCE)
    return replace(trial, rtol=rtol, atol=atol, optimized=True)


# -- pairing --------------------------------------------------------------------------------------------------


def _plan(session: Session, outputs: Sequence[str]) -> FetchPlan:
    """Returns the fetches of the model for the nodes `outputs` that can also run in the other model."""
    settings, before = session.executor.settings, session.change.before
    draws = nodes_of(plan_with(settings, before).draws)
    undrawable = frozenset(name for name in draws if not session.has_after(name))
    plan = plan_with(settings, before, list(dict.fromkeys(outputs)), undrawable=undrawable)
    barred = session.barred(plan.fetches)
    plan.skipped += [Skipped(name, reason) for name, reason in barred.items()]
    return plan.only({*plan.fetches} - barred.keys())


def _tensors(session: Session, request: ComparisonRequest) -> list[str]:
    """Returns the compared tensors by their names in the model; a node stands for all its outputs."""
    model, other, wanted = session.change.before, session.change.after, request.outputs
    for name in wanted:
        model.tensor(name)
        node = parse_tensor(session.after(name.removesuffix(":0"))).node
        if node not in other:
            raise ValidationError(
                f"{session.change.called} has no {quoted(node)}.{near_miss(node, other.names())}",
                code="no-such-node",
                facts={"node": node},
                advice=HOW_TO_PAIR,
            )
    if wanted:
        return [name.removesuffix(":0") for name in wanted]
    intent = session.change.intent
    before = {parse_tensor(new).node: old for old, new in (*intent.renamed.items(), *intent.moved.items())}
    mine = [node.name for node in output_nodes(model) if node.name not in request.ignored]
    theirs = [node.name for node in output_nodes(other)]
    partners = {name: before.get(name, name) for name in theirs}
    names = (session.change.name, mine), (printable(other.source_name), theirs)
    lonely = [f"{names[0][0]} returns {quoted(name)}" for name in mine if not session.has_after(name)]
    lonely += [f"{names[1][0]} returns {quoted(n)}" for n, old in partners.items() if old not in model]
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
    """How the inputs of two models are paired.

    Attributes:
        extra: inputs that only the other model has; the user gives their values.
        alone: inputs that only the model has, by their names in the other model.
        set_aside: fetches of the model whose counterparts are random, with the reason.
    """

    extra: list[InputSpec]
    alone: set[str]
    set_aside: dict[str, str]


def _paired_inputs(session: Session, model: Subject) -> _Inputs:
    """Makes both models get the same inputs, in shapes that both accept."""
    change = session.change
    fed = {session.after(spec.name): spec for spec in model.specs}
    variables = {session.after(variable.name) for variable in model.variables}
    plan = _other_plan(session, model.plan)
    chance = chance_reasons(plan)
    set_aside = {name: chance[session.after(name)] for name in model.plan.fetches if session.after(name) in chance}
    extra: list[InputSpec] = []
    lonely: list[str] = []
    for name in [*plan.placeholders, *(name for name in plan.defaults if name in fed)]:
        spec = overridden(input_spec(change.after[name]), session.overrides)
        if name in fed:
            _fit(session, model, fed[name], spec)
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


def _other_plan(session: Session, plan: FetchPlan) -> FetchPlan:
    """Returns the needs of the other model; its own random ops are not fed."""
    settings, other = session.executor.settings, session.change.after
    outputs = [name for name in nodes_of(map(session.after, plan.fetches)) if name in other]
    drawn = {*nodes_of(map(session.after, plan.draws))}
    own = [node for node in nodes_of(plan_with(settings, other, outputs).draws) if node not in drawn]
    return plan_with(settings, other, outputs, undrawable=frozenset(own))


def _fit(session: Session, model: Subject, mine: InputSpec, theirs: InputSpec) -> None:
    """Makes an input use shapes that the other model also accepts."""
    names = f"{quoted(mine.name)} of {session.change.name}", f"{quoted(theirs.name)} of {session.change.called}"
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
    model.specs = [fitted if spec is mine else spec for spec in model.specs]


def stem(graph: Graph) -> str:
    """Returns a short name for a graph, for equations."""
    return printable(os.path.splitext(os.path.basename(graph.source_name.rstrip("/")))[0]) or "model"
