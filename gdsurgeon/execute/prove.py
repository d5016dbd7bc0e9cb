"""Proves an edit: runs the original and the edited graph on the same feeds and compares what the edit's claim says."""

from __future__ import annotations

import time

from gdsurgeon.analysis.signature import output_nodes
from gdsurgeon.analysis.topology import Topology
from gdsurgeon.errors import NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.execute.executor import Executor, Refused
from gdsurgeon.execute.feeds import variable_value
from gdsurgeon.execute.proof import MOST_SHOWN_BYTES, OutputProof, Proof, shown_value
from gdsurgeon.execute.settings import Overrides
from gdsurgeon.execute.subject import Feeds, Subject
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.journal import (
    EditResult,
    Interface,
    Journal,
    Postprocessed,
    Preprocessed,
    SameUnderNewNames,
)
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.runtime.client import Pending
from gdsurgeon.runtime.compare import Comparison
from gdsurgeon.runtime.protocol import Result, RunSummary

ORIGINAL, EDITED, PRE, POST = "original", "edited", "preprocessing", "postprocessing"
"""What the graphs are called in the executor and in messages."""

_DO_WITHOUT = "--validate structure does without running it"


def prove_loads(executor: Executor) -> Proof:
    """Waits until the edited graph has loaded.

    Raises:
        ValidationError: TensorFlow does not take it.
        NotValidatedError: this TensorFlow lacks an op.
    """
    started = time.monotonic()
    device = executor.check_device()
    _loaded(executor, EDITED, "the result does not load")
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
        proof = _Preprocessing(executor, graph, result, overrides, claim).run()
    elif isinstance(claim, Postprocessed):
        proof = _Postprocessing(executor, graph, result, overrides, claim).run()
    elif isinstance(claim, SameUnderNewNames):
        proof = _Renaming(executor, graph, result, overrides).run()
    else:
        proof = _Rewiring(executor, graph, result, overrides).run()
    proof.device, proof.runtime = device, executor.version()
    proof.seconds = time.monotonic() - started
    return proof


def _loaded(executor: Executor, key: str, what: str) -> None:
    try:
        executor.loaded(key)
    except Refused as refused:
        if "Op type not registered" in refused.text or "not found in registry" in refused.text.lower():
            raise NotValidatedError(
                f"this TensorFlow cannot run the graph: {printable(refused.text)}",
                hint="--op-lib FILE.so brings custom ops; --validate structure does without running",
            ) from refused
        raise ValidationError(f"{what}: {printable(refused.text)}", hint=_DO_WITHOUT) from refused


