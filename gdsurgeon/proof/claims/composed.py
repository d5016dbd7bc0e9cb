"""The proof of graphs put in front of a model and behind it: the parts are run apart, one on what the other gives."""

from __future__ import annotations

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.stated import placeholder_shape
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.claims import Interface, Postprocessed, Preprocessed
from gdsurgeon.errors import NotValidatedError, printable, quoted
from gdsurgeon.feeds.input_spec import variable_value
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.comparing import DO_WITHOUT, ORIGINAL, Comparing, await_loaded, edited_result, initialize
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import Skipped
from gdsurgeon.proof.proof import OutputProof
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.protocol import Result, RunSummary

PRE, POST = "preprocessing", "postprocessing"


class ComposedProof(Comparing):
    """``edited(raw) = post(original(pre(raw)))``, where one of PRE and POST may be missing.

    Behind POST the raw values of what it takes are available under their new names, and compared too.

    Args:
        executor: is loading the original and the edited graph.
        change: the two graphs.
        overrides: what the user says of feeds.
        front: the graph in front, or None.
        back: the graph behind, or None.
    """

    def __init__(
        self,
        executor: Executor,
        change: Change,
        overrides: Overrides,
        front: Preprocessed | None = None,
        back: Postprocessed | None = None,
    ) -> None:
        self.taken: tuple[Interface, ...] = front.inputs if front is not None else ()
        self.served: tuple[Interface, ...] = back.outputs if back is not None else ()
        self.part_feeds: dict[str, Feeds] = {}
        super().__init__(executor, change, overrides)
        inner = "original(pre(raw))" if front is not None else "original(x)"
        given = "raw" if front is not None else "x"
        self.proof.statement = f"edited({given}) = " + (f"post({inner})" if back is not None else inner)
        self.pre = self._front(front.pre) if front is not None else None
        self.post = self._back(back.post) if back is not None else None

    # -- the parts ----------------------------------------------------------------------------------------------

    def _front(self, graph: Graph) -> Subject:
        names = {i.name: i.part_input for i in self.taken}
        results = [parse_tensor(i.part_result).node for i in self.taken]
        pre = Subject(
            self.executor,
            PRE,
            graph,
            outputs=list(dict.fromkeys(results)),
            overrides=self.overrides.only(names).renamed(names),
            picture=self._picture(),
        )
        self._check_runnable(pre, pre.plan.skipped)
        self.executor.load_source(PRE, graph)
        return pre

    def _picture(self) -> tuple[int, int] | None:
        """Height and width of the images that the model takes, for a graph in front that does not resize them."""
        for interface in self.taken:
            shape = placeholder_shape(self.original_graph[interface.name])
            if shape is not None and len(shape) in (3, 4) and shape[-1] in (1, 3, 4):
                height, width = shape[-3:-1]
                if height > 0 and width > 0:
                    return height, width
        return None

    def _back(self, graph: Graph) -> Subject:
        results = [parse_tensor(i.part_result).node for i in self.served]
        post = Subject(
            self.executor,
            POST,
            graph,
            outputs=list(dict.fromkeys(results)),
            overrides=Overrides(),
            bound=frozenset(i.part_input for i in self.served),
        )
        names = {i.name for i in self.served}
        self._check_runnable(post, [*(s for s in self.original.plan.skipped if s.name in names), *post.plan.skipped])
        self.executor.load_source(POST, graph)
        return post

    def _check_runnable(self, part: Subject, skipped: list[Skipped]) -> None:
        name = printable(part.graph.source_name)
        if skipped:
            output, reason = skipped[0]
            raise NotValidatedError(f"{quoted(output)} of {name} cannot be run here: {reason}", hint=DO_WITHOUT)
        if part.plan.random or part.plan.draws:
            raise NotValidatedError(f"{name} is random: what it gives twice cannot be compared", hint=DO_WITHOUT)

    def _parts(self) -> list[Subject]:
        return [part for part in (self.pre, self.post) if part is not None]

    def subject(self) -> Subject:
        outputs = [node.name for node in output_nodes(self.original_graph)] + [i.name for i in self.served]
        outputs += self.deciding(outputs)
        return Subject(
            self.executor,
            ORIGINAL,
            self.original_graph,
            outputs=list(dict.fromkeys(outputs)),
            overrides=self.overrides,
            bound=frozenset(i.name for i in self.taken),
        )

    def load(self) -> None:
        super().load()
        for part in self._parts():
            await_loaded(self.executor, part.key, f"TensorFlow does not load {printable(part.graph.source_name)}")

    def initialize(self) -> None:
        super().initialize()
        for part in self._parts():
            initialize(part, printable(part.graph.source_name))
            # The copy's tables are the edited graph's own; their initialisers have come along.
            self.initialize_edited([self._copied(name) for name in part.plan.initializers])

    def _copied(self, name: str) -> str:
        """What a node of a part is called in the edited graph."""
        return self.journal.copied.get(name, name)

    # -- running ------------------------------------------------------------------------------------------------

    def bound(self, sample: int) -> tuple[Feeds, Feeds]:
        to_original: Feeds = {}
        to_edited: Feeds = {self._copied(name): value for name, value in self._variables_behind(sample).items()}
        if self.pre is None:
            return to_original, to_edited
        feeds, runs = self.pre.start(sample, {})
        for run in runs:
            self.executor.wait(run)
        self._keep(PRE, feeds)
        for interface in self.taken:
            place = self.pre.place(interface.part_result)
            assert place is not None
            to_original[interface.name] = Result(self.pre.result(sample, place[0]), place[1])
            if interface.part_input in feeds:
                to_edited[self.after(interface.name)] = feeds[interface.part_input]
        for variable in self.pre.variables:
            to_edited[self._copied(variable.name)] = feeds[variable.name]
        return to_original, to_edited

    def _keep(self, key: str, feeds: Feeds) -> None:
        """Keeps what a part was fed, up to the first sample that differs."""
        if self.failure is None:
            self.part_feeds[key] = feeds

    def hold_batch(self) -> bool:
        held = [part.hold_batch() for part in (self.original, *self._parts())]
        return any(held)

    def _variables_behind(self, sample: int) -> Feeds:
        if self.post is None:
            return {}
        return {
            v.name: variable_value(v.dtype, v.shape, 104_729 + sample + i) for i, v in enumerate(self.post.variables)
        }

    def sample_count(self) -> int:
        return max([self.original.samples, *(part.samples for part in (self.pre,) if part is not None)])

    def batch(self) -> int:
        return max(self.original.batch, self.pre.batch if self.pre is not None else 1)

    def edited_groups(self) -> list[list[str]]:
        """What is served is fetched in the run that fetches its raw value: chance and state are the same for both."""
        groups = super().edited_groups()
        for interface in self.served:
            groups[self._place(interface)[0]].append(interface.name)
        return groups

    def _place(self, interface: Interface) -> tuple[int, int]:
        """Where the raw value is among the original's fetches."""
        place = self.original.place(interface.name)
        assert place is not None
        return place

    def finish(self, sample: int) -> None:
        super().finish(sample)
        for part in self._parts():
            part.finish(sample)

    def described(self, feeds: Feeds, edited_feeds: Feeds) -> dict[str, str]:
        if self.pre is None:
            return super().described(feeds, edited_feeds)
        parts = {i.part_input: self.after(i.name) for i in self.taken}
        raw = self.pre.describe_feeds({p: edited_feeds[n] for p, n in parts.items() if n in edited_feeds})
        return {parts[name]: text for name, text in raw.items()} | super().described(feeds, edited_feeds)

    def made(self) -> dict[str, str]:
        parts = {i.part_input: self.after(i.name) for i in self.taken}
        raw = self.pre.made if self.pre is not None else {}
        return super().made() | {parts[name]: text for name, text in raw.items() if name in parts}

    # -- comparing ----------------------------------------------------------------------------------------------

    def compared(self, sample: int, summaries: list[RunSummary]) -> list[OutputProof]:
        """What is served, and the raw values under their new names."""
        if self.post is None:
            return super().compared(sample, summaries)
        feeds = self._variables_behind(sample)
        for interface in self.served:
            group, i = self._place(interface)
            feeds[interface.part_input] = Result(self.original.result(sample, group), i)
        feeds, runs = self.post.start(sample, feeds)
        self._keep(POST, feeds)
        for run in runs:
            self.executor.wait(run)
        groups = self.edited_groups()
        served = [self._compared_served(i, groups, sample, summaries) for i in self.served]
        return [*served, *super().compared(sample, summaries)]

    def _compared_served(
        self, interface: Interface, groups: list[list[str]], sample: int, summaries: list[RunSummary]
    ) -> OutputProof:
        group = self._place(interface)[0]
        raw = len(self.original.plan.groups[group])
        at = raw + groups[group][raw:].index(interface.name)
        info = summaries[group].outputs[at]
        output = OutputProof(f"post({interface.name})", interface.name, info.dtype, info.shape)
        output.reason = self.incomparable.get(interface.name, "")
        if not output.reason:
            assert self.post is not None
            place = self.post.place(interface.part_result)
            assert place is not None
            pending = self.executor.compare(
                self.post.result(sample, place[0]),
                edited_result(sample, group),
                [(place[1], at)],
                rtol=self.proof.rtol,
                atol=self.proof.atol,
            )
            output.comparison = self.executor.comparisons(pending)[0]
        return output

    def check_compared(self) -> None:
        """What is served, and something that depends on each of the inputs, must have been compared."""
        super().check_compared()
        names = {i.name for i in self.served}
        missing = [o for o in self.proof.outputs if o.after in names and o.comparison is None]
        if missing:
            raise NotValidatedError(
                f"{quoted(missing[0].after)} could not be compared: {printable(missing[0].reason)}", hint=DO_WITHOUT
            )
        if self.taken:
            self._check_reached()

    def _check_reached(self) -> None:
        topology = Topology(self.original_graph)
        consumers = topology.consumers()
        names = {parse_tensor(o.before).node for o in self.proof.compared if not o.before.startswith("post(")}
        names |= {i.name for i in self.served}
        compared = [topology.id_of(self.original_graph[name]) for name in names]
        for interface in self.taken:
            node = self.original_graph[interface.name]
            reached = topology.downstream([topology.id_of(node)], consumers)
            if not any(reached[number] for number in compared):
                reasons = "; ".join(dict.fromkeys(reason for _, reason in self.proof.skipped)) or "there is none"
                raise NotValidatedError(
                    f"no output that depends on {quoted(interface.name)} could be compared: {printable(reasons)}",
                    hint=DO_WITHOUT,
                )
