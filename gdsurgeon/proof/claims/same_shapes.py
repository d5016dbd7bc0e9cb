"""An edit that takes values away: every output has the dtype and the shape that it had."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from gdsurgeon.analysis.queries.op_usage import op_counts
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.edits.claims import SameOutputs, SameShapes
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, ValidationError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.claims.same_outputs import same_outputs_plan, side_by_side_trial
from gdsurgeon.proof.claims.unchanged import alone_trial
from gdsurgeon.proof.proof import DiffersError
from gdsurgeon.proof.trial import DO_WITHOUT, Fetch, RunRefusal, Trial, TrialContext, TrialState
from gdsurgeon.text import counted

REASON = "same dtype and shape; values are not compared"
OTHER_SHAPE = "its size depends on values"
_SHAPED_BY_VALUES = re.compile(
    "Where$|Unique|NonMaxSuppression|DynamicPartition|ListDiff|StringSplit|Ragged|Sparse|Deserialize|Parse|CTC|Exit$"
    "|While|If$|Case$|Call|TensorArray|TensorList|Decode|Range$|Sample|Bincount|Merge"
)
"""Ops whose outputs may be of another size where their inputs have other values."""


def same_shapes_trial(context: TrialContext, claim: SameShapes) -> Trial:
    """Both graphs are run on the same feeds, and of what they give the dtypes and shapes are compared."""
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
    """The nodes whose shapes may follow from values that no constant of a shape holds."""
    shaping = [op for op in op_counts(graph) if _SHAPED_BY_VALUES.search(op) or op in graph.functions]
    return depending_on(graph, [node.name for node in graph.nodes() if node.op in shaping])


def _compare(trial: Trial, shaped: frozenset[str], state: TrialState, sample: int) -> None:
    """Raises DiffersError where an output is of another dtype or shape than that of the original."""
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