class _Comparing:
    """What all proofs have in common: samples, runs of both graphs, comparisons, the report."""

    statement = ""
    must_compare = True

    def __init__(self, executor: Executor, graph: Graph, result: EditResult, overrides: Overrides) -> None:
        self.executor = executor
        self.graph = graph
        self.journal: Journal = result.journal
        self.overrides = overrides
        self.name = printable(graph.source_name)
        self.original_graph = graph.pristine()
        self.original = self.subject()
        self.proof = Proof("run", statement=self.statement)
        self.incomparable: dict[str, str] = dict.fromkeys(
            self.original.plan.random, f"random: {', '.join(self.original.plan.random_ops[:3])}"
        )

    def subject(self) -> Subject:
        """The original graph as it is run."""
        self.overrides.check_names([n.name for n in self.original_graph.nodes() if n.op.startswith("Placeholder")])
        return Subject(self.executor, ORIGINAL, self.original_graph, overrides=self.overrides)

    def bound(self, sample: int) -> tuple[Feeds, Feeds]:
        """What is fed beside the inputs of the original: to the original, and to the edited graph."""
        del sample
        return {}, {}

    def after(self, tensor: str) -> str:
        """What TENSOR of the original is called in the edited graph."""
        ref = parse_tensor(tensor)
        return format_input(self.journal.after(ref.node), ref.port)

    def run(self) -> Proof:
        plan = self.original.plan
        self.proof.skipped = [(s.name, s.reason) for s in plan.skipped]
        if not plan.fetches:
            raise self._nothing_to_run()
        if plan.variables:
            self.proof.warnings.append(
                f"{len(plan.variables)} variable{'s' * (len(plan.variables) > 1)}, whose values are not in the file: "
                "run on made-up ones"
            )
        _loaded(self.executor, ORIGINAL, f"TensorFlow does not load {self.name}, before any edit")
        _loaded(self.executor, EDITED, "the result does not load")
        self._initialize()
        samples = self.executor.settings.samples if self._feeds_vary() else 1
        for sample in range(samples):
            self._sample(sample)
            self.proof.samples = sample + 1
        if self.must_compare and not self.proof.compared:
            reasons = "; ".join(dict.fromkeys(o.reason for o in self.proof.outputs))
            raise NotValidatedError(f"nothing could be compared: {reasons}", hint=_DO_WITHOUT)
        return self.proof

    def _feeds_vary(self) -> bool:
        return bool(self.original.variables or self.original.plan.draws) or any(
            spec.given is None for spec in self.original.specs
        )

    def _initialize(self) -> None:
        try:
            self.original.initialize()
        except Refused as refused:
            raise NotValidatedError(
                f"the tables of {self.name} cannot be initialised: {printable(refused.text)}", hint=_DO_WITHOUT
            ) from refused
        try:
            self.executor.initialize(EDITED, [self.after(name) for name in self.original.plan.initializers])
        except Refused as refused:
            raise ValidationError(
                f"the tables of the result cannot be initialised: {printable(refused.text)}"
            ) from None

    def _sample(self, sample: int) -> None:
        to_original, to_edited = self.bound(sample)
        edited_feeds: Feeds = {}
        edited_runs: list[Pending[RunSummary]] = []

        def run_edited(feeds: Feeds) -> None:
            nonlocal edited_feeds, edited_runs
            shared = {self.after(name): value for name, value in feeds.items() if name not in to_original}
            edited_feeds = shared | to_edited
            edited_runs = self._run_edited(sample, edited_feeds)

        feeds, runs = self.original.start(sample, to_original, run_edited)
        for run in runs:
            self.executor.wait(run)
        summaries = self._finished(edited_runs)
        comparisons = self._compare(sample)
        outputs = self._outputs(sample, summaries, comparisons)
        if sample == 0:
            self.proof.outputs = outputs
            self.proof.feeds = self._described(feeds, edited_feeds)
            self._show_values(outputs)
        self._judge(outputs, sample)

    def _described(self, feeds: Feeds, edited_feeds: Feeds) -> dict[str, str]:
        del edited_feeds
        return {self.after(name): text for name, text in self.original.describe_feeds(feeds).items()}

    def _run_edited(self, sample: int, feeds: Feeds) -> list[Pending[RunSummary]]:
        return [
            self.executor.run(EDITED, f"{EDITED} {sample} {group}", feeds, [self.edited_fetch(name) for name in names])
            for group, names in enumerate(self.original.plan.groups)
        ]

    def edited_fetch(self, tensor: str) -> str:
        """What is fetched of the edited graph to be compared with TENSOR of the original."""
        return self.after(tensor)

    def _finished(self, runs: list[Pending[RunSummary]]) -> list[RunSummary]:
        try:
            return [self.executor.wait(run) for run in runs]
        except Refused as refused:
            raise ValidationError(f"the result does not run: {printable(refused.text)}", hint=_DO_WITHOUT) from refused

    def _compare(self, sample: int) -> dict[str, Comparison]:
        """A comparison for each fetch of the original."""
        pending: list[tuple[list[str], Pending[list[Comparison]]]] = []
        for group, names in enumerate(self.original.plan.groups):
            pairs = [(i, i) for i, name in enumerate(names) if name not in self.incomparable]
            if pairs:
                a, b = self.original.result(sample, group), f"{EDITED} {sample} {group}"
                pending.append(([names[i] for i, _ in pairs], self.executor.compare(a, b, pairs)))
        return {
            name: comparison
            for names, wanted in pending
            for name, comparison in zip(names, self.executor.comparisons(wanted), strict=True)
        }

    def _outputs(
        self, sample: int, summaries: list[RunSummary], comparisons: dict[str, Comparison]
    ) -> list[OutputProof]:
        del sample
        return [
            OutputProof(
                before=name,
                after=self.edited_fetch(name),
                dtype=info.dtype,
                shape=info.shape,
                comparison=comparisons.get(name),
                reason=self.incomparable.get(name, ""),
            )
            for names, summary in zip(self.original.plan.groups, summaries, strict=True)
            for name, info in zip(names, summary.outputs, strict=True)
        ]

    def _show_values(self, outputs: list[OutputProof], most: int = 8) -> None:
        """Fetches the values of a few small outputs, for the summary."""
        place = {
            self.edited_fetch(name): (group, i)
            for group, names in enumerate(self.original.plan.groups)
            for i, name in enumerate(names)
        }
        for output in outputs[:most]:
            group, i = place[output.after]
            elements = 1
            for dim in output.shape:
                elements *= dim
            if elements * 8 <= MOST_SHOWN_BYTES:
                output.value = shown_value(self.executor.tensor(f"{EDITED} 0 {group}", i))

    def _judge(self, outputs: list[OutputProof], sample: int) -> None:
        """Raises ValidationError where an output differs."""
        wrong = [o for o in outputs if o.comparison is not None and not o.comparison.equal]
        if not wrong:
            return
        self.proof.outputs = outputs
        details = tuple(f"{printable(o.after)}: {difference(o.comparison)}" for o in wrong if o.comparison is not None)
        count = f"{len(wrong)} of {sum(o.comparison is not None for o in outputs)} outputs"
        raise ValidationError(
            f"the result differs: {self.statement} does not hold for {count} (feed {sample + 1})", details=details
        )

    def _nothing_to_run(self) -> NotValidatedError:
        skipped = self.original.plan.skipped
        reasons = list(dict.fromkeys(s.reason for s in skipped))
        why = "; ".join(reasons[:3]) if reasons else "none gives a value that can be fetched"
        unknown = any("not known here" in reason for reason in reasons)
        outside = any("--allow-ops" in reason for reason in reasons)
        hint = "--op-lib FILE.so brings custom ops; " if unknown else ""
        hint += "--allow-ops runs it all the same; " if outside else ""
        return NotValidatedError(f"no output of {self.name} can be run here: {why}", hint=hint + _DO_WITHOUT)


