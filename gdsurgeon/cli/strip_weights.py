"""gdsurgeon strip-weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("strip-weights", cls=Command)
@edit_options
@click.option("--keep-strings", is_flag=True, help="Keep strings, and other constants of at most 64 elements.")
@click.option("--keep", metavar="REGEX", default="", help="Keep constants whose names match.")
def command(request: Request, keep_strings: bool, keep: str) -> None:
    """Take the weights out: a file that loads, runs and has every shape, to be shared in a bug report.

    Every constant becomes one 0, False or empty string, but for small ones that shapes follow from: axes, sizes,
    paddings, counts. In functions, too. Proven by running: each output has the dtype and the shape that it had; and by
    comparing the graphs: same ops, same wiring, same attrs.

    \b
    Examples:
      gdsurgeon strip-weights model.pb -o shared.pb
      gdsurgeon strip-weights model.pb --keep-strings --keep '^anchors' -o shared.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.strip_weights import strip_weights

    run_edit("strip-weights", request, lambda graph: strip_weights(graph, keep_strings=keep_strings, keep=keep))
