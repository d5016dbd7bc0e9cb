"""gdsurgeon import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes, paired
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, pair

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("import", cls=Command)
@edit_options
@click.argument("other", shell_complete=files)
@known_option("--prefix", "scope", default="")
@known_option(
    "--map", "mapped", shell_complete=paired(nodes), help="Connect tensor LEFT of MODEL to placeholder RIGHT of OTHER."
)
def command(request: Request, other: str, scope: str, mapped: tuple[str, ...]) -> None:
    """Add the graph of a second model to a model.

    With --map, consumers of a placeholder of OTHER read a tensor of MODEL instead. If OTHER is a SavedModel, its
    variables become constants. If both models are SavedModels, the result also has the signatures of OTHER.

    Proof: the outputs of MODEL are bit-identical. The outputs of OTHER equal what OTHER returns in a separate run for
    the same input values.

    \b
    Example:
      gdsurgeon import detector.pb classifier.pb --prefix classifier --map crops=image -o both.pb
    """
    from gdsurgeon.cli.parts import load_part
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.import_graph import import_graph

    pairs = [pair(text, "--map") for text in mapped]
    part = load_part(other, request)
    run_edit("import", request, lambda graph: import_graph(graph, part, scope=scope, connect=pairs))
