"""gdsurgeon insert."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes
from gdsurgeon.cli.options import edit_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("insert", cls=Command)
@edit_options
@click.argument("tensor", shell_complete=nodes)
@click.argument("body", shell_complete=files)
@click.option("--scope", metavar="NAME", default="", help="The name scope that BODY's nodes come under.")
def command(request: Request, tensor: str, body: str, scope: str) -> None:
    """Splice the graph BODY, with one input and one output, into TENSOR.

    What read TENSOR reads what BODY makes of it. Proven by running: BODY's result is what BODY gives on its own, and
    the outputs are what MODEL gives when TENSOR has that value.

    \b
    Example:
      gdsurgeon insert model.pb conv1/Relu clip.pb -o out.pb
    """
    from gdsurgeon.cli.parts import load_part
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.insert import insert

    part = load_part(body, request)
    run_edit("insert", request, lambda graph: insert(graph, tensor, part, scope=scope))