def difference(comparison: Comparison) -> str:
    """A comparison that failed, in words, with the tolerance that would have passed."""
    if comparison.reason is not None:
        return comparison.reason
    text = f"{comparison.differing:,} of {comparison.count:,} elements differ"
    if comparison.max_abs is not None:
        text += f", by up to {comparison.max_abs:.3g}"
    if comparison.needed:
        text += f" (a tolerance of {comparison.needed:.3g} would have passed)"
    return text


class _Renaming(_Comparing):
    statement = "edited(x) = original(x) under the new names"


class _Rewiring(_Comparing):
    """Nothing is claimed of what the edit reaches; the rest must be bit-identical."""

    statement = "outputs that the edit does not reach = original(x)"
    must_compare = False

    def __init__(self, executor: Executor, graph: Graph, result: EditResult, overrides: Overrides) -> None:
        super().__init__(executor, graph, result, overrides)
        topology = Topology(self.original_graph)
        changed = [topology.id_of(self.original_graph[r.node]) for r in self.journal.rewired]
        reached = topology.downstream(changed, topology.consumers())
        for name in self.original.plan.fetches:
            node = self.original_graph[parse_tensor(name).node]
            if reached[topology.id_of(node)]:
                self.incomparable.setdefault(name, "downstream of the edit")


class _Preprocessing(_Comparing):
    statement = "edited(raw) = original(pre(raw))"

    def __init__(
        self, executor: Executor, graph: Graph, result: EditResult, overrides: Overrides, claim: Preprocessed
    ) -> None:
        self.interfaces: tuple[Interface, ...] = claim.inputs
        names = {i.name for i in claim.inputs}
        by_part = {i.name: i.part_input for i in claim.inputs}
        self.part_overrides = Overrides(
            {by_part[n]: v for n, v in overrides.values.items() if n in names},
            overrides.archive,
            {by_part[n]: s for n, s in overrides.shapes.items() if n in names},
        )
        super().__init__(executor, graph, result, overrides)
        results = [parse_tensor(i.part_result).node for i in claim.inputs]
        self.pre = Subject(
            executor, PRE, claim.pre, outputs=list(dict.fromkeys(results)), overrides=self.part_overrides
        )
        if self.pre.plan.skipped:
            name, reason = self.pre.plan.skipped[0]
            raise NotValidatedError(
                f"{quoted(name)} of {printable(claim.pre.source_name)} cannot be run here: {reason}", hint=_DO_WITHOUT
            )
        if self.pre.plan.random or self.pre.plan.draws:
            raise NotValidatedError(
                f"{printable(claim.pre.source_name)} is random: what it gives twice cannot be compared",
                hint=_DO_WITHOUT,
            )
        executor.load_source(PRE, claim.pre)

    def subject(self) -> Subject:
        self.overrides.check_names([n.name for n in self.original_graph.nodes() if n.op.startswith("Placeholder")])
        bound = frozenset(i.name for i in self.interfaces)
        return Subject(self.executor, ORIGINAL, self.original_graph, overrides=self.overrides, bound=bound)

    def _initialize(self) -> None:
        super()._initialize()
        _loaded(self.executor, PRE, f"TensorFlow does not load {printable(self.pre.graph.source_name)}")
        self.pre.initialize()
        # The copy's tables are the edited graph's own; their initialisers have come along.
        after = [self.copied_name(name) for name in self.pre.plan.initializers]
        self.executor.initialize(EDITED, after)

    def copied_name(self, name: str) -> str:
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
            to_edited[self.copied_name(variable.name)] = feeds[variable.name]
        return to_original, to_edited

    def _feeds_vary(self) -> bool:
        return super()._feeds_vary() or any(spec.given is None for spec in self.pre.specs)

    def _described(self, feeds: Feeds, edited_feeds: Feeds) -> dict[str, str]:
        parts = {i.part_input: i.name for i in self.interfaces}
        raw = self.pre.describe_feeds({p: edited_feeds[n] for p, n in parts.items() if n in edited_feeds})
        return {parts[name]: text for name, text in raw.items()} | super()._described(feeds, edited_feeds)


