"""The whole operation: load, check, edit, stage, prove, publish. Nothing appears that was not proven."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from gdsurgeon.comparison.intent import Intent
from gdsurgeon.container.files import saved_model_at
from gdsurgeon.container.load import Model, meta_of, model_folder, open_model, reads_of
from gdsurgeon.container.wanted import ALL, Wanted
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.errors import (
    GdsurgeonError,
    Line,
    NothingToDo,
    UsageError,
    ValidationError,
    quoted,
)
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation.paths import backed_up, check_apart, check_outside, check_takes_binary, output_path
from gdsurgeon.operation.written import Form, written
from gdsurgeon.proof.progress import Event, Progress, silent
from gdsurgeon.proof.proof import DiffersError, Proof
from gdsurgeon.proof.settings import Settings
from gdsurgeon.values import Data
from gdsurgeon.wire.output import STANDARD_OUTPUT, Earlier, Output, OutputFile
from gdsurgeon.wire.source import STANDARD_INPUT
from gdsurgeon.wire.text import is_text_name
from gdsurgeon.wire.write import Chunk, size_of

if TYPE_CHECKING:
    from gdsurgeon.analysis.queries.signature import Signature
    from gdsurgeon.operation.copied_checkpoint import CopiedCheckpoint
    from gdsurgeon.operation.proving import Proving

LEVELS = ("none", "structure", "load", "run")

Edit = Callable[[Graph], EditResult]


@dataclass(eq=False, repr=False)
class Request(Data):
    """What to operate on, where to put the result, and how far to go in proving it.

    Attributes:
        model: a path, or ``-`` for standard input.
        out: a path, ``-`` for standard output, or None for the default.
        in_place: replace the model.
        backup: with `in_place`, the suffix under which the old file is kept.
        dry_run: do everything but write.
        level: one of `LEVELS`.
        text: whether the output is text; None: as the input, unless the output's suffix says otherwise.
        others: paths of whatever else is read: further graphs, files of names, feeds, libraries.
        report: where a report will be written.
        functions: library functions to whose bodies the edit is applied, in the place of the graph.
        require_change: refuse an edit that finds nothing to do, instead of passing the graph on.
        wanted: what of the model is meant.
        form: what is written: the ``model`` that was read, with its graph edited; its ``graph`` alone; a
            ``saved_model`` that is made around it; or a ``slim`` one that is made of the one that was read.
        assets: files that a SavedModel that is made holds.
        as_v1: whether a SavedModel is written without the objects of TensorFlow 2.
        v2_check: whether tf.saved_model.load is asked, too, where those objects are others.
        becomes: what takes the place of the suffix of the model's name where no output is named.
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
    wanted: Wanted = ALL
    form: Literal["model", "graph", "saved_model", "slim"] = "model"
    assets: tuple[str, ...] = ()
    as_v1: bool = False
    v2_check: bool = True
    becomes: str = ".edited{suffix}"
    settings: Settings = field(default_factory=Settings)
    overrides: Overrides = field(default_factory=Overrides)


@dataclass(eq=False, repr=False)
class Counts(Data):
    """Nodes, and how many of each op where that is known."""

    nodes: int
    ops: dict[str, int] | None


@dataclass(eq=False, repr=False)
class Outcome(Data):
    """What an operation has done.

    `before` and `after` have no signature where the structure was not looked at. `idle` is why there was nothing to
    do, and '' where something was done. `has_appeared` says whether the output file is there by now.
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
    has_appeared: Callable[[], bool] = lambda: False


def operate(
    request: Request,
    edit: Edit,
    *,
    before_publishing: Callable[[Outcome], None] | None = None,
    on_difference: Callable[[Outcome, DiffersError], None] | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Applies EDIT to the model and publishes the result, proven as far as the request says.

    Args:
        request: what to operate on.
        edit: called with the graph, once.
        before_publishing: called with the outcome when everything is proven and nothing has appeared yet; what it
            raises keeps the output from appearing.
        on_difference: called with what there is to say where the result differs from what the edit claims; nothing
            appears then, and the error is raised.
        progress: called with every step.

    Raises:
        GdsurgeonError: of any kind; the input is untouched, an earlier output as it was, and nothing left behind.
    """
    started = time.monotonic()
    request = replace(request, model=saved_model_at(request.model) or meta_of(request.model))
    out = output_path(
        request.model,
        request.out,
        in_place=request.in_place,
        backup=request.backup,
        dry_run=request.dry_run,
        becomes=request.becomes,
    )
    check_apart(out, request.backup, request.report, request.model, request.others)

    def publishing(outcome: Outcome) -> None:
        progress(Event("publishing"))
        outcome.seconds = time.monotonic() - started
        if before_publishing is not None:
            before_publishing(outcome)

    def differing(error: DiffersError, outcome: Outcome) -> None:
        outcome.seconds = time.monotonic() - started
        if on_difference is not None:
            on_difference(outcome, error)

    listener = _Listener(publishing, differing, progress)
    with ExitStack() as stack:
        is_known = request.model not in STANDARD_INPUT
        output = stack.enter_context(_output(request, out)) if is_known else None
        proving = stack.enter_context(_proving(request, progress)) if request.level in ("load", "run") else None
        # TensorFlow loads while what comes at standard input is waited for; that says what is written.
        output = output or stack.enter_context(_output(request, out))
        return _operate(request, edit, output, proving, listener)


