"""gdsurgeon add-postprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes, paired
from gdsurgeon.cli.options import edit_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("add-postprocessing", cls=Command)
@edit_options
@click.argument("post", shell_complete=files)
@click.option(
    "--map",
    "mapped",
    metavar="OUTPUT=RAW,RESULT",
    shell_complete=paired(nodes),
    multiple=True,
    help="Output of MODEL, placeholder and result of POST.",
)
def command(request: Request, post: str, mapped: tuple[str, ...]) -> None:
    """Put the graph POST behind MODEL's outputs.

    Every Placeholder X of POST names an output of MODEL, and POST must hold X_postprocessed. The result is served
    under the name X; the raw value stays available as X_raw, and what reads X inside MODEL keeps reading it.
    Proven by running: what the result serves is what POST gives for MODEL's outputs.

    \b
    Example:
      gdsurgeon add-postprocessing classifier.pb label_lookup.pb -o served.pb
    """
    from gdsurgeon.cli.parts import load_part, mappings
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.add_postprocessing import add_postprocessing

    bindings = mappings(mapped)
    part = load_part(post, request)
    run_edit("add-postprocessing", request, lambda graph: add_postprocessing(graph, part, mapped=bindings))
