"""gdsurgeon slim."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("slim", cls=Command)
@partial(edit_options, without=("as_v1",))
def command(request: Request) -> None:
    """Write a SavedModel with only what its signatures need.

    The result has only the nodes, functions, variables (with their values) and assets that the signatures need. With
    --signature KEY, only this signature is kept. All loaders can restore the result, because it neither contains nor
    needs the Python objects of MODEL.

    Proof: every signature returns bit-identical outputs.

    \b
    Examples:
      gdsurgeon slim exported -o served/1
      gdsurgeon slim exported --signature serving_default -o served/1
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.slim import slim

    keys = request.wanted.signatures
    request.form, request.becomes = "slim", ".slim"
    run_edit("slim", request, lambda graph: slim(graph, signatures=keys))
