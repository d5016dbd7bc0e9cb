"""Whole models: a model runs on generated feeds, and is compared with recorded outputs or with a different model.

Nodes of two models are paired by name, and both models run on the same feeds.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gdsurgeon.analysis.queries.deciding import deciding_nodes
from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.shapes.arithmetic import compatible, merge
from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.errors import GdsurgeonError, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.feeds.archive import save
from gdsurgeon.feeds.given import check_names
from gdsurgeon.feeds.input_spec import InputSpec, input_spec, overridden
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import node_of, nodes_of
from gdsurgeon.ops import dtypes
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.isolated import recorded
from gdsurgeon.proof.plan import Obstacle, plan_with
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.same_outputs import deciding, side_by_side
from gdsurgeon.proof.subject import Feeds, Subject
from gdsurgeon.proof.trial import (
    EDITED,
    ORIGINAL,
    ComparedPair,
    Fetch,
    ProofContext,
    RunRefused,
    Trial,
    TrialRun,
    nothing_comparable,
    random_outputs,
    random_reasons,
)
from gdsurgeon.runtime.compare import Statistics
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.text import first_lines, near_miss
from gdsurgeon.values import Tolerance

HOW_TO_PAIR = "pair-names"


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

    def note(self, sample: int, trial: Trial) -> None:
        """Records the feeds and the outputs of a sample that will be saved."""
        feeds, subject, executor = trial.fed[ORIGINAL], trial.subject(ORIGINAL), trial.executor
        if self.feeds_path is not None:
            fed = {name: value for name, value in feeds.items() if isinstance(value, Tensor)}
            self.feeds.append(fed | _defaults(feeds, subject))
        if self.outputs_path is not None:
            fetches = [Fetch(ORIGINAL, name) for name in subject.plan.fetches]
            self.outputs.append({f.tensor: executor.fetched(trial.result(f, sample)) for f in fetches})

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


def _defaults(feeds: Feeds, subject: Subject) -> dict[str, Tensor]:
    """Returns the values of inputs that kept their defaults, because an archive has a value for each input."""
    names = sorted(subject.optional - feeds.keys())
    if not names or not feeds.keys() <= {*subject.feedable}:
        return {}
    subject.executor.run(subject.key, "defaults", feeds, names)
    return {name: subject.executor.tensor("defaults", i) for i, name in enumerate(names)}


class Golden(NamedTuple):
    """Recorded outputs by name, one mapping for each sample; `name` is the name of the recording in messages."""

    name: str = ""
    samples: Sequence[Mapping[str, object]] = ()


def note_statistics(statistics: dict[str, Statistics], trial: Trial, sample: int) -> None:
    """Adds the statistics of each output in a sample to `statistics`."""
    subject = trial.subject(ORIGINAL)
    for group, names in enumerate(subject.plan.groups):
        for name, b in zip(names, trial.executor.statistics(subject.result(sample, group)), strict=True):
            a = statistics.get(name, Statistics(0, 0, 0, None, None))
            lows = [low for low in (a.minimum, b.minimum) if low is not None]
            highs = [high for high in (a.maximum, b.maximum) if high is not None]
            counts = a.count + b.count, a.nan + b.nan, a.infinite + b.infinite
            statistics[name] = Statistics(*counts, min(lows, default=None), max(highs, default=None))


def model_trial(
    executor: Executor,
    graph: Graph,
    overrides: Overrides,
    outputs: Sequence[str],
    golden: Golden,
    tolerance: Tolerance,
) -> Trial:
    """Returns the trial of a model that the executor is loading as ORIGINAL; results of samples stay in the executor.

    Args:
        executor: runs the model.
        graph: the model.
        overrides: the user's feeds.
        outputs: tensors to fetch; empty: the outputs of the model.
        golden: the recorded outputs.
        tolerance: by how much floats may differ from these.

    Raises:
        ValidationError: other outputs were recorded.
        NotValidatedError: fewer samples were recorded than are run.
    """
    name = printable(graph.source_name)
    check_names(overrides, [node.name for node in input_nodes(graph)])
    tensors = [graph.tensor(output).name for output in outputs]
    served = [graph[node] for node in nodes_of(tensors)] or output_nodes(graph)
    own = dict.fromkeys(node.name for node in served)
    # The tensor that decides a class is also compared: the class alone hides most differences.
    deciding = [node.name for node in deciding_nodes(served)] if not tensors else []
    plan = plan_with(executor.settings, graph, [*own, *deciding])
    plan = plan.only(tensors) if tensors else plan
    inside = {tensor for tensor in plan.fetches if node_of(tensor) not in own or tensor in plan.inputs_of_sampled}
    # Recorded outputs belong to the defaults.
    subject = Subject(executor, ORIGINAL, graph, plan, overrides)
    subject.keep_defaults(subject.optional)
    if plan.fetches and golden.samples:
        _check_golden(name, subject, inside, golden)
    reasons = random_outputs(graph, plan) if golden.samples else {}
    pairs = [
        ComparedPair(fetch, fetch, None, Fetch(ORIGINAL, fetch), reasons.get(fetch, ""), fetch in inside)
        for fetch in plan.fetches
    ]
    for pair in pairs if golden.samples else ():
        if pair.after in golden.samples[0]:
            pair.expected = recorded(pair.after, [sample[pair.after] for sample in golden.samples], golden.name)
        else:
            pair.reason = pair.reason or f"not in {golden.name}"

    def on_refusal(refusal: RunRefused) -> GdsurgeonError:
        if refusal.error is not None and refusal.error.code == "unfeedable":
            return refusal.error
        message = refusal.error.message if refusal.error is not None else f"{name} does not run: {refusal.text}"
        return ValidationError(message, code="does-not-run")

    return Trial(
        executor,
        f"model(x) == {golden.name}" if golden.samples else "",
        [TrialRun(subject, on_refusal=on_refusal)],
        pairs,
        samples=subject.samples,
        tolerance=tolerance,
        skipped=plan.reasons,
        advice="" if any(spec.given for spec in subject.specs) else "same-feeds",
        message=f"{name} differs from {golden.name} in",
        stops=True,
        keeps=True,
    )


def optimized_trial(trial: Trial, key: str) -> Trial:
    """Returns the trial of the graph that is loaded as `key`, which TensorFlow optimizes.

    Its outputs are compared with the outputs of the graph as written. A difference is an error only with a tolerance.
    """
    (run,) = trial.runs
    reasons, subject = random_outputs(run.subject.graph, run.subject.plan), copy(run.subject)
    subject.key = subject.name = key
    pairs = [
        replace(
            pair,
            expected=Fetch(ORIGINAL, pair.after),
            actual=Fetch(key, pair.after),
            reason=reasons.get(pair.after, ""),
        )
        for pair in trial.pairs
    ]
    return replace(
        trial,
        statement="optimized(x) == model(x)",
        message=f"{run.called} differs from itself when TensorFlow optimizes it, in",
        runs=[replace(run, subject=subject)],
        pairs=pairs,
        lead=key,
        skipped=[],
        judged=not trial.tolerance.is_exact,
        optimized=True,
        advice="",
        earlier=[run],
    )


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
            samples=len(golden.samples),
        )


def check_compared(golden: Golden, proof: Proof) -> None:
    """Raises NotValidatedError if nothing could be compared with the recorded outputs."""
    if proof.non_empty.isdisjoint(o.after for o in proof.compared if not o.inside):
        what = f"nothing could be compared with {golden.name}"
        raise nothing_comparable(proof, what, "there are no elements to compare")


# -- two models -----------------------------------------------------------------------------------------------


def compared_models(
    context: ProofContext,
    outputs: Sequence[str],
    *,
    tolerance: Tolerance,
    around: str,
    ignored: Collection[str],
    judged: bool,
) -> Trial:
    """Returns the trial of two models.

    Args:
        context: the model as the original, and the other model as the edited graph. The intent pairs their names.
        outputs: tensors of the model to compare; empty: the outputs of both.
        tolerance: by how much floats may differ.
        around: the equation of the composed model, such as ``post(model(x))``; '' for the model itself.
        ignored: nodes of the composed model whose outputs are not compared.
        judged: whether a difference is an error; otherwise it is only reported.

    Raises:
        ValidationError: an input or output has no counterpart in the other model, or does not fit the counterpart.
    """
    change = context.change
    tensors = _tensors(context, outputs, ignored)
    inside = deciding(context, nodes_of(tensors)) if not outputs else []
    sampled = nodes_of(context.plan(ORIGINAL).sampled)
    plan = context.plan(
        ORIGINAL, [*tensors, *inside], not_sampled=(name for name in sampled if not context.has_after(name))
    )
    barred = context.barred(plan.fetches)
    plan.skipped += [Obstacle(reason, name=name) for name, reason in barred.items()]
    plan = plan.only({*(tensors if outputs else plan.fetches)} - barred.keys())
    trial = side_by_side(context, plan, SameOutputs(), {*inside} - {*nodes_of(tensors)})
    _pair_inputs(context, trial)
    trial.statement = f"{stem(change.after)}(x) == {around or f'{stem(change.before)}(x)'}"
    trial.tolerance, trial.judged, trial.varying_run = tolerance, judged, ORIGINAL if judged else None
    return trial


def _tensors(context: ProofContext, wanted: Sequence[str], ignored: Collection[str]) -> list[str]:
    """Returns the compared tensors by their names in the model; a node stands for all its outputs."""
    model, other = context.change.before, context.change.after
    for name in wanted:
        model.tensor(name)
        node = node_of(context.after(name.removesuffix(":0")))
        if node not in other:
            raise ValidationError(
                f"{context.change.called} has no {quoted(node)}.{near_miss(node, other.names())}",
                code="no-such-node",
                node=node,
                advice=HOW_TO_PAIR,
            )
    if wanted:
        return [name.removesuffix(":0") for name in wanted]
    intent = context.change.intent
    before = {node_of(new): old for old, new in (*intent.renamed.items(), *intent.moved.items())}
    mine = [node.name for node in output_nodes(model) if node.name not in ignored]
    partners = {node.name: before.get(node.name, node.name) for node in output_nodes(other)}
    lonely = [f"{context.change.name} returns {quoted(name)}" for name in mine if not context.has_after(name)]
    lonely += [f"{context.change.called} returns {quoted(name)}" for name, old in partners.items() if old not in model]
    if lonely:
        raise ValidationError(
            f"{len(lonely)} output{'s have' if len(lonely) > 1 else ' has'} no counterpart in the other model:",
            code="no-partner",
            count=len(lonely),
            details=first_lines(lonely, 20),
            advice=HOW_TO_PAIR,
        )
    return list(dict.fromkeys([*mine, *nodes_of(old for old in partners.values() if old in model)]))


def _pair_inputs(context: ProofContext, trial: Trial) -> None:
    """Makes both models of `trial` get the same inputs, in shapes that both accept.

    The user gives the values of inputs that only the other model has. Outputs that depend on random ops of only the
    other model are not compared.
    """
    model, other = trial.runs[0].subject, trial.runs[1]
    change = context.change
    fed = {context.after(spec.name): spec for spec in model.specs}
    variables = {context.after(variable.name) for variable in model.variables}
    outputs = [name for name in nodes_of(map(context.after, model.plan.fetches)) if name in change.after]
    sampled = {*nodes_of(map(context.after, model.plan.sampled))}
    own = [node for node in nodes_of(context.plan(EDITED, outputs).sampled) if node not in sampled]
    plan = context.plan(EDITED, outputs, not_sampled=own)  # the random ops of only the other model are not fed
    reasons = random_reasons(plan)
    extra: list[InputSpec] = []
    lonely: list[str] = []
    for name in [*plan.placeholders, *(name for name in plan.defaults if name in fed)]:
        spec = overridden(input_spec(change.after[name]), context.overrides)
        if name in fed:
            _fit(context, model, fed[name], spec)
        elif spec.given:
            extra.append(spec)
        else:
            lonely.append(name)
    if extra:
        model.fix_batch()  # values for inputs of only one model have a single batch size
    lonely += [name for name in plan.variables if name not in variables]
    if lonely:
        raise _unpaired(change.called, lonely, change.name)
    alone = {name for name in fed if name not in change.after}
    unfed = [spec.name for name, spec in fed.items() if name in alone and not spec.given]
    if unfed:
        raise _unpaired(change.name, unfed, change.called)
    other.subject.specs = extra
    other.fed = {name: source for name, source in other.fed.items() if node_of(name) not in alone}
    for pair in trial.pairs:
        pair.reason = reasons.get(pair.after, pair.reason)


def _unpaired(model: str, inputs: Sequence[str], other: str) -> ValidationError:
    return ValidationError(
        f"{model} has the inputs {', '.join(map(quoted, inputs[:8]))}, which {other} does not have",
        code="no-partner",
        inputs=list(inputs),
        advice="pair-or-feed",
    )


def _fit(context: ProofContext, model: Subject, mine: InputSpec, theirs: InputSpec) -> None:
    """Makes an input use shapes that the other model also accepts."""
    names = f"{quoted(mine.name)} of {context.change.name}", f"{quoted(theirs.name)} of {context.change.called}"
    if mine.dtype != theirs.dtype:
        raise ValidationError(
            f"{names[0]} is {dtypes.dtype_name(mine.dtype)}, but {names[1]} is {dtypes.dtype_name(theirs.dtype)}",
            code="dtype-mismatch",
            node=names[1],
            advice="put-in-front",
        )
    shapes = [s for s in mine.shapes if compatible(s, theirs.stated)]
    shapes = shapes or [s for s in theirs.shapes if compatible(s, mine.stated)]
    if not shapes:
        raise ValidationError(f"no shape fits both {names[0]} and {names[1]}", code="shape-mismatch", node=names[1])
    fitted = mine._replace(shapes=tuple(shapes), stated=merge(mine.stated, theirs.stated))
    model.specs = [fitted if spec is mine else spec for spec in model.specs]


def stem(graph: Graph) -> str:
    """Returns a short name for a graph, for equations."""
    return printable(os.path.splitext(os.path.basename(graph.source_name.rstrip("/")))[0]) or "model"
