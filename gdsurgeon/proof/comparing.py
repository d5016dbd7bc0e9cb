"""What all proofs have in common: samples, runs of both graphs, comparisons, the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes
from gdsurgeon.analysis.traversal.decisions import deciding_nodes
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, ValidationError, printable
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.journal import Journal
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.plan import make_plan
from gdsurgeon.proof.proof import MOST_SHOWN_BYTES, DiffersError, OutputProof, Proof, agrees, rounded_up, shown_value
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.runtime.client import Pending
from gdsurgeon.runtime.compare import Comparison
from gdsurgeon.runtime.protocol import RunSummary
from gdsurgeon.text import named

ORIGINAL, EDITED = "original", "edited"
"""What the graphs are called in the executor and in messages."""

DO_WITHOUT = "--validate structure does without running it"


def await_loaded(executor: Executor, key: str, what: str) -> None:
    """Waits until the graph KEY is loaded; WHAT says what it means that it is not.

    Raises:
        ValidationError: TensorFlow does not take it.
        NotValidatedError: this TensorFlow lacks an op.
    """
    try:
        executor.loaded(key)
    except Refused as refused:
        if "Op type not registered" in refused.text:
            raise NotValidatedError(
                f"this TensorFlow cannot run the graph: {printable(refused.text)}",
                hint="--op-lib FILE.so brings custom ops; --validate structure does without running",
            ) from refused
        # Of a result that does not load there is nothing to be had by not looking.
        raise ValidationError(
            f"{what}: {printable(refused.text)}", hint=None if key == EDITED else DO_WITHOUT
        ) from refused


class Failure(NamedTuple):
    """The first sample in which outputs differed: its number, the outputs, how many do, and what was fed."""

    sample: int
    outputs: list[OutputProof]
    differing: int
    fed: tuple[Feeds, Feeds]


class Comparing:
    """A proof in which the edited graph gives what the original gives, output by output.

    Args:
        executor: is loading the original and the edited graph.
        change: the two graphs.
        overrides: what the user says of feeds, by the names before the edit or after it.
    """

    statement = ""

    def __init__(self, executor: Executor, change: Change, overrides: Overrides) -> None:
        self.executor = executor
        self.change = change
        self.graph = change.after
        self.journal: Journal = change.journal
        self.name = change.name
        self.original_graph = change.before
        self.overrides = self.checked(overrides)
        self.failure: Failure | None = None
        self.worst: dict[str, Comparison] = {}  # how the outputs that differ do so most
        self.inside: set[str] = set()  # nodes that are no outputs, and compared because outputs are decided by them
        self.original = self.subject()
        self.proof = Proof("run", statement=self.statement)
        self.fed: tuple[Feeds, Feeds] = {}, {}  # to the original and to the edited graph, in the last sample
        self.incomparable: dict[str, str] = dict.fromkeys(
            self.original.plan.random, f"random: {', '.join(self.original.plan.random_ops[:3])}"
        )

    def checked(self, overrides: Overrides) -> Overrides:
        """OVERRIDES by the names before the edit. Raises UsageError where a name is no input."""
        before = {new: old for old, new in self.journal.renamed.items()}
        known = [node.name for node in input_nodes(self.original_graph)]
        after = {new: old for new, old in before.items() if old in known and new not in known}
        overrides = overrides.renamed(after)
        check_names(overrides, [*known, *(node.name for node in input_nodes(self.graph) if node.name not in after)])
        return overrides.only(known)

    def subject(self) -> Subject:
        """The original graph as it is run."""
        return Subject(self.executor, ORIGINAL, self.original_graph, overrides=self.overrides)

    def deciding(self, outputs: Iterable[str]) -> list[str]:
        """The nodes of the original by which OUTPUTS of it are decided, as far as they are there after the edit.

        They are compared beside the outputs; see `deciding_nodes`.
        """
        served = dict.fromkeys(outputs)
        nodes = deciding_nodes(self.original_graph[name] for name in served)
        names = [node.name for node in nodes if parse_tensor(self.after(node.name)).node in self.graph]
        self.inside = {name for name in names if name not in served}
        return names

    def barred(self, fetches: list[str]) -> dict[str, str]:
        """The fetches whose counterparts must not be run, and why: they may reach outside, or wait for ever."""
        settings = self.executor.settings
        nodes = {name: parse_tensor(self.after(name)).node for name in fetches}
        plan = make_plan(
            self.graph,
            allow_ops=settings.allow_ops,
            custom_ops=bool(settings.op_libraries),
            outputs=[node for node in dict.fromkeys(nodes.values()) if node in self.graph],
        )
        reasons = {skipped.name: skipped.reason for skipped in plan.skipped}
        return {name: reasons[node] for name, node in nodes.items() if node in reasons}

    def bound(self, sample: int) -> tuple[Feeds, Feeds]:
        """What is fed beside the inputs of the original: to the original, and to the edited graph."""
        del sample
        return {}, {}

    def shared(self, feeds: Feeds, to_original: Feeds) -> Feeds:
        """Those of the original's FEEDS that the edited graph is fed too, by its names."""
        return {self.after(name): value for name, value in feeds.items() if name not in to_original}

    def after(self, tensor: str) -> str:
        """What TENSOR of the original is called in the edited graph."""
        return self.journal.counterpart(tensor)

    def run(self) -> Proof:
        """Runs and compares.

        Raises:
            ValidationError, NotValidatedError: see `prove`.
        """
        self.load()
        plan = self.original.plan
        self.proof.note_plan(plan)
        if not plan.fetches:
            raise nothing_to_run(self.original, self.name)
        warn_of_variables(self.original, self.proof)
        self.initialize()
        self.run_samples(self.sample_count())
        self.check_compared()
        return self.proof

    def run_samples(self, count: int) -> None:
        """Runs and compares COUNT samples."""
        for sample in range(count):
            try:
                self._sample_in_some_batch(sample)
            except (GdsurgeonError, Refused):
                if self.failure is None:
                    raise
                break
            self.proof.samples = sample + 1
            self.proof.batches = sorted({*self.proof.batches, self.batch()})
        self.conclude()

    def _sample_in_some_batch(self, sample: int) -> None:
        try:
            self.sample(sample)
        except (Refused, NotValidatedError):
            # Parts that are run apart may each take a larger batch, and not take each other's.
            if not sample or not self.hold_batch():
                raise
            self.sample(sample)

    def batch(self) -> int:
        """The batch size of the last sample."""
        return self.original.batch

    def hold_batch(self) -> bool:
        """Has all further samples be batches of one; False where they are in any case."""
        return self.original.hold_batch()

    def load(self) -> None:
        """Waits until all graphs are loaded."""
        await_loaded(self.executor, ORIGINAL, f"TensorFlow does not load {self.name}, before any edit")
        await_loaded(self.executor, EDITED, f"{self.change.called} does not load")

    def sample_count(self) -> int:
        """How many samples are run."""
        return self.original.samples

    def initialize(self) -> None:
        """Runs the table initialisers of both graphs."""
        initialize(self.original, self.name)
        self.initialize_edited([self.after(name) for name in self.original.plan.initializers])

    def initialize_edited(self, targets: list[str]) -> None:
        """Runs initialisers of the edited graph."""
        try:
            self.executor.initialize(EDITED, targets)
        except Refused as refused:
            raise ValidationError(
                f"the tables of {self.change.called} cannot be initialised: {printable(refused.text)}"
            ) from refused

    def edited_groups(self) -> list[list[str]]:
        """What is fetched of the edited graph, run by run: first the counterparts of the original's fetches."""
        return [[self.after(name) for name in names] for names in self.original.plan.groups]

    def sample(self, sample: int) -> None:
        """Runs both graphs on one feed, and compares."""
        to_original, to_edited = self.bound(sample)
        edited_feeds: Feeds = {}
        edited_runs: list[Pending[RunSummary]] = []

        def run_edited(feeds: Feeds) -> None:
            nonlocal edited_feeds, edited_runs
            edited_feeds = self.shared(feeds, to_original) | to_edited
            edited_runs = [
                self.executor.run(EDITED, edited_result(sample, group), edited_feeds, names)
                for group, names in enumerate(self.edited_groups())
            ]

        feeds, runs = self.original.start(sample, to_original, run_edited)
        for run in runs:
            self.executor.wait(run)
        self.fed = feeds, edited_feeds
        summaries = finished(self.executor, edited_runs, self.change.called)
        outputs = self.compared(sample, summaries)
        wrong = self.differing(outputs)
        if wrong and self.failure is None:
            self.excuse(wrong, unsteady(self.executor, self.original, sample, feeds, optimize=self.proof.optimized))
        self.proof.note(outputs)
        if sample == 0:
            self.proof.outputs = outputs
            self.proof.feeds = self.described(feeds, edited_feeds)
            self.proof.made = self.made()
            show_values(self.executor, outputs, self.edited_groups())
        if not self.judge(outputs, sample):
            self.finish(sample)  # else what was returned is still needed, to find out what is to blame

    def excuse(self, wrong: list[OutputProof], spread: Mapping[str, float]) -> None:
        """Makes those of WRONG not comparable that differ no more than the original does from itself."""
        for output in wrong:
            own, found = spread.get(output.before, 0.0), output.comparison
            if own and found is not None and found.max_abs is not None and found.max_abs <= MOST_SPREAD * own:
                output.comparison = None
                output.reason = f"{self.name} does not give it twice: two of its runs differ by {own:.3g}"
                self.incomparable[output.before] = output.reason

    def finish(self, sample: int) -> None:
        """Gives back what the runs of SAMPLE have returned."""
        self.original.finish(sample)
        for group in range(len(self.original.plan.groups)):
            self.executor.drop(edited_result(sample, group))

    def made(self) -> dict[str, str]:
        """How the feeds were made."""
        return {self.after(name): text for name, text in self.original.made.items()}

    def described(self, feeds: Feeds, edited_feeds: Feeds) -> dict[str, str]:
        """What was fed to the edited graph, as text."""
        del edited_feeds
        return {self.after(name): text for name, text in self.original.describe_feeds(feeds).items()}

    def compared(self, sample: int, summaries: list[RunSummary]) -> list[OutputProof]:
        """Each fetch of the original with its counterpart."""
        pending = []
        for group, names in enumerate(self.original.plan.groups):
            pairs = [(i, i) for i, name in enumerate(names) if name not in self.incomparable]
            if pairs:
                wanted = self.executor.compare(
                    self.original.result(sample, group),
                    edited_result(sample, group),
                    pairs,
                    rtol=self.proof.rtol,
                    atol=self.proof.atol,
                )
                pending.append(([names[i] for i, _ in pairs], wanted))
        comparisons = {
            name: comparison
            for names, wanted in pending
            for name, comparison in zip(names, self.executor.comparisons(wanted), strict=True)
        }
        return [
            OutputProof(
                name,
                self.after(name),
                info.dtype,
                info.shape,
                comparison=comparisons.get(name),
                reason=self.incomparable.get(name, ""),
                inside=parse_tensor(name).node in self.inside or name in self.original.plan.beside,
            )
            for names, summary in zip(self.original.plan.groups, summaries, strict=True)
            for name, info in zip(names, summary.outputs[: len(names)], strict=True)
        ]

    def judge(self, outputs: list[OutputProof], sample: int) -> bool:
        """Whether an output differs; then `conclude` raises, when the other samples have shown how much it does."""
        wrong = self.differing(outputs)
        if wrong and self.failure is None:
            self.failure = Failure(sample, outputs, len(wrong), self.fed)
        for output in wrong:
            found, known = output.comparison, self.worst.get(output.after)
            if found is not None and (known is None or (found.needed or 0.0) > (known.needed or 0.0)):
                self.worst[output.after] = found
        return bool(wrong)

    def conclude(self) -> None:
        """Raises DiffersError where a sample differed."""
        if self.failure is None:
            return
        sample, outputs, wrong, _ = self.failure
        self.proof.outputs = outputs
        self.proof.samples = max(self.proof.samples, sample + 1)
        compared = [output for output in outputs if output.comparison is not None]
        what = "tensors" if any(output.inside for output in compared) else "outputs"
        raise DiffersError(
            f"{self.change.called} differs: {self.proof.statement} does not hold for {wrong} of {len(compared)} {what} "
            f"(feed {sample + 1})",
            self.proof,
            details=tuple(f"{printable(name)}: {difference(found)}" for name, found in self.worst.items()),
        )

    def differing(self, outputs: list[OutputProof]) -> list[OutputProof]:
        """Those that differ by more than is allowed."""
        rtol, atol = self.proof.rtol, self.proof.atol
        return [o for o in outputs if o.comparison is not None and not agrees(o.comparison, rtol, atol)]

    def check_compared(self) -> None:
        """Raises NotValidatedError where nothing was compared; a pass has to rest on something."""
        if not any(not output.inside for output in self.proof.compared):
            reasons = "; ".join(dict.fromkeys(o.reason for o in self.proof.outputs if o.reason))
            raise NotValidatedError(f"nothing could be compared: {printable(reasons)}", hint=DO_WITHOUT)
        empty = [o.after for o in self.proof.compared if not self.proof.elements.get(o.after)]
        if len(empty) == len(self.proof.compared):
            raise NotValidatedError(
                f"nothing could be compared: on these feeds {named(empty, 5)} "
                f"{'has' if len(empty) == 1 else 'have'} no elements",
                hint="--feed NAME=VALUE or --feeds FILE.npz give others; " + DO_WITHOUT,
            )
        nan = [o.after for o in self.proof.compared if o.after not in empty and not self.proof.numbers.get(o.after)]
        self._warn_of(empty, "has no elements", "have no elements")
        self._warn_of(nan, "is NaN throughout", "are NaN throughout")

    def _warn_of(self, names: Sequence[str], one: str, several: str) -> None:
        if names:
            self.proof.warnings.append(
                f"on these feeds {named(names, 5)} {one if len(names) == 1 else several}: there is nothing in "
                f"{'it' if len(names) == 1 else 'them'} to compare (--feed gives others)"
            )


