"""The proof of added gradients: the original with the gradients that TensorFlow itself makes gives the same."""

from __future__ import annotations

import time
from contextlib import nullcontext
from statistics import median

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.edits.claims import EditResult, Gradients, SameOutputs
from gdsurgeon.edits.copying.graft import graft
from gdsurgeon.errors import NotValidatedError, ValidationError, printable
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.gradients.backward_pass import backward_pass
from gdsurgeon.gradients.request import GradientRequest
from gdsurgeon.gradients.skeleton import skeleton
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import Journal
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.claims.same_outputs import SameOutputsProof
from gdsurgeon.proof.comparing import DO_WITHOUT, EDITED, ORIGINAL
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.models.profile import Work, measured
from gdsurgeon.proof.models.trace import peak_bytes
from gdsurgeon.proof.proof import MemoryUse, Proof
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.differentiation.differentiator import Differentiator
from gdsurgeon.text import told_apart
from gdsurgeon.wire.write import read_chunks

STATEMENT = "edited(x) = original(x), its gradients = tf.gradients on the original"
DEPLOYED = "deployed "
_NO_SYMBOLIC_GRADIENT = "No gradient defined for op: "
"""What TensorFlow says when it runs a SymbolicGradient of a function that holds such an op."""
TRACED_RUNS = 3
LONGEST_TRACING = 4.0
"""Seconds in which as many runs are traced as fit, one after the first at least."""
BUDGET_MARGIN = 0.15
"""By which part of it a run may be over its budget: threads race, and buffers come in sizes of their own."""
SMALL_MARGIN = 1 << 20
"""The same in bytes, for budgets so small that next to nothing is a large part of them."""


