"""Runs a trial: loads the graphs, runs them on each sample, and compares the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from gdsurgeon.errors import GdsurgeonError, Line, NotValidatedError, ValidationError, joined, printable
from gdsurgeon.feeds.input_spec import input_seed
from gdsurgeon.feeds.numbers import numbers, numbers_of_all_sizes
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
"""The number of repetitions of a sample whose outputs differ, if the original differs from itself, until they agree."""
FEW_REPEATS = 4
"""The number of repetitions if the original alone does not differ from itself, and outputs differ by rounding."""
_ROUNDING = 1e-5
MOST_SHOWN = 8
"""The number of outputs with a few values in the report."""
MOST_TOLD = 20
"""The number of different outputs that an error lists; the report has all."""
_RECORDS = "recorded"


class Failure(NamedTuple):
    """The first sample with different outputs: its number, all outputs, the different outputs, and the feeds."""

    sample: int
    outputs: list[OutputProof]
    wrong: list[OutputProof]
    fed: Mapping[str, Feeds]


class _RunRefused(Exception):
    def __init__(self, run: TrialRun, text: str, error: NotValidatedError | None, node: str) -> None:
        super().__init__(text)
        self.run, self.text, self.error, self.node = run, text, error, node


class _Ended(Exception):
    """The samples end, because TensorFlow refused a run with `optional` 'end'."""


class Engine:
    """Runs a trial.

    Args:
        executor: is loading the graphs.
        trial: the runs and the pairs of tensors to compare.

    Attributes:
        proof: the results.
        fed: the feeds of each run in the last sample.
        failure: the first different sample, or None; its results stay in the executor.
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
        """Runs the samples and compares the outputs.

        Raises:
            ValidationError: a graph does not load or run, or outputs differ (then it is a DiffersError).
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
        """Restores all graphs, and runs their table initializers."""
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
        """Returns the graph of `run`."""
        return self._runs[run].subject

    def measurable(self, run: str) -> MeasuredGraph:
        """Returns the graph of `run` with its feeds in the last sample, to be run again."""
        subject = self.subject(run)
        return MeasuredGraph(subject.key, self.fed[run], subject.plan.groups)

    def given(self, fetch: Fetch) -> OutputInfo:
        """Returns the dtype and the shape of a fetched tensor in the last sample."""
        group, place = self._places[fetch.run][fetch.tensor]
        return self._summaries[fetch.run][group].outputs[place]

    # -- a sample -----------------------------------------------------------------------------------------------

    def _sample(self, sample: int) -> None:
        """Runs all graphs on one feed, and compares the outputs."""
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
        """Does all runs of a sample.

        Graphs that run separately may each accept a larger batch, but not together. Then all samples get batches of
        one.
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
        """Repeats all runs if the tensors that other runs feed to `run` can have other shapes.

        Raises:
            GdsurgeonError: `error`, if they cannot, or TensorFlow refuses all shapes.
        """
        givers = {source.run for source in run.fed.values() if isinstance(source, Fetch)}
        if sample or run.accused or not any(self.subject(giver).settle_anew() for giver in givers):
            raise error from cause
        try:
            self._run_all(sample)
        except NotValidatedError:
            raise error from cause

    def _carry_out(self, run: TrialRun, sample: int) -> None:
        """Does `run`, and the runs that start at the same time.

        On every other sample, feeds from other runs are first reversed, so that they differ from the values that the
        graph would
        compute itself.
        """
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
            # The order of runs, and whether they overlap, can change the rounding.
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
        """Returns the feeds of `run` that come from other runs."""
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
        """Returns a feed from another run; None if that run was left out, or did not get such a feed."""
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
        """Returns the result in the executor that contains a tensor, and its index there."""
        group, i = self._places[fetch.run][fetch.tensor]
        return self.subject(fetch.run).result(sample, group), i

    # -- comparing ----------------------------------------------------------------------------------------------

    def _outputs(self, sample: int) -> list[OutputProof]:
        """Compares each pair."""
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
        """Returns for each compared pair the places of both tensors, the output, and the axis of its channels."""
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
        """Returns the value of each run; a run that occurs several times is fetched once."""
        places = {run: Result(*self._place(Fetch(run, stacked.tensor), sample)) for run in stacked.runs}
        found = {run: self.executor.fetched(place) for run, place in places.items()}
        return [found[run] for run in stacked.runs]

    def _wrong(self, outputs: Sequence[OutputProof]) -> list[OutputProof]:
        """Returns the outputs that differ by more than the tolerance."""
        return [o for o, pair in zip(outputs, self.trial.pairs, strict=True) if self._differs(o.comparison, pair)]

    def _differs(self, found: Comparison | None, pair: ComparedPair) -> bool:
        if found is None:
            return False
        proof = self.proof
        return not found.equal if pair.exact else not agrees(found, proof.rtol, proof.atol, proof.of_largest)

    def _excuse(self, outputs: Sequence[OutputProof], sample: int) -> None:
        """Sets aside different outputs that differ no more than the original differs from itself in repeated runs."""
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
        """Keeps the feeds and the values of the first sample."""
        shown = [(pair, o) for pair, o in zip(self.trial.pairs, outputs, strict=True) if not pair.hidden]
        self.proof.outputs = [output for _, output in shown]
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
        for pair, output in shown[:MOST_SHOWN] if self.trial.shown else ():
            if output.elements * 8 <= MOST_SHOWN_BYTES:
                output.value = shown_value(self.executor.tensor(*self._place(pair.theirs, 0)))

    def _judge(self, outputs: list[OutputProof], sample: int) -> bool:
        """Returns whether an output differs; `_conclude` raises the error after the other samples have run."""
        wrong = self._wrong(outputs) if self.trial.judged else []
        if wrong and self.failure is None:
            self.failure = Failure(sample, outputs, wrong, dict(self.fed))
        for output in wrong:
            found, known = output.comparison, self._worst.get(output.after)
            if found is not None and (known is None or (found.needed or 0.0) > (known.needed or 0.0)):
                self._worst[output.after] = found
        return bool(wrong)

    def _conclude(self) -> None:
        """Raises DiffersError if a sample differed."""
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
        """Returns a line with both names of an output and its largest difference."""
        name = printable(after) if before == after else f"{printable(before)} (now {printable(after)})"
        return f"{name}: {difference(self._worst[after], of_largest=bool(self.trial.of_largest))}"


