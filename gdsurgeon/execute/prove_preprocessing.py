"""The proof of add-preprocessing: what the result gives for raw inputs is what the model gives for PRE's outputs."""

from __future__ import annotations

from gdsurgeon.analysis.shapes import placeholder_shape
from gdsurgeon.analysis.topology import Topology
from gdsurgeon.errors import NotValidatedError, printable, quoted
from gdsurgeon.execute.comparing import DO_WITHOUT, ORIGINAL, Comparing, await_loaded, initialize
from gdsurgeon.execute.executor import Executor
from gdsurgeon.execute.settings import Overrides
from gdsurgeon.execute.subject import Feeds, Subject
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import EditResult, Interface, Preprocessed
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.runtime.protocol import Result

PRE = "preprocessing"


class PreprocessingProof(Comparing):
    """``edited(raw) = original(pre(raw))``, the two run apart."""

    statement = "edited(raw) = original(pre(raw))"

    def __init__(
        self, executor: Executor, graph: Graph, result: EditResult, overrides: Overrides, claim: Preprocessed
    ) -> None:
        self.interfaces: tuple[Interface, ...] = claim.inputs
        super().__init__(executor, graph, result, overrides)
        names = {i.name: i.part_input for i in claim.inputs}
        results = [parse_tensor(i.part_result).node for i in claim.inputs]
        self.pre = Subject(
            executor,
            PRE,
            claim.pre,
            outputs=list(dict.fromkeys(results)),
            overrides=self.overrides.only(names).renamed(names),
            picture=self._picture(),
        )
        self._check_runnable(printable(claim.pre.source_name))
        executor.load_source(PRE, claim.pre)

    def _picture(self) -> tuple[int, int] | None:
        """Height and width of the images that the model takes, for a graph in front that does not resize them."""
        for interface in self.interfaces:
            shape = placeholder_shape(self.original_graph[interface.name])
            if shape is not None and len(shape) in (3, 4) and shape[-1] in (1, 3, 4):
                height, width = shape[-3:-1]
                if height > 0 and width > 0:
                    return height, width
        return None

    def _check_runnable(self, name: str) -> None:
        plan = self.pre.plan
        if plan.skipped:
            output, reason = plan.skipped[0]
            raise NotValidatedError(f"{quoted(output)} of {name} cannot be run here: {reason}", hint=DO_WITHOUT)
        if plan.random or plan.draws:
            raise NotValidatedError(f"{name} is random: what it gives twice cannot be compared", hint=DO_WITHOUT)

    def subject(self) -> Subject:
        bound = frozenset(i.name for i in self.interfaces)
        return Subject(self.executor, ORIGINAL, self.original_graph, overrides=self.overrides, bound=bound)

    def load(self) -> None:
        super().load()
        await_loaded(self.executor, PRE, f"TensorFlow does not load {printable(self.pre.graph.source_name)}")

    def initialize(self) -> None:
        super().initialize()
        initialize(self.pre, printable(self.pre.graph.source_name))
        # The copy's tables are the edited graph's own; their initialisers have come along.
        self.initialize_edited([self._copied(name) for name in self.pre.plan.initializers])

    def _copied(self, name: str) -> str:
        """What a node of the preprocessing graph is called in the edited one."""
        return self.journal.copied.get(name, name)

    def bound(self, sample: int) -> tuple[Feeds, Feeds]:
        feeds, runs = self.pre.start(sample, {})
        for run in runs:
            self.executor.wait(run)
        to_original: Feeds = {}
        to_edited: Feeds = {}
        for interface in self.interfaces:
            place = self.pre.place(interface.part_result)
            assert place is not None
            to_original[interface.name] = Result(self.pre.result(sample, place[0]), place[1])
            if interface.part_input in feeds:
                to_edited[interface.name] = feeds[interface.part_input]
        for variable in self.pre.variables:
            to_edited[self._copied(variable.name)] = feeds[variable.name]
        return to_original, to_edited

    def feeds_vary(self) -> bool:
        return super().feeds_vary() or any(spec.given is None for spec in self.pre.specs)

    def finish(self, sample: int) -> None:
        super().finish(sample)
        self.pre.finish(sample)

    def described(self, feeds: Feeds, edited_feeds: Feeds) -> dict[str, str]:
        parts = {i.part_input: i.name for i in self.interfaces}
        raw = self.pre.describe_feeds({p: edited_feeds[n] for p, n in parts.items() if n in edited_feeds})
        return {parts[name]: text for name, text in raw.items()} | super().described(feeds, edited_feeds)

    def check_compared(self) -> None:
        """Something that depends on each of the inputs must have been compared."""
        super().check_compared()
        topology = Topology(self.original_graph)
        consumers = topology.consumers()
        compared = [topology.id_of(self.original_graph[parse_tensor(o.before).node]) for o in self.proof.compared]
        for interface in self.interfaces:
            node = self.original_graph[interface.name]
            reached = topology.downstream([topology.id_of(node)], consumers)
            if not any(reached[number] for number in compared):
                reasons = "; ".join(dict.fromkeys(reason for _, reason in self.proof.skipped)) or "there is none"
                raise NotValidatedError(
                    f"no output that depends on {quoted(interface.name)} could be compared: {printable(reasons)}",
                    hint=DO_WITHOUT,
                )
