"""The proof of an edit that changes no value: every output equals its counterpart."""

from __future__ import annotations

from statistics import median

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.edits.claims import SameOutputs, SameTensors
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.claims.rewiring import AloneProof
from gdsurgeon.proof.comparing import EDITED, ORIGINAL, Comparing
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.models.profile import Work, measured
from gdsurgeon.proof.plan import Skipped
from gdsurgeon.proof.proof import OutputProof, Proof, Timing
from gdsurgeon.proof.subject import Feeds, Subject


class SameOutputsProof(Comparing):
    """What the original gives is fetched of both graphs, and what the claim names besides."""

    def __init__(self, executor: Executor, change: Change, overrides: Overrides, claim: SameOutputs) -> None:
        self.claim, self.given_overrides = claim, overrides
        super().__init__(executor, change, overrides)
        renamed = " under the new names" if self.journal.renamed or self.journal.moved else ""
        self.proof.statement = f"edited(x) = original(x){renamed}"
        self.proof.rtol, self.proof.atol = claim.rtol, claim.atol
        self.incomparable |= claim.except_for
        self.reached = self._reached() if claim.rtol or claim.atol else frozenset()

    def run(self) -> Proof:
        if not self.claim.even_alone:
            return super().run()
        try:
            self.executor.loaded(ORIGINAL)
            return super().run()
        except (Refused, NotValidatedError) as error:
            why = error.text if isinstance(error, Refused) else self.original.problem or error.message
            return AloneProof(self.executor, self.change, self.given_overrides, why).run()

    def subject(self) -> Subject:
        outputs = [node.name for node in output_nodes(self.original_graph)]
        served = set(outputs)
        subject = Subject(
            self.executor,
            ORIGINAL,
            self.original_graph,
            outputs=list(dict.fromkeys([*outputs, *self.claim.also, *self.deciding(outputs)])),
            overrides=self.overrides,
            undrawable=frozenset(self.journal.removed),
        )
        subject.plan.skipped = [s for s in subject.plan.skipped if s.name in served]
        barred = self.barred(subject.plan.fetches) if self._may_reach_others() else {}
        subject.plan.skipped += [Skipped(name, reason) for name, reason in barred.items()]
        groups = [
            [name for name in names if name not in barred and self._is_paired(name, served)]
            for names in subject.plan.groups
        ]
        subject.plan.groups = [names for names in groups if names]
        return subject

    def _reached(self) -> frozenset[str]:
        """The nodes of the edited graph that the edit reaches: a tolerance is theirs alone."""
        topology = Topology(self.graph)
        names = [*self.journal.added, *self.journal.changed, *(slot.node for slot in self.journal.rewired)]
        seeds = [topology.id_of(node) for name in names if (node := self.graph.find(name)) is not None]
        found = topology.downstream(seeds, topology.consumers())
        return frozenset(topology.name(number) for number in members(found))

    def differing(self, outputs: list[OutputProof]) -> list[OutputProof]:
        beyond = super().differing(outputs)
        return [
            o
            for o in outputs
            if o in beyond
            or ((c := o.comparison) is not None and not c.equal and parse_tensor(o.after).node not in self.reached)
        ]

    def _may_reach_others(self) -> bool:
        """Whether what is fetched may depend on ops that it did not depend on before."""
        journal = self.journal
        return bool(journal.added or journal.changed or journal.functions.added or journal.functions.changed)

    def _is_paired(self, tensor: str, served: set[str]) -> bool:
        """Whether TENSOR is compared: each output; of the rest what has a counterpart."""
        node = parse_tensor(tensor).node
        return node in served or tensor in self.journal.moved or self.journal.after(node) in self.graph

    def finish(self, sample: int) -> None:
        if sample == 0 and self.claim.measured:
            self.proof.timing = self._measured(*self.fed)
        super().finish(sample)

    def _measured(self, feeds: Feeds, edited_feeds: Feeds) -> Timing:
        """The median time of both graphs on the same feeds, run by turns; both have run once before."""
        original = Work(ORIGINAL, feeds, self.original.plan.groups)
        times = measured(self.executor, [original, Work(EDITED, edited_feeds, self.edited_groups())])
        return Timing(median(times[0]), median(times[1]), len(times[0]))


class SameTensorsProof(SameOutputsProof):
    """Some tensors are what they were; those that cannot be fetched are left to the proof of what depends on them."""

    def __init__(self, executor: Executor, change: Change, overrides: Overrides, claim: SameTensors) -> None:
        self.tensors = claim.tensors
        super().__init__(executor, change, overrides, SameOutputs())

    def subject(self) -> Subject:
        nodes = dict.fromkeys(parse_tensor(tensor).node for tensor in self.tensors)
        subject = Subject(self.executor, ORIGINAL, self.original_graph, outputs=list(nodes), overrides=self.overrides)
        barred = self.barred(subject.plan.fetches) if self._may_reach_others() else {}
        groups = [[n for n in names if n in self.tensors and n not in barred] for names in subject.plan.groups]
        subject.plan.groups = [names for names in groups if names]
        subject.plan.skipped = []
        return subject

    def run(self) -> Proof:
        return super().run() if self.original.plan.fetches else self.proof

    def check_compared(self) -> None:
        """What depends on the tensors is proven apart."""
