"""Proves an edit: runs the original and the edited graph on the same feeds and compares what the edit's claim says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from gdsurgeon.edits.claims import (
    Claim,
    Gradients,
    LikeReference,
    OwnVariables,
    Postprocessed,
    Preprocessed,
    RowByRow,
    SameGiven,
    SameOutputs,
    SamePart,
    SamePiece,
    SameShapes,
    SameSites,
    SameTensors,
    Unchanged,
)
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.claims.composed import composed_trial
from gdsurgeon.proof.claims.gradients import gradients_trial
from gdsurgeon.proof.claims.like_reference import like_reference_trial
from gdsurgeon.proof.claims.own_variables import own_variables_trial
from gdsurgeon.proof.claims.row_by_row import row_by_row_trial
from gdsurgeon.proof.claims.same_outputs import same_outputs_trial, same_tensors_trial
from gdsurgeon.proof.claims.same_piece import same_piece_trial
from gdsurgeon.proof.claims.same_shapes import same_shapes_trial
from gdsurgeon.proof.claims.same_sites import same_sites_trial
from gdsurgeon.proof.claims.substituted import same_given_trial, same_part_trial
from gdsurgeon.proof.claims.unchanged import unchanged_trial
from gdsurgeon.proof.deployed import as_deployed, is_deployed, load_deployed, unload_deployed, without_onednn
from gdsurgeon.proof.engine import Engine
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.loading import await_loaded
from gdsurgeon.proof.proof import Deployed, DiffersError, Proof, merged, worse
from gdsurgeon.proof.statement import SAME
from gdsurgeon.proof.trial import EDITED, ORIGINAL, Trial, TrialContext, both_load


def prove_loads(executor: Executor) -> Proof:
    """Waits until the edited graph has loaded.

    Raises:
        ValidationError: TensorFlow does not take it.
        NotValidatedError: this TensorFlow lacks an op.
    """
    started = time.monotonic()
    device = executor.check_device()
    await_loaded(executor, EDITED, "the result does not load")
    return Proof("load", device=device, runtime=executor.version(), seconds=time.monotonic() - started)


def prove(
    executor: Executor, change: Change, overrides: Overrides, meanwhile: Callable[[], object] = lambda: None
) -> Proof:
    """Checks what is claimed of CHANGE by execution.

    Args:
        executor: is loading the graph before as ORIGINAL and the one after as EDITED.
        change: the two graphs, and what is claimed of them.
        overrides: what the user says of feeds.
        meanwhile: called, perhaps several times, while TensorFlow is busy.

    Raises:
        ValidationError: the edited graph does not load, does not run, or differs from what the edit claims.
        NotValidatedError: nothing can be compared here, or an output is not run that reaches outside of the graph.
        UsageError: an override does not fit.
    """
    started = time.monotonic()
    device = executor.check_device()
    context, claims = TrialContext(executor, change, overrides), change.result.claims
    with ExitStack() as at_end:
        if any(map(is_deployed, claims)):
            load_deployed(context)
            at_end.callback(unload_deployed, executor)
        else:
            meanwhile()
        try:
            tried = list(_tried(context, claims))
            proof = merged([found for _, found in tried])
            proof.deployed = _deployed(context, tried, meanwhile)
        except DiffersError as differs:
            finish(differs.proof, executor, device, started)
            raise
    finish(proof, executor, device, started)
    proof.check_whole()
    return proof


def _tried(context: TrialContext, claims: Sequence[Claim]) -> Iterator[tuple[Engine, Proof]]:
    """Each claim, tried, and its proof; what one leaves behind in the graphs is not there for the next."""
    for claim in claims:
        engine = Engine(context.executor, _built(claim, context))
        try:
            proof = engine.run()
        except NotValidatedError as error:
            proof = _shown_by_graphs(claim, engine, error)
        except DiffersError as differs:
            if not is_deployed(claim):
                raise
            proof = without_onednn(context, partial(_trial, claim), differs)
        yield engine, proof
        if claim is not claims[-1] and any(run.subject.plan.keeps_state for run in engine.trial.runs):
            for key in (ORIGINAL, EDITED):
                context.executor.load_again(key)


def _built(claim: Claim, context: TrialContext) -> Trial:
    """The trial of CLAIM; one that says why nothing of it can be compared, where the graphs alone show it."""
    try:
        return _trial(claim, context)
    except NotValidatedError as error:
        if error.code != "nothing-comparable" or not _is_shown_by_graphs(claim):
            raise
        return Trial(_equation(claim), [], [], both_load(context.change), conditions=[partial(_raised, error)])


def _raised(error: NotValidatedError, _: Proof) -> None:
    raise error


def _is_shown_by_graphs(claim: Claim) -> bool:
    return isinstance(claim, SameOutputs | SameGiven) and claim.as_graphs


def _equation(claim: Claim) -> str:
    return claim.statement if isinstance(claim, SameGiven) else SAME


def _shown_by_graphs(claim: Claim, engine: Engine, error: NotValidatedError) -> Proof:
    """The proof of CLAIM where nothing could be compared by running.

    Raises ERROR where graphs do not show it, or the values are random: a copy draws others.
    """
    is_random = any(run.subject.plan.random for run in engine.trial.runs)
    if error.code != "nothing-comparable" or is_random or not _is_shown_by_graphs(claim):
        raise error
    proof = engine.proof
    proof.equations = []
    proof.as_graphs = {_equation(claim): error.message}
    return proof


def _trial(claim: Claim, context: TrialContext) -> Trial:
    return _TRIALS[type(claim)](context, claim)


def _deployed(
    context: TrialContext, tried: Sequence[tuple[Engine, Proof]], meanwhile: Callable[[], object]
) -> Deployed | None:
    """How the graphs compare as they are deployed, where a claim is about that."""
    found: Deployed | None = None
    for claim, (engine, proof) in zip(context.change.result.claims, tried, strict=True):
        if is_deployed(claim) and engine.trial.runs and engine.proof.samples and proof.compared:
            found = worse(found, as_deployed(context, engine, meanwhile))
    return found


def finish(proof: Proof, executor: Executor, device: str, started: float) -> None:
    """Notes where and with what PROOF was carried out, and how long it took since STARTED (monotonic seconds)."""
    proof.device, proof.runtime, proof.is_locked_in = device, executor.version(), executor.is_locked_in()
    proof.seconds = time.monotonic() - started


Builder = Callable[[TrialContext, Any], Trial]

_TRIALS: Mapping[type[Claim], Builder] = {
    Unchanged: unchanged_trial,
    SameOutputs: same_outputs_trial,
    SameShapes: same_shapes_trial,
    SameTensors: same_tensors_trial,
    RowByRow: row_by_row_trial,
    SameGiven: same_given_trial,
    SamePart: same_part_trial,
    SamePiece: same_piece_trial,
    SameSites: same_sites_trial,
    OwnVariables: own_variables_trial,
    Preprocessed: composed_trial,
    Postprocessed: composed_trial,
    LikeReference: like_reference_trial,
    Gradients: gradients_trial,
}
"""How each claim is made into a trial."""
