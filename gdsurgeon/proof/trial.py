"""The data of a trial: the runs of graphs, their feeds, the pairs of tensors to compare, and the conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gdsurgeon.analysis.queries.signature import input_nodes
from gdsurgeon.errors import GdsurgeonError, Line, NotValidatedError, ValidationError, joined, printable, quoted
from gdsurgeon.feeds.archive import of_dtype
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.kinds import PLACEHOLDERS, UNSET_PLACEHOLDERS, VARIABLES
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import DO_WITHOUT as DO_WITHOUT
from gdsurgeon.proof.executor import EDITED as EDITED
from gdsurgeon.proof.executor import ORIGINAL as ORIGINAL
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.plan import FetchPlan, plan_with
from gdsurgeon.proof.proof import DiffersError, Proof
from gdsurgeon.proof.subject import Feeds, Subject, SubjectOptions
from gdsurgeon.runtime.protocol import OutputInfo, Result
from gdsurgeon.runtime.tensor import Tensor


class TrialContext(NamedTuple):
    """The arguments of a function that builds the trial of a claim.

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
        return parse_tensor(self.after(tensor)).node in self.change.after

    def overrides_before(self) -> Overrides:
        """Returns the overrides by the names before the edit. Raises UsageError if a name is not an input."""
        change = self.change
        known = dict.fromkeys(node.name for node in input_nodes(change.before))
        after = {new: old for old, new in change.intent.renamed.items() if old in known and new not in known}
        overrides = self.overrides.renamed(after)
        theirs = [node.name for node in input_nodes(change.after)]
        check_names(overrides, [*known, *(name for name in theirs if name not in after)])
        return overrides.only(known)

    def original(self, plan: FetchPlan, options: SubjectOptions | None = None) -> Subject:
        """Returns the original, to be run according to `plan`."""
        overrides, graph, after = self.overrides_before(), self.change.before, self.change.after
        subject = Subject(self.executor, ORIGINAL, graph, plan=plan, overrides=overrides, options=options)
        partners = {name: after.find(parse_tensor(self.after(name)).node) for name in subject.optional}
        given = PLACEHOLDERS | VARIABLES
        subject.leave([name for name, node in partners.items() if node is None or node.op not in given])
        subject.optional -= {n for n, node in partners.items() if node is not None and node.op in UNSET_PLACEHOLDERS}
        return subject

    def original_runs(self) -> bool:
        """Returns whether the original runs on feeds that are generated for it."""
        subject = Subject(self.executor, ORIGINAL, self.change.before)
        try:
            subject.initialize()
            _, runs = subject.start(0, {})
            subject.wait(runs)
        except (GdsurgeonError, Refused):
            return False
        finally:
            subject.finish(0)
        return bool(runs)

    def barred(self, fetches: Iterable[str]) -> dict[str, str]:
        """Returns the fetches whose counterparts must not run: they access files, or can block forever.

        The values are the reasons. A counterpart in a v1 branch may have no value. It is run nevertheless, because the
        original returned a value.
        """
        nodes = {name: parse_tensor(self.after(name)).node for name in fetches}
        outputs = [node for node in dict.fromkeys(nodes.values()) if node in self.change.after]
        plan = plan_with(self.executor.settings, self.change.after, outputs)
        reasons = {skipped.name: skipped.reason for skipped in plan.skipped if not skipped.no_value}
        return {name: reasons[node] for name, node in nodes.items() if node in reasons}


# -- what is fed ----------------------------------------------------------------------------------------------


class Fetch(NamedTuple):
    """A tensor that the run `run` returns."""

    run: str
    tensor: str


class SameFeed(NamedTuple):
    """The feed `name` of an earlier run."""

    run: str
    name: str


class AnyNumbers(NamedTuple):
    """Random positive and negative numbers instead of floats that a run returns; other values are not replaced.

    Attributes:
        fetch: the floats.
        of_all_sizes: whether half of the numbers are between 1/8 and 2, and the others between 2 and 32.
        large: with `of_all_sizes`, whether they are a million times as large.
        rows: with `of_all_sizes`, the least product of all dimensions except the last. The first dimension is enlarged
            until the shape has as many.
    """

    fetch: Fetch
    of_all_sizes: bool = False
    large: bool = False
    rows: int = 0


class StackedFeeds(NamedTuple):
    """The feeds `name` of several earlier runs, joined to a batch in this order."""

    runs: tuple[str, ...]
    name: str


