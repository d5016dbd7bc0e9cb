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
    from gdsurgeon.analysis.queries.unknown_to import Unknown
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


@click.command("compat", cls=Command)
@edit_options
@tolerance_options
@click.option("--for", "target", metavar="TARGET", required=True, help="TensorFlow release: 1.15, or tf1.15.")
@click.option("--check", "only_check", is_flag=True, help="Only tell what it does not know: exit 0 or 4.")
@click.option(
    "--run-in",
    metavar="WHEEL|DIR",
    shell_complete=files,
    help="Run the result in this TensorFlow, too: a wheel, or a folder with one.",
)
@click.option("--json", "as_json", is_flag=True, help="With --check: print JSON.")
def command(
    request: Request,
    target: str,
    only_check: bool,
    run_in: str | None,
    as_json: bool,
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
      gdsurgeon compat model.pb --for 1.15 --check
      gdsurgeon compat model.pb --for 1.15 -o older.pb
    """
    target = target.removeprefix("tf")
    if as_json and not only_check:
        raise UsageError(
            "--json is for --check: --report writes what was done", code="missing-option", facts={"option": "--check"}
        )
    if only_check:
        if request.out is not None or request.in_place:
            raise UsageError(
                "--check writes nothing: it goes with neither -o nor -i",
                code="conflicting-options",
                facts={"option": "--check"},
            )
        if run_in is not None:
            raise UsageError("--check runs nothing: it does not go with --run-in", code="conflicting-options")
        _check(request, target, as_json=as_json)
        return
    if run_in is not None:
        if not os.path.exists(run_in):
            raise UsageError(f"--run-in {printable(run_in)}: there is no such wheel or folder", code="no-such-file")
        if request.level not in ("load", "run"):
            raise UsageError(
                f"--run-in runs the result, and --validate {request.level} says not to", code="conflicting-options"
            )
        request.run_in, request.target = run_in, target
        request.others = (*request.others, run_in)
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.compat import compat

    run_edit("compat", request, lambda graph: compat(graph, target, rtol=rtol, atol=atol))


def _check(request: Request, target: str, *, as_json: bool) -> None:
    """Prints what the release TARGET does not know. Raises EditError: that is something."""
    from gdsurgeon.analysis.queries.unknown_to import unknown_to, unknown_version
    from gdsurgeon.container.load import open_model
    from gdsurgeon.edits.compat import known_release

    wanted = known_release(target)
    graph = open_model(request.model, request.wanted).graph
    unknown, version = unknown_to(graph, wanted), unknown_version(graph, wanted)
    error = None
    if unknown or version:
        error = EditError(
            f"TensorFlow {wanted.name} does not know all of {printable(graph.source_name)}",
            code="not-compatible",
            facts={"target": wanted.name, "model": shlex.quote(printable(request.model))},
            advice="make-older",
        )
    terminal.answer((_json if as_json else _text)(graph, wanted.name, unknown, version, error))
    if error is not None:
        raise error


def _text(graph: Graph, target: str, unknown: list[Unknown], version: str, error: EditError | None) -> str:
    from gdsurgeon.analysis.queries.op_usage import op_counts
    from gdsurgeon.analysis.queries.unknown_to import told
    from gdsurgeon.view.findings import findings

    entries = [("target", f"TensorFlow {target} {'does not know' if error is not None else 'knows'} all of it")]
    entries += [("unknown", line) for line in (*told(unknown), *([version] if version else []))]
    return "\n".join(findings(graph.source_name, graph.node_count, len(op_counts(graph)), entries))


def _json(graph: Graph, target: str, unknown: list[Unknown], version: str, error: EditError | None) -> str:
    import json

    from gdsurgeon.cli.hints import error_json

    found = {
        "model": graph.source_name,
        "target": target,
        "unknown": [each._asdict() for each in unknown],
        "version": version or None,
        "error": error_json(error, "compat") if error is not None else None,
        "exit_code": error.exit_code if error is not None else 0,
    }
    return json.dumps(found, indent=2)
