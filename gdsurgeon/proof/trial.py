"""Runs graphs on the same feeds, sample by sample, and compares pairs of their tensors.

A trial lists the runs of a sample, the pairs to compare, and the tolerance. `Trial.run` is the test: it loads the
graphs, runs them, compares the pairs, and raises the difference. The functions that prove a claim build a trial, run
it, and check what its proof shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes
from gdsurgeon.analysis.traversal.topology import depending_on
from gdsurgeon.errors import (
    GdsurgeonError,
    Line,
    NotValidatedError,
    UsageError,
    ValidationError,
    joined,
    printable,
    quoted,
)
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import node_of, nodes_of
from gdsurgeon.ops.kinds import PLACEHOLDERS, UNSET_PLACEHOLDERS, VARIABLES
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import DO_WITHOUT as DO_WITHOUT
from gdsurgeon.proof.executor import EDITED as EDITED
from gdsurgeon.proof.executor import ORIGINAL as ORIGINAL
from gdsurgeon.proof.executor import Executor, Refused, await_loaded
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import (
    MOST_SHOWN_BYTES,
    DiffersError,
    OutputProof,
    Proof,
    Skipped,
    agrees,
    difference,
    shown_value,
)
from gdsurgeon.proof.settings import Event
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.client import Pending
from gdsurgeon.runtime.compare import Comparison
from gdsurgeon.runtime.protocol import OutputInfo, Result, RunSummary
from gdsurgeon.runtime.tensor import Tensor, reversed_elements
from gdsurgeon.text import first_lines, listed
from gdsurgeon.values import EXACT, Tolerance

REPEATS = 16
"""The number of repetitions of a sample whose outputs differ, if the original differs from itself, until they agree."""
FEW_REPEATS = 4
"""The number of repetitions if the original is deterministic, and outputs differ by rounding."""
_ROUNDING = 1e-5
"""A larger difference of outputs is no rounding, so a sample is not repeated for it."""
OPTIMIZED_TOLERANCE = 1e-4
"""The default tolerance if TensorFlow optimizes the graphs, relative or absolute.

