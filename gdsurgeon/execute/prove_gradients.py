"""The proof of added gradients: the original with the gradients that TensorFlow itself makes gives the same."""

from __future__ import annotations

from contextlib import nullcontext

from gdsurgeon.analysis.signature import output_nodes
from gdsurgeon.edits.backward_pass import backward_pass
from gdsurgeon.edits.gradient_request import Wanted
from gdsurgeon.edits.graft import graft
from gdsurgeon.edits.skeleton import skeleton
from gdsurgeon.execute.change import Change
from gdsurgeon.execute.comparing import ORIGINAL
from gdsurgeon.execute.executor import Executor
from gdsurgeon.execute.prove_same_outputs import SameOutputsProof
from gdsurgeon.execute.settings import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import EditResult, Gradients, Journal, SameOutputs
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.differentiator import Differentiator
from gdsurgeon.wire.write import read_chunks

STATEMENT = "edited(x) = original(x), its gradients = tf.gradients on the original"


class GradientsProof(SameOutputsProof):
    """Both graphs give what the original gives, and gradients under the same names: made here, and by TensorFlow."""

    def __init__(
        self, executor: Executor, change: Change, overrides: Overrides, claim: Gradients
    ) -> None:
        data = with_own_gradients(change.before, claim, executor.settings.timeout)
        executor.load_bytes(ORIGINAL, data)
        reference = Change(
            from_bytes(data, change.before.source_name), change.after, EditResult(Journal()), change.called
        )
        served = [node.name for node in output_nodes(change.before)]
        super().__init__(executor, reference, overrides, SameOutputs(also=(*served, *claim.names)))
        self.proof.statement = STATEMENT


def with_own_gradients(graph: Graph, claim: Gradients, timeout: float | None) -> bytes:
    """GRAPH as it is in its file and the gradients that tf.compat.v1.gradients makes of it, a serialised GraphDef.

    Raises:
        EditError, ValidationError, NotValidatedError: see `Differentiator.derive`.
    """
    out = graph.pristine()
    tensors = [tuple(out.output(name) for name in names) for names in (claim.ys, claim.xs, claim.grad_ys)]
    wanted = Wanted(tensors[0], tensors[1], tensors[2], claim.names, claim.scope)
    known = skeleton(out, wanted.tensors)
    with nullcontext(claim.differentiator) if claim.differentiator is not None else Differentiator(timeout) as asked:
        made = backward_pass(out, wanted, known, asked, own=False, zeros=True)
    graft(out, made.definition)
    return read_chunks(out.chunks())
