"""Proves an edit: tests each claim by execution.

Exact claims are tested on the graphs as they are written, with TensorFlow's default kernels. The choice of a oneDNN
kernel
depends on more than the node: whether a filter is constant, and which nodes follow. If outputs therefore differ by
rounding, a process without oneDNN must find them bit-identical.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import replace
from functools import partial
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
    SamePiece,
    SameShapes,
    SameSites,
    SameTensors,
    Unchanged,
)
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.change import Change, with_restoring
from gdsurgeon.proof.claims.gradients import gradients_trial
from gdsurgeon.proof.claims.own_variables import like_reference_trial, own_variables_trial
from gdsurgeon.proof.claims.row_by_row import row_by_row_trial
from gdsurgeon.proof.claims.same_outputs import (
    same_outputs_trial,
    same_shapes_trial,
    unchanged_trial,
)
from gdsurgeon.proof.claims.sites import same_piece_trial, same_sites_trial
from gdsurgeon.proof.claims.substituted import same_given_trial, same_part_trial, same_tensors_trial
from gdsurgeon.proof.engine import Engine
from gdsurgeon.proof.executor import Executor, await_loaded
from gdsurgeon.proof.models.compare_models import OPTIMIZED_TOLERANCE, optimized_again
from gdsurgeon.proof.proof import SAME, Deployed, DiffersError, Proof, merged, worse
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import EDITED, ORIGINAL, ComparedPair, Fetch, Trial, TrialContext, TrialRun, both_load
from gdsurgeon.wire.write import read_chunks


def prove_loads(executor: Executor) -> Proof:
    """Waits until the edited graph has loaded.

    Raises:
        ValidationError: TensorFlow refuses the graph.
        NotValidatedError: this TensorFlow lacks an op.
    """
    started = time.monotonic()
    device = executor.check_device()
    await_loaded(executor, EDITED, "the result does not load")
    return Proof("load", device=device, runtime=executor.version(), seconds=time.monotonic() - started)


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
    """Tests each claim, and yields its proof. Graphs that keep state are loaded again for the next claim."""
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
    """Returns the trial of a claim; if nothing can be compared, a trial that only raises the reason."""
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
    """Returns the proof of a claim of which nothing could be compared by execution.

    Raises `error` if the comparison of the graphs does not show the claim, or values are random.
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
    """Returns how the optimized graphs compare, if a claim includes this."""
    found: Deployed | None = None
    for claim, (engine, proof) in zip(context.change.result.claims, tried, strict=True):
        if is_deployed(claim) and engine.trial.runs and engine.proof.samples and proof.compared:
            found = worse(found, as_deployed(context, engine, meanwhile))
    return found


def finish(proof: Proof, executor: Executor, device: str, started: float) -> None:
    """Records the device, the runtime and the duration of `proof`, which began at `started` (monotonic seconds)."""
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
    LikeReference: like_reference_trial,
    Gradients: gradients_trial,
}
"""The function that returns the trial of each claim."""


KEYS = {ORIGINAL: "original, optimised", EDITED: "edited, optimised"}
"""The keys of the graphs in the executor if TensorFlow optimizes them."""

MANY_NODES = 20_000
MANY_BYTES = 64 << 20
"""Limits for optimizing the original: for larger graphs TensorFlow's optimizer needs seconds and much memory (22 s for
100,000 nodes, 1 GB for a graph of 100 MB).
"""


def is_deployed(claim: Claim) -> bool:
    """Returns whether a claim includes the optimized graphs."""
    return isinstance(claim, SameOutputs | SameGiven) and claim.deployed


def without_onednn(context: TrialContext, make: Callable[[TrialContext], Trial], differs: DiffersError) -> Proof:
    """Returns the proof by a process without oneDNN, if the graphs differ by rounding.

    Args:
        context: of the claim.
        make: returns the trial of the claim.
        differs: the difference with oneDNN.

    Raises:
        DiffersError: `differs`, if it is not rounding; or the graphs also differ without oneDNN.
    """
    settings = context.executor.settings
    is_exact = not (differs.proof.of_largest or differs.proof.rtol or differs.proof.atol)
    if not (settings.onednn and is_exact) or not _is_rounding(differs.proof):
        raise differs
    change = context.change
    with Executor(settings._replace(onednn=False)) as other:
        other.progress = context.executor.progress
        other.load_source(ORIGINAL, change.before)
        other.load_graph(EDITED, change.after)
        proof = Engine(other, make(context._replace(executor=other))).run()
    proof.onednn_difference = differs.proof.largest_difference
    return proof


