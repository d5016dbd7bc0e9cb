"""A trial: which graphs are run, what each is fed, which tensors are compared, and what that has to show."""

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
    """What a claim is made into a trial with.

    Attributes:
        executor: is loading the original and the edited graph.
        change: the two graphs.
        overrides: what the user says of feeds, by the names before the edit or after it.
    """

    executor: Executor
    change: Change
    overrides: Overrides

    def after(self, tensor: str) -> str:
        """What TENSOR of the original is called in the edited graph."""
        return self.change.intent.counterpart(tensor)

    def has_after(self, tensor: str) -> bool:
        """Whether the edited graph has the counterpart of TENSOR's node."""
        return parse_tensor(self.after(tensor)).node in self.change.after

    def overrides_before(self) -> Overrides:
        """The overrides by the names before the edit. Raises UsageError where a name is no input."""
        change = self.change
        known = dict.fromkeys(node.name for node in input_nodes(change.before))
        after = {new: old for old, new in change.intent.renamed.items() if old in known and new not in known}
        overrides = self.overrides.renamed(after)
        theirs = [node.name for node in input_nodes(change.after)]
        check_names(overrides, [*known, *(name for name in theirs if name not in after)])
        return overrides.only(known)

    def original(self, plan: FetchPlan, options: SubjectOptions | None = None) -> Subject:
        """The original, run as PLAN says."""
        overrides, graph, after = self.overrides_before(), self.change.before, self.change.after
        subject = Subject(self.executor, ORIGINAL, graph, plan=plan, overrides=overrides, options=options)
        partners = {name: after.find(parse_tensor(self.after(name)).node) for name in subject.optional}
        given = PLACEHOLDERS | VARIABLES
        subject.leave([name for name, node in partners.items() if node is None or node.op not in given])
        subject.optional -= {n for n, node in partners.items() if node is not None and node.op in UNSET_PLACEHOLDERS}
        return subject

    def original_runs(self) -> bool:
        """Whether the original runs on feeds made for it."""
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
        """The fetches whose counterparts must not be run, and why: they may reach outside, or wait for ever.

        A counterpart that v1 control flow may leave without a value is run: the original returned a value there.
        """
        nodes = {name: parse_tensor(self.after(name)).node for name in fetches}
        outputs = [node for node in dict.fromkeys(nodes.values()) if node in self.change.after]
        plan = plan_with(self.executor.settings, self.change.after, outputs)
        reasons = {skipped.name: skipped.reason for skipped in plan.skipped if not skipped.no_value}
        return {name: reasons[node] for name, node in nodes.items() if node in reasons}


# -- what is fed ----------------------------------------------------------------------------------------------


class Fetch(NamedTuple):
    """A tensor that a run has given: TENSOR of the graph of RUN."""

    run: str
    tensor: str


class SameFeed(NamedTuple):
    """What another run, begun before, was fed as NAME."""

    run: str
    name: str


class AnyNumbers(NamedTuple):
    """Numbers of either sign and some size in the place of floats that a run has given; anything else as it is.

    Attributes:
        fetch: these floats.
        of_all_sizes: whether half of them are small: between 1/8 and 2; the rest goes on to 32.
        large: of these, whether they are a million times as large.
        rows: of these, how many there are at least before the last axis: as often as that takes they are more along the
            first one.
    """

    fetch: Fetch
    of_all_sizes: bool = False
    large: bool = False
    rows: int = 0


class StackedFeeds(NamedTuple):
    """What RUNS, begun before, were fed as NAME: the rows of a batch, in this order."""

    runs: tuple[str, ...]
    name: str


FeedSource = Fetch | SameFeed | AnyNumbers | StackedFeeds | Tensor | Result


class RunRefusal(NamedTuple):
    """A run that TensorFlow refuses.

    Attributes:
        text: its reason, printable; '' where no feed could be made.
        error: the error to be raised where that is nobody's fault.
        bound: what was fed by the trial.
        omitted: optional runs that were left out before.
        node: the node at which it fails, '' where that is not said.
    """

    text: str
    error: NotValidatedError | None
    bound: Feeds
    omitted: frozenset[str]
    node: str = ""


Blame = Callable[[RunRefusal], GdsurgeonError]
"""What to raise for a run that TensorFlow refuses."""