CONTROL = "control"
CONTROLS = 4
"""Runs of the original that are compared with the first one where something differs."""
MOST_SPREAD = 8.0
"""By how many times the original's own spread a difference may exceed it and still be laid to chance."""


def unsteady(
    executor: Executor, subject: Subject, sample: int, feeds: Feeds, *, optimize: bool = False
) -> dict[str, float]:
    """By how much fetches of a graph differ from run to run on the same FEEDS; what is always the same is left out.

    Kernels may sum in another order each time: what differs no more than that differs by chance. The graph is loaded
    anew for it, OPTIMIZE as it was, and run by turns in both sessions. What a seeded random op draws goes on from run
    to run: such a graph is compared with itself in fresh sessions alone, each of which begins with the seed.
    """
    spread: dict[str, float] = {}
    try:
        for turn in range(2 * CONTROLS):
            if not turn or subject.plan.chance:
                executor.load_source(CONTROL, subject.graph, optimize=optimize)
                executor.loaded(CONTROL)
                executor.initialize(CONTROL, subject.plan.initializers)
            key = subject.key if turn % 2 and not subject.plan.chance else CONTROL
            for group, names in enumerate(subject.plan.groups):
                result = f"{CONTROL} {min(turn, 1)} {group}"
                executor.wait(executor.run(key, result, feeds, names))
                first = f"{CONTROL} 0 {group}" if subject.plan.chance else subject.result(sample, group)
                pending = executor.compare(first, result, [(i, i) for i in range(len(names))])
                for name, found in zip(names, executor.comparisons(pending), strict=True):
                    if found.max_abs:
                        spread[name] = max(spread.get(name, 0.0), found.max_abs)
    except Refused:
        pass  # nothing can be said of it
    executor.unload(CONTROL)
    return spread


