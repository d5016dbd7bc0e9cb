"""The proof of an edit that changes values on purpose: it loads and runs, and what it does not reach is unchanged."""

from __future__ import annotations

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.errors import NotValidatedError, ValidationError, printable
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.comparing import (
    EDITED,
    Comparing,
    await_loaded,
    edited_result,
    finished,
    nothing_to_run,
    show_values,
    warn_of_variables,
)
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import OutputProof, Proof
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.protocol import RunSummary


class RewiringProof(Comparing):
    """The edited graph is planned on its own: other inputs may be needed, and other ops reached, than before."""

    statement = "outputs that the edit does not reach = original(x)"

    def __init__(self, executor: Executor, change: Change, overrides: Overrides) -> None:
        super().__init__(executor, change, overrides)
        graph = change.after
        outputs = [node.name for node in output_nodes(self.original_graph)]
        outputs += [node.name for node in output_nodes(graph)]
        self.edited = Subject(
            executor,
            EDITED,
            graph,
            outputs=[n for n in dict.fromkeys(outputs) if n in graph],
            overrides=self.overrides,
            batches=False,
        )
        self.original.hold_batch()  # the edit may have fixed the batch of one input, and not of another
        self.proof.skipped = [(s.name, s.reason) for s in self.edited.plan.skipped]
        self.incomparable |= dict.fromkeys(
            self.edited.plan.random, f"random: {', '.join(self.edited.plan.random_ops[:3])}"
        )
        topology = Topology(self.original_graph)
        names = dict.fromkeys([*(slot.node for slot in self.journal.rewired), *self.journal.changed])
        nodes = [node for name in names if (node := self.original_graph.find(name)) is not None]
        changed = [topology.id_of(node) for node in nodes]
        self.changed = frozenset(node.name for node in nodes)
        reached = topology.downstream(changed, topology.consumers())
        before = set(self.original.plan.fetches)
        for name in self.edited.plan.fetches:
            node = self.original_graph.find(parse_tensor(name).node)
            if node is not None and reached[topology.id_of(node)]:
                self.incomparable.setdefault(name, "downstream of the edit")
            elif name not in before:
                self.incomparable.setdefault(name, "not an output before")

    def run(self) -> Proof:
        self.load()
        if not self.edited.plan.fetches:
            raise nothing_to_run(self.edited, "the result")
        warn_of_variables(self.edited, self.proof)
        comparable = [name for name in self.edited.plan.fetches if name not in self.incomparable]
        if comparable:
            self.original.initialize()
        self.initialize_edited(self.edited.plan.initializers)
        for sample in range(self.edited.samples):
            self._run_sample(sample, comparable)
            self.proof.samples = sample + 1
        self.conclude()
        return self.proof

    def _run_sample(self, sample: int, comparable: list[str]) -> None:
        """Runs the original first where something is compared: what is fed to it is fed to the edited graph too."""
        shared: Feeds = {}
        if comparable:
            shared, runs = self.original.start(sample, {})
            for run in runs:
                self.executor.wait(run)
            # What the edit has changed of an input may be its shape: it is fed anew.
            shared = {name: value for name, value in shared.items() if parse_tensor(name).node not in self.changed}
        feeds, summaries = self._run_edited(sample, shared)
        outputs = self._outputs(sample, summaries)
        if sample == 0:
            self.proof.outputs = outputs
            self.proof.made = self.edited.made
            self.proof.feeds = self.original.describe_feeds(feeds) | self.edited.describe_feeds(feeds)
            show_values(self.executor, outputs, self.edited.plan.groups)
        self.proof.note(outputs)
        self.judge(outputs, sample)
        if comparable:
            self.original.finish(sample)
        self.edited.finish(sample)

    def _run_edited(self, sample: int, shared: Feeds) -> tuple[Feeds, list[RunSummary]]:
        try:
            feeds, runs = self.edited.start(sample, shared)
        except NotValidatedError as error:
            # The original ran on feeds for the same inputs: that the result does not is the edit's doing.
            if shared or not self.edited.specs:
                raise ValidationError(f"the result does not run: {self.edited.problem}") from error
            raise
        return feeds, finished(self.executor, runs, self.change.called)

    def _outputs(self, sample: int, summaries: list[RunSummary]) -> list[OutputProof]:
        out: list[OutputProof] = []
        for group, (names, summary) in enumerate(zip(self.edited.plan.groups, summaries, strict=True)):
            for i, (name, info) in enumerate(zip(names, summary.outputs, strict=True)):
                output = OutputProof(name, name, info.dtype, info.shape, reason=self.incomparable.get(name, ""))
                place = self.original.place(name)
                if not output.reason and place is not None:
                    pending = self.executor.compare(
                        self.original.result(sample, place[0]), edited_result(sample, group), [(place[1], i)]
                    )
                    output.comparison = self.executor.comparisons(pending)[0]
                out.append(output)
        return out


class AloneProof(RewiringProof):
    """The original does not run here, and that is why it was edited: that the edited graph runs is what can be shown.

    WHY says what TensorFlow has against the original.
    """

    def __init__(self, executor: Executor, change: Change, overrides: Overrides, why: str) -> None:
        super().__init__(executor, change, overrides)
        self.incomparable = dict.fromkeys(self.edited.plan.fetches, "the original does not run here")
        self.proof.warnings.append(f"{self.name} does not run here, so that nothing can be compared: {printable(why)}")

    def load(self) -> None:
        await_loaded(self.executor, EDITED, "the result does not load")