def _extent(found: Comparison) -> tuple[bool, float, int]:
    """Returns a key that orders differences: different shapes first, then by size."""
    return found.reason is not None, found.max_abs or 0.0, found.differing


def _is_rounding(output: OutputProof) -> bool:
    """Returns whether an output differs no more than floats that are summed in a different order."""
    found = output.comparison
    return found is not None and found.needed is not None and found.needed <= _ROUNDING


_FLOATS = (FLOAT16, FLOAT32, FLOAT64)


def any_numbers(source: AnyNumbers, info: OutputInfo, seed: int) -> Tensor | None:
    """Returns random numbers of the dtype and shape of `info`, as `source` describes; None if these are not floats."""
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
    """Returns the value for a batch from the values `rows` of its rows.

    The rows are joined along the axis along which they have `shape`, the shape that the batch returned. A value that is
    the
    same for each row can be the same for the batch. If no axis fits, the rows are joined along the first axis.
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
    """Returns whether the rows have all other dimensions in common."""
    return len({(*row.shape[:axis], *row.shape[axis + 1 :]) for row in rows}) == 1


CONTROL = "control"
CONTROLS = 4
"""The number of runs of the original that are compared with the first one if outputs differ."""
MOST_SPREAD = 8.0
"""A difference is accepted up to this multiple of the original's own variation."""


def spread(
    executor: Executor, subject: Subject, sample: int, feeds: Feeds, *, optimize: bool = False
) -> dict[str, float]:
    """Returns by how much fetches of a graph differ from run to run on the same feeds; 0 is left out.

    Kernels may sum in a different order in each run. The graph is loaded again, optimized if `optimize` is true, and
    runs
    alternate between both sessions. Seeded random ops and variables continue from run to run, so graphs with these only
    run
    in new sessions.
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
