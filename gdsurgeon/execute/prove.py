"""Proves an edit: runs the original and the edited graph on the same feeds and compares what the edit's claim says."""

from __future__ import annotations

import time

from gdsurgeon.execute.comparing import EDITED, Comparing, await_loaded
from gdsurgeon.execute.executor import Executor
from gdsurgeon.execute.proof import Proof, merged
from gdsurgeon.execute.prove_piece import PieceProof
from gdsurgeon.execute.prove_postprocessing import PostprocessingProof
from gdsurgeon.execute.prove_preprocessing import PreprocessingProof
from gdsurgeon.execute.prove_reference import ReferenceProof, original_reference, part_reference
from gdsurgeon.execute.prove_rewiring import RewiringProof
from gdsurgeon.execute.prove_same_outputs import SameOutputsProof, SameTensorsProof
from gdsurgeon.execute.settings import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import (
    Claim,
    EditResult,
    Postprocessed,
    Preprocessed,
    SameGiven,
    SameOutputs,
    SamePart,
    SamePiece,
    SameTensors,
)


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
    proof = merged([_prover(executor, graph, result, overrides, claim).run() for claim in result.claims])
    proof.device, proof.runtime = device, executor.version()
    proof.seconds = time.monotonic() - started
    return proof


def _prover(executor: Executor, graph: Graph, result: EditResult, overrides: Overrides, claim: Claim) -> Comparing:
    if isinstance(claim, Preprocessed):
        return PreprocessingProof(executor, graph, result, overrides, claim)
    if isinstance(claim, Postprocessed):
        return PostprocessingProof(executor, graph, result, overrides, claim)
    if isinstance(claim, SameOutputs):
        return SameOutputsProof(executor, graph, result, overrides, claim)
    if isinstance(claim, SameGiven):
        return ReferenceProof(executor, graph, result, overrides, original_reference(graph, result, claim))
    if isinstance(claim, SamePiece):
        return PieceProof(executor, graph, result, overrides, claim)
    if isinstance(claim, SameTensors):
        return SameTensorsProof(executor, graph, result, overrides, claim)
    if isinstance(claim, SamePart):
        return ReferenceProof(executor, graph, result, overrides, part_reference(result, claim))
    return RewiringProof(executor, graph, result, overrides)
