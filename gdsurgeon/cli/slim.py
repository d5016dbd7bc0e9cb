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
    """Write a SavedModel with what the signatures of MODEL need, and nothing else, for all loaders.

    Nodes, functions, variables with their values, assets: of --signature KEY, or of all signatures. It restores itself,
    also where MODEL leaves that to its Python objects, and has none of these. Proven by running: every signature gives
    what it gave, bit for bit.

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
