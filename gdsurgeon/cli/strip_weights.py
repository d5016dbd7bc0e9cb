"""gdsurgeon strip-weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("strip-weights", cls=Command)
@edit_options
@known_option("--keep-strings")
@known_option("--keep", default="")
def command(request: Request, keep_strings: bool, keep: str) -> None:
    """Remove the weights, for example to share the graph.

    The result loads, runs and keeps all shapes. Every constant, also inside functions, becomes a single 0, False or
    empty string. Small constants that determine shapes do not change: axes, sizes, paddings and counts.

    Proof: each output keeps its dtype and shape. The result has the same ops, wiring and attrs as MODEL.

    \b
    Examples:
      gdsurgeon strip-weights model.pb -o shared.pb
      gdsurgeon strip-weights model.pb --keep-strings --keep '^anchors' -o shared.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.strip_weights import strip_weights

    run_edit("strip-weights", request, lambda graph: strip_weights(graph, keep_strings=keep_strings, keep=keep))