The optimizer merges and reorders operations depending on the surrounding nodes. Two graphs that are bit-identical as
written can therefore differ.
"""
MOST_SHOWN = 8
"""The number of outputs with a few values in the report."""
MOST_LISTED = 20
"""The number of different outputs that an error lists; the report has all."""
_EXPECTED = "expected"


class ProofContext(NamedTuple):
    """The arguments of a function that proves a claim.

    Attributes:
        executor: is loading the original and the edited graph.
        change: the two graphs.
        overrides: the user's feeds, by the names before or after the edit.
    """

    executor: Executor
    change: Change
    overrides: Overrides

    def after(self, tensor: str) -> str:
        """Returns the name in the edited graph of a tensor of the original."""
        return self.change.intent.counterpart(tensor)

    def has_after(self, tensor: str) -> bool:
        """Returns whether the edited graph has the counterpart of the node of `tensor`."""
        return node_of(self.after(tensor)) in self.change.after

    def plan(self, key: str, tensors: Iterable[str] | None = None, **options: Any) -> FetchPlan:
        """Returns the plan of ORIGINAL or EDITED; see `plan_with`."""
        graph = self.change.before if key == ORIGINAL else self.change.after
        return plan_with(self.executor.settings, graph, tensors, **options)

    def overrides_of(self, key: str) -> Overrides:
        """Returns the overrides by the names in the graph `key`. ORIGINAL gets no overrides of inputs of only EDITED.

        Raises:
            UsageError: a name is not an input.
        """
        graphs = self.change.before, self.change.after
        before, after = (dict.fromkeys(node.name for node in input_nodes(graph)) for graph in graphs)
        names = [pair if key == EDITED else pair[::-1] for pair in self.change.intent.renamed.items()]
        known = after if key == EDITED else before
        renamed = {name: own for name, own in names if own in known and name not in known}
        overrides = self.overrides.renamed(renamed)
        for name in overrides.names() if key == EDITED else ():
            if name not in after and name in self.change.before:
                has = f"the inputs {listed(map(quoted, after), 8)}" if after else "no inputs"
                why = f"because it was frozen or cut off; the result has {has}"
                line = f"{quoted(name)} is not an input of the result, {why}"
                raise UsageError(line, code="no-such-input", node=name)
        check_names(overrides, [*known, *(name for name in after if name not in renamed)])
        return overrides.only(known)

    def original(self, plan: FetchPlan) -> Subject:
        """Returns the original, to be run according to `plan`."""
        overrides, graph, after = self.overrides_of(ORIGINAL), self.change.before, self.change.after
        subject = Subject(self.executor, ORIGINAL, graph, plan, overrides)
        partners = ((name, after.find(node_of(self.after(name)))) for name in subject.optional)
        ops = {name: node.op if node is not None else "" for name, node in partners}
        subject.keep_defaults([name for name, op in ops.items() if op not in PLACEHOLDERS | VARIABLES])
        subject.optional -= {name for name, op in ops.items() if op in UNSET_PLACEHOLDERS}
        return subject

    def original_runs(self) -> bool:
        """Returns whether the original runs on feeds that are generated for it."""
        subject = Subject(self.executor, ORIGINAL, self.change.before, self.plan(ORIGINAL))
        try:
            subject.initialize()
            return bool(subject.run(0, {})[1])
        except (GdsurgeonError, Refused):
            return False
        finally:
            subject.finish(0)

    def barred(self, fetches: Iterable[str]) -> dict[str, str]:
        """Returns the fetches whose counterparts must not run: they access files, or can block forever.

        The values are the reasons. A counterpart in a v1 branch may have no value. It is run nevertheless, because the
        original returned a value.
        """
        nodes = {name: node_of(self.after(name)) for name in fetches}
        plan = self.plan(EDITED, (node for node in nodes.values() if node in self.change.after))
        reasons = {skipped.name: skipped.reason for skipped in plan.skipped if not skipped.no_value}
        return {name: reasons[node] for name, node in nodes.items() if node in reasons}


# -- runs -----------------------------------------------------------------------------------------------------


class Fetch(NamedTuple):
    """A tensor that the run `run` returns."""

    run: str
    tensor: str


class SameFeed(NamedTuple):
    """The feed `name` of an earlier run."""

    run: str
    name: str


FeedSource = Fetch | SameFeed | Callable[["Trial", int], Tensor | Result]
"""A feed: from an earlier run of the same sample, or a function of the trial and the number of the sample."""


class RunRefused(Exception):
    """TensorFlow refuses a run.

    Attributes:
        run: the run.
        text: the reason, printable; '' if no feed could be generated.
        error: the error to raise if the edit is not the cause.
        node: the node that fails; '' if TensorFlow does not report one.
        omitted: whether optional runs were left out before.
    """

    error: NotValidatedError | None

    def __init__(self, run: TrialRun, cause: Refused | NotValidatedError, omitted: bool) -> None:
        self.run, self.omitted = run, omitted
        if isinstance(cause, Refused):
            self.text, self.node, self.error = printable(cause.text), cause.node, None
        else:
            self.text, self.node, self.error = run.subject.problem, run.subject.failing_node, cause
        super().__init__(self.text)


@dataclass
class TrialRun:
    """A run of a graph in each sample.

    Attributes:
        subject: the graph and its fetches; it generates the feeds that are not in `fed`.
        fed: further feeds.
        edited_name: the name of the edited graph in messages; '' for other graphs. By default, the edit is wrong if an
            edited graph does not run.
        on_refusal: returns the error if TensorFlow refuses the run; None: the default error.
        alongside: a run after which this run is queued without waiting for its result, because the first run of a graph
            is slow. An edited graph must accept the batch size of that run.
        reported_as: names of inputs in the report, if they differ; None: the inputs are not reported.
        reverses_feeds: whether every other sample first reverses the elements of feeds from other runs, so that they
            differ from the values that the graph would compute itself. Without such feeds it has no effect.
        loads: whether the trial begins to load the graph; otherwise the executor is already loading it.
        optional: the result of a refusal: '' raises an error, 'omit' continues without this run, 'end' ends the
            samples.
    """

    subject: Subject
    fed: Mapping[str, FeedSource] = field(default_factory=dict)
    edited_name: str = ""
    on_refusal: Callable[[RunRefused], GdsurgeonError] | None = None
    alongside: str | None = None
    reported_as: Mapping[str, str] | None = field(default_factory=dict)
    reverses_feeds: bool = False
    loads: bool = False
    optional: str = ""

    @property
    def name(self) -> str:
        """The name of the run in the trial."""
        return self.subject.name

    @property
    def called(self) -> str:
        """The name of the graph in messages."""
        return self.edited_name or printable(self.subject.graph.source_name)

    def error_of(self, refusal: RunRefused) -> GdsurgeonError:
        """Returns the error for a refused run."""
        if self.on_refusal is not None:
            return self.on_refusal(refusal)
        text = f"{self.called} does not run: {refusal.text}"
        if self.edited_name:
            return ValidationError(text, code="does-not-run", reason=refusal.text)
        return refusal.error or NotValidatedError(text, code="does-not-run", advice=DO_WITHOUT)


@dataclass
class ComparedPair:
    """Two tensors that are compared.

    Attributes:
        before, after: their names in the report.
        expected: the expected tensor, or a function that returns it for the trial, the number of the sample, and the
            actual dtype and shape; None if the actual tensor is only run.
        actual: the tensor that must agree with it.
        reason: why they are not compared; '' if they are.
        inside: whether the tensor is not an output, but an output was decided by it.
        site: whether the tensor is an inner tensor at which the edit changed the computation.
        exact: whether they must be bit-identical, whatever the tolerance of the trial.
        channels: the axis of channels that are each compared with their own largest element; None: the whole tensor.
        accepted_because: why a difference is accepted; a different pair counts as not compared.
        measured: whether the difference is only measured.
        hidden: whether the report lists the pair only if it differs, because the statement names this value.
    """

    before: str
    after: str
    expected: Fetch | Callable[[Trial, int, OutputInfo], Tensor] | None
    actual: Fetch
    reason: str = ""
    inside: bool = False
    site: bool = False
    exact: bool = False
    channels: int | None = None
    accepted_because: str = ""
    measured: bool = False
    hidden: bool = False


class Failure(NamedTuple):
    """The first sample with different outputs: its number, the different outputs, and the feeds."""

    sample: int
    wrong: list[OutputProof]
    fed: Mapping[str, Feeds]


# -- the trial ------------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """A test of a statement by execution.

    Attributes:
        executor: is loading the graphs.
        statement: the equation that is tested; '' if `parts` states it.
        runs: the runs of each sample, in this order; empty: both graphs must only load.
        pairs: the tensors to compare, in the order of the report.
        lead: the run that must have something to fetch.
        samples: the number of samples.
        tolerance: by how much floats may differ.
        skipped: (output, reason) for outputs that are not run.
        warnings: are always reported.
        varying_run: a run that is compared with itself if outputs differ. A difference up to `MOST_SPREAD` times its
            own variation is accepted. None: every difference counts.
        judged: whether a difference is an error; otherwise differences are only reported.
        shown: whether the report contains the inputs, and a few values.
        optimized: whether TensorFlow optimizes the graphs.
        message: the beginning of the error message for a difference, if it is not the default.
        advice: for the error; '': none.
        meanwhile: is called while TensorFlow runs.
        stops: whether the first different sample is the last one.
        keeps: whether the results stay in the executor.
        earlier: runs of an earlier trial whose results are still in the executor.
        parts: the names of added graphs that are compared with their copies in the edited graph.
        proof: the results so far.
        fed: the feeds of each run in the last sample.
        failure: the first different sample, or None; its results stay in the executor.
    """

    executor: Executor
    statement: str
    runs: list[TrialRun]
    pairs: list[ComparedPair]
    lead: str = ORIGINAL
    samples: int = 1
    tolerance: Tolerance = EXACT
    skipped: Skipped = field(default_factory=list)
    warnings: Sequence[str] = ()
    varying_run: str | None = None
    judged: bool = True
    shown: bool = True
    optimized: bool = False
    message: str = ""
    advice: str = ""
    meanwhile: Callable[[], object] | None = None
    stops: bool = False
    keeps: bool = False
    earlier: Sequence[TrialRun] = ()
    parts: list[str] = field(default_factory=list)
    proof: Proof = field(init=False)
    fed: dict[str, Feeds] = field(init=False)
    failure: Failure | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.proof, self.fed = Proof("run"), {}
        self._summaries: dict[str, list[RunSummary]] = {}
        self._found = defaultdict[str, list[Comparison]](list)  # the differences of each different output
        self._moved = defaultdict[str, list[Comparison]](list)  # the same for outputs that are only measured
        self._accepted: dict[str, str] = {}
        self._omitted: set[str] = set()
        self._repeat = 0  # the number of the repetition of a sample

    def run(self) -> Trial:
        """Runs all samples and compares the outputs; returns the trial.

        Raises:
            ValidationError: a graph does not load or run, or outputs differ (then it is a DiffersError).
            NotValidatedError: nothing can be run or compared here.
        """
        for _ in self.each_sample():
            pass
        return self

    def each_sample(self) -> Iterator[int]:
        """Runs the trial like `run`, and yields the number of each sample while its results are in the executor."""
        self._begin()
        for run in self.runs:
            if run.loads:
                self.executor.load_graph(run.subject.key, run.subject.graph)
        names = {run.subject.key: run.called for run in self.runs}
        names = names or {ORIGINAL: "the original", EDITED: "the result"}
        for key in sorted(names, key=EDITED.__eq__):
            await_loaded(self.executor, key, names[key])
        if self.runs:
            self._prepare()
            for sample in range(self.samples):
                try:
                    wrong = self._sample(sample)
                except RunRefused:  # an optional run that ends the samples
                    break
                except (GdsurgeonError, Refused):
                    if self.failure is None:
                        raise
                    break
                yield sample
                if self.failure is not None and self.stops:
                    break
                if not (wrong or self.keeps):  # the search for the cause of a difference needs the results
                    for run in self.runs:
                        run.subject.finish(sample)
                    self.executor.drop(f"{_EXPECTED} {sample}")
            self._raise_failure()
        for output in self.proof.outputs:
            # Different shapes are the largest difference.
            output.moved = max(
                self._moved[output.after],
                key=lambda each: (each.reason is not None, each.max_abs or 0.0, each.differing),
                default=None,
            )
        if not self.proof.samples:
            self.proof.equations, self.proof.parts = [], []

    def subject(self, run: str) -> Subject:
        """Returns the graph of `run`."""
        return self._runs[run].subject

    def info(self, fetch: Fetch) -> OutputInfo:
        """Returns the dtype and the shape of the value of `fetch` in the last sample."""
        group, place = self._places[fetch.run][fetch.tensor]
        return self._summaries[fetch.run][group].outputs[place]

    def result(self, fetch: Fetch, sample: int) -> Result:
        """Returns the place of a fetched tensor in the executor."""
        group, place = self._places[fetch.run][fetch.tensor]
        return Result(self.subject(fetch.run).result(sample, group), place)

    def reason(self, error: Refused | GdsurgeonError) -> str:
        """Returns why the graph of the run `lead` does not load or run, after `error`."""
        problems = [run.subject.problem for run in self.runs if run.name == self.lead]
        return error.text if isinstance(error, Refused) else problems[0] or error.message

    # -- before the samples -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        plans = [run.subject.plan.unproven for run in self.runs]
        proof = self.proof = Proof(
            "run",
            equations=[self.statement],
            parts=[*self.parts],
            optimized=self.optimized,
            skipped=[*self.skipped],
            unproven={name: plan[name] for plan in plans for name, _ in self.skipped if name in plan},
            warnings=[*self.warnings],
            judged=self.judged,
            tolerance=self.tolerance,
        )
        self._runs = {run.name: run for run in (*self.earlier, *self.runs)}
        self._places = {name: run.subject.places() for name, run in self._runs.items()}
        if self.runs:
            proof.random_nodes = self.subject(self.lead).plan.random_nodes

    def _prepare(self) -> None:
        """Checks that something can be compared, restores all graphs, and runs their table initializers."""
        lead = self.subject(self.lead)
        if not lead.plan.fetches:
            raise nothing_to_run(lead, self._runs[self.lead].called)
        if not self.pairs:
            raise nothing_comparable(self.proof)
        count = len(lead.plan.variables) + len(lead.plan.assigned)
        if count:
            values = "variable has no value" if count == 1 else "variables have no values"
            self.proof.warnings.append(f"{count} {values} in the file: run with generated values")
        for run in self.runs:
            try:
                run.subject.initialize()
            except Refused as refused:
                if run.optional == "omit":
                    self._omitted.add(run.name)
                    continue
                text = f"{run.called} cannot be initialized: {printable(refused.text)}"
                if run.edited_name:
                    raise ValidationError(text, code="does-not-run") from refused
                raise NotValidatedError(text, code="does-not-run", advice=DO_WITHOUT) from refused

    # -- a sample -----------------------------------------------------------------------------------------------

    def _sample(self, sample: int) -> bool:
        """Runs all graphs on one feed, and compares the outputs; returns whether they differ."""
        self.executor.progress(Event("running", sample + 1, self.samples))
        self._run_all(sample)
        self.executor.progress(Event("comparing", sample + 1, self.samples))
        outputs = self._outputs(sample)
        if self.varying_run is not None and self.failure is None and self._wrong(outputs):
            self._repeat_or_accept(outputs, sample, self._runs[self.varying_run])
        proof = self.proof
        proof.note(outputs)
        if sample == 0:
            self._report_first(outputs)
        proof.samples = sample + 1
        proof.batches = sorted({*proof.batches, max(run.subject.batch for run in self.runs)})
        wrong = self._wrong(outputs) if self.judged else []
        if wrong and self.failure is None:
            self.failure, proof.outputs = Failure(sample, wrong, dict(self.fed)), outputs
        for output in outputs:
            if output.moved is not None:
                self._moved[output.after].append(output.moved)
        for output in wrong:
            if output.comparison is not None:
                self._found[output.after].append(output.comparison)
        return bool(wrong)

    def _run_all(self, sample: int) -> None:
        """Does all runs of a sample.

        Graphs that run separately may each accept a larger batch, but not together. Then all samples get batches of
        one. Runs that feed a refused run are repeated in other shapes.

        Raises:
            GdsurgeonError: TensorFlow refuses a run in all shapes.
        """
        try:
            for run in self.runs:
                if run.alongside is None and run.name not in self._omitted:
                    self._carry_out(run, sample)
        except RunRefused as refused:
            run = refused.run
            must_accept = run.alongside and run.edited_name
            held = [r.subject.fix_batch() for r in self.runs] if sample and not must_accept else []
            if any(held):
                self._run_all(sample)
            elif run.optional == "omit":
                self._omitted.add(run.name)
                self._run_all(sample)
            elif run.optional:
                raise
            else:
                # A preprocessing graph may accept images of any size, but the model accepts one size.
                givers = {source.run for source in run.fed.values() if isinstance(source, Fetch)}
                error, may_retry = run.error_of(refused), not (sample or run.edited_name)
                if may_retry and any(self.subject(giver).try_other_shapes() for giver in givers):
                    with suppress(NotValidatedError):
                        return self._run_all(sample)
                raise error from refused.__cause__

    def _carry_out(self, run: TrialRun, sample: int) -> None:
        """Does `run`, and the runs that start at the same time."""
        together = [other for other in self.runs if other.alongside == run.name]
        begun: dict[str, list[Pending[RunSummary]]] = {}

        def begin() -> None:
            for other in together:
                self.fed[other.name], begun[other.name] = other.subject.begin(sample, self._bound(other, sample))

        def alongside(feeds: Feeds) -> None:
            self.fed[run.name] = feeds
            if not self._repeat:
                begin()

        for is_reversed in [True, False] if run.reverses_feeds and sample % 2 == 0 and run.fed else [False]:
            try:
                bound = self._bound(run, sample, reverses_feeds=is_reversed)
                _, self._summaries[run.name] = run.subject.run(sample, bound, alongside)
                break
            except (Refused, NotValidatedError) as error:
                cause = error
        else:
            raise RunRefused(run, cause, bool(self._omitted)) from cause
        if self._repeat:
            # The order of runs, and whether they overlap, can change the rounding.
            for names in run.subject.plan.groups if self._repeat % 2 and not run.subject.plan.random_nodes else ():
                self.executor.run(run.subject.key, f"{run.name} aside", self.fed[run.name], names)
                self.executor.drop(f"{run.name} aside")
            begin()
        if self.meanwhile is not None:
            self.meanwhile()
        for other in together:
            try:
                self._summaries[other.name] = [self.executor.wait(pending) for pending in begun[other.name]]
            except Refused as refused:
                raise RunRefused(other, refused, bool(self._omitted)) from refused

    def _bound(self, run: TrialRun, sample: int, *, reverses_feeds: bool = False) -> Feeds:
        """Returns the feeds of `run` that the trial determines; runs that were left out determine none."""
        out: Feeds = {}
        unfed: set[str] = set()
        for name, source in run.fed.items():
            if isinstance(source, SameFeed):
                value = self.fed.get(source.run, {}).get(source.name)
                if value is None and source.run in self.fed and source.run not in self._omitted:
                    unfed.add(name)
            elif isinstance(source, Fetch):
                value = None if source.run in self._omitted else self.result(source, sample)
            else:
                value = source(self, sample)
            if value is not None:
                out[name] = reversed_elements(self.executor.fetched(value)) if reverses_feeds else value
        run.subject.unfed = unfed
        return out

    # -- comparing ----------------------------------------------------------------------------------------------

    def _outputs(self, sample: int) -> list[OutputProof]:
        """Compares each pair."""
        outputs: list[OutputProof] = []
        pending: dict[
            tuple[str, str, int | None, Tolerance], list[tuple[ComparedPair, OutputProof, tuple[int, int]]]
        ] = {}
        expected: list[Tensor] = []
        for pair in self.pairs:
            info, reason = self.info(pair.actual), pair.reason or self._accepted.get(pair.before, "")
            output = OutputProof(pair.before, pair.after, info.dtype, info.shape, reason=reason, site=pair.site)
            output.inside = pair.inside or pair.site
            outputs.append(output)
            if pair.expected is None or (reason and not pair.measured):
                continue
            if isinstance(pair.expected, Fetch):
                mine = self.result(pair.expected, sample)
            else:
                mine = Result(f"{_EXPECTED} {sample}", len(expected))
                expected.append(pair.expected(self, sample, info))
            theirs = self.result(pair.actual, sample)
            tolerance = EXACT if pair.exact else self.tolerance
            key = mine.result_id, theirs.result_id, pair.channels, tolerance
            pending.setdefault(key, []).append((pair, output, (mine.index, theirs.index)))
        if expected:
            self.executor.put(f"{_EXPECTED} {sample}", expected)
        for (a, b, axis, tolerance), group in pending.items():
            found = self.executor.compare(a, b, [places for _, _, places in group], tolerance, channels=axis)
            for (pair, output, _), comparison in zip(group, found, strict=True):
                if pair.measured:
                    output.moved = comparison
                elif pair.accepted_because and not agrees(comparison, tolerance):
                    output.reason = pair.accepted_because
                else:
                    output.comparison = comparison
        return outputs

    def _wrong(self, outputs: Sequence[OutputProof]) -> list[OutputProof]:
        """Returns the outputs that differ by more than the tolerance."""
        return [output for output, pair in zip(outputs, self.pairs, strict=True) if self._differs(output, pair)]

    def _differs(self, output: OutputProof, pair: ComparedPair) -> bool:
        tolerance = EXACT if pair.exact else self.tolerance
        return output.comparison is not None and not agrees(output.comparison, tolerance)

    def _repeat_or_accept(self, outputs: list[OutputProof], sample: int, run: TrialRun) -> None:
        """Repeats a sample until different outputs agree; otherwise compares them with the variation of `run` itself.

        Kernels that sum in the order in which threads finish return other bits in each run. Such outputs must agree in
        one of several repetitions, or differ no more than the original differs from itself.
        """
        own = spread(self.executor, run.subject, sample, self.fed[run.name], optimize=self.optimized)
        needed = [o.comparison.needed if o.comparison is not None else None for o in self._wrong(outputs)]
        is_rounding = all(each is not None and each <= _ROUNDING for each in needed)
        repeats = REPEATS if own else FEW_REPEATS if is_rounding else 0
        for self._repeat in range(1, repeats + 1):
            if not self._wrong(outputs):
                break
            for other in self.runs:
                other.subject.finish(sample)
            self._run_all(sample)
            for pair, output, again in zip(self.pairs, outputs, self._outputs(sample), strict=True):
                if self._differs(output, pair) and not self._differs(again, pair):
                    output.comparison = again.comparison
        self._repeat = 0
        self._accepted |= accepted(self._wrong(outputs), own, run.called)

    # -- reporting ----------------------------------------------------------------------------------------------

    def _report_first(self, outputs: list[OutputProof]) -> None:
        """Keeps the feeds and the values of the first sample."""
        shown = [(pair, o) for pair, o in zip(self.pairs, outputs, strict=True) if not pair.hidden]
        self.proof.outputs = [output for _, output in shown]
        for run in self.runs if self.shown else ():
            names = run.reported_as
            if names is None or run.name in self._omitted:
                continue
            own = {n: value for n, value in self.fed[run.name].items() if not isinstance(run.fed.get(n), SameFeed)}
            for name, text, made in run.subject.described(own):
                shown_name = names.get(name, name)
                self.proof.feeds[shown_name], self.proof.made[shown_name] = text, made
        for pair, output in shown[:MOST_SHOWN] if self.shown else ():
            if prod(output.shape) * 8 <= MOST_SHOWN_BYTES:
                output.value = shown_value(self.executor.fetched(self.result(pair.actual, 0)))

    def _raise_failure(self) -> None:
        """Raises DiffersError if a sample differed."""
        if self.failure is None:
            return
        feed, wrong, compared = self.failure.sample + 1, self.failure.wrong, self.proof.compared
        what = "tensors" if any(output.inside for output in compared) else "outputs"
        of_largest = bool(self.tolerance.of_largest)
        before = {output.after: output.before for output in self.proof.outputs if of_largest}
        lines = []
        for name, differences in self._found.items():
            found = max(differences, key=lambda each: each.needed or 0.0)
            old = before.get(name, name)
            label = printable(name) if old == name else f"{printable(old)} (now {printable(name)})"
            lines.append(f"{label}: {difference(found, of_largest=of_largest)}")
        edited_name = next((run.edited_name for run in self.runs if run.edited_name), "")
        message = self.message or f"{edited_name} differs: {self.proof.statement} does not hold for"
        raise DiffersError(
            f"{message} {len(wrong)} of {len(compared)} {what} (feed {feed})",
            self.proof,
            facts={"sample": feed, "wrong": len(wrong), "compared": len(compared), "tensors": list(self._found)},
            details=first_lines(lines, MOST_LISTED, f"other {what}"),
            advice=self.advice or (),
        )


def optimized_again(trial: Trial) -> Trial:
    """Returns the trial for the graphs that are loaded then, which TensorFlow optimizes."""
    tolerance = trial.tolerance
    tolerance = Tolerance(OPTIMIZED_TOLERANCE, OPTIMIZED_TOLERANCE) if tolerance.is_exact else tolerance
    return replace(trial, tolerance=tolerance, optimized=True)


CONTROL = "control"
CONTROLS = 4
"""If outputs differ, the original runs this number of times in a new session, and again in its own session."""
MOST_SPREAD = 8.0
"""A difference is accepted up to this multiple of the original's own variation."""