def _proving(request: Request, progress: Progress) -> Proving:
    from gdsurgeon.operation.proving import Proving

    reads = reads_of(request.model, request.wanted)
    settings = request.settings._replace(reads=(*request.settings.reads, *reads))
    return Proving(settings, request.overrides, request.level, progress)


def _output(request: Request, out: str) -> Output:
    """Where the output is written: a folder, where the model is one, or a tar stream of it."""
    folder = model_folder(request.model)
    is_made = request.form in ("saved_model", "slim")
    if request.in_place and request.form != "model" and not (folder and request.form == "slim"):
        raise UsageError(Line("{in_place} would have something of another kind replace MODEL: {out} names it"))
    check_outside(out, folder)
    if request.form == "graph" or not (folder or is_made):
        return OutputFile(out)
    kept = folder if request.form == "model" else ""
    if out in STANDARD_OUTPUT:
        from gdsurgeon.container.output_tar import OutputTar

        return OutputTar(kept, request.assets)
    from gdsurgeon.container.output_folder import OutputFolder

    return OutputFolder(folder if request.in_place else out, kept, request.assets)


class _Listener(NamedTuple):
    """Who is told: before anything appears, where the result differs, and of every step."""

    publishing: Callable[[Outcome], None]
    differing: Callable[[DiffersError, Outcome], None]
    progress: Progress


def _operate(request: Request, edit: Edit, output: Output, proving: Proving | None, listener: _Listener) -> Outcome:
    progress = listener.progress
    progress(Event("loading"))
    model, text = _loaded(request, output)
    graph = model.graph
    if proving is not None:
        proving.begin(graph)
    progress(Event("checking"))
    warnings, before, counts_before = _examine(request, graph, proving)
    progress(Event("editing"))
    result, idle = _edited(request, graph, edit)
    is_same = bool(idle) and not graph.is_changed
    proving, unproven = (None, Proof("unchanged")) if is_same else (proving, Proof(request.level))
    if request.level != "none":
        _check_result(graph, result)
    after, counts_after = _seen(graph)
    form = Form(request.form, request.as_v1, text, proving is not None)
    what = written(model, result, output, form)
    counts_before = counts_before or Counts(graph.store.layout.node_count, None)

    def outcome(proof: Proof) -> Outcome:
        return Outcome(
            request, output.name, size_of(what.chunks), result, proof, counts_before, counts_after, before, after,
            [*warnings, *result.warnings, *proof.warnings], 0.0, idle, lambda: output.has_appeared,
        )  # fmt: skip

    if proving is None and unproven.level not in ("none", "unchanged"):
        from gdsurgeon.proof.accounting import check_accounted

        check_accounted(graph, result, what.graph)
    is_streamed = output.is_stream and not (graph.serving is not None and graph.serving.adds_keys)
    if proving is None and (request.dry_run or is_streamed):
        return _without_staging(request, graph, what.chunks, outcome(unproven), output, listener)
    progress(Event("staging"))
    with checkpoint_of(graph) as checkpoint, _staging(request, graph, output, checkpoint) as staging:
        staged = staging.stage(what.chunks)
        graph.source.check_unchanged()
        check = checkpoint.check if checkpoint is not None else what.check
        if check is not None and not request.dry_run:
            check(os.path.dirname(staged))
        proof = unproven
        if proving is not None:
            if checkpoint is not None:
                proving.begin_again(checkpoint.for_proof())
            elif request.form == "saved_model":
                _restore_from(graph, staged, proving)
            try:
                proof = proving.prove(graph, result, what.graph, what.edited if what.edited is not None else staged)
                if what.served is not None:
                    proof.served = _served(request, proving, model, what.served, staged)
            except GdsurgeonError as error:
                error.warnings = (*warnings, *result.warnings)
                if isinstance(error, DiffersError):
                    listener.differing(error, outcome(error.proof))
                raise
        done = outcome(proof)
        _publish(request, staging, done, listener)
    return done


def checkpoint_of(graph: Graph) -> AbstractContextManager[CopiedCheckpoint | None]:
    """The checkpoint that goes with GRAPH where variables were copied; None: the one that there is."""
    if graph.serving is None or not graph.serving.adds_keys:
        return nullcontext()
    from gdsurgeon.operation.copied_checkpoint import CopiedCheckpoint

    return CopiedCheckpoint(graph)