FeedSource = Fetch | SameFeed | AnyNumbers | StackedFeeds | Tensor | Result


class RunRefusal(NamedTuple):
    """A run that TensorFlow refuses.

    Attributes:
        text: the reason, printable; '' if no feed could be generated.
        error: the error to raise if the edit is not the cause.
        bound: the feeds that the trial determined.
        omitted: optional runs that were left out before.
        node: the node that fails; '' if TensorFlow does not report one.
    """

    text: str
    error: NotValidatedError | None
    bound: Feeds
    omitted: frozenset[str]
    node: str = ""


Blame = Callable[[RunRefusal], GdsurgeonError]
"""Returns the error for a run that TensorFlow refuses."""


@dataclass
class TrialRun:
    """A run of a graph in each sample.

    Attributes:
        subject: the graph and its fetches; it generates the feeds that are not in `fed`.
        fed: further feeds: values, or tensors of earlier runs.
        accused: for the edited graph, its name in messages: if it does not run, the edit is wrong. '' for other graphs.
        blame: returns the error if TensorFlow refuses the run; None: the default error.
        beside: a run that starts at the same time. An edited graph must accept the batch size of that run.
        reported_as: names of inputs in the report, if they differ; None: the inputs are not reported.
        turned: whether every other sample first reverses the elements of feeds that come from other runs.
        optional: the result of a refusal: '' raises an error, 'omit' continues without this run, 'end' ends the
            samples.
    """

    subject: Subject
    fed: Mapping[str, FeedSource] = field(default_factory=dict)
    accused: str = ""
    blame: Blame | None = None
    beside: str | None = None
    reported_as: Mapping[str, str] | None = field(default_factory=dict)
    turned: bool = False
    optional: str = ""

    @property
    def name(self) -> str:
        """The name of the run in the trial."""
        return self.subject.name

    @property
    def is_to_take_as_much(self) -> bool:
        """Whether the run must accept each batch that the run in `beside` accepts."""
        return bool(self.beside and self.accused)

    @property
    def called(self) -> str:
        """The name of the graph in messages."""
        return self.accused or printable(self.subject.graph.source_name)

    def error(self, refusal: RunRefusal) -> GdsurgeonError:
        """Returns the error for a refused run."""
        if self.blame is not None:
            return self.blame(refusal)
        text = f"{self.called} does not run: {refusal.text}"
        if self.accused:
            return ValidationError(text, code="does-not-run", facts={"reason": refusal.text})
        return refusal.error or NotValidatedError(text, code="does-not-run", advice=DO_WITHOUT)


# -- what is compared -----------------------------------------------------------------------------------------


class Recorded(NamedTuple):
    """Recorded values of a tensor, one for each sample.

    Attributes:
        tensor: the name.
        values: arrays.
        called: the name of the recording in messages.
    """

    tensor: str
    values: Sequence[object]
    called: str

    def of_sample(self, sample: int, dtype: int) -> Tensor:
        """Returns a value as a tensor of `dtype`. Raises ValidationError if the value has a different kind."""
        try:
            return of_dtype(self.values[sample], dtype)
        except (TypeError, ValueError) as error:
            what = f"the value of {quoted(self.tensor)} in {self.called} cannot be compared"
            raise ValidationError(f"{what}: {printable(str(error))}", code="does-not-run") from error


class Stacked(NamedTuple):
    """The values of `tensor` in several runs, one for each row of a batch: the expected value for the batch."""

    runs: tuple[str, ...]
    tensor: str


@dataclass
class ComparedPair:
    """Two tensors that are compared.

    Attributes:
        before, after: their names in the report.
        mine: the expected tensor; None if the other one is only run.
        theirs: the tensor that must be equal.
        reason: why they are not compared; '' if they are.
        inside: whether the tensor is not an output, but an output was decided by it.
        site: whether the tensor is an inner tensor at which the edit changed the computation.
        exact: whether no tolerance is allowed.
        channels: the axis of channels that are each compared with their own largest element; None: the whole tensor.
        excuse: why a difference is accepted; a different pair counts as not compared.
        measured: whether the difference is only measured.
        hidden: whether the report lists the pair only if it differs, because the statement names this value.
    """

    before: str
    after: str
    mine: Fetch | Recorded | Stacked | None
    theirs: Fetch
    reason: str = ""
    inside: bool = False
    site: bool = False
    exact: bool = False
    channels: int | None = None
    excuse: str = ""
    measured: bool = False
    hidden: bool = False


