"""Proves an edit: runs the original and the edited graph on the same feeds and compares what the edit's claim says."""

from __future__ import annotations

import time

from gdsurgeon.edits.claims import (
    Claim,
    EditResult,
    Gradients,
    Postprocessed,
    Preprocessed,
    SameGiven,
    SameOutputs,
    SamePart,
    SamePiece,
    SameTensors,
)
from gdsurgeon.errors import GdsurgeonError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.audit import audit
from gdsurgeon.proof.change import Change, edited
from gdsurgeon.proof.claims.composed import ComposedProof
from gdsurgeon.proof.claims.gradients import GradientsProof
from gdsurgeon.proof.claims.piece import PieceProof
from gdsurgeon.proof.claims.reference import ReferenceProof, original_reference, part_reference
from gdsurgeon.proof.claims.rewiring import RewiringProof
from gdsurgeon.proof.claims.same_outputs import SameOutputsProof, SameTensorsProof
from gdsurgeon.proof.comparing import EDITED, Comparing, await_loaded
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import DiffersError, Proof, merged


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


def prove(executor: Executor, graph: Graph, result: EditResult, overrides: Overrides) -> Proof:
    """Checks the claims of RESULT by execution.

    Args:
        executor: is loading the file of GRAPH as ORIGINAL and the edited bytes as EDITED.
        graph: after the edit.
        result: of the edit.
        overrides: what the user says of feeds.

    Raises:
        ValidationError: the edited graph does not load, does not run, or differs from what the edit claims.
        NotValidatedError: nothing can be compared here.
        UsageError: an override does not fit.
    """
    started = time.monotonic()
    device = executor.check_device()
    change = edited(graph, result)
    try:
        proof = merged([_prover(executor, change, overrides, claim).run() for claim in result.claims])
    except DiffersError as differs:
        finish(differs.proof, executor, device, started)
        raise
    except ValidationError:
        raise
    except GdsurgeonError:
        _check_journal(change)  # that it could not be run may be the edit's doing
        raise
    _check_journal(change)
    finish(proof, executor, device, started)
    return proof


def _check_journal(change: Change) -> None:
    faults = audit(change.before, change.after, change.result)
    if faults:
        raise ValidationError("the result differs from what the edit says of it:", details=tuple(faults[:100]))


def finish(proof: Proof, executor: Executor, device: str, started: float) -> None:
    """Notes where and with what PROOF was carried out, and how long it took since STARTED (monotonic seconds)."""
    proof.device, proof.runtime = device, executor.version()
    proof.seconds = time.monotonic() - started


def _prover(executor: Executor, change: Change, overrides: Overrides, claim: Claim) -> Comparing:
    if isinstance(claim, Preprocessed):
        return ComposedProof(executor, change, overrides, front=claim)
    if isinstance(claim, Postprocessed):
        return ComposedProof(executor, change, overrides, back=claim)
    if isinstance(claim, SameOutputs):
        return SameOutputsProof(executor, change, overrides, claim)
    if isinstance(claim, SameGiven):
        return ReferenceProof(executor, change, overrides, original_reference(change, claim))
    if isinstance(claim, SamePiece):
        return PieceProof(executor, change, overrides, claim)
    if isinstance(claim, Gradients):
        return GradientsProof(executor, change, overrides, claim)
    if isinstance(claim, SameTensors):
        return SameTensorsProof(executor, change, overrides, claim)
    if isinstance(claim, SamePart):
        return ReferenceProof(executor, change, overrides, part_reference(change, claim))
    return RewiringProof(executor, change, overrides)
