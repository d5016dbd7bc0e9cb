"""gdsurgeon reroute."""

from __future__ import annotations

from gdsurgeon.cli.command import in_functions, pairs_argument
from gdsurgeon.cli.complete import nodes, paired
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import MissingArgument, option


@edit_command("reroute")
@in_functions
@option("--swap")
@option("--only")
@option("--except", "exclude")
@pairs_argument("OLD=NEW...", paired(nodes, nodes))
def command(**arguments: object) -> dict[str, object]:
    """Make the consumers of tensor OLD read tensor NEW.

    Write a tensor as node or node:1. Control inputs do not change. Nodes that NEW depends on still read OLD, so that
    the graph gets no cycle.

    \b
    Example:
      gdsurgeon reroute model.pb conv1/BiasAdd=conv1/Relu --except '^aux/' -o out.pb
    """
    if not arguments["pairs"]:
        raise MissingArgument("nothing to reroute: give OLD=NEW or --map-file")
    return arguments
