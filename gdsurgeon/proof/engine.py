"""Runs trials: loads the graphs, feeds and runs them sample by sample, compares, and says what that has shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from gdsurgeon.errors import GdsurgeonError, Line, NotValidatedError, ValidationError, joined, printable
from gdsurgeon.feeds.input_spec import input_seed
from gdsurgeon.feeds.make.numbers import numbers, numbers_of_all_sizes
from gdsurgeon.ops.dtypes import FLOAT16, FLOAT32, FLOAT64
from gdsurgeon.proof.executor import ORIGINAL, Executor, Refused, await_loaded
from gdsurgeon.proof.models.profile import MeasuredGraph
from gdsurgeon.proof.proof import (
    MOST_SHOWN_BYTES,
    DiffersError,
    OutputProof,
    Proof,
    agrees,
    difference,
    shown_value,
    stated,
)
from gdsurgeon.proof.settings import Event
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.proof.trial import (
    DO_WITHOUT,
    AnyNumbers,
    ComparedPair,
    FeedSource,
    Fetch,
    Recorded,
    RunRefusal,
    SameFeed,
    Stacked,
    StackedFeeds,
    Trial,
    TrialRun,
    nothing_to_run,
)
from gdsurgeon.runtime.client import Pending
from gdsurgeon.runtime.compare import Comparison
from gdsurgeon.runtime.protocol import OutputInfo, Result, RunSummary
from gdsurgeon.runtime.tensor import Tensor, joined_tensors, reversed_elements
from gdsurgeon.text import first_lines

REPEATS = 16
"""How often all is run once more where an output differs and the original differs from itself, until it does not."""
FEW_REPEATS = 4
"""The same where it does not when it is run alone, and outputs differ as by rounding."""
_ROUNDING = 1e-5
MOST_SHOWN = 8
"""Outputs of which a few values go into the report."""
MOST_TOLD = 20
"""Outputs that differ of which an error tells by how much; a report has all."""
_RECORDS = "recorded"


class Failure(NamedTuple):
    """The first sample in which outputs differed: its number, the outputs, which of them do, and what was fed."""

    sample: int
    outputs: list[OutputProof]
    wrong: list[OutputProof]
    fed: Mapping[str, Feeds]


class _RunRefused(Exception):
    def __init__(self, run: TrialRun, text: str, error: NotValidatedError | None, node: str) -> None:
        super().__init__(text)
        self.run, self.text, self.error, self.node = run, text, error, node


class _Ended(Exception):
    """A run whose refusal ends the samples was refused."""


class Engine:
    """Runs a trial.

    Args:
        executor: is loading the graphs.
        trial: what is run and compared.

    Attributes:
        proof: what was run, and how it compares.
        fed: what each run was fed in the last sample.
        failure: the first sample that differed, or None; what it has returned stays in the executor.
    """

    def __init__(self, executor: Executor, trial: Trial) -> None:
        self.executor = executor
        self.trial = trial
        self.proof = Proof("run", rtol=trial.rtol, atol=trial.atol, optimized=trial.optimized)
        self.proof.equations, self.proof.parts = [trial.statement], list(trial.parts)
        self.proof.of_largest = trial.of_largest
        self.proof.warnings = list(trial.warnings)
        self.proof.judged = trial.judged
        self.proof.skipped = list(trial.skipped)
        plans = [run.subject.plan.unproven for run in trial.runs]
        self.proof.unproven = {name: plan[name] for plan in plans for name, _ in trial.skipped if name in plan}
        if trial.lead == ORIGINAL and trial.runs:
            self.proof.note_chance(trial.runs[0].subject.plan)
        self.fed: dict[str, Feeds] = {}
        self.failure: Failure | None = None
        self._runs = {run.name: run for run in (*trial.earlier, *trial.runs)}
        self._places = {name: run.subject.places() for name, run in self._runs.items()}
        self._summaries: dict[str, list[RunSummary]] = {}
        self._bounds: dict[str, Feeds] = {}
        self._worst: dict[str, Comparison] = {}  # how the outputs that differ do so most
        self._moved: dict[str, Comparison] = {}  # of outputs that are only measured
        self._excused: dict[str, str] = {}
        self._omitted: set[str] = set()
        self._repeat = 0  # how often a sample has been run once more

    # -- the whole ----------------------------------------------------------------------------------------------

    def run(self) -> Proof:
        """Runs the samples and compares.

        Raises:
            ValidationError: a graph does not load or run, or differs (then it is a DiffersError).
            NotValidatedError: nothing can be run or compared here.
        """
        if self.trial.otherwise is None:
            return self._run()
        try:
            self.executor.loaded(self.trial.lead)
            return self._run()
        except (Refused, NotValidatedError) as error:
            why = error.text if isinstance(error, Refused) else self.subject(self.trial.lead).problem or error.message
            return Engine(self.executor, self.trial.otherwise(why)).run()

    def _run(self) -> Proof:
        trial = self.trial
        for key, what in trial.loads.items():
            await_loaded(self.executor, key, what)
        if trial.runs:
            self._check_something_to_run()
            self._initialize()
            self._run_samples()
        for output in self.proof.outputs:
            output.moved = self._moved.get(output.after, output.moved)
        if not self.proof.samples:
            self.proof.equations, self.proof.parts = [], []
        for condition in trial.conditions:
            condition(self.proof)
        return self.proof

    def _check_something_to_run(self) -> None:
        lead = self.subject(self.trial.lead)
        if not lead.plan.fetches:
            raise nothing_to_run(lead, self._runs[self.trial.lead].called)
        if not self.trial.pairs:
            reasons = joined("; ", dict.fromkeys(reason for _, reason in self.proof.skipped)) or "there is no output"
            line = Line("nothing could be compared: {reasons}", reasons=reasons)
            raise NotValidatedError(line, code="nothing-comparable", advice=DO_WITHOUT)
        count = len(lead.plan.variables) + len(lead.plan.assigned)
        if count:
            values = "variable has no value" if count == 1 else "variables have no values"
            self.proof.warnings.append(f"{count} {values} in the file: run with generated values")

    def _initialize(self) -> None:
        """Restores all graphs, and runs their table initialisers."""
        for run in self.trial.runs:
            try:
                run.subject.initialize()
            except Refused as refused:
                if run.optional == "omit":
                    self._omitted.add(run.name)
                    continue
                text = f"{run.called} cannot be initialized: {printable(refused.text)}"
                if run.accused:
                    raise ValidationError(text, code="does-not-run") from refused
                error = NotValidatedError(text, code="does-not-run", advice=DO_WITHOUT)
                raise error from refused

    def _run_samples(self) -> None:
        for sample in range(self.trial.samples):
            self.executor.progress(Event("running", sample + 1, self.trial.samples))
            try:
                self._sample(sample)
            except _Ended:
                break
            except (GdsurgeonError, Refused):
                if self.failure is None:
                    raise
                break
            self.proof.samples = sample + 1
            self.proof.batches = sorted({*self.proof.batches, max(run.subject.batch for run in self.trial.runs)})
            if self.failure is not None and self.trial.stops:
                break
        self._conclude()

    def subject(self, run: str) -> Subject:
        """The graph of RUN."""
        return self._runs[run].subject

    def measurable(self, run: str) -> MeasuredGraph:
        """The graph of RUN with its feeds in the last sample, to be run again."""
        subject = self.subject(run)
        return MeasuredGraph(subject.key, self.fed[run], subject.plan.groups)

    def given(self, fetch: Fetch) -> OutputInfo:
        """The dtype and the shape of what FETCH was in the last sample."""
        group, place = self._places[fetch.run][fetch.tensor]
        return self._summaries[fetch.run][group].outputs[place]

    # -- a sample -----------------------------------------------------------------------------------------------

    def _sample(self, sample: int) -> None:
        """Runs all graphs on one feed, and compares."""
        self._run_all(sample)
        self.executor.progress(Event("comparing", sample + 1, self.trial.samples))
        outputs = self._outputs(sample)
        wrong = self._wrong(outputs)
        if wrong and self.failure is None and self.trial.steady is not None:
            self._excuse(outputs, sample)
        self.proof.note(outputs)
        for output in outputs:
            if output.moved is not None:
                known = self._moved.setdefault(output.after, output.moved)
                self._moved[output.after] = max(known, output.moved, key=_extent)
        if sample == 0:
            self._report_first(outputs)
        if self.trial.each is not None:
            self.trial.each(self, sample)
        if self._judge(outputs, sample):
            return  # what was returned is still needed, to find out what is to blame
        if sample == 0 and self.trial.first is not None:
            self.trial.first(self)
        if not self.trial.keeps:
            for run in self.trial.runs:
                run.subject.finish(sample)

    def _run_all(self, sample: int) -> None:
        """Has all runs done; in batches of one where TensorFlow does not take larger ones of all of them.

        Graphs that are run apart may each take a larger batch, and not take each other's.
        """
        try:
            for run in self.trial.runs:
                if run.beside is None and run.name not in self._omitted:
                    self._carry_out(run, sample)
        except _RunRefused as refused:
            run = refused.run
            held = [r.subject.hold_batch() for r in self.trial.runs] if sample and not run.is_to_take_as_much else []
            if any(held):
                self._run_all(sample)
            elif run.optional == "omit":
                self._omitted.add(run.name)
                self._run_all(sample)
            elif run.optional:
                raise _Ended from refused
            else:
                bound = self._bounds.get(run.name, {})
                refusal = RunRefusal(refused.text, refused.error, bound, frozenset(self._omitted), refused.node)
                self._run_in_other_shapes(run, sample, run.error(refusal), refused.__cause__)

    def _run_in_other_shapes(
        self, run: TrialRun, sample: int, error: GdsurgeonError, cause: BaseException | None
    ) -> None:
        """Has all runs done once more where RUN was refused, and what others feed it can be had in another shape.

        Raises:
            GdsurgeonError: ERROR, where it cannot, or is refused in each.
        """
        givers = {source.run for source in run.fed.values() if isinstance(source, Fetch)}
        if sample or run.accused or not any(self.subject(giver).settle_anew() for giver in givers):
            raise error from cause
        try:
            self._run_all(sample)
        except NotValidatedError:
            raise error from cause

    def _carry_out(self, run: TrialRun, sample: int) -> None:
        """Has RUN done, and those that begin with it."""
        beside = [other for other in self.trial.runs if other.beside == run.name]
        begun: dict[str, list[Pending[RunSummary]]] = {}

        def begin() -> None:
            for other in beside:
                bound = self._bound(other, sample)
                self.fed[other.name], begun[other.name] = other.subject.begin(sample, bound)

        def alongside(feeds: Feeds) -> None:
            self.fed[run.name] = feeds
            if not self._repeat:
                begin()

        ways = [True, False] if run.turned and sample % 2 == 0 and run.fed else [False]
        for turned in ways:
            try:
                bound = self._bound(run, sample, turned=turned)
                _, runs = run.subject.start(sample, bound, alongside)
                self._summaries[run.name] = run.subject.wait(runs)
                break
            except Refused as refused:
                problem, error, node = printable(refused.text), None, refused.node
                cause: Exception = refused
            except NotValidatedError as not_validated:
                problem, error, node = run.subject.problem, not_validated, run.subject.culprit
                cause = not_validated
        else:
            raise _RunRefused(run, problem, error, node) from cause
        if self._repeat:
            # Not at the same time, and not always by turns: both may well decide who rounds in which way.
            if self._repeat % 2 and not run.subject.plan.chance:
                run.subject.run_aside(self.fed[run.name])
            begin()
        if self.trial.meanwhile is not None:
            self.trial.meanwhile()
        for other in beside:
            try:
                self._summaries[other.name] = other.subject.wait(begun[other.name])
            except Refused as refused:
                raise _RunRefused(other, printable(refused.text), None, refused.node) from refused

    def _bound(self, run: TrialRun, sample: int, *, turned: bool = False) -> Feeds:
        """What RUN is fed by others."""
        out: Feeds = {}
        for name, source in run.fed.items():
            value = self._value(source, sample)
            if value is not None:
                out[name] = reversed_elements(self.executor.fetched(value)) if turned else value
        shared = {n: s.run for n, s in run.fed.items() if isinstance(s, SameFeed) and n not in out}
        run.subject.unfed = {name for name, other in shared.items() if other in self.fed and other not in self._omitted}
        self._bounds[run.name] = out
        return out

    def _value(self, source: FeedSource, sample: int) -> Tensor | Result | None:
        """What a run is fed by another; None where that was left out, or was not fed such a thing."""
        if isinstance(source, Tensor | Result):
            return source
        if isinstance(source, SameFeed):
            return self.fed.get(source.run, {}).get(source.name)
        if isinstance(source, StackedFeeds):
            return joined_tensors([self.executor.fetched(self.fed[run][source.name]) for run in source.runs], 0)
        if isinstance(source, AnyNumbers):
            return self._any_numbers(source, sample)
        return None if source.run in self._omitted else Result(*self._place(source, sample))

    def _any_numbers(self, source: AnyNumbers, sample: int) -> Tensor | Result:
        seed = input_seed(self.executor.settings.seed + sample, f"piece {source.fetch.tensor}")
        return any_numbers(source, self.given(source.fetch), seed) or Result(*self._place(source.fetch, sample))

    def _place(self, fetch: Fetch, sample: int) -> tuple[str, int]:
        """The result in the executor that holds a tensor, and the place in it."""
        group, i = self._places[fetch.run][fetch.tensor]
        return self.subject(fetch.run).result(sample, group), i

    # -- comparing ----------------------------------------------------------------------------------------------

    def _outputs(self, sample: int) -> list[OutputProof]:
        """Each pair, compared."""
        outputs: list[OutputProof] = []
        for pair in self.trial.pairs:
            info = self.given(pair.theirs)
            reason = pair.reason or self._excused.get(pair.before, "")
            outputs.append(
                OutputProof(
                    pair.before,
                    pair.after,
                    info.dtype,
                    info.shape,
                    reason=reason,
                    inside=pair.inside or pair.site,
                    site=pair.site,
                )
            )
        pending: dict[tuple[str, str, int | None], list[tuple[OutputProof, tuple[int, int]]]] = {}
        for (mine, i), (theirs, j), output, channels in self._comparable(outputs, sample):
            pending.setdefault((mine, theirs, channels), []).append((output, (i, j)))
        rtol, atol = self.proof.rtol, self.proof.atol
        begun = [
            (found, self.executor.compare(a, b, [at for _, at in found], rtol=rtol, atol=atol, channels=channels))
            for (a, b, channels), found in pending.items()
        ]
        for found, comparisons in begun:
            for (output, _), comparison in zip(found, self.executor.comparisons(comparisons), strict=True):
                output.comparison = comparison
        for pair, output in zip(self.trial.pairs, outputs, strict=True):
            if pair.measured:
                output.moved, output.comparison = output.comparison, None
            if pair.excuse and self._differs(output.comparison, pair):
                output.comparison, output.reason = None, pair.excuse
        return outputs

    def _comparable(
        self, outputs: Sequence[OutputProof], sample: int
    ) -> list[tuple[tuple[str, int], tuple[str, int], OutputProof, int | None]]:
        """The places of what is compared with what, the output that it is about, and the axis of its channels."""
        out: list[tuple[tuple[str, int], tuple[str, int], OutputProof, int | None]] = []
        records: list[Tensor] = []
        for pair, output in zip(self.trial.pairs, outputs, strict=True):
            if (output.reason and not pair.measured) or pair.mine is None:
                continue
            if isinstance(pair.mine, Recorded):
                mine = (f"{_RECORDS} {sample}", len(records))
                records.append(pair.mine.of_sample(sample, output.dtype))
            elif isinstance(pair.mine, Stacked):
                mine = (f"{_RECORDS} {sample}", len(records))
                records.append(as_batch(self._rows(pair.mine, sample), output.shape))
            else:
                mine = self._place(pair.mine, sample)
            out.append((mine, self._place(pair.theirs, sample), output, pair.channels))
        if records:
            self.executor.put(f"{_RECORDS} {sample}", records)
        return out

    def _rows(self, stacked: Stacked, sample: int) -> list[Tensor]:
        """What each run has given; of one that comes several times it is fetched once."""
        places = {run: Result(*self._place(Fetch(run, stacked.tensor), sample)) for run in stacked.runs}
        found = {run: self.executor.fetched(place) for run, place in places.items()}
        return [found[run] for run in stacked.runs]

    def _wrong(self, outputs: Sequence[OutputProof]) -> list[OutputProof]:
        """Those that differ by more than is allowed."""
        return [o for o, pair in zip(outputs, self.trial.pairs, strict=True) if self._differs(o.comparison, pair)]

    def _differs(self, found: Comparison | None, pair: ComparedPair) -> bool:
        if found is None:
            return False
        proof = self.proof
        return not found.equal if pair.exact else not agrees(found, proof.rtol, proof.atol, proof.of_largest)

    def _excuse(self, outputs: Sequence[OutputProof], sample: int) -> None:
        """Sets aside those of OUTPUTS that differ, in each of several runs, no more than the original from itself."""
        assert self.trial.steady is not None
        run = self._runs[self.trial.steady]
        own = spread(self.executor, run.subject, sample, self.fed[run.name], optimize=self.trial.optimized)
        repeats = REPEATS if own else FEW_REPEATS if all(map(_is_rounding, self._wrong(outputs))) else 0
        for self._repeat in range(1, repeats + 1):
            if not self._wrong(outputs):
                break
            for other in self.trial.runs:
                other.subject.finish(sample)
            self._run_all(sample)
            for pair, output, again in zip(self.trial.pairs, outputs, self._outputs(sample), strict=True):
                if self._differs(output.comparison, pair) and not self._differs(again.comparison, pair):
                    output.comparison = again.comparison
        self._repeat = 0
        self._excused |= excused(self._wrong(outputs), own, run.called)

    def _report_first(self, outputs: list[OutputProof]) -> None:
        """Keeps what was fed and returned in the first sample."""
        self.proof.outputs = outputs
        for run in self.trial.runs:
            names = run.reported_as
            if names is None or run.name in self._omitted:
                continue
            fed = self.fed[run.name].items()
            own = {name: value for name, value in fed if not isinstance(run.fed.get(name), SameFeed)}
            made = run.subject.made
            for name, text in run.subject.describe_feeds(own).items():
                self.proof.feeds[names.get(name, name)] = text
                self.proof.made[names.get(name, name)] = made[name]
        for pair, output in zip(self.trial.pairs[:MOST_SHOWN] if self.trial.shown else (), outputs, strict=False):
            if output.elements * 8 <= MOST_SHOWN_BYTES:
                output.value = shown_value(self.executor.tensor(*self._place(pair.theirs, 0)))

    def _judge(self, outputs: list[OutputProof], sample: int) -> bool:
        """Whether an output differs; then `_conclude` raises, when the other samples have shown how much it does."""
        wrong = self._wrong(outputs) if self.trial.judged else []
        if wrong and self.failure is None:
            self.failure = Failure(sample, outputs, wrong, dict(self.fed))
        for output in wrong:
            found, known = output.comparison, self._worst.get(output.after)
            if found is not None and (known is None or (found.needed or 0.0) > (known.needed or 0.0)):
                self._worst[output.after] = found
        return bool(wrong)

    def _conclude(self) -> None:
        """Raises DiffersError where a sample differed."""
        if self.failure is None:
            return
        sample, outputs, wrong, _ = self.failure
        self.proof.outputs = outputs
        self.proof.samples = max(self.proof.samples, sample + 1)
        compared = [output for output in outputs if output.comparison is not None]
        what = "tensors" if any(output.inside for output in compared) else "outputs"
        known = {output.after: output.before for output in outputs} if self.trial.of_largest else {}
        accused = next((run.accused for run in self.trial.runs if run.accused), "")
        complaint = (
            self.trial.complaint
            or f"{accused} differs: {stated([self.trial.statement], self.trial.parts)} does not hold for"
        )
        error = DiffersError(
            f"{complaint} {len(wrong)} of {len(compared)} {what} (feed {sample + 1})",
            self.proof,
            facts={"sample": sample + 1, "wrong": len(wrong), "compared": len(compared), "tensors": list(self._worst)},
            details=first_lines(
                [self._told(known.get(name, name), name) for name in self._worst], MOST_TOLD, f"other {what}"
            ),
            advice=self.trial.advice,
        )
        raise error if self.trial.accuse is None else self.trial.accuse(self, error, [output.after for output in wrong])

    def _told(self, before: str, after: str) -> str:
        """By how much an output differs at most, in a line, by its name and the one that it has now."""
        name = printable(after) if before == after else f"{printable(before)} (now {printable(after)})"
        return f"{name}: {difference(self._worst[after], of_largest=bool(self.trial.of_largest))}"


def _extent(found: Comparison) -> tuple[bool, float, int]:
    """How far two values are apart: another shape, or the largest difference."""
    return found.reason is not None, found.max_abs or 0.0, found.differing


def _is_rounding(output: OutputProof) -> bool:
    """Whether an output differs by no more than it may where floats are summed in another order."""
    found = output.comparison
    return found is not None and found.needed is not None and found.needed <= _ROUNDING


_FLOATS = (FLOAT16, FLOAT32, FLOAT64)


def any_numbers(source: AnyNumbers, info: OutputInfo, seed: int) -> Tensor | None:
    """Numbers as SOURCE says, of the dtype and shape of INFO; None where these are no floats."""
    dtype, shape = info.dtype, info.shape
    if dtype not in _FLOATS:
        return None
    if not source.of_all_sizes:
        return Tensor(dtype, shape, numbers(dtype, prod(shape), 0, seed, wide=True))
    rows = prod(shape[:-1])
    if shape and rows < source.rows:
        shape = (shape[0] * -(-source.rows // max(rows, 1)), *shape[1:])
    return Tensor(dtype, shape, numbers_of_all_sizes(dtype, prod(shape), seed, large=source.large))


def as_batch(rows: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    """What ROWS, a tensor for each row, come to for the batch.

    They are joined along the axis along which they give SHAPE, the shape that was found for the batch. What is the
    same for each row may be the same for the batch. Where nothing fits they are joined along the first axis.
    """
    first = rows[0]
    ranks = {len(row.shape) for row in rows}
    if ranks != {len(first.shape)}:
        return first
    if first.shape == shape and all(row.tobytes() == first.tobytes() for row in rows):
        return first
    axes = [axis for axis in range(len(first.shape)) if _fits(rows, axis)]
    wanted = (
        [axis for axis in axes if sum(row.shape[axis] for row in rows) == shape[axis]] if ranks == {len(shape)} else []
    )
    return joined_tensors(rows, (wanted or axes)[0]) if wanted or axes else first


def _fits(rows: Sequence[Tensor], axis: int) -> bool:
    """Whether the rows have all other dimensions in common."""
    return len({(*row.shape[:axis], *row.shape[axis + 1 :]) for row in rows}) == 1


CONTROL = "control"
CONTROLS = 4
"""Runs of the original that are compared with the first one where something differs."""
MOST_SPREAD = 8.0
"""By how many times the original's own spread a difference may exceed it and still be laid to chance."""


