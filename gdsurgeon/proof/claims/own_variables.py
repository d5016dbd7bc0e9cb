"""Claims about parts of a graph: they have separate variables, or return recorded values."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from gdsurgeon.edits.claims import LikeReference, OwnVariables
from gdsurgeon.errors import GdsurgeonError, Line, UsageError, ValidationError, printable, quoted
from gdsurgeon.feeds.archive import load
from gdsurgeon.feeds.input_spec import input_seed, variable_value
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.attrs import shape_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import element_size
from gdsurgeon.proof.claims.same_outputs import something_compared
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    EDITED,
    ComparedPair,
    Fetch,
    Recorded,
    RunRefusal,
    SameFeed,
    Trial,
    TrialContext,
    TrialRun,
    chance_reasons,
    nodes_of,
)
from gdsurgeon.runtime.tensor import Tensor

_RESTORED = "restored"
_FIRST, _SECOND = "the variables of the original assigned", "the variables of the copy assigned"


class _OtherValue(NamedTuple):
    """A node that assigns a variable, and the value to assign."""

    node: Node
    value: Tensor


class _AssignedSubject(Subject):
    """A graph that is restored; then some of its variables get other values."""

    assigned: Iterable[_OtherValue] = ()

    def initialize(self) -> None:
        super().initialize()
        feeds = {assigned.node.inputs[1].name: assigned.value for assigned in self.assigned}
        self.executor.initialize(self.key, [assigned.node.name for assigned in self.assigned], feeds)


def own_variables_trial(context: TrialContext, claim: OwnVariables) -> Trial:
    """Returns the trial of the restored graph, and of the graph with other variables in one part, then in the other.

    The outputs of the part with unchanged variables must not change.
    """
    graph, settings = context.change.after, context.executor.settings
    tensors = [tensor for pair in claim.outputs for tensor in pair]
    plan = plan_with(settings, graph, nodes_of(tensors)).only(tensors)
    restored = Subject(
        context.executor, EDITED, graph, plan=plan, overrides=context.overrides, options=SubjectOptions(_RESTORED)
    )
    fed = {name: SameFeed(_RESTORED, name) for name in restored.feedable}
    runs = [TrialRun(restored, accused=context.change.called, reported_as=None)]
    pairs: list[ComparedPair] = []
    reasons, places = chance_reasons(plan), restored.places()
    for key, side in ((_FIRST, 0), (_SECOND, 1)):
        nodes = [graph[pair[side]] for pair in claim.assigned]
        assigned = [found for node in nodes if (found := _other_value(node, settings.seed)) is not None]
        if not assigned:
            continue
        runs.append(
            TrialRun(_subject(context.executor, key, graph, plan, assigned), fed, blame=_blame, reported_as=None)
        )
        for pair in claim.outputs:
            kept = pair[1 - side]
            if kept in places:
                ends = Fetch(_RESTORED, kept), Fetch(key, kept)
                pairs.append(ComparedPair(kept, kept, *ends, reason=reasons.get(kept, "")))
    return Trial(
        claim.statement,
        runs if pairs else [],
        pairs,
        {EDITED: f"{context.change.called} does not load"},
        lead=_RESTORED,
        shown=False,
        complaint="the copy and the original share variables",
    )


def _subject(executor: Executor, key: str, graph: Graph, plan: FetchPlan, assigned: list[_OtherValue]) -> Subject:
    executor.load_graph(key, graph)
    subject = _AssignedSubject(executor, key, graph, plan=FetchPlan(plan.groups), options=SubjectOptions(key))
    subject.assigned = assigned
    return subject


def _other_value(node: Node, seed: int) -> _OtherValue | None:
    """Returns a generated value for the variable that a node assigns; None if none can be generated."""
    variable = node.inputs[0].node
    shape, dtype = variable.attr("shape"), variable.plain_attr("dtype")
    dims = shape_of(shape.shape) if shape is not None else None
    if dims is None or min(dims, default=0) < 0 or not isinstance(dtype, int) or not element_size(dtype):
        return None
    return _OtherValue(node, variable_value(dtype, dims, input_seed(seed, f"assigned {variable.name}")))


def _blame(refusal: RunRefusal) -> GdsurgeonError:
    return ValidationError(
        f"the result does not run after its variables are assigned: {refusal.text}", code="does-not-run"
    )


KEY = "the reference"


def like_reference_trial(context: TrialContext, claim: LikeReference) -> Trial:
    """Returns the trial that an added graph returns the values in the archive.

    Raises:
        UsageError: the archive cannot be read, or lacks a value.
    """
    file = printable(os.path.basename(claim.archive))
    samples = load(claim.archive, "the reference")
    for number, sample in enumerate(samples):
        for name in dict.fromkeys(name for pair in claim.pairs for name in pair):
            if name not in sample:
                has = ", ".join(map(quoted, sample)) or "nothing"
                which = f" for sample {number}" if number else ""
                line = "{against} {file} has {has}{which}, but not {name}"
                raise UsageError(
                    Line(line, file=file, has=has, which=which, name=quoted(name)),
                    code="no-such-tensor",
                    facts={"name": name, "file": file},
                )
    results = [result for _, result in claim.pairs]
    context.executor.load_source(KEY, claim.part)
    plan = plan_with(context.executor.settings, claim.part, nodes_of(results)).only(results)
    part = Subject(context.executor, KEY, claim.part, plan=plan, overrides=Overrides(archive=claim.archive))
    called = printable(claim.part.source_name)
    return Trial(
        f"results of {called} == values in {file}",
        [TrialRun(part, accused=called, reported_as=None)],
        [
            ComparedPair(
                f"{file}: {result}", result, Recorded(result, [s[result] for s in samples], file), Fetch(KEY, result)
            )
            for result in results
        ],
        {KEY: f"TensorFlow does not load {called}"},
        lead=KEY,
        samples=len(samples),
        rtol=claim.rtol,
        atol=claim.atol,
        conditions=[something_compared],
        skipped=plan.reasons,
        complaint=f"the results of {called} differ from those in {file} in",
    )