def _is_rounding(proof: Proof) -> bool:
    found = [output.comparison for output in proof.compared]
    return all(each is None or each.equal or (each.needed or 1.0) <= OPTIMIZED_TOLERANCE for each in found)


def load_deployed(context: TrialContext) -> None:
    """Begins to load the edited graph for `as_deployed`."""
    executor, after = context.executor, context.change.after
    if not executor.is_barred(KEYS[EDITED], after):
        executor.load_bytes(KEYS[EDITED], with_restoring(after, read_chunks(after.chunks())), optimize=True)


def unload_deployed(executor: Executor) -> None:
    """Unloads the graphs of `load_deployed` and `as_deployed`."""
    for key in KEYS.values():
        executor.unload(key)


def as_deployed(context: TrialContext, engine: Engine, meanwhile: Callable[[], object]) -> Deployed:
    """Compares the graphs again after TensorFlow optimizes them, on the first feed of a trial that showed them equal.

    The original of a large graph runs as written. If the graphs then differ, or keep state, both are optimized:
    rounding by
    the optimizer may change which elements a graph chooses.

    Args:
        context: the edited graph is being loaded, see `load_deployed`.
        engine: has run the trial.
        meanwhile: is called while TensorFlow optimizes.

    Raises:
        ValidationError: the optimized graph does not run, or they differ by more than the optimizer may cause.
    """
    trial = replace(engine.trial, meanwhile=meanwhile)
    try:
        if _is_large(context.change.before) and not any(run.subject.plan.keeps_state for run in trial.runs):
            with suppress(DiffersError):
                return _compared(context, trial, [EDITED])
        context.executor.load_source(KEYS[ORIGINAL], context.change.before, optimize=True)
        return _compared(context, trial, [ORIGINAL, EDITED])
    except DiffersError as differs:
        differs.code = "optimizer-differs"
        differs.message += "; without TensorFlow's optimizer they are equal, so the optimizer causes the difference"
        raise


def _is_large(graph: Graph) -> bool:
    return graph.node_count > MANY_NODES or graph.source.size > MANY_BYTES


def _compared(context: TrialContext, trial: Trial, optimized: Collection[str]) -> Deployed:
    """Returns how the graphs compare if those in `optimized` are optimized. Raises ValidationError."""
    keys = {key: KEYS[key] for key in optimized}
    pairs = _without_sites(trial)
    runs = [replace(run, subject=_under(run.subject, keys, _fetched(trial, pairs, run))) for run in trial.runs]
    loads = {keys[key]: what for key, what in both_load(context.change).items() if key in keys}
    is_both = ORIGINAL in keys
    again_as = replace(optimized_again(trial), steady=trial.steady if is_both else None)
    again = replace(again_as, runs=runs, pairs=pairs, loads=loads, samples=1, first=None, otherwise=None)
    try:
        proof = Engine(context.executor, again).run()
    except NotValidatedError as error:
        return Deployed(OPTIMIZED_TOLERANCE, why_not=error.message, is_both=is_both)
    if proof.of_largest:
        tolerance, difference = proof.of_largest, proof.largest_part
    else:
        tolerance, difference = OPTIMIZED_TOLERANCE, proof.largest_difference
    compared = len(proof.compared)
    return Deployed(tolerance, difference, compared, "", bool(proof.of_largest), proof.is_exact, is_both)


def _without_sites(trial: Trial) -> list[ComparedPair]:
    """Returns the pairs without sites.

    A fetched tensor is not optimized away. Grappler also merges nodes although an inner tensor of the merged nodes is
    fetched.
    """
    return [replace(pair, exact=False) for pair in trial.pairs if not pair.site]


def _fetched(trial: Trial, pairs: Sequence[ComparedPair], run: TrialRun) -> set[str]:
    """Returns the fetches of a run without tensors that are no longer compared or fed."""
    read = {source for other in trial.runs for source in other.fed.values() if isinstance(source, Fetch)}
    gone = _ends(trial.pairs) - _ends(pairs) - read
    return {name for name in run.subject.plan.fetches if Fetch(run.name, name) not in gone}


def _ends(pairs: Sequence[ComparedPair]) -> set[Fetch]:
    return {end for pair in pairs for end in (pair.mine, pair.theirs) if isinstance(end, Fetch)}


def _under(subject: Subject, keys: Mapping[str, str], fetched: Collection[str]) -> Subject:
    """Returns `subject` with the optimized graph and fewer fetches."""
    out = copy(subject)
    out.key, out.plan = keys.get(subject.key, subject.key), subject.plan.only(fetched)
    return out