def spread(
    executor: Executor, subject: Subject, sample: int, feeds: Feeds, *, optimize: bool = False
) -> dict[str, float]:
    """Returns by how much fetches of a graph differ from run to run on the same feeds; 0 is left out.

    The graph is loaded again, optimized if `optimize` is true, and runs alternate between both sessions. Seeded random
    ops and variables continue from run to run, so graphs with these only run in new sessions.
    """
    out: dict[str, float] = {}
    begins_anew = bool(subject.plan.random_nodes) or subject.plan.keeps_state
    try:
        for turn in range(2 * CONTROLS):
            if not turn or begins_anew:
                executor.load_graph(CONTROL, subject.graph, optimize=optimize)
                executor.loaded(CONTROL)
                executor.initialize(CONTROL, subject.plan.initializers)
            key = subject.key if turn % 2 and not begins_anew else CONTROL
            for group, names in enumerate(subject.plan.groups):
                result = f"{CONTROL} {min(turn, 1)} {group}"
                executor.run(key, result, feeds, names)
                first = f"{CONTROL} 0 {group}" if begins_anew else subject.result(sample, group)
                comparisons = executor.compare(first, result, [(i, i) for i in range(len(names))])
                for name, found in zip(names, comparisons, strict=True):
                    if found.max_abs:
                        out[name] = max(out.get(name, 0.0), found.max_abs)
    except Refused:
        pass  # its variation is unknown
    executor.unload(CONTROL)
    return out


