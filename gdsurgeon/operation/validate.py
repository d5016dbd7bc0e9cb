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
from gdsurgeon.container.container import Container
from gdsurgeon.container.files import ALL, Wanted
from gdsurgeon.container.load import open_model, reads_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.parts import Mapped, add_postprocessing, add_preprocessing
from gdsurgeon.errors import (
    EditError,
    GdsurgeonError,
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
from gdsurgeon.operation.paths import check_replaces_nothing
from gdsurgeon.proof.change import Change, opened_again
from gdsurgeon.proof.cost import Coverage, Profile, coverage_of, profiles
from gdsurgeon.proof.differences import GraphDifference, listed_differences, run_apart, summed_up
from gdsurgeon.proof.divergence import Divergence, DivergenceSearch, Guilty, Reduced, reduced
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
from gdsurgeon.proof.trial import EDITED, ORIGINAL, Session, Trial, optimized_again
from gdsurgeon.runtime.compare import Statistics
from gdsurgeon.text import counted, first_lines
from gdsurgeon.values import Data
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


def check_request(request: ValidateRequest) -> None:
    """Raises UsageError if options contradict each other."""
    two, is_other = request.other is not None or bool(request.devices), request.other is not None
    sources = [path for path in (request.model, request.other, request.pre, request.post) if path is not None]
    if sources.count("-") > 1:
        raise UsageError("only one graph can be read from standard input", code="conflicting-options")
    recorded = two or request.golden is not None
    for name, is_there, needed in (
        ("first_divergence", two, "two models"),
        ("reduce", two, "two models"),
        ("names", is_other, "two models"),
        ("pre", is_other, "two models"),
        ("post", is_other, "two models"),
        ("pre_map", request.pre is not None, Line("{pre}")),
        ("post_map", request.post is not None, Line("{post}")),
        ("rtol", recorded, Line("two models, or {golden}")),
        ("atol", recorded, Line("two models, or {golden}")),
        ("strict", is_other, "two models"),
        ("lockstep", request.first_divergence or request.reduce is not None, Line("{first_divergence}")),
    ):
        value = getattr(request, name)
        is_given = (
            bool(value) if isinstance(value, Sequence) and not isinstance(value, str) else value not in (None, "")
        )
        if is_given and value is not False and not is_there:
            argument = named_argument(name)
            line = Line("{argument} needs {needed}", argument=argument, needed=needed)
            raise UsageError(line, code="missing-option", option=argument, expected=needed)
    for name in ("rtol", "atol"):
        tolerance = getattr(request, name)
        if tolerance is not None and not math.isfinite(tolerance):
            argument = named_argument(name)
            line = Line("{argument} {value}: a tolerance is a number", argument=argument, value=str(tolerance))
            raise UsageError(line, code="bad-value", option=argument)
    if request.devices and is_other:
        text = "with two devices, a model is compared with itself: give only one MODEL, or only one device"
        raise UsageError(text, code="conflicting-options", option="devices")
    if request.golden is not None and two:
        line = Line("{golden} compares only one model with recorded outputs")
        raise UsageError(line, code="conflicting-options", option="golden")
    idle = (request.golden, request.profile, request.save_outputs, request.save_feeds, request.outputs)
    if request.level != "run" and (two or any(idle)):
        text = "{level} {given} runs no graph, so nothing can be compared, measured or saved"
        raise UsageError(Line(text, given=request.level), code="conflicting-options", option="level")
    names = ("reduce", "save_outputs", "save_feeds")
    written = [(named_argument(name), path) for name in names if (path := getattr(request, name)) is not None]
    streams = [argument for argument, path in written if path in STANDARD_OUTPUT]
    streams += [Line("{as_json}")] * request.as_json
    if len(streams) > 1:
        line = Line("{names} cannot all be written to standard output", names=joined(" and ", streams))
        raise UsageError(line, code="conflicting-options")
    read = [*sources, *request.others, *((request.golden,) if request.golden is not None else ())]
    check_replaces_nothing(written, [path for path in read if path != "-"])


def carry_out(verdict: Verdict, progress: Progress = silent) -> None:
    """Carries out the request of `verdict`, which has the results also after an error.

    `progress` is called with every step.

    Raises:
        InputError: a graph cannot be read or is broken.
        ValidationError: it does not load or run, or the models differ (with a DiffersError).
        NotValidatedError: it cannot be carried out here, or nothing could be compared.
        UsageError: the request contradicts itself.
    """
    started = time.monotonic()
    check_request(verdict.request)
    try:
        executor = Executor(_settings(verdict.request))
        executor.progress = progress
        # Without loading, no process is started.
        with nullcontext() if verdict.request.level == "structure" else executor:
            _Validation(verdict, executor).run()
    finally:
        verdict.seconds = time.monotonic() - started


def _settings(request: ValidateRequest) -> Settings:
    """Returns the settings of the process, which runs on both devices; it sees GPUs if one device is a GPU."""
    paths = (request.model, request.other, request.pre, request.post)
    reads = tuple(read for path in paths if path is not None for read in reads_of(path, request.wanted))
    settings = request.settings._replace(reads=(*request.settings.reads, *reads))
    if not request.devices:
        return settings
    return settings._replace(device=next((d for d in request.devices if not is_cpu(d)), "cpu"))


class _Validation:
    """A validation in progress."""

    def __init__(self, verdict: Verdict, executor: Executor) -> None:
        self.verdict = verdict
        self.request = verdict.request
        self.executor = executor
        paths = {ORIGINAL: self.request.model, EDITED: self.request.other or self.request.model}
        executor.called |= {**paths, OPTIMIZED: f"{self.request.model}, optimised"}
        self.started = time.monotonic()
        self.models: dict[Graph | None, Container | None] = {}
        self.recording = Recording(self.request.save_feeds, self.request.save_outputs)
        # A path that cannot be written is refused now rather than after the work.
        self.piece_file = OutputFile(self.request.reduce) if self.request.reduce is not None else None
        for path in (self.request.save_feeds, self.request.save_outputs, self.request.reduce):
            if path is not None and OutputFile(path).is_terminal():
                text = "the binary result cannot be written to a terminal"
                raise UsageError(text, hint="give FILE, or use a pipe", code="is-a-terminal")

    def run(self) -> None:
        """Checks, loads and runs the models."""
        request = self.request
        self.model = self._sound(request.model)
        self.overrides = as_meant(request.overrides, self.model)
        self.outputs = [tensor_meant(self.model, name) for name in request.outputs]
        self.other = self._sound(request.other) if request.other is not None else None
        parts = [self._sound(path) if path is not None else None for path in (request.pre, request.post)]
        self.composed = self._with_parts(*parts) if any(parts) else self.model
        self._compare_surroundings()
        if request.level != "structure":
            self._load()
        if request.level == "run":
            self._run()
        self._check_surroundings()

    def _run(self) -> None:
        """Runs the models, and writes the recorded values."""
        request = self.request
        devices = [self.executor.check_device(device) for device in request.devices]
        self.device = " and ".join(devices) or self.executor.check_device()
        try:
            if self.other is not None or request.devices:
                self._compare()
            else:
                self._run_alone()
        except DiffersError:  # a verdict as well
            try:
                self.verdict.written += self.recording.write()
            except OutputError as error:  # it must not hide the failure
                self.verdict.warnings.append(error.message)
            raise
        self.verdict.written += self.recording.write()
        if self.verdict.proof is not None:
            self.verdict.proof.check_whole()

    # -- structure and loading ----------------------------------------------------------------------------------

    def _sound(self, path: str) -> Graph:
        self.executor.progress(Event("loading"))
        model = open_model(path, self.request.wanted)
        graph = model.graph
        self.models[graph] = model.container
        self.executor.progress(Event("checking"))
        findings = require_sound(graph)
        self.verdict.warnings += findings.warnings
        self.verdict.graphs.append(Checked(graph.source_name, graph.file_bytes, graph.node_count))
        return graph

    def _compare_surroundings(self) -> None:
        """Compares the records outside the graphs of two models."""
        other, (mine, theirs) = self.request.other, (self.models.get(graph) for graph in (self.model, self.other))
        if other is not None and mine is not None and theirs is not None:
            names = self._names_of_signatures()
            self.verdict.surroundings = compare_surroundings(mine, theirs, names, self.request.wanted.signatures)

    def _check_surroundings(self) -> None:
        """Raises ValidationError if clients of a loader would get different results; if strict, for any difference.

        If only parts of the models are compared, their signatures may differ.
        """
        found = self.verdict.surroundings
        is_part = self.request.outputs or self.request.pre or self.request.post
        served = [item for item in found if not is_part and changes_what_is_served(item)]
        wrong = served or (found if self.request.strict else [])
        if wrong:
            what = "the models have different signatures" if served else "the models differ outside their graphs"
            raise ValidationError(
                f"{what}, in {counted(len(wrong), 'place')}:",
                details=first_lines([item.text for item in wrong], MOST_DETAILS),
                code="differs",
                facts={"count": len(wrong), "places": [item.as_json() for item in wrong[:MOST_DETAILS]]},
            )

    def _names_of_signatures(self) -> dict[str, str]:
        """Returns the names in the other model of nodes of the model: the given names, and those from signatures.

        A label of a signature pairs its two tensors if neither name is in the other graph.
        """
        assert self.other is not None
        names = {old.partition(":")[0]: new.partition(":")[0] for old, new in self.request.names}
        mine, theirs = (graph.serving or Serving() for graph in (self.model, self.other))
        for key, served in mine.called.items():
            partner = theirs.called.get(key, Served({}, {}))
            sides = ((served.inputs, partner.inputs), (served.outputs, partner.outputs))
            for label, (one, two) in [(label, side) for side in sides for label in side[0]]:
                old, new = (tensors.get(label, "").partition(":")[0] for tensors in (one, two))
                if new and old not in self.other and new not in self.model:
                    names.setdefault(old, new)
        return names

    def _load(self, optimize: bool = False) -> None:
        """Loads the models, and waits for them."""
        devices: Sequence[str | None] = self.request.devices or (None, None)
        for (key, graph), device in zip(self._graphs(), devices, strict=False):
            self.executor.load_source(key, graph, device=device, optimize=optimize)
        self.executor.progress(Event("proving"))
        for key, graph in self._graphs():
            await_loaded(self.executor, key, f"TensorFlow does not load {printable(graph.source_name)}")
        self.verdict.loaded = self.executor.version()

    def _graphs(self) -> list[tuple[str, Graph]]:
        other = self.model if self.request.devices else self.other
        return [(ORIGINAL, self.composed), *([(EDITED, other)] if other is not None else [])]

    # -- running ------------------------------------------------------------------------------------------------

    def _try_out(
        self,
        trial: Trial,
        check: Callable[[Proof], None] | None = None,
        each: Callable[[Trial, int], None] | None = None,
    ) -> None:
        """Runs a trial, calls `each` after each sample, and checks the proof; the verdict also has a failed proof."""
        try:
            for sample in trial.each_sample():
                if each is not None:
                    each(trial, sample)
            if check is not None:
                check(trial.proof)
        except GdsurgeonError:
            self._note(trial.proof)
            raise
        self._note(trial.proof)

    def _note(self, proof: Proof) -> None:
        if proof.samples or proof.outputs:
            finish(proof, self.executor, self.device, self.started)
            self.verdict.warnings += [w for w in proof.warnings if w not in self.verdict.warnings]
            if proof.optimized:
                self.verdict.optimized = proof
            else:
                self.verdict.proof = proof

    def _run_alone(self) -> None:
        request, executor = self.request, self.executor
        golden = Golden()
        if request.golden is not None:
            recorded = load_archive(request.golden, "the recorded outputs")
            golden = Golden(printable(os.path.basename(request.golden)), recorded)
        if request.all_recorded and len(golden.samples) > executor.settings.samples:
            executor.settings = executor.settings._replace(samples=len(golden.samples))
        tolerance = request.rtol or 0.0, request.atol or 0.0
        trial = model_trial(executor, self.model, self.overrides, self.outputs, golden, *tolerance)
        self._try_out(trial, partial(check_compared, golden) if golden.samples else None, self._note_and_record)
        self._cover(trial)
        if request.grappler:
            executor.load_source(OPTIMIZED, self.model, optimize=True)
            trial = optimized_trial(trial, OPTIMIZED)
            self._try_out(trial)
        self._profile(trial)

    def _compare(self) -> None:
        session = Session(self.executor, self._change(), self.overrides)
        first = trial = self._comparison(session)
        try:
            self._try_out(trial, something_compared, self._record)
        except DiffersError:
            self._profile(trial)
            self._attribute(session, first)
            raise
        if self.request.pre is None:
            self._cover(trial)
        if self.request.grappler:
            self._load(optimize=True)  # with the shapes that ran before: kernels may crash with other shapes
            trial = optimized_again(trial)
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
            self._account(session, first)

    def _note_and_record(self, trial: Trial, sample: int) -> None:
        note_statistics(self.verdict.statistics, trial, sample)
        self._record(trial, sample)

    def _record(self, trial: Trial, sample: int) -> None:
        self.recording.note(self.executor, sample, trial.fed[ORIGINAL], trial.subject(ORIGINAL))

    def _account(self, session: Session, trial: Trial) -> None:
        """Finds differences of the graphs that no output has shown."""
        change = session.change
        found = compare_files(self.model, change.after, change.intent.renamed)
        differences = listed_differences(found)
        if self.request.pre is not None or self.request.post is not None:
            # The nodes of `pre` and `post` have no counterpart, and their consumers have different inputs.
            differences = [item for item in differences if item.node and not item.is_rewired]
        run_apart(self.executor, found, differences, trial.rtol, trial.atol)
        self.verdict.differences = differences
        unshown = list(summed_up(differences))
        if unshown and self.request.strict:
            raise ValidationError(
                f"the outputs agree, but the graphs have {counted(len(unshown), 'difference')} that no output shows:",
                details=first_lines(unshown, MOST_DETAILS),
                code="unshown-differences",
                facts={"count": len(unshown)},
            )

    def _profile(self, trial: Trial) -> None:
        """Measures the graphs in their current state."""
        if not self.request.profile:
            return
        self.executor.progress(Event("measuring"))
        names = [printable(name) for name in self.request.devices or [graph.source_name for _, graph in self._graphs()]]
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

    def _comparison(self, session: Session) -> Trial:
        request = self.request
        return compared_models(
            session,
            self.outputs,
            rtol=request.rtol or 0.0,
            atol=request.atol or 0.0,
            around=self._equation(),
            ignored=frozenset(self.composed.names()) - frozenset(self.model.names()),
            judged=not request.devices or request.rtol is not None or request.atol is not None,
        )

    def _change(self) -> Change:
        if self.other is None:
            return Change(self.model, self.model, EditResult(Intent()), f"{self.request.devices[1]}")
        intent = Intent()
        given = {old.partition(":")[0] for old, _ in self.request.names}
        intent.renamed |= {old: new for old, new in self._names_of_signatures().items() if old not in given}
        for old, new in self.request.names:
            mine = self.model.tensor(tensor_meant(self.model, old))
            theirs = self.other.tensor(tensor_meant(self.other, new))
            intent.moved[mine.name] = theirs.name
            partner = theirs.node.name
            if mine.index == theirs.index == 0 and intent.renamed.setdefault(mine.node.name, partner) != partner:
                line = Line("{names} pairs {node} with two nodes", node=quoted(mine.node.name))
                raise UsageError(line, code="given-twice", node=mine.node.name)
        return Change(self.composed, self.other, EditResult(intent), printable(self.other.source_name))

    def _equation(self) -> str:
        """Returns the right side of the equation that is checked, such as ``post(model(pre(x)))``."""
        inner = f"{stem(self.model)}({'pre(x)' if self.request.pre is not None else 'x'})"
        return f"post({inner})" if self.request.post is not None else inner

    def _with_parts(self, pre: Graph | None, post: Graph | None) -> Graph:
        """Returns the model with the graph `pre` before its inputs and the graph `post` after its outputs.

        Raises:
            ValidationError: one of them does not fit; the facts contain the ``argument`` that can name its tensors.
        """
        out = opened_again(self.model)
        argument = "pre_map"
        try:
            if pre is not None:
                add_preprocessing(out, pre, mapped=self.request.pre_map)
            argument = "post_map"
            if post is not None:
                add_postprocessing(out, post, mapped=self.request.post_map)
        except EditError as error:
            facts = {**error.facts, "argument": argument}
            raise ValidationError(error.message, advice=error.advice, facts=facts, hint=error.hint) from error
        composed = from_bytes(read_chunks(out.chunks()), self.model.source_name)
        composed.serving = serving_of(out)
        return composed

    # -- the cause of a difference ----------------------------------------------------------------------------------

    def _attribute(self, session: Session, trial: Trial) -> None:
        """Finds the cause of a difference in the graphs as written, because the optimizer merges nodes."""
        request, failure = self.request, trial.failure
        if not (request.first_divergence or request.reduce) or failure is None:
            return
        self.executor.progress(Event("searching"))
        search = DivergenceSearch(session, trial, failure)
        self.verdict.divergence = search.lockstep() if request.lockstep else search.first()
        if request.reduce is not None:
            self._reduce(search, self.verdict.divergence.guilty, request.reduce)

    def _reduce(self, search: DivergenceSearch, guilty: Sequence[Guilty], path: str) -> None:
        try:
            if not guilty:
                raise NotValidatedError(
                    "no single node causes the difference, so nothing was reduced", code="not-reduced"
                )
            piece = reduced(search, guilty[0])
        except NotValidatedError as error:
            self.verdict.warnings.append(error.message)
            return
        assert self.piece_file is not None
        with self.piece_file as output:
            data = to_text(piece.data) if is_text_name(path) else piece.data
            output.stage([data])
            output.publish()
        self.verdict.reduced = piece
        self.verdict.written.append(path)
