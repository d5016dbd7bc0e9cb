"""The whole operation: load, edit, check, prove, publish. An output appears only after all checks have passed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.files import ALL, CHECKPOINT, Wanted, saved_model_at
from gdsurgeon.container.load import Model, meta_of, model_folder, open_model, reads_of
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.errors import GdsurgeonError, Line, NothingToDo, UsageError, joined, printable, quoted
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import uniquely_named
from gdsurgeon.operation.forms import Form, FormName
from gdsurgeon.operation.paths import (
    back_up,
    backup_path,
    check_agree,
    check_outside,
    check_replaces_nothing,
    check_takes_binary,
    lock_of,
    output_path,
)
from gdsurgeon.operation.sequence import Carried, Edit, Instruction, carry_out, form_of, is_undone, together, with_keys
from gdsurgeon.proof.change import Step
from gdsurgeon.proof.proof import DiffersError, Proof
from gdsurgeon.proof.settings import Event, Progress, Settings, silent
from gdsurgeon.text import size
from gdsurgeon.values import Data
from gdsurgeon.wire.output import STANDARD_OUTPUT, Earlier, Output, OutputFile
from gdsurgeon.wire.source import STANDARD_INPUT
from gdsurgeon.wire.text import is_text_name
from gdsurgeon.wire.write import size_of

if TYPE_CHECKING:
    from gdsurgeon.analysis.queries.signature import Signature
    from gdsurgeon.container.copied_checkpoint import CopiedCheckpoint
    from gdsurgeon.operation.proving import Proving
    from gdsurgeon.runtime.evaluator import Evaluator

LEVELS = ("none", "structure", "load", "run")
_BECOMES = {"model": ".edited{suffix}", "graph": ".frozen.pb", "saved_model": ".saved_model", "slim": ".slim"}
"""Replaces the suffix of the model's name for each form of the output, if no output is named."""


@dataclass(eq=False, repr=False)
class Request(Data):
    """The model, the output, and the level of the proof.

    Attributes:
        model: a path, or ``-`` for standard input.
        out: a path, ``-`` for standard output, or None for the default.
        in_place: replace the model.
        backup: with `in_place`, the suffix under which the old file is kept.
        dry_run: do everything except writing.
        level: one of `LEVELS`.
        text: whether the output is text; None: as the input, unless the suffix of the output decides.
        others: paths of all other inputs: further graphs, files of names, feeds, libraries.
        report: where a report will be written.
        functions: library functions that are edited instead of the graph.
        require_change: fail if nothing would change; otherwise the graph is written unchanged.
        changes_values: whether the edit changes values on purpose; see `Instruction`.
        wanted: the part of the model.
        form: of the output: the ``model`` that was read, with its graph edited; only its ``graph``; a new
            ``saved_model`` around it; or a ``slim`` SavedModel with only its needed parts.
        as_v1: whether a SavedModel is written without the objects of TensorFlow 2.
        v2_check: whether tf.saved_model.load must also load the result if the model changed.
        prove_each: prove each of several edits separately.
        run_in: a wheel of a different release, or a folder with one, which must also run the result.
        target: the release for which the result is meant; '' for any.
        repairs: allow a broken model, which the edit repairs.
        tolerates: the code of faults that the model may have, because the edit repairs them.
        settings, overrides: how to run, on which feeds.
        evaluator: computes constants for the edit, in TensorFlow's process of the proof.
    """

    model: str
    out: str | None = None
    in_place: bool = False
    backup: str | None = None
    dry_run: bool = False
    level: str = "run"
    text: bool | None = None
    others: tuple[str, ...] = ()
    report: str | None = None
    functions: tuple[str, ...] = ()
    require_change: bool = False
    changes_values: bool = False
    wanted: Wanted = ALL
    form: FormName = "model"
    as_v1: bool = False
    v2_check: bool = True
    run_in: str = ""
    target: str = ""
    settings: Settings = field(default_factory=Settings)
    overrides: Overrides = field(default_factory=Overrides)
    prove_each: bool = False
    repairs: bool = False
    tolerates: str = ""
    evaluator: Evaluator | None = None

    def instruction(self, edit: Edit, called: str = "") -> Instruction:
        """Returns an instruction with the options of this request; `called` is its name in messages."""
        return Instruction(edit, called, self.functions, self.require_change, self.changes_values)