def accepted(outputs: Iterable[OutputProof], own: Mapping[str, float], name: str) -> dict[str, str]:
    """Sets aside `outputs` that differ no more than the graph `name` from itself, by `own`.

    Returns the reasons by the name in that graph.
    """
    out: dict[str, str] = {}
    for output in outputs:
        gap, found = own.get(output.before, 0.0), output.comparison
        if gap and found is not None and found.max_abs is not None and found.max_abs <= MOST_SPREAD * gap:
            output.comparison = None
            output.reason = f"{name} is not deterministic here: two of its runs differ by {gap:.3g}"
            out[output.before] = output.reason
    return out


# -- for the functions that prove claims ----------------------------------------------------------------------


def random_reasons(plan: FetchPlan) -> dict[str, str]:
    """Returns the fetches that are never compared because they are random, with the reason."""
    return dict.fromkeys(plan.random, f"random: {', '.join(plan.random_ops[:3])}")


def random_outputs(graph: Graph, plan: FetchPlan) -> dict[str, str]:
    """Returns the fetches that differ between processes because they are random, with the reason."""
    sampled = nodes_of(plan.sampled)
    reached = depending_on(graph, sampled) if sampled else ()
    depending = [name for name in plan.fetches if node_of(name) in reached]
    return dict.fromkeys(depending, f"random: {', '.join(sampled[:3])}") | random_reasons(plan)


def nothing_comparable(
    proof: Proof,
    what: str = "nothing could be compared",
    default: str = "no output has a counterpart that can be run",
    **facts: str,
) -> NotValidatedError:
    """Returns the error, with `facts`, for a proof in which nothing was compared.

    `what` is the message without the reasons; `default` is the reason if `proof` contains none.
    """
    found = [output.reason for output in proof.outputs if output.reason] + [reason for _, reason in proof.skipped]
    reasons = joined("; ", dict.fromkeys(found)) or default
    line = Line("{what}: {reasons}", what=what, reasons=reasons)
    return NotValidatedError(line, code="nothing-comparable", advice=DO_WITHOUT, facts=facts)


def nothing_to_run(subject: Subject, name: str) -> NotValidatedError:
    """Returns the error for a graph without an output that can be run."""
    reasons = list(dict.fromkeys(s.reason for s in subject.plan.skipped))
    why = joined("; ", reasons[:3]) or "no output has a value that can be fetched"
    line = Line("no output of {name} can be computed by the proof: {why}", name=name, why=why)
    advice = sorted({s.advice for s in subject.plan.skipped if s.advice}, reverse=True)
    return NotValidatedError(line, code="nothing-comparable", advice=(*advice, DO_WITHOUT))
