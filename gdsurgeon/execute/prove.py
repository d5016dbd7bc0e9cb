"""Proves an edit: runs the original and the edited graph on the same feeds and compares what the edit's claim says."""

from __future__ import annotations

import time

from gdsurgeon.execute.comparing import EDITED, Comparing, await_loaded
from gdsurgeon.execute.executor import Executor
from gdsurgeon.execute.proof import Proof
from gdsurgeon.execute.prove_postprocessing import PostprocessingProof
from gdsurgeon.execute.prove_preprocessing import PreprocessingProof
from gdsurgeon.execute.prove_rewiring import RewiringProof
from gdsurgeon.execute.settings import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import EditResult, Postprocessed, Preprocessed, SameOutputs


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
    claim = result.claims[0]
    if isinstance(claim, Preprocessed):
        proof = PreprocessingProof(executor, graph, result, overrides, claim).run()
    elif isinstance(claim, Postprocessed):
        proof = PostprocessingProof(executor, graph, result, overrides, claim).run()
    elif isinstance(claim, SameOutputs):
        proof = RenamingProof(executor, graph, result, overrides).run()
    else:
        proof = RewiringProof(executor, graph, result, overrides).run()
    proof.device, proof.runtime = device, executor.version()
    proof.seconds = time.monotonic() - started
    return proof


class RenamingProof(Comparing):
    """Every output equals its counterpart under the new names."""

    statement = "edited(x) = original(x) under the new names"