@dataclass(eq=False, repr=False)
class Counts(Data):
    """The number of nodes, and the number of each op if it is known."""

    nodes: int
    ops: dict[str, int] | None


@dataclass(eq=False, repr=False)
class Outcome(Data):
    """The result of an operation.

    `steps` are the edits; `result` combines them. `before` and `after` are None if the structure was not read. `idle`
    is the reason why nothing would change, or ''. `has_appeared` returns whether the output exists. `is_repaired` is
    whether the graph was repaired although no edit changed it.
    """

    request: Request
    out: str
    size: int
    result: EditResult
    proof: Proof
    counts_before: Counts
    counts_after: Counts
    before: Signature | None
    after: Signature | None
    warnings: list[str]
    seconds: float
    idle: str = ""
    steps: Sequence[Step] = ()
    has_appeared: Callable[[], bool] = lambda: False
    is_repaired: bool = False

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "has_appeared": partial(bool, self.has_appeared())}  # a copy needs no open file

    def __repr__(self) -> str:
        done = self.idle or repr(self.result)
        return f"<Outcome {quoted(self.out)}, {size(self.size)}: {done}, {self.proof!r}>"


def operate(
    request: Request,
    edits: Edit | Sequence[Instruction],
    *,
    before_publishing: Callable[[Outcome], None] = lambda _: None,
    on_difference: Callable[[Outcome, DiffersError], None] = lambda *_: None,
    progress: Progress = silent,
) -> Outcome:
    """Edits the model and publishes the result, after the proof that the request asks for.

    Args:
        request: the model, the output and the level of the proof.
        edits: called with the graph, once; or several, at least one, each for the result of the previous one.
        before_publishing: called with the outcome after the proof and before publishing; if it raises, no output
            appears.
        on_difference: called with the outcome if the result differs from the claims of the edit. No output appears
            then, and the error is raised.
        progress: called with every step.

    Raises:
        GdsurgeonError: of any kind; the input and an earlier output are unchanged, and no staged file is left.
    """
    model, out = locate(request)
    with ExitStack() as stack:
        operation = _Operation(replace(request, model=model), stack, progress)
        operation.load(out)
        operation.edit([request.instruction(edits)] if callable(edits) else edits)
        operation.check()
        try:
            operation.prove()
        except DiffersError as error:
            on_difference(operation.outcome, error)
            raise
        operation.publish(before_publishing)
        return operation.outcome


def locate(request: Request) -> tuple[str, str]:
    """Returns the paths of the model, which is the folder of a SavedModel or a file, and of the output.

    Raises UsageError if an output would replace an input or another output.
    """
    check_agree(request.out, in_place=request.in_place, backup=request.backup)
    model = saved_model_at(request.model) or meta_of(request.model)
    if request.in_place and model in STANDARD_INPUT:
        line = Line("standard input cannot be replaced; {in_place} needs a file")
        raise UsageError(line, code="bad-value", option="in_place")
    becomes = _BECOMES[request.form]
    out = model if request.in_place else output_path(model, request.out, dry_run=request.dry_run, becomes=becomes)
    report, others = request.report, request.others
    backup = [backup_path(model, request.backup)] if request.backup else []
    for written in (("the output", out), *(("the backup", path) for path in backup)):
        check_replaces_nothing([written], others)
    if report is not None:
        if report in STANDARD_OUTPUT and out in STANDARD_OUTPUT:
            line = Line("the graph and the {report} cannot both be written to standard output")
            raise UsageError(line, code="conflicting-options", option="report")
        named = [path for path in (model, out, *others, *backup) if path not in STANDARD_OUTPUT]
        check_replaces_nothing([(Line("{report}"), report)], named, option="report")
    return model, out


