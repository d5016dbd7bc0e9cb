"""The whole operation, and the proof of an edit, as functions of the library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from gdsurgeon.arguments import StrPath, path_of, public
from gdsurgeon.container.load import Model, reads_of
from gdsurgeon.container.wanted import Wanted
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.errors import UsageError, printable, quoted
from gdsurgeon.feeds.overrides import Feeds, Shapes, overrides_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.operation import edit as whole
from gdsurgeon.operation.edit import LEVELS, Outcome, Request
from gdsurgeon.operation.proving import Proving
from gdsurgeon.operation.sequence import Edit, Instruction, carry_out
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.proof.change import Step
from gdsurgeon.proof.progress import Progress, silent
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.settings import Settings
from gdsurgeon.wire.output import OutputFile
from gdsurgeon.wire.write import read_chunks


@public
def operate(
    model: StrPath,
    edit: Edit | Sequence[Edit],
    *,
    out: StrPath | None = None,
    in_place: bool = False,
    backup: str | None = None,
    dry_run: bool = False,
    require_change: bool = False,
    changes_values: bool = False,
    level: str = "run",
    functions: Sequence[str] = (),
    feeds: Feeds | None = None,
    archive: StrPath | None = None,
    shapes: Shapes | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Loads MODEL, edits it, proves the edit, and only then lets the result appear.

    Args:
        model: a path, or ``-`` for standard input.
        edit: called with the graph, once: ``lambda graph: gds.rename(graph, [("x", "image")])``. Of several each is
            called with what the one before has made.
        out: a path, ``-`` for standard output; None: MODEL's name with ``.edited`` in it.
        in_place: replace MODEL; its old file is kept under its name with the suffix BACKUP, where that is given.
        dry_run: do everything but write.
        require_change: refuse an edit that finds nothing to do, instead of passing the graph on.
        changes_values: the edit changes values on purpose: the proof measures how far the outputs that it reaches are
            from what they were, and requires only the others to be the same.
        level: how far to prove the result: ``none``, ``structure``, ``load`` or ``run``.
        functions: library functions to whose bodies the edit is applied, in the place of the graph.
        feeds: values for inputs, see `Feeds`.
        archive: an .npz file with values for inputs.
        shapes: full shapes of inputs whose values are made up.
        settings: how the graphs are run.
        progress: called with an `Event` when a step begins.

    Raises:
        UsageError: the arguments contradict each other, or a value does not fit its input.
        InputError: MODEL cannot be read or is broken.
        EditError: the edit is refused.
        ValidationError: the result does not load, does not run, or differs from what the edit claims.
        NotValidatedError: that cannot be found out here.
        OutputError: the result cannot be written.

        Whatever is raised, MODEL is untouched, an earlier output is as it was, and nothing is left behind.
    """
    _check_level(level, LEVELS)
    request = Request(
        os.fspath(model),
        out=path_of(out),
        in_place=in_place,
        backup=backup,
        dry_run=dry_run,
        require_change=require_change,
        changes_values=changes_values,
        level=level,
        functions=tuple(functions),
        settings=settings or Settings(),
        overrides=overrides_of(feeds, archive, shapes),
    )
    edits = edit if callable(edit) else _instructions(request, edit)
    return whole.operate(request, edits, progress=progress)


def _instructions(request: Request, edits: Sequence[Edit]) -> list[Instruction]:
    if not edits:
        raise UsageError("no edit is given", code="missing-argument")
    return [request.instruction(edit, f"edit {number}") for number, edit in enumerate(edits, 1)]


class Applied(NamedTuple):
    """Edits that were made of a graph, one after the other; see `apply`.

    Attributes:
        graph: what they have made. `Graph.save` writes it, unproven.
        steps: each edit that has done something, with the graphs before and after it and its result.
    """

    graph: Graph
    steps: Sequence[Step]


@public
def apply(graph: Graph, edits: Sequence[Edit]) -> Applied:
    """Makes EDITS of GRAPH, each of what the one before has made, as if that had been written and loaded.

    Each edit's differences are accounted for; `prove` shows by execution what all of them promise together, and
    `operate` does the whole with a file.

    Args:
        graph: as it was loaded: a GraphDef of its own. The first edit changes it.
        edits: at least one: ``[lambda graph: gds.rename(graph, [("x", "image")]), ...]``.

    Raises:
        UsageError: there is no edit, or GRAPH is part of a model.
        EditError: an edit is refused; the message begins with its number.
        ValidationError: an edit has done something else than it says.
    """
    if graph.serving is not None:
        raise UsageError(
            f"{printable(graph.source_name)} is not only a graph: use operate to edit models",
            code="wrong-format",
            facts={"file": graph.source_name},
        )
    if graph.is_changed:
        raise UsageError(
            f"{printable(graph.source_name)} was already edited",
            code="already-edited",
            facts={"file": graph.source_name},
        )
    carried = carry_out(
        Model(graph, None), _instructions(Request(graph.source_name), edits), OutputFile("-"), check=True
    )
    if carried.steps:
        last = carried.steps[-1]
        check_accounted(last.after, last.result, last.after.chunks())
    return Applied(carried.model.graph, carried.steps)


@public
def prove(
    graph: Graph,
    result: EditResult | Applied,
    *,
    level: str = "run",
    feeds: Feeds | None = None,
    archive: StrPath | None = None,
    shapes: Shapes | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> Proof:
    """Proves what an edit has made of GRAPH, which need not be written: it is run beside the file that it was.

    Two files are compared by `validate`.

    Args:
        graph: after one edit, or several.
        result: what the edit returned, or what `apply` did.
        level: ``load`` or ``run``.
        feeds, archive, shapes, settings, progress: as for `operate`.

    Raises:
        UsageError: there is no such level, or a value does not fit its input.
        ValidationError: the graph does not load, does not run, or differs from what the edit claims.
        NotValidatedError: that cannot be found out here.
    """
    _check_level(level, ("load", "run"))
    settings = settings or Settings()
    if graph.serving is not None:
        reads = reads_of(graph.source_name, Wanted(checkpoint=graph.serving.checkpoint))
        settings = settings._replace(reads=(*settings.reads, *reads))
    overrides = overrides_of(feeds, archive, shapes)
    with whole.checkpoint_of(graph) as checkpoint:
        if checkpoint is not None:
            settings = settings._replace(reads=(*settings.reads, checkpoint.for_proof()))
        with Proving(settings, overrides, level, progress) as proving:
            steps = [Step(graph.pristine(), graph, result)] if isinstance(result, EditResult) else result.steps
            if not steps:
                return Proof("unchanged")
            proving.begin(steps[0].before)
            chunks = graph.chunks()
            return proving.prove(steps, chunks, read_chunks(chunks))


def _check_level(level: str, levels: Sequence[str]) -> None:
    if level not in levels:
        raise UsageError(
            f"{quoted(level)} is not a level; levels are {', '.join(levels)}",
            code="bad-value",
            facts={"option": "level", "value": level},
        )
