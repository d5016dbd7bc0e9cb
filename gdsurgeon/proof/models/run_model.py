"""Runs a single model on generated feeds, and compares it with recorded outputs if there are any."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gdsurgeon.analysis.queries.discrete_choices import deciding_nodes
from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.traversal.walks import depending_on
from gdsurgeon.errors import GdsurgeonError, Line, NotValidatedError, ValidationError, joined, printable, quoted
from gdsurgeon.feeds.archive import save
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.proof.claims.isolated import recorded
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.subject import Subject, SubjectOptions
from gdsurgeon.proof.trial import (
    DO_WITHOUT,
    ORIGINAL,
    ComparedPair,
    Fetch,
    RunRefusal,
    Trial,
    TrialRun,
    chance_reasons,
    nodes_of,
)
from gdsurgeon.runtime.compare import Statistics
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor


@dataclass
class Recording:
    """The feeds and outputs of a model, sample by sample, to be saved in files.

    Attributes:
        feeds_path, outputs_path: .npz files to write, or None.
        feeds, outputs: the values, one mapping for each sample.
    """

    feeds_path: str | None = None
    outputs_path: str | None = None
    feeds: list[dict[str, Tensor]] = field(default_factory=list)
    outputs: list[dict[str, Tensor]] = field(default_factory=list)

    def note(self, executor: Executor, sample: int, feeds: Mapping[str, Tensor | Result], subject: Subject) -> None:
        """Records the feeds and the outputs of a sample, as far as they are needed."""
        if self.feeds_path is not None:
            fed = {name: value for name, value in feeds.items() if isinstance(value, Tensor)}
            self.feeds[sample:] = [fed | _defaults(executor, feeds, subject)]
        if self.outputs_path is not None:
            self.outputs[sample:] = [
                {
                    name: executor.tensor(subject.result(sample, group), i)
                    for group, names in enumerate(subject.plan.groups)
                    for i, name in enumerate(names)
                }
            ]

    def write(self) -> list[str]:
        """Writes the files; returns their paths.

        Raises:
            OutputError: a file cannot be written.
        """
        written: list[str] = []
        for path, samples in ((self.feeds_path, self.feeds), (self.outputs_path, self.outputs)):
            if path is not None and samples:
                save(path, samples)
                written.append(path)
        return written


def _defaults(executor: Executor, feeds: Mapping[str, Tensor | Result], subject: Subject) -> dict[str, Tensor]:
    """Returns the values of inputs that kept their defaults, because an archive has a value for each input."""
    names = sorted(subject.optional - feeds.keys())
    if not names or not feeds.keys() <= {*subject.feedable}:
        return {}
    executor.wait(executor.run(subject.key, "defaults", feeds, names))
    return {name: executor.tensor("defaults", i) for i, name in enumerate(names)}


class Golden(NamedTuple):
    """Recorded outputs by name, one mapping for each sample; `name` is their name in messages."""

    name: str = ""
    samples: Sequence[Mapping[str, object]] = ()


@dataclass
class ModelRun:
    """The options and the results of a run of a model.

    Attributes:
        outputs: tensors to fetch; empty: the outputs of the model.
        golden: the recorded outputs.
        rtol, atol: by how much floats may differ from these.
        recording: records each sample.
        statistics: of each output, over all samples.
    """

    outputs: Sequence[str] = ()
    golden: Golden = field(default_factory=Golden)
    rtol: float = 0.0
    atol: float = 0.0
    recording: Recording = field(default_factory=Recording)
    statistics: dict[str, Statistics] = field(default_factory=dict)

    def note(self, trial: Trial, sample: int) -> None:
        """Records the statistics and the values of a sample."""
        subject = trial.subject(ORIGINAL)
        for group, names in enumerate(subject.plan.groups):
            for name, found in zip(names, trial.executor.statistics(subject.result(sample, group)), strict=True):
                known = self.statistics.get(name)
                self.statistics[name] = found if known is None else _together(known, found)
        self.recording.note(trial.executor, sample, trial.fed[ORIGINAL], subject)


def model_trial(executor: Executor, graph: Graph, overrides: Overrides, wanted: ModelRun) -> Trial:
    """Returns the trial of a model that the executor is loading as ORIGINAL; results of samples stay in the executor.

    Raises:
        ValidationError: other outputs were recorded.
        NotValidatedError: fewer samples were recorded than are run.
    """
    name, golden = printable(graph.source_name), wanted.golden
    check_names(overrides, [node.name for node in input_nodes(graph)])
    tensors = [graph.tensor(output).name for output in wanted.outputs]
    served = [graph[node] for node in nodes_of(tensors)] or output_nodes(graph)
    own = dict.fromkeys(node.name for node in served)
    # The tensor that decides a class is also compared: the class alone hides most differences.
    deciding = [node.name for node in deciding_nodes(served)] if not tensors else []
    plan = plan_with(executor.settings, graph, list(dict.fromkeys([*own, *deciding])))
    plan = plan.only(tensors) if tensors else plan
    inside = {tensor for tensor in plan.fetches if parse_tensor(tensor).node not in own or tensor in plan.beside}
    options = SubjectOptions(defaults=False)  # nothing else to compare with, and recorded outputs are of the defaults
    subject = Subject(executor, ORIGINAL, graph, plan=plan, overrides=overrides, options=options)
    if plan.fetches and golden.samples:
        _check_golden(name, subject, inside, golden)
    is_given = any(spec.given for spec in subject.specs)
    return Trial(
        executor,
        f"model(x) == {golden.name}" if golden.samples else "",
        [TrialRun(subject, blame=_blame(name))],
        _pairs(subject, inside, golden),
        {ORIGINAL: f"TensorFlow does not load {name}"},
        samples=subject.samples,
        rtol=wanted.rtol,
        atol=wanted.atol,
        skipped=plan.reasons,
        advice="" if is_given else "same-feeds",
        complaint=f"{name} differs from {golden.name} in",
        stops=True,
        keeps=True,
    )


def optimized_trial(trial: Trial, key: str) -> Trial:
    """Returns the trial of the graph that is loaded as `key`, which TensorFlow optimizes.

    Its outputs are compared with the outputs of the graph as written. A difference is an error only with a tolerance.
    """
    (run,) = trial.runs
    subject = run.subject
    chance = _chance(subject)
    pairs = [
        replace(
            pair, mine=Fetch(ORIGINAL, pair.after), theirs=Fetch(key, pair.after), reason=chance.get(pair.after, "")
        )
        for pair in trial.pairs
    ]
    return replace(
        trial,
        statement="optimized(x) == model(x)",
        complaint=f"{run.called} differs from itself when TensorFlow optimizes it, in",
        runs=[replace(run, subject=subject.under(key))],
        pairs=pairs,
        loads={key: f"TensorFlow does not load {run.called} when it optimizes it"},
        lead=key,
        skipped=[],
        judged=bool(trial.rtol or trial.atol),
        optimized=True,
        advice="",
        earlier=[run],
    )


def _blame(name: str) -> Callable[[RunRefusal], GdsurgeonError]:
    def blame(refusal: RunRefusal) -> GdsurgeonError:
        if refusal.error is not None and refusal.error.code == "unfeedable":
            return refusal.error
        message = refusal.error.message if refusal.error is not None else f"{name} does not run: {refusal.text}"
        return ValidationError(message, code="does-not-run")

    return blame


def _pairs(subject: Subject, inside: Collection[str], golden: Golden) -> list[ComparedPair]:
    """Returns the outputs of the model and the recorded values."""
    chance = _chance(subject) if golden.samples else {}
    out: list[ComparedPair] = []
    for name in subject.plan.fetches:
        reason, mine = chance.get(name, ""), None
        if golden.samples and name not in golden.samples[0]:
            reason = reason or f"not in {golden.name}"
        elif golden.samples:
            mine = recorded(name, [sample[name] for sample in golden.samples], golden.name)
        out.append(ComparedPair(name, name, mine, Fetch(ORIGINAL, name), reason, name in inside))
    return out


def _check_golden(name: str, subject: Subject, inside: Collection[str], golden: Golden) -> None:
    """Raises ValidationError if an output was not recorded, or a recorded value is not an output."""
    mine, theirs = set(subject.plan.fetches), set(golden.samples[0])
    lonely = [f"{name} returns {quoted(n)}, which was not recorded" for n in sorted(mine - {*inside} - theirs)]
    lonely += [f"{quoted(n)} was recorded, but {name} does not return it" for n in sorted(theirs - mine)]
    for sample, values in enumerate(golden.samples[1:], 1):
        lonely += [
            f"{quoted(n)} was recorded only for sample {1 if n in theirs else sample + 1}"
            for n in sorted(theirs ^ set(values))
        ]
    if lonely:
        raise ValidationError(
            f"{name} and {golden.name} have different outputs:",
            code="wrong-outputs",
            details=tuple(lonely[:20]),
            advice="outputs",
        )
    if len(golden.samples) < subject.samples:
        raise NotValidatedError(
            f"{golden.name} has {len(golden.samples)} samples, but {subject.samples} are needed",
            code="too-few-samples",
            advice="as-many-samples",
            facts={"samples": len(golden.samples)},
        )


def check_compared(golden: Golden, proof: Proof) -> None:
    """Raises NotValidatedError if nothing could be compared with the recorded outputs."""
    if not any(proof.elements.get(o.after) for o in proof.compared if not o.inside):
        reasons = joined("; ", dict.fromkeys(o.reason for o in proof.outputs if o.reason)) or "no elements"
        line = Line("nothing could be compared with {golden}: {reasons}", golden=golden.name, reasons=reasons)
        raise NotValidatedError(line, code="nothing-comparable", advice=DO_WITHOUT)


def _chance(subject: Subject) -> dict[str, str]:
    """Returns the random outputs, which differ between processes, with the reason."""
    plan = subject.plan
    out = chance_reasons(plan)
    drawn = nodes_of(plan.draws)
    if drawn:
        reached = depending_on(subject.graph, drawn)
        for name in plan.fetches:
            if parse_tensor(name).node in reached:
                out.setdefault(name, f"random: {', '.join(drawn[:3])}")
    return out


def _together(a: Statistics, b: Statistics) -> Statistics:
    """Returns the statistics of the elements of both."""
    lows = [low for low in (a.minimum, b.minimum) if low is not None]
    highs = [high for high in (a.maximum, b.maximum) if high is not None]
    return Statistics(
        a.count + b.count, a.nan + b.nan, a.infinite + b.infinite, min(lows, default=None), max(highs, default=None)
    )