class _Operation:
    """An operation in progress; its steps are called in the order of the methods.

    Args:
        request: with the path of the model.
        stack: holds the lock, the processes and the outputs.
        progress: called with every step.
    """

    outcome: Outcome
    form: Form
    carried: Carried
    output: Output

    def __init__(self, request: Request, stack: ExitStack, progress: Progress) -> None:
        self.request, self.stack, self.progress = request, stack, progress
        self.started = time.monotonic()
        self.proving: Proving | None = None
        self.staging: Output | None = None
        self.warnings: Sequence[str] = ()
        self.before: Signature | None = None
        self.counts: Counts | None = None  # before the edits

    def load(self, out: str) -> None:
        """Opens the output `out` and the model, begins to load the model in TensorFlow, and checks the structure."""
        request, enter = self.request, self.stack.enter_context
        is_replaced = request.in_place and not request.dry_run
        is_there = is_replaced and (saved_model_at(request.model) or os.path.isfile(request.model))
        state = enter(lock_of(request.model, self.progress)).state if is_there else None
        if request.level in ("load", "run"):
            from gdsurgeon.operation.proving import Proving

            settings = request.settings.reading(reads_of(request.model, request.wanted))
            self.proving = enter(Proving(settings, request.overrides, request.level, self.progress))
        # TensorFlow loads while the program waits for standard input, which determines the kind of output.
        self.output = enter(_open_output(request, out))
        self.output.replaces = state
        self.progress(Event("loading"))
        self.model = model = open_model(request.model, request.wanted)
        self.output.files = model.container.files if model.container is not None else None
        if request.repairs:
            self.model = model = model._replace(graph=uniquely_named(model.graph))
        model.graph.keeps_journal = False  # after an error, the graph is not used again
        self.text = _is_text(request, model, self.output)
        if not request.dry_run and not self.text:
            check_takes_binary(self.output)
        if self.proving is not None:
            self.proving.begin(model.graph)
            if request.evaluator is not None:
                self.proving.executor.lend(request.evaluator)
        self.progress(Event("checking"))
        if request.level == "none" or request.repairs:
            return
        from gdsurgeon.analysis.checks.check import apply_repairs, require_sound

        findings = require_sound(model.graph, request.tolerates)
        self.warnings = findings.warnings
        self.before, self.counts = _seen(model.graph.pristine())
        if apply_repairs(model.graph, findings) and self.proving is not None:
            # TensorFlow refuses the file as it is: the result is compared with the repaired graph.
            self.proving.begin(model.graph, repaired=True)

    def edit(self, instructions: Sequence[Instruction]) -> None:
        """Applies the edits."""
        self.progress(Event("editing"))
        self.carried = carried = carry_out(self.model, instructions, self.output, check=self.request.level != "none")
        if carried.form != self.request.form == "model":  # an edit of several has changed the form
            self.request = replace(self.request, form=carried.form)
            earlier = self.output
            self.output = self.stack.enter_context(_open_output(self.request, locate(self.request)[1]))
            self.output.files, self.output.replaces = earlier.files, earlier.replaces
            self.text = _is_text(self.request, self.model, self.output)

    def check(self) -> None:
        """Serializes the result in memory, which checks its records, and makes the outcome without a proof."""
        request, carried, output = self.request, self.carried, self.output
        graph, idle = carried.model.graph, joined("; ", carried.idle) if not carried.steps else ""
        unchanged = EditResult(Intent(), (SameOutputs(even_alone=True),))
        self.steps = carried.steps or [Step(graph.pristine(), graph, unchanged)]
        is_same = bool(idle) and not graph.is_changed and not request.run_in
        if is_same:
            self.proving = None
        after, counts = _seen(graph, always=self.before is not None)
        self.form = form = form_of(
            carried.model, self.steps[-1].result, output, request.form, as_v1=request.as_v1, text=self.text
        )
        form.served = with_keys(carried.served, form.served)
        result = together(self.steps, carried.idle if carried.steps else ())
        if request.form in ("model", "graph") and is_undone(carried, self.model, form):
            if request.require_change:
                raise NothingToDo("nothing would change: the edits cancel each other")
            result.notes.append("the edits cancel each other: the result equals MODEL")
        self.outcome = Outcome(
            request,
            output.name,
            size_of(form.chunks),
            result,
            Proof("unchanged" if is_same else request.level),
            # Asked for after the edit, which may find its nodes without an index of the file.
            self.counts or Counts(self.model.graph.store.layout.node_count, None),
            counts,
            self.before,
            after,
            [*self.warnings, *result.warnings],
            0.0,
            idle,
            carried.steps,
            lambda: output.has_appeared,
            is_repaired=bool(idle) and graph.is_changed,
        )

    def prove(self) -> None:
        """Stages the result, compares it with the expected model, and proves it.

        Without a proof, a stream and the result of a dry run are not staged.
        """
        request, form, output, graph = self.request, self.form, self.output, self.carried.model.graph
        if self.proving is None and self.outcome.proof.level not in ("none", "unchanged"):
            from gdsurgeon.proof.accounting import check_accounted

            check_accounted(graph, self.steps[-1].result, form.graph)
        is_streamed = output.is_stream and not (graph.serving is not None and graph.serving.adds_keys)
        if self.proving is None and (request.dry_run or is_streamed):
            return
        self.progress(Event("staging"))
        checkpoint = self.stack.enter_context(checkpoint_of(graph))
        if not request.dry_run:
            place = output if checkpoint is None else checkpoint.output_with(output, in_place=request.in_place)
        elif self._is_unfrozen:
            from gdsurgeon.container.output import OutputTar
            from gdsurgeon.edits.to_savedmodel import bundle_of

            place = OutputTar("")
            place.further_files = bundle_of(graph)
        else:
            place = OutputFile("-")
        self.staging = self.stack.enter_context(place)
        staged = place.stage(form.chunks)
        graph.source.check_unchanged()
        if not request.dry_run:
            if checkpoint is not None:
                checkpoint.check(os.path.dirname(staged))
            form.check(staged)
        if self.proving is None:
            return
        outcome = self.outcome
        try:
            outcome.proof = self._proof(staged, checkpoint)
        except GdsurgeonError as error:
            there = _release_warnings(str(error.facts.get("released", "")), request.target)
            error.warnings = (*outcome.warnings, *there)
            if isinstance(error, DiffersError):
                outcome.proof, outcome.seconds = error.proof, time.monotonic() - self.started
                outcome.warnings += error.proof.warnings
            raise

    @property
    def _is_unfrozen(self) -> bool:
        """Whether the graph has variables whose checkpoint is written with it."""
        serving = self.carried.model.graph.serving
        has_values = serving is not None and serving.saver is not None and not serving.checkpoint
        return self.request.form == "saved_model" and has_values

    def _proof(self, staged: str, checkpoint: CopiedCheckpoint | None) -> Proof:
        """Proves the staged result: by runs here, by tf.saved_model.load, and in a different release."""
        request, form, model, proving = self.request, self.form, self.carried.model, self.proving
        graph, folder = model.graph, os.path.dirname(staged)
        assert proving is not None
        if checkpoint is not None:
            proving.restart(checkpoint.for_proof())
        elif self._is_unfrozen:
            assert graph.serving is not None
            graph.serving = graph.serving._replace(checkpoint=os.path.join(folder, CHECKPOINT))
            proving.restart(folder)
        if form.served is not None and request.v2_check and not request.dry_run:
            from gdsurgeon.proof.served import Folders

            tags = model.container.meta.tags if model.container is not None else ()
            proving.begin_serving(Folders(model_folder(request.model), folder, tuple(sorted(tags))))
        path = staged if form.chunks is form.graph else ""
        proof = proving.prove(self.steps, form.graph, path, each=request.prove_each)
        if form.served is not None:
            proof.served = proving.check_served(form.served)
            if request.v2_check and request.dry_run:
                proof.served += " in a dry run: there is no folder to load"
        if request.run_in:
            version, proof.released = proving.check_released(request.run_in)
            proof.warnings += _release_warnings(version, request.target)
        return proof

    def publish(self, before_publishing: Callable[[Outcome], None]) -> None:
        """Makes the result appear with its backup and report, or none of them."""
        request, outcome, output = self.request, self.outcome, self.staging or self.output
        with ExitStack() as stack:
            back_up(request.model, request.backup if not request.dry_run else None, output, stack)
            stack.enter_context(Earlier(request.report, output)).keep()
            self.progress(Event("publishing"))
            outcome.warnings += outcome.proof.warnings
            outcome.seconds = time.monotonic() - self.started
            before_publishing(outcome)
            if request.dry_run:
                return
            if self.staging is not None:
                output.publish()
                return
            output.stream(self.form.chunks)
            self.carried.model.graph.source.check_unchanged()


