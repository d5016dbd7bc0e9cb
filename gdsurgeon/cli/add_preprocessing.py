"""gdsurgeon add-preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, paired, placeholders
from gdsurgeon.cli.options import edit_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("add-preprocessing", cls=Command)
@edit_options
@click.argument("pre", shell_complete=files)
@click.option(
    "--map",
    "mapped",
    metavar="INPUT=RAW,RESULT",
    shell_complete=paired(placeholders),
    multiple=True,
    help="Input of MODEL, placeholder and result of PRE.",
)
def command(request: Request, pre: str, mapped: tuple[str, ...]) -> None:
    """Put the graph PRE in front of MODEL's inputs.

    Every Placeholder P of PRE must be a Placeholder of MODEL, and PRE must hold P_preprocessed. What read P in MODEL
    then reads P_preprocessed; P keeps its name and takes PRE's dtype and shape. Proven by running: what the result
    gives for raw inputs is what MODEL gives for PRE's outputs.

    \b
    Example:
      gdsurgeon add-preprocessing classifier.pb decode_jpeg.pb -o served.pb
    """
    from gdsurgeon.cli.parts import load_part, mappings
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.add_preprocessing import add_preprocessing

    bindings = mappings(mapped)
    part = load_part(pre, request)
    run_edit("add-preprocessing", request, lambda graph: add_preprocessing(graph, part, mapped=bindings))
