"""The graph that a command adds: a file, or built of --steps; what it is held against, and where it is written."""

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
    """What --steps, --emit, --against, --rtol and --atol say."""

    steps: str | None
    emit: str | None
    against: str | None
    rtol: float | None
    atol: float | None

    def held(self, result: EditResult) -> EditResult:
        """RESULT, which claims besides what the part is held against; of steps a note says that nothing is known."""
        if self.against is None:
            if self.steps is not None:
                text = "the proof does not check the steps; --against FILE.npz compares their results with yours"
                result.notes.append(Remark(text, "steps-not-checked"))
            return result
        from gdsurgeon.edits.against import against

        path = os.path.abspath(self.against)  # a script's is read elsewhere than it is named
        return against(result, path, rtol=self.rtol or 0.0, atol=self.atol or 0.0)


def part_options(command: F) -> F:
    """The options of a command that adds a graph, which may be built of steps; they arrive as `own`."""

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
    """Gives for a model the graph that goes with it: the one at PATH, or what BUILD makes of steps.

    What it is called with besides the model, BUILD gets besides the steps and the model. CALLED is what the help calls
    PATH; OTHERS are options that go with steps alone.

    Raises:
        UsageError: neither or both are given, or an option without another; the steps are not in the language.
        InputError: the graph cannot be read, or is broken.
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
    """Raises UsageError where names of a graph are MAPPED that is built of steps, and has the names of the model."""
    if mapped and own.steps is not None:
        raise UsageError(
            f"--map needs {called}: a graph built from --steps already has the right names",
            code="conflicting-options",
            facts={"option": "--map"},
        )


def _are_steps(text: str) -> bool:
    """Whether TEXT begins with a step of the book, as what stands behind --steps does."""
    from gdsurgeon.steps.book import book

    return text.partition("|")[0].partition("(")[0].strip() in book()


def _check_agree(
    request: Request, called: str, path: str | None, own: PartOptions, others: dict[str, str | None]
) -> None:
    """Raises UsageError where what is said of the graph contradicts itself."""
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
    """Raises UsageError where the file would replace another, OutputError where it cannot be written."""
    from gdsurgeon.operation.paths import check_replaces_nothing, output_path
    from gdsurgeon.wire.output import STANDARD_OUTPUT, OutputFile

    if current_script() is not None:
        raise UsageError(
            "--emit cannot be used in a script, whose lines write no files",
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
