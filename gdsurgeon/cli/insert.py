"""gdsurgeon insert."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.part_options import PartOptions, part_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("insert", cls=Command)
@edit_options
@click.argument("tensor", shell_complete=nodes)
@click.argument("body", required=False, shell_complete=files)
@part_options
@click.option("--scope", metavar="NAME", default="", help="The name scope that BODY's nodes come under.")
def command(request: Request, own: PartOptions, tensor: str, body: str | None, scope: str) -> None:
    """Splice the graph BODY, with one input and one output, or one that is built of --steps, into TENSOR.

    What read TENSOR reads what BODY makes of it. Proven by running: BODY's result is what BODY gives on its own, and
    the outputs are what MODEL gives when TENSOR has that value.

    \b
    Examples:
      gdsurgeon insert model.pb conv1/Relu clip.pb -o out.pb
      gdsurgeon insert model.pb conv1/Relu --steps 'clip(0, 6)' -o out.pb
    """
    from gdsurgeon.cli.part_options import part_of
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.insert import insert
    from gdsurgeon.steps import inserted

    part = part_of(request, "BODY", body, own, lambda steps, model: inserted(steps, model, tensor))
    run_edit("insert", request, lambda graph: own.held(insert(graph, tensor, part(graph), scope=scope)))
