"""Proves an edit: tests each claim by execution.

A command reaches `prove` by `cli/edit.py:run_edit`, `operation/edit.py:operate`, `operation/proving.py:Proving.prove`
and `pieces.py:prove_pieces`. The claim of `add-preprocessing` is a `SameGiven` with an added graph. Its proof has these
steps:

1. `prove` calls `meanwhile`, which compares the graphs node by node while TensorFlow loads them; `Proving` raises its
   faults later. Then `prove` calls the function of each claim, here `prove_same_given` (`substituted.py`).
2. This function builds a `Trial` (`_trial`): the edited graph runs on generated feeds. The original runs on the
   preprocessed values of the edited graph. The preprocessing graph runs in isolation on the same feeds. The pairs of
   tensors that must be equal are compared. `plan_with` (`plan.py`) decides which outputs of a graph can run, and
   `Subject` (`subject.py`) how the graph is fed.
3. `Trial.run` (`trial.py`) waits until the graphs are loaded, and runs and compares each sample. `Subject` generates
   the feeds.
4. `Trial` applies the tolerance of the claim to each pair (`Trial.tolerance`), and raises `DiffersError`.
   `agrees` (`proof.py`) decides whether a pair is within the tolerance.
5. The function of the claim checks that something was compared. `merged` combines the proofs of all claims.

Graphs run as they are written, with TensorFlow's default kernels. A claim that is `deployed`, such as that of
simplify, has two more tests. The graphs run again after TensorFlow optimizes them. If outputs differ by rounding, a
process without oneDNN must find them bit-identical: the choice of a oneDNN kernel also depends on whether a filter is
constant, and on which nodes follow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import replace
from typing import Any

from gdsurgeon.edits.claims import (
    Claim,
    Gradients,
    LikeReference,
    OwnVariables,
    RowByRow,
    SameGiven,
    SameOutputs,
    SamePart,
    SameShapes,
    SameSites,
    SameTensors,
    Unchanged,
)
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor, await_loaded
from gdsurgeon.proof.gradients import prove_gradients
from gdsurgeon.proof.isolated import prove_like_reference, prove_own_variables, prove_same_sites
from gdsurgeon.proof.proof import SAME, Deployed, DiffersError, Proof, merged, worse
from gdsurgeon.proof.row_by_row import prove_row_by_row
from gdsurgeon.proof.same_outputs import AS_WRITTEN, load_with, prove_same_outputs, prove_same_shapes, prove_unchanged
from gdsurgeon.proof.substituted import prove_same_given, prove_same_part, prove_same_tensors
from gdsurgeon.proof.trial import EDITED, OPTIMIZED_TOLERANCE, ORIGINAL, Fetch, ProofContext, Trial, optimized_again

_PROVE: Mapping[type[Claim], Callable[[ProofContext, Any], Trial]] = {
    Unchanged: prove_unchanged,
    SameOutputs: prove_same_outputs,
    SameShapes: prove_same_shapes,
    SameTensors: prove_same_tensors,
    RowByRow: prove_row_by_row,
    SameGiven: prove_same_given,
    SamePart: prove_same_part,
    SameSites: prove_same_sites,
    OwnVariables: prove_own_variables,
    LikeReference: prove_like_reference,
    Gradients: prove_gradients,
}
"""The function that proves each claim; it returns the trial that ran."""


def prove_loads(executor: Executor) -> Proof:
    """Waits until the edited graph has loaded.

    Raises:
        ValidationError: TensorFlow refuses the graph.
        NotValidatedError: this TensorFlow lacks an op.
    """
    started, proof = time.monotonic(), Proof("load")
    device = executor.check_device()
    await_loaded(executor, EDITED, "the result")
    finish(proof, executor, device, started)
    return proof


def prove(
    executor: Executor, change: Change, overrides: Overrides, meanwhile: Callable[[], object] = lambda: None
) -> Proof:
    """Tests the claims of `change` by execution.

    Args:
        executor: is loading the graph before as ORIGINAL and the graph after as EDITED.
        change: the two graphs, and the claims.
        overrides: the user's feeds.
        meanwhile: is called, perhaps several times, while TensorFlow is busy.

    Raises:
        ValidationError: the edited graph does not load, does not run, or does not fulfil a claim.
        NotValidatedError: nothing can be compared here, or an output did not run because it accesses outside resources.
        UsageError: an override does not fit.
    """
    started = time.monotonic()
    device = executor.check_device()
    context, claims = ProofContext(executor, change, overrides), change.result.claims
    with ExitStack() as at_end:
        if any(claim.deployed for claim in claims):
            executor.load_graph(KEYS[EDITED], change.after, optimize=True)
            for key in KEYS.values():
                at_end.callback(executor.unload, key)
        else:
            meanwhile()
        try:
            trials: list[Trial] = []
            for claim in claims:
                if trials and any(run.subject.plan.keeps_state for run in trials[-1].runs):
                    executor.load_again(ORIGINAL)
                    executor.load_again(EDITED)
                trials.append(_proven(context, claim))
            proof = merged([trial.proof for trial in trials])
            for claim, trial in zip(claims, trials, strict=True):
                if claim.deployed and trial.runs and trial.proof.compared:
                    proof.deployed = worse([proof.deployed, _as_deployed(context, trial, meanwhile)])
        except DiffersError as differs:
            finish(differs.proof, executor, device, started)
            raise
    finish(proof, executor, device, started)
    proof.check_whole()
    return proof


def finish(proof: Proof, executor: Executor, device: str, started: float) -> None:
    """Records the device, the runtime and the duration of `proof`, which began at `started` (monotonic seconds)."""
    proof.device, proof.runtime, proof.is_locked_in = device, executor.version(), not executor.info().not_locked_in
    proof.seconds = time.monotonic() - started


def _proven(context: ProofContext, claim: Claim) -> Trial:
    """Proves a claim; returns the trial that ran."""
    try:
        return _tested(context, claim)
    except NotValidatedError as error:
        return _shown_by_graphs(context, claim, error)
    except DiffersError as differs:
        if not claim.deployed:
            raise
        return _without_onednn(context, claim, differs)


def _tested(context: ProofContext, claim: Claim) -> Trial:
    """Calls the function that proves `claim`, with graphs in which calls run as the claim requires."""
    if claim.as_written:
        load_with(context, AS_WRITTEN)
    return _PROVE[type(claim)](context, claim)


def _shown_by_graphs(context: ProofContext, claim: Claim, error: NotValidatedError) -> Trial:
    """Returns the proof of a claim if nothing could be compared by execution.

    Raises `error` if the comparison of the graphs does not show the claim, or values are random.
    """
    if error.code != "nothing-comparable" or not claim.as_graphs:
        raise error
    outputs = (new for _, new in claim.outputs) if isinstance(claim, SameGiven) else None
    plan = context.plan(EDITED, outputs)
    if plan.random:
        raise error
    statement = claim.statement if isinstance(claim, SameGiven) else SAME
    trial = Trial(context.executor, statement, [], [], skipped=plan.reasons).run()
    trial.proof.as_graphs, trial.proof.unproven = {statement: error.message}, plan.unproven
    return trial


def _without_onednn(context: ProofContext, claim: Claim, differs: DiffersError) -> Trial:
    """Proves a claim in a process without oneDNN, if the graphs differ by rounding.

    Raises:
        DiffersError: `differs`, if it is not rounding; or the graphs also differ without oneDNN.
    """
    settings, proof, change = context.executor.settings, differs.proof, context.change
    found = [output.comparison for output in proof.compared]
    is_rounding = all(each is None or each.equal or (each.needed or 1.0) <= OPTIMIZED_TOLERANCE for each in found)
    if not (settings.onednn and proof.tolerance.is_exact and is_rounding):
        raise differs
    with Executor(settings._replace(onednn=False), context.executor.progress) as other:
        other.load_graph(ORIGINAL, change.before)
        other.load_graph(EDITED, change.after)
        trial = _tested(context._replace(executor=other), claim)
    trial.proof.onednn_difference = proof.largest_difference
    return trial


# -- as TensorFlow optimizes the graphs -----------------------------------------------------------------------

KEYS = {ORIGINAL: "original, optimised", EDITED: "edited, optimised"}
"""The keys of the graphs in the executor if TensorFlow optimizes them."""
MANY_NODES = 20_000
MANY_BYTES = 64 << 20
"""Limits for optimizing the original: for larger graphs TensorFlow's optimizer needs seconds and much memory (22 s for
100,000 nodes, 1 GB for a graph of 100 MB).
"""


def _as_deployed(context: ProofContext, trial: Trial, meanwhile: Callable[[], object]) -> Deployed:
    """Compares the graphs again after TensorFlow optimizes them, on the first feed of a trial that showed them equal.

    The original of a large graph runs as written. If the graphs then differ, or keep state, both are optimized:
    rounding by the optimizer may change which elements a graph chooses.

    Raises:
        ValidationError: the optimized graph does not run, or they differ by more than the optimizer may cause.
    """
    before = context.change.before
    is_large = before.node_count > MANY_NODES or before.source.size > MANY_BYTES
    try:
        if is_large and not any(run.subject.plan.keeps_state for run in trial.runs):
            with suppress(DiffersError):
                return _compared(context, trial, {EDITED: KEYS[EDITED]}, meanwhile)
        context.executor.load_graph(KEYS[ORIGINAL], before, optimize=True)
        return _compared(context, trial, KEYS, meanwhile)
    except DiffersError as differs:
        differs.code = "optimizer-differs"
        differs.message += "; without TensorFlow's optimizer they are equal, so the optimizer causes the difference"
        raise


def _compared(
    context: ProofContext, trial: Trial, keys: Mapping[str, str], meanwhile: Callable[[], object]
) -> Deployed:
    """Returns how the graphs compare; those in `keys` are optimized, under other keys. Raises ValidationError.

    A fetched tensor is not optimized away. Grappler also merges nodes although an inner tensor of the merged nodes is
    fetched. Sites are therefore neither compared nor fetched.
    """
    pairs = [replace(pair, exact=False) for pair in trial.pairs if not pair.site]
    needed: set[object] = {end for pair in pairs for end in (pair.expected, pair.actual)}
    needed |= {source for run in trial.runs for source in run.fed.values()}
    runs = []
    for run in trial.runs:
        subject, plan = copy(run.subject), run.subject.plan
        subject.executor = context.executor
        subject.key = keys.get(subject.key, subject.key)
        subject.plan = plan.only({name for name in plan.fetches if Fetch(run.name, name) in needed})
        runs.append(replace(run, subject=subject))
    is_both = ORIGINAL in keys
    again = optimized_again(trial)
    again.executor, again.runs, again.pairs, again.samples = context.executor, runs, pairs, 1
    again.varying_run, again.meanwhile = trial.varying_run if is_both else None, meanwhile
    try:
        proof = again.run().proof
    except NotValidatedError as error:
        return Deployed(OPTIMIZED_TOLERANCE, why_not=error.message, is_both=is_both)
    part = proof.tolerance.of_largest
    tolerance, difference = (part, proof.largest_part) if part else (OPTIMIZED_TOLERANCE, proof.largest_difference)
    return Deployed(tolerance, difference, len(proof.compared), "", bool(part), proof.is_exact, is_both)