def _open_output(request: Request, out: str) -> Output:
    """Returns the output: a file, a folder for a SavedModel, or a tar stream of it."""
    folder = model_folder(request.model)
    is_new = request.form in ("saved_model", "slim")
    if request.in_place and request.form != "model" and not (folder and request.form == "slim"):
        line = Line("{in_place} cannot replace MODEL by a file of a different kind; name the output with {out}")
        raise UsageError(line, code="conflicting-options")
    written = (request.report, backup_path(folder, request.backup or ".")) if request.in_place and folder else ()
    for path in (out, *filter(None, written)):
        check_outside(path, folder)
    if request.form == "graph" or not (folder or is_new):
        return OutputFile(out)
    kept = folder if request.form == "model" else ""
    from gdsurgeon.container.output import OutputFolder, OutputTar

    if out in STANDARD_OUTPUT:
        return OutputTar(kept)
    return OutputFolder(folder if request.in_place else out, kept)


def _is_text(request: Request, model: Model, output: Output) -> bool:
    """Returns whether the output is a GraphDef as text."""
    if request.form != "graph" and (request.form != "model" or model.container is not None):
        return False
    was_text = model.graph.text is not None
    if request.text is not None:
        return request.text
    return is_text_name(request.out or "", was_text) if not output.is_stream else was_text


def _seen(graph: Graph, *, always: bool = False) -> tuple[Signature | None, Counts]:
    """Returns the signature and the counts; only the number of nodes if a large file would have to be indexed."""
    if not always and not graph.store.has_table:
        return None, Counts(graph.node_count, None)
    from gdsurgeon.analysis.queries.signature import signature
    from gdsurgeon.analysis.queries.usage import op_counts

    return signature(graph), Counts(graph.node_count, op_counts(graph))


def checkpoint_of(graph: Graph) -> AbstractContextManager[CopiedCheckpoint | None]:
    """Returns the new checkpoint for copied variables; without copies, None."""
    if graph.serving is None or not graph.serving.adds_keys:
        return nullcontext()
    from gdsurgeon.container.copied_checkpoint import CopiedCheckpoint

    return CopiedCheckpoint(graph)


def _release_warnings(version: str, target: str) -> list[str]:
    """Returns a warning if a result for the release `target` ran in the release `version` instead."""
    if not target or not version or version.split(".")[:2] == target.split(".")[:2]:
        return []
    line = (
        "{run_in} is TensorFlow {version}, but {target} is {wanted}; whether the target runs the graph was not tested"
    )
    return [Line(line, version=printable(version), wanted=printable(target))]
