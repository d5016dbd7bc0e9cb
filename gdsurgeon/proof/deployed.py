"""What is claimed to be exact, where kernels round: without those of oneDNN, and as graphs are deployed.

Bit for bit two graphs are compared as they are written, on the kernels that TensorFlow takes by itself. Which kernel of
oneDNN it takes, and what it merges, depends on more than a node: whether a filter is a constant, what stands behind.
Where that is all by which they differ, they are compared bit for bit by a process that does without oneDNN.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace

from gdsurgeon.edits.claims import Claim, SameGiven, SameOutputs
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.engine import Engine
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.models.compare_models import OPTIMIZED_TOLERANCE, optimized_again
from gdsurgeon.proof.proof import Deployed, DiffersError, Proof
from gdsurgeon.proof.restored import with_restoring
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import (
    EDITED,
    ORIGINAL,
    ComparedPair,
    Fetch,
    Trial,
    TrialContext,
    TrialRun,
    both_load,
)
from gdsurgeon.wire.write import read_chunks

KEYS = {ORIGINAL: "original, optimised", EDITED: "edited, optimised"}
"""What the graphs are called in the executor where TensorFlow optimises them."""

MANY_NODES = 20_000
MANY_BYTES = 64 << 20
"""Of a graph that is larger TensorFlow's optimiser needs seconds, and many times the bytes: 22 s of 100,000 nodes, 1 GB
of 100 MB."""


def is_deployed(claim: Claim) -> bool:
    """Whether a claim is one about the graphs as they are deployed, too."""
    return isinstance(claim, SameOutputs | SameGiven) and claim.deployed


def without_onednn(context: TrialContext, make: Callable[[TrialContext], Trial], differs: DiffersError) -> Proof:
    """The proof by a process that does without oneDNN, where with it the graphs differ as by rounding.

    Args:
        context: of the claim.
        make: makes its trial.
        differs: that they differ with oneDNN.

    Raises:
        DiffersError: DIFFERS, where it is more than that; or they differ without oneDNN as well.
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
    """Gives back what `load_deployed` and `as_deployed` have loaded."""
    for key in KEYS.values():
        executor.unload(key)


def as_deployed(context: TrialContext, engine: Engine, meanwhile: Callable[[], object]) -> Deployed:
    """Compares once more, as graphs are deployed: optimised by TensorFlow, on the first feed of a trial that has shown
    them equal.

    Of large graphs the edited one alone is, and the original as it is written. Where they differ then, or runs leave
    something behind, both are: rounding that is the optimiser's may have decided what a graph chooses.

    Args:
        context: the edited graph is being loaded, see `load_deployed`.
        engine: has run the trial.
        meanwhile: called while TensorFlow optimises.

    Raises:
        ValidationError: the edited graph does not run then, or they differ by more than optimising may do.
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
    """How the graphs compare where those that are OPTIMIZED are run so. Raises ValidationError."""
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
    """What is compared as it is deployed: no site, of which nobody asks then.

    What is fetched is not optimised away; and Grappler merges nodes as if none in the midst of what it merges was
    fetched, though it is told which are.
    """
    return [replace(pair, exact=False) for pair in trial.pairs if not pair.site]


def _fetched(trial: Trial, pairs: Sequence[ComparedPair], run: TrialRun) -> set[str]:
    """The tensors that are still fetched of RUN: all but what is no longer among PAIRS, and nobody is fed."""
    read = {source for other in trial.runs for source in other.fed.values() if isinstance(source, Fetch)}
    gone = _ends(trial.pairs) - _ends(pairs) - read
    return {name for name in run.subject.plan.fetches if Fetch(run.name, name) not in gone}


def _ends(pairs: Sequence[ComparedPair]) -> set[Fetch]:
    return {end for pair in pairs for end in (pair.mine, pair.theirs) if isinstance(end, Fetch)}


def _under(subject: Subject, keys: Mapping[str, str], fetched: Collection[str]) -> Subject:
    """SUBJECT, run with the graph that has another of KEYS where it is optimised, for what is FETCHED."""
    out = copy(subject)
    out.key, out.plan = keys.get(subject.key, subject.key), subject.plan.only(fetched)
    return out