@dataclass
class TrialRun:
    """A run of a graph in each sample.

    Attributes:
        subject: the graph and what is fetched of it; it makes the feeds that `fed` does not name.
        fed: what is fed besides: given, or from runs that begin before this one.
        accused: what the graph is called in messages where it is the one on trial, at fault if it does not run; '': it
            was not edited.
        blame: what is raised where TensorFlow refuses it, where that is another error.
        beside: the run with which this one begins at once; TensorFlow then works on both. One that is accused is to
            take what that one takes: a batch of two that it refuses is a failure.
        reported_as: for inputs the names in the report, where these are not their own; None: they are not reported.
        turned: whether on every other sample what comes from other runs is first tried with its elements in reverse.
        optional: what becomes of a run that is refused: '' raises, 'omit' goes on without it from there on, 'end' ends
            the samples.
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
        """What it is called in the trial."""
        return self.subject.name

    @property
    def is_to_take_as_much(self) -> bool:
        """Whether it is at fault if it refuses a batch that the run takes beside which it begins."""
        return bool(self.beside and self.accused)

    @property
    def called(self) -> str:
        """What its graph is called in messages."""
        return self.accused or printable(self.subject.graph.source_name)

    def error(self, refusal: RunRefusal) -> GdsurgeonError:
        """The error for a run that is refused."""
        if self.blame is not None:
            return self.blame(refusal)
        text = f"{self.called} does not run: {refusal.text}"
        if self.accused:
            return ValidationError(text, code="does-not-run", facts={"reason": refusal.text})
        return refusal.error or NotValidatedError(text, code="does-not-run", advice=DO_WITHOUT)


# -- what is compared -----------------------------------------------------------------------------------------


class Recorded(NamedTuple):
    """Values that were recorded of a tensor, one for each sample.

    Attributes:
        tensor: its name.
        values: arrays.
        called: what the records are called in messages.
    """

    tensor: str
    values: Sequence[object]
    called: str

    def of_sample(self, sample: int, dtype: int) -> Tensor:
        """The value as a tensor of DTYPE. Raises ValidationError where it is of another kind."""
        try:
            return of_dtype(self.values[sample], dtype)
        except (TypeError, ValueError) as error:
            what = f"the value of {quoted(self.tensor)} in {self.called} cannot be compared"
            raise ValidationError(f"{what}: {printable(str(error))}", code="does-not-run") from error


class Stacked(NamedTuple):
    """What TENSOR is in each of RUNS, which are fed the rows of a batch: what it has to be for the batch."""

    runs: tuple[str, ...]
    tensor: str


@dataclass
class ComparedPair:
    """Two tensors that are compared.

    Attributes:
        before, after: what they are called in the report.
        mine: the one that is right; None where there is none, and the other is only run.
        theirs: the one that is to be the same.
        reason: why they are not compared, '' where they are.
        inside: whether it is no output itself: an output was decided by it, or it is a site.
        site: whether it is compared for what the edit has done there.
        exact: whether no tolerance is allowed for them.
        channels: the axis along which their channels are, where these are held against their own largest elements.
        excuse: why they may differ, where they do: then they are as if they were not compared.
        measured: whether it is measured by how much they differ, though they are not compared.
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


class TrialState(Protocol):
    """A trial under way, as the functions in its data see it.

    Attributes:
        executor: where the graphs are.
        proof: what was run so far.
        fed: what each run was fed in the last sample.
    """

    executor: Executor
    proof: Proof
    fed: dict[str, Feeds]

    def subject(self, run: str) -> Subject:
        """The graph of RUN."""

    def given(self, fetch: Fetch) -> OutputInfo:
        """The dtype and the shape of what FETCH was in the last sample."""


Condition = Callable[[Proof], None]
"""Raises NotValidatedError where what was compared shows nothing; may add warnings."""


@dataclass
class Trial:
    """A claim, ready to be tried.

    Attributes:
        statement: what is compared with what, as an equation; '' where that is said of the parts alone.
        runs: of each sample, in this order; none: there is nothing to be tried.
        pairs: what is compared, in the order of the report.
        loads: the graphs by their keys, and what it means that TensorFlow does not load one.
        lead: the run that has to have something to fetch.
        samples: how many are run.
        rtol, atol: by how much floats may differ.
        of_largest: the same as a part of the largest element of each tensor.
        conditions: what must have been compared at the end.
        skipped: (output, reason) of what is not run.
        planned: the plan of which chance is reported.
        warnings: to be shown in any case.
        steady: the run whose own spread excuses a difference, where all is run again and again and none of these runs
            comes out equal; None: none is excused.
        judged: whether a difference is a failure; else it is only reported.
        shown: whether a few values go into the report.
        optimized: whether TensorFlow optimises the graphs.
        complaint: how the message begins that says that it does not hold, where it begins otherwise.
        advice: for the error where they differ; '' is none.
        each: called after each sample's runs, with the state and the number of the sample.
        first: called after the first sample where nothing differs.
        meanwhile: called after runs have begun, before those that began beside another are waited for.
        stops: whether no further sample is run after one that differs.
        keeps: whether what the runs return is kept in the executor.
        earlier: runs of a trial before, whose results were kept.
        accuse: makes the error where outputs differ, with the state, what the trial says itself, and which they are.
        parts: what the graphs are called that were added, where what came from them is compared with them.
        otherwise: the trial that is run instead where the original is not loaded or does not run, and why that is.
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
    planned: FetchPlan | None = None
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
    """What it means that one of the two graphs is not loaded."""
    return {
        ORIGINAL: f"TensorFlow does not load {change.name}, which is the original",
        EDITED: f"{change.called} does not load",
    }


def chance_reasons(plan: FetchPlan) -> dict[str, str]:
    """The fetches that are never compared, for they depend on chance, and why."""
    return dict.fromkeys(plan.random, f"random: {', '.join(plan.random_ops[:3])}")


def nodes_of(tensors: Iterable[str]) -> list[str]:
    """The names of the nodes of TENSORS, each once."""
    return list(dict.fromkeys(parse_tensor(tensor).node for tensor in tensors))


def nothing_to_run(subject: Subject, name: str) -> NotValidatedError:
    """The error for a graph of which no output can be run."""
    reasons = list(dict.fromkeys(s.reason for s in subject.plan.skipped))
    why = joined("; ", reasons[:3]) if reasons else "no output has a value that can be fetched"
    line = Line("no output of {name} can be computed by the proof: {why}", name=name, why=why)
    advice = sorted({s.advice for s in subject.plan.skipped if s.advice}, reverse=True)
    return NotValidatedError(line, code="nothing-comparable", advice=(*advice, DO_WITHOUT))