def _staging(request: Request, graph: Graph, output: Output, checkpoint: CopiedCheckpoint | None) -> Output:
    """Where the model is staged, with its CHECKPOINT where another goes with it."""
    if request.dry_run and request.form == "saved_model":
        from gdsurgeon.operation.unfrozen import is_unfrozen, nowhere

        return nowhere(graph) if is_unfrozen(graph) else OutputFile("-")
    if request.dry_run:
        return OutputFile("-")
    return output if checkpoint is None else checkpoint.going_with(output, in_place=request.in_place)


def _restore_from(graph: Graph, staged: str, proving: Proving) -> None:
    """Has PROVING restore what of GRAPH is no longer frozen from where it is STAGED."""
    from gdsurgeon.operation.unfrozen import is_unfrozen, restored_from

    if is_unfrozen(graph):
        proving.begin_again(restored_from(graph, staged))


def _served(request: Request, proving: Proving, model: Model, keys: Sequence[str], staged: str) -> str:
    """What tf.saved_model.load makes of the staged model, in which the functions of the signatures KEYS are others."""
    if not request.v2_check or request.dry_run:
        return "was not asked" + (" in a dry run: there is no folder to load" if request.v2_check else "")
    from gdsurgeon.proof.served import Folders

    tags = model.container.meta.tags if model.container is not None and request.form == "model" else ()
    folders = Folders(model_folder(request.model), os.path.dirname(staged), tuple(sorted(tags)))
    return proving.check_served(model.graph, folders, keys)


def _publish(request: Request, staging: Output, done: Outcome, listener: _Listener) -> None:
    """Has the result appear, with its backup and report, or nothing at all."""
    backup = request.backup if not request.dry_run else None
    with backed_up(request.model, backup, staging), Earlier(request.report, staging):
        listener.publishing(done)
        if not request.dry_run:
            staging.publish()


def _loaded(request: Request, output: Output) -> tuple[Model, bool]:
    """The model, and whether the output is a GraphDef as text."""
    model = open_model(request.model, request.wanted)
    is_graph = request.form == "graph" or (request.form == "model" and model.container is None)
    text = is_graph and _is_text(request, model.graph, output)
    if not text and not request.dry_run:
        check_takes_binary(output)
    return model, text


def _edited(request: Request, graph: Graph, edit: Edit) -> tuple[EditResult, str]:
    """Applies EDIT to GRAPH, or to the bodies of its functions; the second says why there was nothing to do."""
    try:
        if not request.functions:
            return edit(graph), ""
        from gdsurgeon.edits.in_functions import in_functions

        return in_functions(graph, request.functions, edit), ""
    except NothingToDo as idle:
        if request.require_change:
            raise
        return EditResult(Intent(), (SameOutputs(even_alone=True),)), idle.message


def _examine(
    request: Request, graph: Graph, proving: Proving | None
) -> tuple[list[str], Signature | None, Counts | None]:
    """Checks the structure as far as the request says, and mends what only needs writing anew.

    Returns warnings, and the signature and counts before the edit where they are known.
    """
    if request.level == "none":
        return [], None, None
    from gdsurgeon.analysis.checks.check import apply_repairs, require_sound

    findings = require_sound(graph)
    before, counts = _seen(graph)
    if apply_repairs(graph, findings) and proving is not None:
        # TensorFlow refuses the file as it is: what the edit is compared with is the mended graph.
        proving.begin_mended(graph)
    return findings.warnings, before, counts


def _check_result(graph: Graph, result: EditResult) -> None:
    """Raises ValidationError where the edit has left a node that its op does not allow, also inside functions."""
    from gdsurgeon.analysis.checks.check import check_edited

    faults = check_edited(graph)
    for name, (body, _) in result.inside.items():
        faults += [f"in the function {quoted(name)}: {fault}" for fault in check_edited(body)]
    if faults:
        raise ValidationError("the result would be broken:", details=tuple(faults[:100]))


def _without_staging(
    request: Request,
    graph: Graph,
    chunks: list[Chunk],
    done: Outcome,
    output: Output,
    listener: _Listener,
) -> Outcome:
    """Nobody has to read the bytes before they go out: they are streamed, or (a dry run) not even that."""
    with Earlier(request.report, output):
        listener.publishing(done)
        if not request.dry_run:
            output.stream(chunks)
            graph.source.check_unchanged()
    return done


def _seen(graph: Graph) -> tuple[Signature | None, Counts]:
    """The signature and the counts, unless a big file would have to be indexed for them alone."""
    if not graph.store.has_table:
        return None, Counts(graph.node_count, None)
    from gdsurgeon.analysis.queries.op_usage import op_counts
    from gdsurgeon.analysis.queries.signature import signature

    return signature(graph), Counts(graph.node_count, op_counts(graph))


def _is_text(request: Request, graph: Graph, output: Output) -> bool:
    if request.text is not None:
        return request.text
    if request.out is not None and not output.is_stream:
        return is_text_name(request.out, graph.text is not None)
    return graph.text is not None