def spread(
    executor: Executor, subject: Subject, sample: int, feeds: Feeds, *, optimize: bool = False
) -> dict[str, float]:
    """By how much fetches of a graph differ from run to run on the same FEEDS; what is always the same is left out.

    Kernels may sum in another order each time: what differs no more than that differs by chance. The graph is loaded
    anew for it, OPTIMIZE as it was, and run by turns in both sessions. What a seeded random op draws goes on from run
    to run, as does what a graph keeps. Such a graph is compared with itself in fresh sessions alone, each of which
    begins with the seed and keeps nothing yet.
    """
    out: dict[str, float] = {}
    begins_anew = bool(subject.plan.chance) or subject.plan.keeps_state
    try:
        for turn in range(2 * CONTROLS):
            if not turn or begins_anew:
                executor.load_source(CONTROL, subject.graph, optimize=optimize)
                executor.loaded(CONTROL)
                executor.initialize(CONTROL, subject.plan.initializers)
            key = subject.key if turn % 2 and not begins_anew else CONTROL
            for group, names in enumerate(subject.plan.groups):
                result = f"{CONTROL} {min(turn, 1)} {group}"
                executor.wait(executor.run(key, result, feeds, names))
                first = f"{CONTROL} 0 {group}" if begins_anew else subject.result(sample, group)
                pending = executor.compare(first, result, [(i, i) for i in range(len(names))])
                for name, found in zip(names, executor.comparisons(pending), strict=True):
                    if found.max_abs:
                        out[name] = max(out.get(name, 0.0), found.max_abs)
    except Refused:
        pass  # nothing can be said of it
    executor.unload(CONTROL)
    return out


def excused(outputs: Iterable[OutputProof], own: Mapping[str, float], name: str) -> dict[str, str]:
    """Makes those OUTPUTS not comparable that differ no more than the graph NAME does from itself, by OWN.

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
