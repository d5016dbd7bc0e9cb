"""--steps: what a graph was asked for to do is built of steps instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from gdsurgeon.cli.complete import files, steps
from gdsurgeon.errors import UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.steps.book import Written

F = TypeVar("F", bound=Callable[..., object])

steps_option = click.option(
    "--steps",
    "text",
    metavar="'STEP | STEP'",
    shell_complete=steps,
    help="Build it of these steps instead; gdsurgeon steps lists them.",
)
emit_option = click.option(
    "--emit", metavar="FILE", shell_complete=files, help="With --steps: write what is built to FILE, too."
)


def part_of(
    request: Request,
    path: str | None,
    text: str | None,
    emit: str | None,
    build: Callable[[Sequence[Written], Graph], Graph],
    **others: str | None,
) -> Callable[[Graph], Graph]:
    """Gives for a model the graph that goes with it: the one at PATH, or what BUILD makes of the steps in TEXT.

    OTHERS are options that go with steps alone.

    Raises:
        UsageError: neither or both are given, or an option without steps; the steps are not in the language.
        InputError: the graph cannot be read, or is broken.
    """
    if path is not None and text is not None:
        raise UsageError(f"{printable(path)} is a graph, and --steps has one built: one or the other is meant")
    if text is None:
        if path is None:
            raise UsageError("a graph is missing, or --steps, which has one built")
        for name, value in {"emit": emit, **others}.items():
            if value is not None:
                raise UsageError(f"--{name} goes with --steps")
        from gdsurgeon.cli.parts import load_part

        part = load_part(path, request)
        return lambda model: part
    from gdsurgeon.steps.book import files_read, written

    found = written(text)
    request.others += tuple(files_read(found))
    if emit is not None:
        _check_emitted(request, emit)

    def built(model: Graph) -> Graph:
        part = build(found, model)
        if emit is not None and not request.dry_run:
            part.save(emit)
        return part

    return built


def _check_emitted(request: Request, emit: str) -> None:
    """Raises UsageError where the file would replace another, OutputError where it cannot be written."""
    from gdsurgeon.operation.paths import check_replaces_nothing, output_path
    from gdsurgeon.wire.output import STANDARD_OUTPUT, OutputFile

    if emit in STANDARD_OUTPUT:
        raise UsageError("--emit names a file: standard output is the edited model's")
    out = output_path(
        request.model, request.out, in_place=request.in_place, backup=request.backup, dry_run=request.dry_run
    )
    written = [("-o", out)] if not request.in_place else []
    if request.report is not None:
        written.append(("--report", request.report))
    check_replaces_nothing([*written, ("--emit", emit)], [request.model, *request.others])
    OutputFile(emit)