class _Postprocessing(_Comparing):
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
        skipped = [s for s in self.original.plan.skipped if s.name in {i.name for i in claim.outputs}]
        if skipped or self.post.plan.skipped:
            name, reason = (*skipped, *self.post.plan.skipped)[0]
            raise NotValidatedError(f"{quoted(name)} cannot be run here: {reason}", hint=_DO_WITHOUT)
        if self.post.plan.random or self.post.plan.draws:
            raise NotValidatedError(
                f"{printable(claim.post.source_name)} is random: what it gives twice cannot be compared",
                hint=_DO_WITHOUT,
            )
        executor.load_source(POST, claim.post)

    def subject(self) -> Subject:
        self.overrides.check_names([n.name for n in self.original_graph.nodes() if n.op.startswith("Placeholder")])
        outputs = [node.name for node in output_nodes(self.original_graph)] + [i.name for i in self.interfaces]
        return Subject(
            self.executor,
            ORIGINAL,
            self.original_graph,
            outputs=list(dict.fromkeys(outputs)),
            overrides=self.overrides,
        )

    def _initialize(self) -> None:
        super()._initialize()
        _loaded(self.executor, POST, f"TensorFlow does not load {printable(self.post.graph.source_name)}")
        self.post.initialize()
        self.executor.initialize(EDITED, [self.journal.copied.get(n, n) for n in self.post.plan.initializers])

    def _sample(self, sample: int) -> None:
        self.sample = sample
        super()._sample(sample)

    def bound(self, sample: int) -> tuple[Feeds, Feeds]:
        seed_feeds: Feeds = {}
        for variable in self.post.variables:
            value = variable_value(variable.dtype, variable.shape, 104_729 + sample)
            seed_feeds[self.journal.copied.get(variable.name, variable.name)] = value
        return {}, seed_feeds

    def _outputs(
        self, sample: int, summaries: list[RunSummary], comparisons: dict[str, Comparison]
    ) -> list[OutputProof]:
        """The raw values under their new names, and what is served in their place."""
        return [*self._served(sample), *super()._outputs(sample, summaries, comparisons)]

    def _served(self, sample: int) -> list[OutputProof]:
        feeds: Feeds = {}
        for interface in self.interfaces:
            place = self.original.place(interface.name)
            assert place is not None
            feeds[interface.part_input] = Result(self.original.result(sample, place[0]), place[1])
        for variable in self.post.variables:
            feeds[variable.name] = variable_value(variable.dtype, variable.shape, 104_729 + sample)
        _, runs = self.post.start(sample, feeds)
        for run in runs:
            self.executor.wait(run)
        served = f"{EDITED} {sample} served"
        names = [i.name for i in self.interfaces]
        edited = self.executor.run(EDITED, served, self._edited_feeds, names)
        summary = self._finished([edited])[0]
        out: list[OutputProof] = []
        for k, interface in enumerate(self.interfaces):
            place = self.post.place(interface.part_result)
            assert place is not None
            random = self.incomparable.get(interface.name, "")
            comparison = None
            if not random:
                pending = self.executor.compare(self.post.result(sample, place[0]), served, [(place[1], k)])
                comparison = self.executor.comparisons(pending)[0]
            info = summary.outputs[k]
            before = f"post({interface.name})"
            out.append(OutputProof(before, interface.name, info.dtype, info.shape, "", comparison, random))
        return out

    def _run_edited(self, sample: int, feeds: Feeds) -> list[Pending[RunSummary]]:
        self._edited_feeds = feeds
        return super()._run_edited(sample, feeds)

    def _show_values(self, outputs: list[OutputProof], most: int = 8) -> None:
        for k, interface in enumerate(self.interfaces):
            output = next(o for o in outputs if o.after == interface.name)
            if len(output.shape) < 3:
                output.value = shown_value(self.executor.tensor(f"{EDITED} 0 served", k))
        served = {i.name for i in self.interfaces}
        super()._show_values([o for o in outputs if o.after not in served], most)
