"""The whole operation: load, check, edit, stage, prove, publish. Nothing appears that was not proven."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.files import saved_model_at
from gdsurgeon.container.load import Model, meta_of, model_folder, open_model, reads_of
from gdsurgeon.container.wanted import ALL, Wanted
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.errors import (
    GdsurgeonError,
    Line,
    NothingToDo,
    UsageError,
    joined,
    printable,
    quoted,
)
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import uniquely_named
from gdsurgeon.operation.paths import (
    back_up_all,
    backup_path,
    check_apart,
    check_outside,
    check_takes_binary,
    lock_of,
    output_path,
)
from gdsurgeon.operation.sequence import Edit, Instruction, ModelForm, carry_out, is_undone, together
from gdsurgeon.operation.written import Form, Written, written
from gdsurgeon.proof.change import Step
from gdsurgeon.proof.proof import DiffersError, Proof
from gdsurgeon.proof.settings import Event, Progress, Settings, silent
from gdsurgeon.text import size
from gdsurgeon.values import Data
from gdsurgeon.wire.output import STANDARD_OUTPUT, Earlier, Output, OutputFile, check_state
from gdsurgeon.wire.source import STANDARD_INPUT
from gdsurgeon.wire.text import is_text_name
from gdsurgeon.wire.write import Chunk, resolved, size_of

if TYPE_CHECKING:
    from gdsurgeon.analysis.queries.signature import Signature
    from gdsurgeon.operation.copied_checkpoint import CopiedCheckpoint
    from gdsurgeon.operation.proving import Proving
    from gdsurgeon.proof.served import Folders
    from gdsurgeon.runtime.evaluator import Evaluator

LEVELS = ("none", "structure", "load", "run")


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
        changes_values: whether the edit changes values on purpose; see `Instruction`.
        wanted: what of the model is meant.
        form: what is written: the ``model`` that was read, with its graph edited; its ``graph`` alone; a
            ``saved_model`` that is made around it; or a ``slim`` one that is made of the one that was read.
        assets: files that a SavedModel that is made holds.
        as_v1: whether a SavedModel is written without the objects of TensorFlow 2.
        v2_check: whether tf.saved_model.load is asked, too, where those objects are others.
        prove_each: of several edits, prove one after the other, and not all at once.
        run_in: a wheel of another release, or a folder into which one was unpacked, that is to run the result, too.
        target: the release that this is meant to be; '' where any is.
        becomes: what takes the place of the suffix of the model's name where no output is named.
        mends: whether the model may be broken, for the edit puts it right.
        tolerates: the code of faults that the model may have, for the edit puts them right.
        evaluator: what the edit has constants computed by, to which TensorFlow's process is lent.
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
    form: ModelForm = "model"
    assets: tuple[str, ...] = ()
    as_v1: bool = False
    v2_check: bool = True
    run_in: str = ""
    target: str = ""
    becomes: str = ".edited{suffix}"
    settings: Settings = field(default_factory=Settings)
    overrides: Overrides = field(default_factory=Overrides)
    prove_each: bool = False
    mends: bool = False
    tolerates: str = ""
    evaluator: Evaluator | None = None

    def instruction(self, edit: Edit, called: str = "") -> Instruction:
        """EDIT, as it is asked for here; CALLED in messages."""
        return Instruction(edit, called, self.functions, self.require_change, self.form, self.changes_values)


@dataclass(eq=False, repr=False)
class Counts(Data):
    """Nodes, and how many of each op where that is known."""

    nodes: int
    ops: dict[str, int] | None


@dataclass(eq=False, repr=False)
class Outcome(Data):
    """What an operation has done.

    `steps` are the edits of which `result` is what they come to: one, or several, or none. `before` and `after` have no
    signature where the structure was not looked at. `idle` is why there was nothing to do, and '' where something was
    done. `has_appeared` says whether the output file is there by now, `is_mended` whether the graph is another one
    although there was nothing to do.
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
    is_mended: bool = False

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "has_appeared": partial(bool, self.has_appeared())}  # a copy needs no open file

    def __repr__(self) -> str:
        done = self.idle or repr(self.result)
        return f"<Outcome {quoted(self.out)}, {size(self.size)}: {done}, {self.proof!r}>"