def edited_result(sample: int, group: int) -> str:
    """The name of what a run of the edited graph returns."""
    return f"{EDITED} {sample} {group}"


def initialize(subject: Subject, name: str) -> None:
    """Runs the table initialisers of a graph that was not edited. Raises NotValidatedError."""
    try:
        subject.initialize()
    except Refused as refused:
        raise NotValidatedError(
            f"the tables of {name} cannot be initialised: {printable(refused.text)}", hint=DO_WITHOUT
        ) from refused


def finished(executor: Executor, runs: list[Pending[RunSummary]], called: str = "the result") -> list[RunSummary]:
    """Waits for runs of the edited graph, which is CALLED so. Raises ValidationError where TensorFlow refuses one."""
    try:
        return [executor.wait(run) for run in runs]
    except Refused as refused:
        raise ValidationError(f"{called} does not run: {printable(refused.text)}") from refused


def warn_of_variables(subject: Subject, proof: Proof) -> None:
    """Says that variables were made up."""
    count = len(subject.plan.variables)
    if count:
        values = "variable, whose value is" if count == 1 else "variables, whose values are"
        proof.warnings.append(f"{count} {values} not in the file: run on made-up ones")


def show_values(
    executor: Executor, outputs: list[OutputProof], groups: list[list[str]], most: int = 8, *, key: str = EDITED
) -> None:
    """Fetches the values of a few small outputs of the first sample of the graph KEY, for the summary."""
    place = {name: (group, i) for group, names in enumerate(groups) for i, name in enumerate(names)}
    for output in outputs[:most]:
        elements = 1
        for dim in output.shape:
            elements *= dim
        if elements * 8 <= MOST_SHOWN_BYTES:
            group, i = place[output.after]
            output.value = shown_value(executor.tensor(f"{key} 0 {group}", i))


def nothing_to_run(subject: Subject, name: str) -> NotValidatedError:
    """The error for a graph of which no output can be run."""
    reasons = list(dict.fromkeys(s.reason for s in subject.plan.skipped))
    why = "; ".join(reasons[:3]) if reasons else "none gives a value that can be fetched"
    hint = "--op-lib FILE.so brings custom ops; " if any("not known here" in reason for reason in reasons) else ""
    hint += "--allow-ops runs it all the same; " if any("--allow-ops" in reason for reason in reasons) else ""
    return NotValidatedError(f"no output of {name} can be run here: {why}", hint=hint + DO_WITHOUT)


def difference(comparison: Comparison) -> str:
    """A comparison that failed, in words, with the tolerance that would have passed."""
    if comparison.reason is not None:
        return comparison.reason
    text = f"{comparison.differing:,} of {comparison.count:,} elements differ{'s' * (comparison.differing == 1)}"
    if comparison.max_abs is not None:
        text += f", by up to {comparison.max_abs:.3g}"
    if comparison.needed:
        text += f" (a tolerance of {rounded_up(comparison.needed)} would have passed)"
    return text