class GradientsProof(SameOutputsProof):
    """Both graphs give what the original gives, and gradients under the same names: made here, and by TensorFlow."""

    def __init__(self, executor: Executor, change: Change, overrides: Overrides, claim: Gradients) -> None:
        self.gradients = claim
        data = with_own_gradients(change.before, claim, executor.settings.timeout)
        executor.load_bytes(ORIGINAL, data)
        self.reference = data if claim.measured else b""
        reference = Change(
            from_bytes(data, change.before.source_name), change.after, EditResult(Journal()), change.called
        )
        served = [node.name for node in output_nodes(change.before)]
        same = SameOutputs(rtol=claim.rtol, atol=claim.atol, also=(*served, *claim.names))
        super().__init__(executor, reference, overrides, same)
        self.reached = frozenset(claim.names)
        self.proof.statement = STATEMENT

    def subject(self) -> Subject:
        """What was there before is run apart: AddN's order of a sum, for one, hangs on who else reads what it adds."""
        subject = super().subject()
        own = set(self.gradients.names)
        groups = subject.plan.groups
        apart = [[n for n in names if (n in own) == is_own] for names in groups for is_own in (False, True)]
        subject.plan.groups = [names for names in apart if names]
        return subject

    def run(self) -> Proof:
        try:
            return super().run()
        except NotValidatedError as error:
            if _NO_SYMBOLIC_GRADIENT not in error.message:
                raise
            op = error.message.partition(_NO_SYMBOLIC_GRADIENT)[2].split()[0].rstrip(".,:;)")
            raise ValidationError(
                f"the gradients do not run: TensorFlow differentiates the call of a function as a whole, and has no "
                f"gradient for {op} there",
                hint="gdsurgeon inline MODEL replaces calls by what they call, save inside loops and conditionals",
            ) from error

    def check_compared(self) -> None:
        """Raises NotValidatedError where no gradient was compared; of some that were not there is a warning."""
        super().check_compared()
        compared = {parse_tensor(output.after).node for output in self.proof.compared}
        reasons = {parse_tensor(output.after).node: output.reason for output in self.proof.outputs}
        reasons |= dict(self.proof.skipped)
        left = [name for name in self.gradients.names if name not in compared]
        if not left:
            return
        why = f"{printable(left[0])}: {printable(reasons.get(left[0], 'not run'))}"
        more = f" and {len(left) - 1:,} more" if len(left) > 1 else ""
        if len(left) == len(self.gradients.names):
            raise NotValidatedError(f"no gradient could be compared ({why}{more})", hint=DO_WITHOUT)
        self.proof.warnings.append(f"not all gradients were compared ({why}{more})")

    def finish(self, sample: int) -> None:
        super().finish(sample)
        if sample == 0 and (self.gradients.measured or self.gradients.budget is not None):
            self.proof.memory = self._memory(*self.fed)
            self._check_budget(self.proof.memory)

    def _memory(self, feeds: Feeds, edited_feeds: Feeds) -> MemoryUse:
        """What the gradients alone take, as deployed: in the edited graph, and if that is asked in the original too."""
        works = [self._deployed(EDITED, read_chunks(self.graph.chunks()), edited_feeds)]
        if self.gradients.measured:
            works.append(self._deployed(ORIGINAL, self.reference, feeds))
        try:
            peaks = [self._peak(work) for work in works]  # also the first runs, which are slow
            use = MemoryUse(peaks[0], budget=self.gradients.budget)
            if self.gradients.measured:
                times = measured(self.executor, works)
                seconds = (median(times[1]), median(times[0]))
                use = use._replace(original=peaks[1], seconds=seconds, runs=len(times[0]))
        except Refused as refused:
            raise ValidationError(
                f"{self.change.called} does not run when TensorFlow optimises it: {printable(refused.text)}"
            ) from refused
        finally:
            for work in works:
                self.executor.unload(work.key)
        return use

    def _deployed(self, key: str, data: bytes, feeds: Feeds) -> Work:
        self.executor.load_bytes(DEPLOYED + key, data, optimize=True)
        return Work(DEPLOYED + key, feeds, [list(self.gradients.names)])

    def _peak(self, work: Work) -> int:
        """The bytes that a run allocates at most, all devices together; the first run is not counted."""
        peaks: list[int] = []
        started = time.monotonic()
        while len(peaks) <= TRACED_RUNS and (len(peaks) < 2 or time.monotonic() - started < LONGEST_TRACING):
            (names,) = work.groups
            result = f"{work.key} traced"
            run = self.executor.wait(self.executor.run(work.key, result, work.feeds, names, trace=True))
            self.executor.drop(result)
            peaks.append(sum(peak_bytes(run.metadata or b"").values()))
        return max(peaks[1:])

    def _check_budget(self, use: MemoryUse) -> None:
        """Raises ValidationError where a run takes clearly more than its budget; a little more is a warning."""
        if use.budget is None or use.edited <= use.budget:
            return
        taken, budget = told_apart(use.edited, use.budget)
        if use.edited > use.budget + max(BUDGET_MARGIN * use.budget, SMALL_MARGIN):
            raise ValidationError(
                f"a run of the gradients takes {taken}, and the budget is {budget}",
                hint="--shape tells the plan what the inputs are; what it cannot foresee needs a lower --budget",
            )
        self.proof.warnings.append(f"a run of the gradients takes {taken}, which is a little over its budget")


def _scope(graph: Graph, claim: Gradients) -> str:
    """A scope for TensorFlow's nodes in which neither the graph nor the results have names."""
    scope = f"{claim.scope}_of_tensorflow"
    names = [name.lower() for name in (*graph.names(), *claim.names)]
    while any(name == scope.lower() or name.startswith(f"{scope.lower()}/") for name in names):
        scope += "_1"
    return scope


def with_own_gradients(graph: Graph, claim: Gradients, timeout: float | None) -> bytes:
    """GRAPH as it is in its file and the gradients that tf.compat.v1.gradients makes of it, a serialised GraphDef.

    Raises:
        EditError, ValidationError, NotValidatedError: see `Differentiator.derive`.
    """
    out = graph.pristine()
    tensors = [tuple(out.output(name) for name in names) for names in (claim.ys, claim.xs, claim.grad_ys)]
    wanted = GradientRequest(
        tensors[0], tensors[1], tensors[2], claim.names, _scope(out, claim), given=len(claim.names)
    )
    known = skeleton(out, wanted.tensors)
    with nullcontext(claim.differentiator) if claim.differentiator is not None else Differentiator(timeout) as asked:
        made = backward_pass(out, wanted, known, asked, own=False, zeros=True)
    graft(out, made.definition)
    return read_chunks(out.chunks())
