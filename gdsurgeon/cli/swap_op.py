"""gdsurgeon swap-op."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_bodies
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options, once, pair
from gdsurgeon.cli.selection import required, selection_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.select import Selection


@click.command("swap-op", cls=Command)
@edit_options
@in_bodies
@selection_options
@click.argument("op", metavar="NEWOP")
@click.option("--set", "values", metavar="KEY=VALUE", multiple=True, help="An attr of NEWOP, as set-attr takes it.")
def command(request: Request, selection: Selection, op: str, values: tuple[str, ...]) -> None:
    """Make the selected nodes the op NEWOP; they keep their names, their inputs and the attrs that fit.

    Attrs that NEWOP has and the old op has not follow from the inputs, have the op's defaults, or are given by --set.
    What does not fit is refused: the number or the dtypes of the inputs, or what reads the node. --in reaches nodes
    inside functions. Proven by running:
    the result loads and runs, and what the nodes do not reach is bit-identical.

    \b
    Examples:
      gdsurgeon swap-op model.pb --op Relu Relu6 -o out.pb
      gdsurgeon swap-op model.pb --select '^pool' --op MaxPool AvgPool
      gdsurgeon swap-op model.pb --node activation LeakyRelu --set alpha=0.1
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.swap_op import swap_op

    required(selection)
    given = once((pair(text, "--set") for text in values), "--set")
    run_edit("swap-op", request, lambda graph: swap_op(graph, selection, op, given))
