"""The graph that a command adds, from a file or built from --steps; its reference values, and the file of --emit."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.cli.command import collected, current_script
from gdsurgeon.cli.options import (
    BadValue,
    ConflictingOptions,
    MissingArgument,
    option,
    tolerance_options,
)
from gdsurgeon.errors import InputError, Remark, UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


def load_part(path: str, request: Request) -> Graph:
    """Returns the graph at `path`, checked according to `request`, to which the path is added.

    Raises:
        InputError: the graph cannot be read, or is not sound.
        UsageError: both graphs would come from standard input.
    """
    from gdsurgeon.analysis.checks.check import require_sound
    from gdsurgeon.container.load import load, reads_of

    if path == "-" and request.model == "-":
        raise ConflictingOptions("only one of the graphs can be read from standard input")
    request.others += (path,)
    request.settings = request.settings.reading(map(os.path.abspath, reads_of(path)))
    part = load(path)
    if request.level != "none":
        require_sound(part)
    return part


class PartOptions(NamedTuple):
    """The values of --steps, --emit, --against, --rtol and --atol."""

    steps: str | None
    emit: str | None
    against: str | None
    rtol: float | None
    atol: float | None

    def checked(self, result: EditResult) -> EditResult:
        """Returns `result` with the claim of --against, or with a note that the proof does not check the steps."""
        if self.against is None:
            if self.steps is not None:
                text = "the proof does not check the steps; --against FILE.npz compares their results with your values"
                result.notes.append(Remark(text, "steps-not-checked"))
            return result
        from gdsurgeon.edits.parts import against

        path = os.path.abspath(self.against)  # the edits of a script run in a different folder
        return against(result, path, rtol=self.rtol or 0.0, atol=self.atol or 0.0)


part_options = collected(
    "own",
    [
        partial(tolerance_options, needs="--against"),
        option("--steps"),
        option("--emit", needs="--steps"),
        option("--against"),
    ],
    lambda options: PartOptions(**{name: options.pop(name) for name in PartOptions._fields}),
)
"""Adds the options of a command that adds a graph, which may be built from steps; they arrive as `own`."""


def part_of(
    request: Request,
    called: str,
    path: str | None,
    own: PartOptions,
    build: Callable[..., Graph],
    mapped: Sequence[object] = (),
) -> Callable[..., Graph]:
    """Returns a function of a model that returns the graph to add: the graph at `path`, or that of `build`.

    Args:
        request: the path and the files that the steps read are added to it.
        called: the name of `path` in the help.
        path: the path of the graph; None if it is built from steps.
        own: the options of the graph.
        build: called with the steps, the model and the other arguments of the returned function.
        mapped: the pairs of --map, which a graph built from steps does not have.

    Raises:
        UsageError: options conflict, or an option lacks the option that it needs; the steps have a syntax error.
        InputError: the graph cannot be read, or is not sound.
    """
    from gdsurgeon.steps.catalog import catalog, files_read, read_steps

    _check_agree(request, called, path, own, mapped)
    if own.against is not None:
        request.others += (own.against,)
    if own.steps is None:
        assert path is not None
        try:
            part = load_part(path, request)
        except InputError as error:
            first = path.partition("|")[0].partition("(")[0].strip()
            if error.hint is None and not os.path.exists(path) and first in catalog():  # a value of --steps
                error.hint = f"--steps {shlex.quote(printable(path))} builds a graph from steps"
            raise
        return lambda model, *where: part
    found = read_steps(own.steps)
    request.others += tuple(files_read(found))
    if own.emit is not None:
        _check_emitted(request, own.emit)

    def built(model: Graph, *where: object) -> Graph:
        part = build(found, model, *where)
        if own.emit is not None and not request.dry_run:
            part.save(own.emit)
        return part

    return built


def _check_agree(request: Request, called: str, path: str | None, own: PartOptions, mapped: Sequence[object]) -> None:
    """Raises UsageError if options of the graph conflict."""
    if mapped and own.steps is not None:
        line = f"--map needs {called}: a graph built from --steps already has the right names"
        raise ConflictingOptions(line, option="--map")
    if path is not None and own.steps is not None:
        raise ConflictingOptions(f"give {printable(path)} or --steps, not both", option="--steps")
    if path is None and own.steps is None:
        raise MissingArgument(f"{called} is missing: give a graph, or --steps to build one", name=called)
    if own.against is None:
        return
    if request.level != "run":
        raise ConflictingOptions(f"--against needs --validate run, not {request.level}", option="--against")
    from gdsurgeon.feeds.archive import Archive

    with Archive(own.against, "the reference"):
        pass  # an archive that cannot be read is refused before the work


def _check_emitted(request: Request, emit: str) -> None:
    """Raises UsageError if the file of --emit would replace an input or output, OutputError if it cannot be written."""
    from gdsurgeon.operation.edit import locate
    from gdsurgeon.operation.paths import check_replaces_nothing
    from gdsurgeon.wire.output import STANDARD_OUTPUT, OutputFile

    if current_script() is not None:
        line = "--emit cannot be used in a script: the lines of a script write no files"
        raise UsageError(line, code="not-in-a-script", option="--emit")
    if emit in STANDARD_OUTPUT:
        raise BadValue("--emit expects a file: the edited model is written to standard output", option="--emit")
    written = [("-o", locate(request)[1])] if not request.in_place else []
    if request.report is not None:
        written.append(("--report", request.report))
    check_replaces_nothing([*written, ("--emit", emit)], [request.model, *request.others])
    OutputFile(emit)