class TrialState(Protocol):
    """The state of a running trial, for the functions of the trial.

    Attributes:
        executor: the process that has loaded the graphs.
        proof: the results so far.
        fed: the feeds of each run in the last sample.
    """

    executor: Executor
    proof: Proof
    fed: dict[str, Feeds]

    def subject(self, run: str) -> Subject:
        """Returns the graph of a run."""

    def given(self, fetch: Fetch) -> OutputInfo:
        """Returns the dtype and the shape of a fetched tensor in the last sample."""


Condition = Callable[[Proof], None]
"""Raises NotValidatedError if the comparison shows nothing; can add warnings."""


@dataclass
class Trial:
    """A claim that is ready to be tested.

    Attributes:
        statement: the equation that is tested; '' if `parts` states it.
        runs: the runs of each sample, in this order; empty: nothing is tested.
        pairs: the tensors to compare, in the order of the report.
        loads: for the key of each graph, the message if TensorFlow does not load the graph.
        lead: the run that must have something to fetch.
        samples: the number of samples.
        rtol, atol: by how much floats may differ.
        of_largest: the tolerance as a part of the largest element of each tensor.
        conditions: are checked at the end.
        skipped: (output, reason) for outputs that are not run.
        warnings: are always reported.
        steady: a run whose own variation on equal feeds excuses a difference, if no repetition agrees; None: no excuse.
        judged: whether a difference is an error; otherwise differences are only reported.
        shown: whether the report contains a few values.
        optimized: whether TensorFlow optimizes the graphs.
        complaint: the beginning of the error message for a difference, if it is not the default.
        advice: for the error; '': none.
        each: is called after each sample.
        first: is called after the first sample if the outputs agree.
        meanwhile: is called while TensorFlow runs.
        stops: whether the first different sample is the last one.
        keeps: whether the results stay in the executor.
        earlier: runs of an earlier trial whose results are still in the executor.
        parts: the names of added graphs that are compared with their copies in the edited graph.
        accuse: returns the error for different outputs, from the state, the default error, and their names.
        otherwise: returns the trial for an original that does not load or run, from the reason.
    """

    statement: str
    runs: list[TrialRun]
    pairs: list[ComparedPair]
    loads: Mapping[str, str]
    lead: str = ORIGINAL
    samples: int = 1
    rtol: float = 0.0
    atol: float = 0.0
    of_largest: float = 0.0
    conditions: list[Condition] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    warnings: Sequence[str] = ()
    steady: str | None = None
    judged: bool = True
    shown: bool = True
    optimized: bool = False
    complaint: str = ""
    advice: str = ""
    each: Callable[[TrialState, int], None] | None = None
    first: Callable[[TrialState], None] | None = None
    meanwhile: Callable[[], object] | None = None
    stops: bool = False
    keeps: bool = False
    earlier: Sequence[TrialRun] = ()
    parts: Sequence[str] = ()
    accuse: Callable[[TrialState, DiffersError, Sequence[str]], GdsurgeonError] | None = None
    otherwise: Callable[[str], Trial] | None = None


def both_load(change: Change) -> dict[str, str]:
    """Returns the message for each of the two graphs if it does not load."""
    return {
        ORIGINAL: f"TensorFlow does not load {change.name}, which is the original",
        EDITED: f"{change.called} does not load",
    }


def chance_reasons(plan: FetchPlan) -> dict[str, str]:
    """Returns the fetches that are never compared because they are random, with the reason."""
    return dict.fromkeys(plan.random, f"random: {', '.join(plan.random_ops[:3])}")


def nodes_of(tensors: Iterable[str]) -> list[str]:
    """Returns the names of the nodes of `tensors`, each once."""
    return list(dict.fromkeys(parse_tensor(tensor).node for tensor in tensors))


def nothing_to_run(subject: Subject, name: str) -> NotValidatedError:
    """Returns the error for a graph without an output that can be run."""
    reasons = list(dict.fromkeys(s.reason for s in subject.plan.skipped))
    why = joined("; ", reasons[:3]) if reasons else "no output has a value that can be fetched"
    line = Line("no output of {name} can be computed by the proof: {why}", name=name, why=why)
    advice = sorted({s.advice for s in subject.plan.skipped if s.advice}, reverse=True)
    return NotValidatedError(line, code="nothing-comparable", advice=(*advice, DO_WITHOUT))
