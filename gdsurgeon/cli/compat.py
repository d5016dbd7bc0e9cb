"""gdsurgeon compat."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files
from gdsurgeon.cli.options import edit_options, tolerance_options
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import EditError, UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("compat", cls=Command)
@edit_options
@tolerance_options
@click.option("--target", metavar="RELEASE", required=True, help="The TensorFlow that is to take it, as in 1.15.")
@click.option("--check", "only_check", is_flag=True, help="Only tell what it does not know: exit 0 or 4.")
@click.option(
    "--run-in",
    metavar="WHEEL|DIR",
    shell_complete=files,
    help="Run the result in this TensorFlow, too: a wheel, or a folder with one.",
)
def command(
    request: Request,
    target: str,
    only_check: bool,
    run_in: str | None,
    rtol: float | None,
    atol: float | None,
) -> None:
    """Make a file that an older TensorFlow takes, with the older forms of what that does not know.

    Attrs that have the default of later releases go, ops become older forms that give the same; what has none is
    refused, all of it at once. In functions, too. Proven by running: the outputs are bit-identical, within what the
    older forms round, or within --rtol and --atol; and every node is held against what the release itself says of its
    ops. --run-in has the release itself run the result, in a process of its own, on the same feeds.

    \b
    Examples:
      gdsurgeon compat model.pb --target 1.15 --check
      gdsurgeon compat model.pb --target 1.15 -o older.pb
    """
    if only_check:
        if request.out is not None or request.in_place:
            raise UsageError("--check writes nothing: it goes with neither -o nor -i")
        if run_in is not None:
            raise UsageError("--check runs nothing: it does not go with --run-in")
        _check(request, target)
        return
    if run_in is not None:
        if not os.path.exists(run_in):
            raise UsageError(f"--run-in {printable(run_in)}: there is no such wheel or folder")
        if request.level not in ("load", "run"):
            raise UsageError(f"--run-in runs the result, and --validate {request.level} says not to")
        request.run_in = run_in
        request.others = (*request.others, run_in)
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.compat import compat

    run_edit("compat", request, lambda graph: compat(graph, target, rtol=rtol, atol=atol))


def _check(request: Request, target: str) -> None:
    """Tells what the release TARGET does not know. Raises EditError: that is something."""
    from gdsurgeon.analysis.queries.unknown_to import told, unknown_to, unknown_version
    from gdsurgeon.container.load import open_model
    from gdsurgeon.edits.compat import known_release

    wanted = known_release(target)
    graph = open_model(request.model, request.wanted).graph
    version = unknown_version(graph, wanted)
    found = [*told(unknown_to(graph, wanted)), *([version] if version else [])]
    name = printable(graph.source_name)
    if found:
        raise EditError(
            f"TensorFlow {wanted.name} does not know all of {name}:",
            code="not-compatible",
            details=tuple(found),
            facts={"target": wanted.name, "model": shlex.quote(printable(request.model))},
            advice="make-older",
        )
    terminal.summary([f"TensorFlow {wanted.name} knows all of {name}: {graph.node_count:,} nodes"])
