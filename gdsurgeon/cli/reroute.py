"""gdsurgeon reroute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_bodies
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes, paired
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, pairs
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("reroute", cls=Command)
@edit_options
@in_bodies
@click.argument("tensors", metavar="OLD=NEW...", shell_complete=paired(nodes, nodes), nargs=-1)
@known_option("--swap")
@known_option("--only")
@known_option("--except", "exclude")
@known_option("--map-file", "file", shell_complete=files)
def command(
    request: Request,
    tensors: tuple[str, ...],
    swap: bool,
    only: str | None,
    exclude: str | None,
    file: str | None,
) -> None:
    """Make the consumers of tensor OLD read tensor NEW.

    Write a tensor as node or node:1. Control inputs do not change. Nodes that NEW depends on still read OLD, so that
    the graph gets no cycle.

    \b
    Example:
      gdsurgeon reroute model.pb conv1/BiasAdd=conv1/Relu --except '^aux/' -o out.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.reroute import reroute

    if file is not None:
        request.others += (file,)
    wanted = pairs(tensors, file)
    if not wanted:
        raise UsageError("nothing to reroute: give OLD=NEW or --map-file", code="missing-argument")
    run_edit("reroute", request, lambda graph: reroute(graph, wanted, swap=swap, only=only, exclude=exclude))
