"""The graph that a command adds: a file, or built from --steps; its reference values, and the file of --emit."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gdsurgeon.cli.command import current_script
from gdsurgeon.cli.complete import files, steps
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import tolerance_options
from gdsurgeon.errors import InputError, Remark, UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request

F = TypeVar("F", bound=Callable[..., object])


class PartOptions(NamedTuple):
    """The values of --steps, --emit, --against, --rtol and --atol."""

    steps: str | None
    emit: str | None
    against: str | None
    rtol: float | None
    atol: float | None

    def held(self, result: EditResult) -> EditResult:
        """Returns RESULT with the claim of --against, or with a note that the proof does not check the steps."""
        if self.against is None:
            if self.steps is not None:
                text = "the proof does not check the steps; --against FILE.npz compares their results with your values"
                result.notes.append(Remark(text, "steps-not-checked"))
            return result
        from gdsurgeon.edits.against import against

        path = os.path.abspath(self.against)  # a script's is read elsewhere than it is named
        return against(result, path, rtol=self.rtol or 0.0, atol=self.atol or 0.0)


def part_options(command: F) -> F:
    """Adds the options of a command that adds a graph, which may be built from steps; they arrive as `own`."""

    @functools.wraps(command)
    def wrapper(**options: Any) -> object:
        own = PartOptions(*(options.pop(name) for name in ("text", "emit", "against", "rtol", "atol")))
        return command(own=own, **options)

    adding = (
        known_option("--steps", "text", shell_complete=steps),
        known_option("--emit", shell_complete=files),
        known_option("--against", shell_complete=files),
    )
    for option in reversed(adding):
        wrapper = option(wrapper)
    return tolerance_options(wrapper)  # type: ignore[return-value]


def part_of(
    request: Request,
    called: str,
    path: str | None,
    own: PartOptions,
    build: Callable[..., Graph],
    **others: str | None,
) -> Callable[..., Graph]:
    """Returns a function of a model that returns the graph to add: that at PATH, or that of BUILD for the steps.

    BUILD gets the steps, the model and the other arguments of the function. CALLED is the name of PATH in the help;
    OTHERS are options that need --steps.

    Raises:
        UsageError: PATH and steps, or neither, are given; an option lacks the option that it needs; the steps have a
            syntax error.
        InputError: the graph cannot be read, or is not sound.
    """
    _check_agree(request, called, path, own, others)
    if own.against is not None:
        request.others += (own.against,)
    if own.steps is None:
        from gdsurgeon.cli.parts import load_part

        assert path is not None
        try:
            part = load_part(path, request)
        except InputError as error:
            if error.hint is None and not os.path.exists(path) and _are_steps(path):
                error.hint = f"--steps {shlex.quote(printable(path))} builds a graph from steps"
            raise
        return lambda model, *where: part
    from gdsurgeon.steps.book import files_read, written

    found = written(own.steps)
    request.others += tuple(files_read(found))
    if own.emit is not None:
        _check_emitted(request, own.emit)

    def built(model: Graph, *where: object) -> Graph:
        part = build(found, model, *where)
        if own.emit is not None and not request.dry_run:
            part.save(own.emit)
        return part

    return built


def check_not_mapped(called: str, own: PartOptions, mapped: Sequence[str]) -> None:
    """Raises UsageError if names are MAPPED in a graph that is built from steps and has the names of the model."""
    if mapped and own.steps is not None:
        raise UsageError(
            f"--map needs {called}: a graph built from --steps already has the right names",
            code="conflicting-options",
            facts={"option": "--map"},
        )


def _are_steps(text: str) -> bool:
    """Returns whether TEXT begins with the name of a step, like a value of --steps."""
    from gdsurgeon.steps.book import book

    return text.partition("|")[0].partition("(")[0].strip() in book()


def _check_agree(
    request: Request, called: str, path: str | None, own: PartOptions, others: dict[str, str | None]
) -> None:
    """Raises UsageError if options of the graph conflict."""
    if path is not None and own.steps is not None:
        raise UsageError(
            f"give {printable(path)} or --steps, not both",
            code="conflicting-options",
            facts={"option": "--steps"},
        )
    if path is None and own.steps is None:
        raise UsageError(
            f"{called} is missing: give a graph, or --steps to build one",
            code="missing-argument",
            facts={"name": called},
        )
    for name, value in {"emit": own.emit, **others}.items():
        if value is not None and own.steps is None:
            raise UsageError(f"--{name} needs --steps", code="missing-option", facts={"option": "--steps"})
    for name, tolerance in {"rtol": own.rtol, "atol": own.atol}.items():
        if tolerance is not None and own.against is None:
            raise UsageError(f"--{name} needs --against", code="missing-option", facts={"option": "--against"})
    if own.against is not None and request.level != "run":
        raise UsageError(
            f"--against needs --validate run, not {request.level}",
            code="conflicting-options",
            facts={"option": "--against"},
        )
    if own.against is not None:
        from gdsurgeon.feeds.archive import Archive

        with Archive(own.against, "the reference"):
            pass  # refused now rather than after the work


def _check_emitted(request: Request, emit: str) -> None:
    """Raises UsageError if the file of --emit would replace an input or output, OutputError if it cannot be written."""
    from gdsurgeon.operation.paths import check_replaces_nothing, output_path
    from gdsurgeon.wire.output import STANDARD_OUTPUT, OutputFile

    if current_script() is not None:
        raise UsageError(
            "--emit cannot be used in a script: the lines of a script write no files",
            code="not-in-a-script",
            facts={"option": "--emit"},
        )
    if emit in STANDARD_OUTPUT:
        raise UsageError(
            "--emit expects a file: the edited model is written to standard output",
            code="bad-value",
            facts={"option": "--emit"},
        )
    out = output_path(
        request.model, request.out, in_place=request.in_place, backup=request.backup, dry_run=request.dry_run
    )
    written = [("-o", out)] if not request.in_place else []
    if request.report is not None:
        written.append(("--report", request.report))
    check_replaces_nothing([*written, ("--emit", emit)], [request.model, *request.others])
    OutputFile(emit)
