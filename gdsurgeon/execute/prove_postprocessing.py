"""The proof of add-postprocessing: what the result serves is what POST gives for the model's outputs."""

from __future__ import annotations

from gdsurgeon.analysis.signature import output_nodes
from gdsurgeon.errors import NotValidatedError, printable, quoted
from gdsurgeon.execute.comparing import DO_WITHOUT, ORIGINAL, Comparing, await_loaded, edited_result, initialize
from gdsurgeon.execute.executor import Executor
from gdsurgeon.execute.feeds import variable_value
from gdsurgeon.execute.proof import OutputProof
from gdsurgeon.execute.settings import Overrides
from gdsurgeon.execute.subject import Feeds, Subject
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import EditResult, Interface, Postprocessed
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.runtime.protocol import Result, RunSummary

POST = "postprocessing"


class PostprocessingProof(Comparing):
    """``edited(x) = post(original(x))``, and the raw values are available under their new names."""

    statement = "edited(x) = post(original(x))"

    def __init__(
        self, executor: Executor, graph: Graph, result: EditResult, overrides: Overrides, claim: Postprocessed
    ) -> None:
        self.interfaces: tuple[Interface, ...] = claim.outputs
        super().__init__(executor, graph, result, overrides)
        results = [parse_tensor(i.part_result).node for i in claim.outputs]
        bound = frozenset(i.part_input for i in claim.outputs)
        self.post = Subject(
            executor, POST, claim.post, outputs=list(dict.fromkeys(results)), overrides=Overrides(), bound=bound
        )
        self._check_runnable(printable(claim.post.source_name))
        executor.load_source(POST, claim.post)

    def _check_runnable(self, name: str) -> None:
        served = {i.name for i in self.interfaces}
        plan = self.post.plan
        skipped = [s for s in self.original.plan.skipped if s.name in served] + plan.skipped
        if skipped:
            output, reason = skipped[0]
            raise NotValidatedError(f"{quoted(output)} cannot be run here: {reason}", hint=DO_WITHOUT)
        if plan.random or plan.draws:
            raise NotValidatedError(f"{name} is random: what it gives twice cannot be compared", hint=DO_WITHOUT)

    def subject(self) -> Subject:
        outputs = [node.name for node in output_nodes(self.original_graph)] + [i.name for i in self.interfaces]
        return Subject(
            self.executor,
            ORIGINAL,
            self.original_graph,
            outputs=list(dict.fromkeys(outputs)),
            overrides=self.overrides,
        )

    def load(self) -> None:
        super().load()
        await_loaded(self.executor, POST, f"TensorFlow does not load {printable(self.post.graph.source_name)}")

    def initialize(self) -> None:
        super().initialize()
        initialize(self.post, printable(self.post.graph.source_name))
        self.initialize_edited([self._copied(name) for name in self.post.plan.initializers])

    def _copied(self, name: str) -> str:
        return self.journal.copied.get(name, name)

    def edited_groups(self) -> list[list[str]]:
        """What is served is fetched in the run that fetches its raw value: chance and state are the same for both."""
        groups = super().edited_groups()
        for interface in self.interfaces:
            groups[self._place(interface)[0]].append(interface.name)
        return groups

    def _place(self, interface: Interface) -> tuple[int, int]:
        """Where the raw value is among the original's fetches."""
        place = self.original.place(interface.name)
        assert place is not None
        return place

    def bound(self, sample: int) -> tuple[Feeds, Feeds]:
        return {}, {self._copied(name): value for name, value in self._variables(sample).items()}

    def _variables(self, sample: int) -> Feeds:
        return {
            v.name: variable_value(v.dtype, v.shape, 104_729 + sample + i) for i, v in enumerate(self.post.variables)
        }

    def compared(self, sample: int, summaries: list[RunSummary]) -> list[OutputProof]:
        """What is served, and the raw values under their new names."""
        feeds = self._variables(sample)
        for interface in self.interfaces:
            group, i = self._place(interface)
            feeds[interface.part_input] = Result(self.original.result(sample, group), i)
        _, runs = self.post.start(sample, feeds)
        for run in runs:
            self.executor.wait(run)
        groups = self.edited_groups()
        served = [self._served(i, groups, sample, summaries) for i in self.interfaces]
        return [*served, *super().compared(sample, summaries)]

    def _served(
        self, interface: Interface, groups: list[list[str]], sample: int, summaries: list[RunSummary]
    ) -> OutputProof:
        group = self._place(interface)[0]
        at = len(self.original.plan.groups[group]) + groups[group][len(self.original.plan.groups[group]) :].index(
            interface.name
        )
        info = summaries[group].outputs[at]
        output = OutputProof(f"post({interface.name})", interface.name, info.dtype, info.shape)
        output.reason = self.incomparable.get(interface.name, "")
        if not output.reason:
            place = self.post.place(interface.part_result)
            assert place is not None
            pending = self.executor.compare(
                self.post.result(sample, place[0]), edited_result(sample, group), [(place[1], at)]
            )
            output.comparison = self.executor.comparisons(pending)[0]
        return output

    def finish(self, sample: int) -> None:
        super().finish(sample)
        self.post.finish(sample)

    def check_compared(self) -> None:
        super().check_compared()
        served = {i.name for i in self.interfaces}
        missing = [o for o in self.proof.outputs if o.after in served and o.comparison is None]
        if missing:
            raise NotValidatedError(
                f"{quoted(missing[0].after)} could not be compared: {printable(missing[0].reason)}", hint=DO_WITHOUT
            )
