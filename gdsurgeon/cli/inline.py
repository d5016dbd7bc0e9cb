"""gdsurgeon inline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import functions
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, tolerance_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("inline", cls=Command)
@edit_options
@tolerance_options
@known_option("--function", "functions", shell_complete=functions)
@known_option("--keep-names")
def command(
    request: Request, functions: tuple[str, ...], keep_names: bool, rtol: float | None, atol: float | None
) -> None:
    """Replace calls of functions by the nodes of the functions.

    Nested calls are also replaced. The new nodes are named CALL/NAME. Loops and conditionals (While, If) still call
    their functions. Functions that are no longer used are removed.

    Proof: all outputs are bit-identical.

    \b
    Example:
      gdsurgeon inline model.pb -o flat.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.inline import inline

    run_edit("inline", request, lambda graph: inline(graph, functions, keep_names=keep_names, rtol=rtol, atol=atol))
