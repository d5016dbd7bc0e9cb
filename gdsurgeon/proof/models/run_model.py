"""A model on its own: it is run on made-up feeds, and held against recorded outputs where there are some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.traversal.decisions import deciding_nodes
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.errors import NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.feeds.archive import of_dtype
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.comparing import (
    DO_WITHOUT,
    ORIGINAL,
    await_loaded,
    difference,
    initialize,
    nothing_to_run,
    show_values,
    warn_of_variables,
)
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.models.recording import Recording
from gdsurgeon.proof.proof import DiffersError, OutputProof, Proof, agrees
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.protocol import RunSummary
from gdsurgeon.runtime.statistics import Statistics as Statistics

GOLDEN = "golden"
_SAME_FEEDS = "--feeds FILE.npz has it fed what --save-feeds has kept, where seed and samples are not the same"


class ModelRun:
    """Runs a model that the executor is loading as ORIGINAL.

    Args:
        executor: see above.
        graph: the model.
        overrides: what the user says of feeds.
        outputs: tensors to fetch; none: its outputs.
        golden: recorded outputs by name, one mapping for each sample.
        golden_name: what they are called in messages.
        rtol, atol: by how much floats may differ from the recorded ones.
        recording: is told of each sample.

    Attributes:
        proof: what was run, and compared.
        statistics: of each output, over all samples.
        fed: what was fed in the last sample.

    What the samples have returned stays in the executor.
    """

    def __init__(
        self,
        executor: Executor,
        graph: Graph,
        overrides: Overrides,
        *,
        outputs: Sequence[str] = (),
        golden: Sequence[Mapping[str, Any]] = (),
        golden_name: str = "",
        rtol: float = 0.0,
        atol: float = 0.0,
        recording: Recording | None = None,
    ) -> None:
        self.executor = executor
        self.graph = graph
        self.golden = list(golden)
        self.golden_name = golden_name
        self.recording = recording
        self.name = printable(graph.source_name)
        check_names(overrides, [node.name for node in input_nodes(graph)])
        tensors = [graph.tensor(name).name for name in outputs]
        nodes = dict.fromkeys(parse_tensor(name).node for name in tensors)
        served = [graph[name] for name in nodes] or output_nodes(graph)
        # What a class was decided by is run, kept and compared with it: the class alone hides most differences.
        deciding = [node.name for node in deciding_nodes(served)] if not tensors else []
        own = {node.name for node in served}
        names = list(dict.fromkeys([*(node.name for node in served), *deciding]))
        self.subject = Subject(executor, ORIGINAL, graph, outputs=names, overrides=overrides)
        plan = self.subject.plan
        self.inside = {n for n in plan.fetches if parse_tensor(n).node not in own or n in plan.beside}
        if tensors:
            groups = [[name for name in names if name in tensors] for names in self.subject.plan.groups]
            self.subject.plan.groups = [names for names in groups if names]
        statement = f"model(x) = {golden_name}" if golden else ""
        self.proof = Proof("run", statement=statement, rtol=rtol, atol=atol)
        self.statistics: dict[str, Statistics] = {}
        self.fed: Feeds = {}

    def run(self) -> Proof:
        """Runs all samples.

        Raises:
            ValidationError: TensorFlow does not load it, or it differs from what was recorded.
            NotValidatedError: nothing can be run here, or compared.
        """
        await_loaded(self.executor, ORIGINAL, f"TensorFlow does not load {self.name}")
        plan = self.subject.plan
        self.proof.note_plan(plan)
        if not plan.fetches:
            raise nothing_to_run(self.subject, self.name)
        self._pair_golden()
        warn_of_variables(self.subject, self.proof)
        initialize(self.subject, self.name)
        self._samples()
        if self.golden and not any(self.proof.elements.get(o.after) for o in self.proof.compared if not o.inside):
            reasons = "; ".join(dict.fromkeys(o.reason for o in self.proof.outputs if o.reason)) or "no elements"
            raise NotValidatedError(
                f"nothing could be compared with {self.golden_name}: {printable(reasons)}", hint=DO_WITHOUT
            )
        return self.proof

    def again(self, key: str) -> Proof:
        """Runs the same once more on the graph that is loaded as KEY, which TensorFlow optimises.

        What it returns is compared with what it returned as it was written, to see how far the optimiser takes it from
        that. That is a failure where a tolerance was given and it goes beyond.

        Raises:
            ValidationError: it does not load or run, or differs by more than is allowed.
        """
        await_loaded(self.executor, key, f"TensorFlow does not load {self.name}, optimised")
        first = self.proof
        self.proof = Proof("run", statement="optimised(x) = model(x)", rtol=first.rtol, atol=first.atol, optimized=True)
        self.recording = None
        self.subject.key = key
        initialize(self.subject, self.name)
        self._samples()
        return self.proof

    def _samples(self) -> None:
        for sample in range(self.subject.samples):
            self._sample(sample)
            self.proof.samples = sample + 1
            self.proof.batches = sorted({*self.proof.batches, self.subject.batch})

    def _sample(self, sample: int) -> None:
        try:
            feeds, runs = self.subject.start(sample, {})
            summaries = [self.executor.wait(run) for run in runs]
        except Refused as refused:
            raise ValidationError(f"{self.name} does not run: {printable(refused.text)}") from refused
        self.fed = feeds
        outputs = [
            self._output(sample, group, i, name, summary)
            for group, (names, summary) in enumerate(zip(self.subject.plan.groups, summaries, strict=True))
            for i, name in enumerate(names)
        ]
        self.proof.note(outputs)
        if sample == 0:
            self.proof.outputs = outputs
            self.proof.feeds = self.subject.describe_feeds(feeds)
            self.proof.made = self.subject.made
            show_values(self.executor, outputs, self.subject.plan.groups, key=self.subject.key)
        if not self.proof.optimized:
            self._look_at(sample)
        if self.recording is not None:
            self.recording.note(self.executor, sample, feeds, self.subject)
        self._judge(outputs, sample)

    def _look_at(self, sample: int) -> None:
        """Keeps the statistics of what was returned."""
        for group, names in enumerate(self.subject.plan.groups):
            found = self.executor.statistics(self.subject.result(sample, group))
            for name, statistics in zip(names, found, strict=True):
                known = self.statistics.get(name)
                self.statistics[name] = statistics if known is None else _together(known, statistics)

    # -- recorded outputs ---------------------------------------------------------------------------------------

    def _pair_golden(self) -> None:
        """Raises ValidationError where something has no partner."""
        if not self.golden:
            return
        mine, theirs = set(self.subject.plan.fetches), set(self.golden[0])
        served = mine - self.inside
        lonely = [f"{self.name} gives {quoted(n)}, which was not recorded" for n in sorted(served - theirs)]
        lonely += [f"{quoted(n)} was recorded, and {self.name} does not give it" for n in sorted(theirs - mine)]
        for sample, recorded in enumerate(self.golden[1:], 1):
            lonely += [
                f"{quoted(n)} was recorded of sample {1 if n in theirs else sample + 1} alone"
                for n in sorted(theirs ^ set(recorded))
            ]
        if lonely:
            raise ValidationError(
                f"the outputs of {self.name} are not those of {self.golden_name}:",
                details=tuple(lonely[:20]),
                hint="--outputs NAME,... says what is compared",
            )
        if len(self.golden) < self.subject.samples:
            raise NotValidatedError(
                f"{self.golden_name} has {len(self.golden)} of the {self.subject.samples} samples",
                hint=f"--samples {len(self.golden)} runs as many",
            )

    def _output(self, sample: int, group: int, i: int, name: str, summary: RunSummary) -> OutputProof:
        info = summary.outputs[i]
        output = OutputProof(name, name, info.dtype, info.shape, inside=name in self.inside)
        if not self.golden and not self.proof.optimized:
            return output
        output.reason = self._chance.get(name, "")
        if not self.proof.optimized and name not in self.golden[sample]:
            output.reason = output.reason or f"not in {self.golden_name}"
        if not output.reason:
            other, at = self._counterpart(sample, group, i, name, info.dtype)
            pending = self.executor.compare(
                other, self.subject.result(sample, group), [(at, i)], rtol=self.proof.rtol, atol=self.proof.atol
            )
            output.comparison = self.executor.comparisons(pending)[0]
        return output

    def _counterpart(self, sample: int, group: int, i: int, name: str, dtype: int) -> tuple[str, int]:
        """What an output is compared with: the result, and the place in it."""
        if self.proof.optimized:
            return f"{ORIGINAL} {sample} {group}", i
        try:
            recorded = of_dtype(self.golden[sample][name], dtype)
        except (TypeError, ValueError) as error:
            what = f"what {self.golden_name} has for {quoted(name)} cannot be compared"
            raise ValidationError(f"{what}: {printable(str(error))}") from error
        self.executor.put(GOLDEN, [recorded])
        return GOLDEN, 0

    @cached_property
    def _chance(self) -> dict[str, str]:
        """The outputs that another process would give otherwise, and why."""
        plan = self.subject.plan
        out = dict.fromkeys(plan.random, f"random: {', '.join(plan.random_ops[:3])}")
        drawn = list(dict.fromkeys(parse_tensor(name).node for name in plan.draws))
        if drawn:
            topology = Topology(self.graph)
            reached = topology.downstream([topology.id_of(self.graph[n]) for n in drawn], topology.consumers())
            for name in plan.fetches:
                if reached[topology.id_of(self.graph[parse_tensor(name).node])]:
                    out.setdefault(name, f"random: {', '.join(drawn[:3])}")
        return out

    @property
    def _other_name(self) -> str:
        return "itself as it is written, when it is optimised," if self.proof.optimized else self.golden_name

    def _judge(self, outputs: list[OutputProof], sample: int) -> None:
        rtol, atol = self.proof.rtol, self.proof.atol
        if self.proof.optimized and not (rtol or atol):
            return
        wrong = [o for o in outputs if o.comparison is not None and not agrees(o.comparison, rtol, atol)]
        if wrong:
            self.proof.outputs = outputs
            self.proof.samples = sample + 1
            compared = sum(o.comparison is not None for o in outputs)
            raise DiffersError(
                f"{self.name} differs from {self._other_name} in {len(wrong)} of {compared} outputs "
                f"(feed {sample + 1})",
                self.proof,
                details=tuple(f"{printable(o.after)}: {difference(o.comparison)}" for o in wrong if o.comparison),
                hint=None if self.proof.optimized or any(s.given for s in self.subject.specs) else _SAME_FEEDS,
            )


def _together(a: Statistics, b: Statistics) -> Statistics:
    """The statistics of the elements of both."""
    lows = [low for low in (a.minimum, b.minimum) if low is not None]
    highs = [high for high in (a.maximum, b.maximum) if high is not None]
    return Statistics(
        a.count + b.count, a.nan + b.nan, a.infinite + b.infinite, min(lows, default=None), max(highs, default=None)
    )