def operate(
    request: Request,
    edits: Edit | Sequence[Instruction],
    *,
    before_publishing: Callable[[Outcome], None] | None = None,
    on_difference: Callable[[Outcome, DiffersError], None] | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Edits the model and publishes the result, proven as far as the request says.

    Args:
        request: what to operate on.
        edits: called with the graph, once; or several, at least one, each of what the one before has made.
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
    out = _path_of(request)
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
        lock = stack.enter_context(lock_of(request.model, progress)) if _is_replaced(request) else None
        is_known = request.model not in STANDARD_INPUT
        output = stack.enter_context(_output(request, out)) if is_known else None
        proving = stack.enter_context(_proving(request, progress)) if request.level in ("load", "run") else None
        # TensorFlow loads while what comes at standard input is waited for; that says what is written.
        output = output or stack.enter_context(_output(request, out))
        output.replaces = lock.state if lock is not None else None
        instructions = [request.instruction(edits)] if callable(edits) else edits

        def reformed(form: ModelForm) -> tuple[Request, Output]:
            """The request, and where the output is written, if the edits have made a model of another FORM."""
            asked = replace(request, form=form, becomes=_BECOMES[form])
            made = stack.enter_context(_output(asked, _path_of(asked)))
            made.files, made.replaces = output.files, output.replaces
            return asked, made

        return _operate(request, instructions, output, proving, listener, reformed)


_BECOMES = {"graph": ".frozen.pb", "saved_model": ".saved_model", "slim": ".slim"}
"""What replaces the suffix of the model's name if an edit makes a model of another form and no output is named."""


def _path_of(request: Request) -> str:
    """The path of the output of REQUEST. Raises: see `output_path`."""
    return output_path(
        request.model,
        request.out,
        in_place=request.in_place,
        backup=request.backup,
        dry_run=request.dry_run,
        becomes=request.becomes,
    )


def _is_replaced(request: Request) -> bool:
    """Whether the model of REQUEST, which is there, is to be replaced."""
    is_there = os.path.isfile(request.model) or bool(saved_model_at(request.model))
    return request.in_place and not request.dry_run and is_there


def _proving(request: Request, progress: Progress) -> Proving:
    from gdsurgeon.operation.proving import Proving

    reads = reads_of(request.model, request.wanted)
    settings = request.settings._replace(reads=(*request.settings.reads, *reads, *request.assets))
    return Proving(settings, request.overrides, request.level, progress)


def _output(request: Request, out: str) -> Output:
    """Where the output is written: a folder, where the model is one, or a tar stream of it."""
    folder = model_folder(request.model)
    is_made = request.form in ("saved_model", "slim")
    if request.in_place and request.form != "model" and not (folder and request.form == "slim"):
        line = Line("{in_place} cannot replace MODEL by a file of a different kind; name the output with {out}")
        raise UsageError(line, code="conflicting-options")
    written = (request.report, backup_path(folder, request.backup or ".")) if request.in_place and folder else ()
    for path in (out, *filter(None, written)):
        check_outside(path, folder)
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


def _operate(
    request: Request,
    instructions: Sequence[Instruction],
    output: Output,
    proving: Proving | None,
    listener: _Listener,
    reformed: Callable[[ModelForm], tuple[Request, Output]],
) -> Outcome:
    progress = listener.progress
    progress(Event("loading"))
    model, text = _loaded(request, output)
    first = model.graph
    if proving is not None:
        proving.begin(first)
        if request.evaluator is not None:
            proving.lend(request.evaluator)
    progress(Event("checking"))
    warnings, before, counts_before = _examine(request, first, proving)
    progress(Event("editing"))
    carried = carry_out(model, instructions, output, check=request.level != "none")
    if carried.form != request.form == "model":
        request, output = reformed(carried.form)
        text = carried.form == "graph" and _is_text(request, first, output)
    graph, idle = carried.model.graph, joined("; ", carried.idle) if not carried.steps else ""
    last = carried.steps[-1].result if carried.steps else EditResult(Intent(), (SameOutputs(even_alone=True),))
    is_same = bool(idle) and not graph.is_changed and not request.run_in
    proving, unproven = (None, Proof("unchanged")) if is_same else (proving, Proof(request.level))
    after, counts_after = _seen(graph, always=before is not None)
    form = Form(request.form, request.as_v1, text, proving is not None)
    what = written(carried.model, last, output, form)
    what = what._replace(chunks=list(resolved(what.chunks)), served=carried.served_with(what.served))
    steps = carried.steps or [Step(graph.pristine(), graph, last)]
    result = together(steps, carried.idle if carried.steps else ())
    if request.form in ("model", "graph") and is_undone(carried, model, what):
        if request.require_change:
            raise NothingToDo("nothing would change: the edits cancel each other")
        result.notes.append("the edits cancel each other: the result equals MODEL")
    counts_before = counts_before or Counts(first.store.layout.node_count, None)

    def outcome(proof: Proof) -> Outcome:
        return Outcome(
            request, output.name, size_of(what.chunks), result, proof, counts_before, counts_after, before, after,
            [*warnings, *result.warnings, *proof.warnings], 0.0, idle, carried.steps, lambda: output.has_appeared,
            is_mended=bool(idle) and graph.is_changed,
        )  # fmt: skip

    return _settled(request, _Made(carried.model, steps, what, unproven, outcome), output, proving, listener)


class _Made(NamedTuple):
    """A model that was edited.

    Attributes:
        model: as it is now.
        steps: by which it became so.
        what: is written of it.
        unproven: the proof where it is not run.
        outcome: of the operation, with its proof.
    """

    model: Model
    steps: Sequence[Step]
    what: Written
    unproven: Proof
    outcome: Callable[[Proof], Outcome]


def _settled(request: Request, made: _Made, output: Output, proving: Proving | None, listener: _Listener) -> Outcome:
    """What was MADE is staged, proven where there is PROVING, and published."""
    graph, what, proof = made.model.graph, made.what, made.unproven
    if proving is None and proof.level not in ("none", "unchanged"):
        from gdsurgeon.proof.accounting import check_accounted

        check_accounted(graph, made.steps[-1].result, what.graph)
    is_streamed = output.is_stream and not (graph.serving is not None and graph.serving.adds_keys)
    if proving is None and (request.dry_run or is_streamed):
        return _without_staging(request, graph, what.chunks, made.outcome(proof), output, listener)
    listener.progress(Event("staging"))
    with checkpoint_of(graph) as checkpoint, _staging(request, graph, output, checkpoint) as staging:
        staged = staging.stage(what.chunks)
        graph.source.check_unchanged()
        if checkpoint is not None and not request.dry_run:
            checkpoint.check(os.path.dirname(staged))
        for check in what.checks if not request.dry_run else ():
            check(staged)
        if proving is not None:
            if checkpoint is not None:
                proving.begin_again(checkpoint.for_proof())
            elif request.form == "saved_model":
                _restore_from(graph, staged, proving)
            proof = _proven(request, made, proving, staged, listener)
        done = made.outcome(proof)
        _publish(request, staging, done, listener)
    return done


def _proven(request: Request, made: _Made, proving: Proving, staged: str, listener: _Listener) -> Proof:
    """The proof of what was MADE and is STAGED; what there was to warn of goes with an error."""
    what = made.what
    edited = what.edited if what.edited is not None else staged
    folders = _folders(request, made.model, staged) if what.served is not None else None
    if folders is not None:
        proving.begin_serving(made.model.graph, folders)
    try:
        proof = proving.prove(made.steps, what.graph, edited, each=request.prove_each)
        if what.served is not None:
            proof.served = _served(request, proving, made.model, what.served, folders)
        if request.run_in:
            released = proving.check_released(made.model.graph, edited, request.run_in)
            proof.released = released.told
            proof.warnings += _other_release(released.version, request.target)
    except GdsurgeonError as error:
        there = _other_release(str(error.facts.get("released", "")), request.target)
        error.warnings = (*made.outcome(made.unproven).warnings, *there)
        if isinstance(error, DiffersError):
            listener.differing(error, made.outcome(error.proof))
        raise
    return proof


def _other_release(version: str, target: str) -> list[str]:
    """What there is to warn of where a result is for the release TARGET, and was run in that of a VERSION."""
    if not target or not version or version.split(".")[:2] == target.split(".")[:2]:
        return []
    line = (
        "{run_in} is TensorFlow {version}, but {target} is {wanted}; whether the target runs the graph was not tested"
    )
    return [Line(line, version=printable(version), wanted=printable(target))]


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


def _folders(request: Request, model: Model, staged: str) -> Folders | None:
    """The folders that loaders are asked to load; None: they are not asked."""
    if not request.v2_check or request.dry_run:
        return None
    from gdsurgeon.proof.served import Folders

    tags = model.container.meta.tags if model.container is not None else ()
    return Folders(model_folder(request.model), os.path.dirname(staged), tuple(sorted(tags)))


def _served(request: Request, proving: Proving, model: Model, keys: Sequence[str], folders: Folders | None) -> str:
    """What loaders make of the staged model, in which the functions of the signatures KEYS are others."""
    if folders is None:
        return "was not used" + (" in a dry run: there is no folder to load" if request.v2_check else "")
    return proving.check_served(model.graph, folders, keys)


def _publish(request: Request, staging: Output, done: Outcome, listener: _Listener) -> None:
    """Has the result appear, with its backup and report, or nothing at all."""
    backup = request.backup if not request.dry_run else None
    if staging.replaces is not None:
        check_state(request.model, staging.replaces)
    with ExitStack() as stack:
        back_up_all(request.model, backup, staging, stack)
        stack.enter_context(Earlier(request.report, staging)).keep()
        listener.publishing(done)
        if not request.dry_run:
            staging.publish()


def _loaded(request: Request, output: Output) -> tuple[Model, bool]:
    """The model, and whether the output is a GraphDef as text."""
    model = open_model(request.model, request.wanted)
    output.files = model.container.files if model.container is not None else None
    if request.mends:
        model = model._replace(graph=uniquely_named(model.graph))
    model.graph.keeps_journal = False  # after an error, the graph is not used again
    is_graph = request.form == "graph" or (request.form == "model" and model.container is None)
    text = is_graph and _is_text(request, model.graph, output)
    if not text and not request.dry_run:
        check_takes_binary(output)
    return model, text


def _examine(
    request: Request, graph: Graph, proving: Proving | None
) -> tuple[list[str], Signature | None, Counts | None]:
    """Checks the structure as far as the request says, and mends what only needs writing anew.

    Returns warnings, and the signature and counts before the edit where they are known.
    """
    if request.level == "none" or request.mends:
        return [], None, None
    from gdsurgeon.analysis.checks.check import apply_repairs, require_sound

    findings = require_sound(graph, request.tolerates)
    before, counts = _seen(graph)
    if apply_repairs(graph, findings) and proving is not None:
        # TensorFlow refuses the file as it is: what the edit is compared with is the mended graph.
        proving.begin_mended(graph)
    return findings.warnings, before, counts


def _without_staging(
    request: Request,
    graph: Graph,
    chunks: list[Chunk],
    done: Outcome,
    output: Output,
    listener: _Listener,
) -> Outcome:
    """Nobody has to read the bytes before they go out: they are streamed, or (a dry run) not even that."""
    with Earlier(request.report, output) as earlier:
        earlier.keep()
        listener.publishing(done)
        if not request.dry_run:
            output.stream(chunks)
            graph.source.check_unchanged()
    return done


def _seen(graph: Graph, *, always: bool = False) -> tuple[Signature | None, Counts]:
    """The signature and the counts, unless a big file would have to be indexed for them alone; else ALWAYS."""
    if not always and not graph.store.has_table:
        return None, Counts(graph.node_count, None)
    from gdsurgeon.analysis.queries.signature import signature
    from gdsurgeon.analysis.queries.usage import op_counts

    return signature(graph), Counts(graph.node_count, op_counts(graph))


def _is_text(request: Request, graph: Graph, output: Output) -> bool:
    if request.text is not None:
        return request.text
    if request.out is not None and not output.is_stream:
        return is_text_name(request.out, graph.text is not None)
    return graph.text is not None
