"""Validates a model, or compares two models: structure, loading, running, comparing."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gdsurgeon.analysis.checks.check import require_sound
from gdsurgeon.arguments import Pairs, StrPath, public
from gdsurgeon.compare.comparison import compare_files
from gdsurgeon.compare.intent import Intent
from gdsurgeon.compare.surroundings import Difference as Surrounding
from gdsurgeon.compare.surroundings import changes_what_is_served, compare_surroundings
from gdsurgeon.container.files import ALL, Wanted
from gdsurgeon.container.load import Model, open_model, reads_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.parts import Mapped, add_postprocessing, add_preprocessing
from gdsurgeon.errors import (
    EditError,
    Json,
    Line,
    NotValidatedError,
    OutputError,
    UsageError,
    ValidationError,
    joined,
    named_argument,
    printable,
    quoted,
)
from gdsurgeon.feeds.archive import load as load_archive
from gdsurgeon.feeds.given import as_meant
from gdsurgeon.feeds.overrides import Feeds, Overrides, Shapes, overrides_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.served import serving_of, tensor_meant
from gdsurgeon.graph.serving import Served, Serving
from gdsurgeon.operation.paths import check_replaces_nothing, check_takes_binary
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.cost import Coverage, Profile, coverage_of, profiles
from gdsurgeon.proof.differences import GraphDifference, listed_differences, run_apart, summed_up
from gdsurgeon.proof.divergence import Divergence, DivergenceSearch, Reduced, reduced
from gdsurgeon.proof.executor import Executor, Refused, await_loaded
from gdsurgeon.proof.models import (
    Golden,
    Recording,
    check_compared,
    compared_models,
    model_trial,
    note_statistics,
    optimized_trial,
    stem,
)
from gdsurgeon.proof.proof import DiffersError, Proof
from gdsurgeon.proof.prove import finish
from gdsurgeon.proof.same_outputs import something_compared
from gdsurgeon.proof.settings import Event, Progress, Settings, is_cpu, silent
from gdsurgeon.proof.trial import EDITED, ORIGINAL, ProofContext, Trial, optimized_again
from gdsurgeon.runtime.compare import Statistics
from gdsurgeon.text import counted, first_lines
from gdsurgeon.values import Data, Tolerance
from gdsurgeon.wire.output import STANDARD_OUTPUT, OutputFile
from gdsurgeon.wire.text import is_text_name, to_text
from gdsurgeon.wire.write import read_chunks

MOST_DETAILS = 100
OPTIMIZED = "optimised original"


@dataclass
class ValidateRequest:
    """The models and options of a validation; see `validate` for the options that are not listed here.

    Attributes:
        model: a path, or ``-`` for standard input.
        other: a model to compare it with, or None.
        pre_map, post_map: the tensors of `pre` and `post`, if names do not match.
        outputs: tensors of the model to compare; all outputs if empty.
        rtol, atol: how much floats may differ; None: not at all (of two devices: any difference is allowed).
        devices: two devices to run the model on and compare; otherwise it runs on the device of the settings.
        grappler: whether the graphs are also compared as TensorFlow's optimizer changes them in deployment.
        wanted: the part of the models.
        settings, overrides: how to run, on which feeds.
        all_recorded: run at least as many samples as were recorded.
        others: paths of other inputs.
        as_json: whether the verdict is written to standard output.
    """

    model: str
    other: str | None = None
    level: str = "run"
    names: Sequence[tuple[str, str]] = ()
    pre: str | None = None
    post: str | None = None
    pre_map: Sequence[Mapped] = ()
    post_map: Sequence[Mapped] = ()
    outputs: Sequence[str] = ()
    rtol: float | None = None
    atol: float | None = None
    devices: tuple[str, ...] = ()
    first_divergence: bool = False
    lockstep: bool = False
    reduce: str | None = None
    profile: bool = False
    save_outputs: str | None = None
    save_feeds: str | None = None
    golden: str | None = None
    grappler: bool = True
    strict: bool = False
    wanted: Wanted = ALL
    settings: Settings = field(default_factory=Settings)
    overrides: Overrides = field(default_factory=Overrides)
    all_recorded: bool = True
    others: tuple[str, ...] = ()
    as_json: bool = False

    @property
    def tolerance(self) -> Tolerance:
        """By how much floats may differ."""
        return Tolerance(self.rtol or 0.0, self.atol or 0.0)


@dataclass
class Checked:
    """A graph without structural faults."""

    name: str
    bytes: int
    nodes: int


@dataclass(eq=False, repr=False)
class Verdict(Data):
    """The results of a validation. They are filled in step by step, so after a failure the earlier results remain.

    Attributes:
        graphs: the graphs without structural faults: the model, the other model, PRE, POST.
        loaded: the runtime that loaded them; '' if they were not loaded.
        proof: the runs and comparisons of the graphs as written.
        statistics: of the outputs of a single model.
        optimized: the same with the graphs that TensorFlow has optimized, as in deployment.
        differences: between the graphs of the two models, if their outputs agree.
        surroundings: the differences outside the graphs of two models.
        coverage: the parts of the model that the feeds reached.
        profiles: by the name of the model or the device.
        divergence: the first nodes that differ.
        reduced: the part that was written.
        written: paths.
        warnings: one line each.
        seconds: wall time of the validation.
    """

    request: ValidateRequest
    graphs: list[Checked] = field(default_factory=list)
    loaded: str = ""
    proof: Proof | None = None
    statistics: dict[str, Statistics] = field(default_factory=dict)
    optimized: Proof | None = None
    differences: list[GraphDifference] = field(default_factory=list)
    surroundings: list[Surrounding] = field(default_factory=list)
    coverage: Coverage | None = None
    profiles: dict[str, Profile] = field(default_factory=dict)
    divergence: Divergence | None = None
    reduced: Reduced | None = None
    written: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0


@public
def validate(
    model: StrPath,
    other: StrPath | None = None,
    *,
    level: str = "run",
    names: Pairs[str, str] = (),
    pre: StrPath | None = None,
    post: StrPath | None = None,
    pre_map: Sequence[tuple[str, str, str]] = (),
    post_map: Sequence[tuple[str, str, str]] = (),
    outputs: Sequence[str] = (),
    rtol: float | None = None,
    atol: float | None = None,
    devices: Sequence[str] = (),
    first_divergence: bool = False,
    lockstep: bool = False,
    reduce: StrPath | None = None,
    profile: bool = False,
    save_outputs: StrPath | None = None,
    save_feeds: StrPath | None = None,
    golden: StrPath | None = None,
    grappler: bool = True,
    strict: bool = False,
    tags: Sequence[str] = (),
    signatures: Sequence[str] = (),
    checkpoint: StrPath = "",
    feeds: Feeds | None = None,
    archive: StrPath | None = None,
    shapes: Shapes | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> Verdict:
    """Validates the graph in the file `model`, or compares it with the graph in the file `other`.

    Args:
        model, other: paths.
        level: how far to go: ``structure``, ``load`` or ``run``.
        names: pairs (name in the model, name in the other one).
        pre, post: graphs that run before and after the model, for the comparison with the other one.
        pre_map, post_map: (name in the model, placeholder, result) of `pre` and `post`, if names do not match.
        outputs: the tensors of the model to compare; by default its outputs.
        rtol, atol: how much floats may differ, element by element; by default not at all.
        devices: two devices to run the model on and compare.
        first_divergence: find the first node that differs.
        lockstep: with that, feed both models the same tensors.
        reduce: where to write the smallest part that differs.
        profile: measure the runs, node by node.
        save_outputs, save_feeds: .npz files to write.
        golden: an .npz file with recorded outputs.
        grappler: also compare the graphs as TensorFlow's optimizer changes them.
        strict: fail if two models differ in a way that no output shows.
        tags, signatures, checkpoint: the part of a SavedModel or MetaGraph to use.
        feeds, archive, shapes, settings, progress: as for `operate`.

    Raises:
        GdsurgeonError: see `carry_out`.
    """
    given, names_of_fields = locals(), ValidateRequest.__dataclass_fields__
    options: dict[str, Any] = {name: value for name, value in given.items() if name in names_of_fields}
    options["settings"] = settings or Settings()
    wanted = Wanted(tuple(tags), tuple(signatures), os.fspath(checkpoint))
    verdict = Verdict(ValidateRequest(**options, wanted=wanted, overrides=overrides_of(feeds, archive, shapes)))
    carry_out(verdict, progress)
    return verdict


def carry_out(verdict: Verdict, progress: Progress = silent) -> None:
    """Carries out the request of `verdict`, which has the results also after an error.

    `progress` is called with every step.

    Raises:
        InputError: a graph cannot be read or is broken.
        ValidationError: it does not load or run, or the models differ (with a DiffersError).
        NotValidatedError: it cannot be carried out here, or nothing could be compared.
        UsageError: the request contradicts itself.
    """
    validation = _Validation(verdict, progress)
    try:
        # Without loading, no process is started.
        with nullcontext() if validation.level == "structure" else validation.executor:
            validation.run()
    finally:
        verdict.seconds = time.monotonic() - validation.started


class _Validation(ValidateRequest):
    """The validation of `verdict` in progress, with the options of its request.

    Raises:
        UsageError: options contradict each other, or a binary result would be written to a terminal.
        OutputError: a file cannot be written.
    """

    def __init__(self, verdict: Verdict, progress: Progress) -> None:
        vars(self).update(vars(verdict.request))
        self.verdict, self.started = verdict, time.monotonic()
        self.sources = [path for path in (self.model, self.other, self.pre, self.post) if path is not None]
        self._check_options()
        settings = self.settings.reading(read for path in self.sources for read in reads_of(path, self.wanted))
        if self.devices:  # the process runs on both devices; it sees GPUs if one device is a GPU
            settings = settings._replace(device=next((d for d in self.devices if not is_cpu(d)), "cpu"))
        self.executor = Executor(settings, progress)
        self.executor.called |= {ORIGINAL: self.model, EDITED: self.other or self.model}
        self.executor.called[OPTIMIZED] = f"{self.model}, optimised"
        self.recording = Recording(self.save_feeds, self.save_outputs)

    def _check_options(self) -> None:
        """Raises UsageError if options contradict each other, or OutputError if a file cannot be written."""
        two, is_other = self.other is not None or bool(self.devices), self.other is not None
        if self.sources.count("-") > 1:
            raise UsageError("only one graph can be read from standard input", code="conflicting-options")
        for names, is_there, needed in (
            ("first_divergence reduce", two, "two models"),
            ("names pre post strict", is_other, "two models"),
            ("pre_map", self.pre is not None, Line("{pre}")),
            ("post_map", self.post is not None, Line("{post}")),
            ("rtol atol", two or self.golden is not None, Line("two models, or {golden}")),
            ("lockstep", self.first_divergence or self.reduce is not None, Line("{first_divergence}")),
        ):
            for name in names.split():
                value = getattr(self, name)
                if (value or isinstance(value, float)) and not is_there:
                    line = Line("{argument} needs {needed}", argument=named_argument(name), needed=needed)
                    raise UsageError(line, code="missing-option", option=name, expected=needed)
        for name in ("rtol", "atol"):
            if not math.isfinite(getattr(self, name) or 0.0):
                line = Line("{argument} must be a finite number", argument=named_argument(name))
                raise UsageError(line, code="bad-value", option=name)
        if self.devices and is_other:
            text = "with two devices, a model is compared with itself: give only one MODEL, or only one device"
            raise UsageError(text, code="conflicting-options", option="devices")
        if self.golden is not None and two:
            line = Line("{golden} compares only one model with recorded outputs")
            raise UsageError(line, code="conflicting-options", option="golden")
        idle = (self.golden, self.profile, self.save_outputs, self.save_feeds, self.outputs)
        if self.level != "run" and (two or any(idle)):
            text = "{level} {given} runs no graph, so nothing can be compared, measured or saved"
            raise UsageError(Line(text, given=self.level), code="conflicting-options", option="level")
        paths = {"reduce": self.reduce, "save_outputs": self.save_outputs, "save_feeds": self.save_feeds}
        written = [(named_argument(name), path) for name, path in paths.items() if path is not None]
        streams = [argument for argument, path in written if path in STANDARD_OUTPUT]
        streams += [Line("{as_json}")] * self.as_json
        if len(streams) > 1:
            line = Line("{names} cannot all be written to standard output", names=joined(" and ", streams))
            raise UsageError(line, code="conflicting-options")
        read = [path for path in (*self.sources, *self.others, self.golden) if path and path != "-"]
        check_replaces_nothing(written, read)
        for _, path in written:  # a path that cannot be written is refused now rather than after the work
            check_takes_binary(OutputFile(path))

    def run(self) -> None:
        """Checks, loads and runs the models."""
        verdict = self.verdict
        self.graph, mine = self._sound(self.model)
        self.overrides = as_meant(self.overrides, self.graph)
        self.outputs = [tensor_meant(self.graph, name) for name in self.outputs]
        self.partner, theirs = self._sound(self.other) if self.other is not None else (self.graph, None)
        parts = [self._sound(path).graph if path is not None else None for path in (self.pre, self.post)]
        self.composed = self._with_parts(*parts) if any(parts) else self.graph
        self.graphs = {ORIGINAL: self.composed} | ({EDITED: self.partner} if self.other or self.devices else {})
        if mine is not None and theirs is not None:
            names = self._names_of_signatures()
            verdict.surroundings = compare_surroundings(mine, theirs, names, self.wanted.signatures)
        if self.level != "structure":
            self._load()
        if self.level == "run":
            devices = [self.executor.check_device(device) for device in self.devices]
            self.device = " and ".join(devices) or self.executor.check_device()
            try:
                self._run()
            except DiffersError:  # a verdict as well
                try:
                    verdict.written += self.recording.write()
                except OutputError as error:  # it must not hide the failure
                    verdict.warnings.append(error.message)
                raise
            verdict.written += self.recording.write()
            if verdict.proof is not None:
                verdict.proof.check_whole()
        # If only parts of the models are compared, their signatures may differ.
        is_part = self.outputs or self.pre or self.post
        served = [item for item in verdict.surroundings if not is_part and changes_what_is_served(item)]
        if found := served or (verdict.surroundings if self.strict else []):
            what = "have different signatures" if served else "differ outside their graphs"
            line = f"the models {what}, in {counted(len(found), 'place')}:"
            raise _differs(line, [item.text for item in found], places=found)

    # -- structure and loading ----------------------------------------------------------------------------------

    def _sound(self, path: str) -> Model:
        self.executor.progress(Event("loading"))
        model = open_model(path, self.wanted)
        self.executor.progress(Event("checking"))
        self.verdict.warnings += require_sound(model.graph).warnings
        self.verdict.graphs.append(Checked(model.graph.source_name, model.graph.file_bytes, model.graph.node_count))
        return model

    def _names_of_signatures(self) -> dict[str, str]:
        """Returns the names in the other model of nodes of the model: the given names, and those from signatures.

        A label of a signature pairs its two tensors if neither name is in the other graph.
        """
        names = {old.partition(":")[0]: new.partition(":")[0] for old, new in self.names}
        mine, theirs = (graph.serving or Serving() for graph in (self.graph, self.partner))
        for key, served in mine.called.items():
            partner = theirs.called.get(key, Served({}, {}))
            for one, two in ((served.inputs, partner.inputs), (served.outputs, partner.outputs)):
                for label in filter(two.__contains__, one):
                    old, new = (tensors[label].partition(":")[0] for tensors in (one, two))
                    if old not in self.partner and new not in self.graph:
                        names.setdefault(old, new)
        return names

    def _load(self, optimize: bool = False) -> None:
        """Loads the models, and waits for them."""
        devices: Sequence[str | None] = self.devices or (None, None)
        for (key, graph), device in zip(self.graphs.items(), devices, strict=False):
            self.executor.load_graph(key, graph, device=device, optimize=optimize)
        self.executor.progress(Event("proving"))
        for key, graph in self.graphs.items():
            await_loaded(self.executor, key, printable(graph.source_name))
        self.verdict.loaded = self.executor.version()

    # -- running ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Runs the models as written and then optimized, and compares and measures them."""
        executor, two, golden = self.executor, len(self.graphs) > 1, Golden()
        self.context = ProofContext(executor, self._change(), self.overrides)
        if two:
            inner = f"{stem(self.graph)}({'pre(x)' if self.pre is not None else 'x'})"
            first = compared_models(
                self.context,
                self.outputs,
                tolerance=self.tolerance,
                around=f"post({inner})" if self.post is not None else inner,
                ignored=frozenset(self.composed.names()) - frozenset(self.graph.names()),
                judged=not self.devices or self.rtol is not None or self.atol is not None,
            )
        else:
            if self.golden is not None:
                recorded = load_archive(self.golden, "the recorded outputs")
                golden = Golden(printable(os.path.basename(self.golden)), recorded)
            if self.all_recorded and len(golden.samples) > executor.settings.samples:
                executor.settings = executor.settings._replace(samples=len(golden.samples))
            first = model_trial(executor, self.graph, self.overrides, self.outputs, golden, self.tolerance)
        check = something_compared if two else partial(check_compared, golden) if golden.samples else None
        try:
            self._try_out(first, check)
        except DiffersError:
            if two:
                self._profile(first)
                self._attribute(first)
            raise
        if self.pre is None:
            self._cover(first)
        trial = first
        if self.grappler and not two:
            executor.load_graph(OPTIMIZED, self.graph, optimize=True)
            trial = optimized_trial(first, OPTIMIZED)
            self._try_out(trial)
        elif self.grappler:
            self._load(optimize=True)  # with the shapes that ran before: kernels may crash with other shapes
            trial = optimized_again(first)
            try:
                self._try_out(trial, something_compared)
            except DiffersError as differs:
                differs.message += (
                    "; without TensorFlow's optimizer they are equal, so the optimizer causes the difference"
                )
                differs.advice = ("allow-difference",)
                raise
        self._profile(trial)
        if self.other is not None:
            self._account(first)

    def _try_out(self, trial: Trial, check: Callable[[Proof], None] | None = None) -> None:
        """Runs a trial and checks the proof; the verdict also has a failed proof. A run as written is recorded."""
        verdict = self.verdict
        try:
            for sample in trial.each_sample():
                if trial.optimized:
                    continue
                if len(self.graphs) == 1:
                    note_statistics(verdict.statistics, trial, sample)
                self.recording.note(sample, trial)
            if check is not None:
                check(trial.proof)
        finally:
            proof = trial.proof
            if proof.samples or proof.outputs:
                finish(proof, self.executor, self.device, self.started)
                verdict.warnings += [w for w in proof.warnings if w not in verdict.warnings]
                if trial.optimized:
                    verdict.optimized = proof
                else:
                    verdict.proof = proof

    def _account(self, trial: Trial) -> None:
        """Finds differences of the graphs that no output has shown."""
        found = compare_files(self.graph, self.partner, self.context.change.intent.renamed)
        differences = listed_differences(found)
        if self.pre is not None or self.post is not None:
            # The nodes of `pre` and `post` have no counterpart, and their consumers have different inputs.
            differences = [item for item in differences if item.node and not item.is_rewired]
        run_apart(self.executor, found, differences, trial.tolerance)
        self.verdict.differences = differences
        unshown = list(summed_up(differences))
        if unshown and self.strict:
            count = counted(len(unshown), "difference")
            what = f"the outputs agree, but the graphs have {count} that no output shows:"
            raise _differs(what, unshown, "unshown-differences")

    def _profile(self, trial: Trial) -> None:
        """Measures the graphs in their current state."""
        if not self.profile:
            return
        self.executor.progress(Event("measuring"))
        names = [printable(name) for name in self.devices or [graph.source_name for graph in self.graphs.values()]]
        if len(names) > 1 and names[0] == names[1]:
            names[1] += " (other)"
        runs = (ORIGINAL, EDITED) if len(names) > 1 else (trial.lead,)
        try:
            found = profiles(trial, runs)
        except Refused as refused:
            text = f"the model does not run a second time, which measuring requires: {printable(refused.text)}"
            raise ValidationError(text, code="does-not-run", reason=refused.text) from refused
        self.verdict.profiles = dict(zip(names, found, strict=True))

    def _cover(self, trial: Trial) -> None:
        """Measures which parts of the model the feeds reached."""
        self.executor.progress(Event("searching"))
        try:
            self.verdict.coverage = coverage_of(self.executor, self.composed, trial.fed.get(ORIGINAL, {}))
        except Refused as refused:
            self.verdict.warnings.append(f"the coverage of the feeds is unknown: {printable(refused.text)}")

    # -- two models ---------------------------------------------------------------------------------------------

    def _change(self) -> Change:
        if self.other is None:
            return Change(self.graph, self.graph, EditResult(Intent()), "".join(self.devices[1:]))
        intent = Intent()
        given = {old.partition(":")[0] for old, _ in self.names}
        intent.renamed |= {old: new for old, new in self._names_of_signatures().items() if old not in given}
        for old, new in self.names:
            mine = self.graph.tensor(tensor_meant(self.graph, old))
            theirs = self.partner.tensor(tensor_meant(self.partner, new))
            intent.moved[mine.name] = theirs.name
            partner = theirs.node.name
            if mine.index == theirs.index == 0 and intent.renamed.setdefault(mine.node.name, partner) != partner:
                line = Line("{names} pairs {node} with two nodes", node=quoted(mine.node.name))
                raise UsageError(line, code="given-twice", node=mine.node.name)
        return Change(self.composed, self.partner, EditResult(intent), printable(self.partner.source_name))

    def _with_parts(self, pre: Graph | None, post: Graph | None) -> Graph:
        """Returns the model with the graph `pre` before its inputs and the graph `post` after its outputs.

        Raises:
            ValidationError: one of them does not fit; the facts contain the ``argument`` that can name its tensors.
        """
        out, argument = self.graph.copy(), "pre_map"
        try:
            if pre is not None:
                add_preprocessing(out, pre, mapped=self.pre_map)
            argument = "post_map"
            if post is not None:
                add_postprocessing(out, post, mapped=self.post_map)
        except EditError as error:
            facts = {**error.facts, "argument": argument}
            raise ValidationError(error.message, advice=error.advice, facts=facts, hint=error.hint) from error
        composed = from_bytes(read_chunks(out.chunks()), self.graph.source_name)
        composed.serving = serving_of(out)
        return composed

    # -- the cause of a difference ----------------------------------------------------------------------------------

    def _attribute(self, trial: Trial) -> None:
        """Finds the cause of a difference in the graphs as written, because the optimizer merges nodes."""
        failure, verdict, path = trial.failure, self.verdict, self.reduce
        if not (self.first_divergence or path) or failure is None:
            return
        self.executor.progress(Event("searching"))
        search = DivergenceSearch(self.context, trial, failure)
        verdict.divergence = search.lockstep() if self.lockstep else search.first()
        guilty = verdict.divergence.guilty
        if path is None:
            return
        if not guilty:
            verdict.warnings.append("no single node causes the difference, so nothing was reduced")
            return
        try:
            piece = reduced(search, guilty[0])
        except NotValidatedError as error:
            verdict.warnings.append(error.message)
            return
        with OutputFile(path) as output:
            output.stage([to_text(piece.data) if is_text_name(path) else piece.data])
            output.publish()
        verdict.reduced = piece
        verdict.written.append(path)


def _differs(
    message: str, lines: Sequence[str], code: str = "differs", places: Sequence[Surrounding] = ()
) -> ValidationError:
    """Returns the error for differences, one line each; `places` are outside the graphs."""
    facts: dict[str, Json] = {"count": len(lines)}
    if places:
        facts["places"] = [item.as_json() for item in places[:MOST_DETAILS]]
    return ValidationError(message, details=first_lines(lines, MOST_DETAILS), code=code, facts=facts)
