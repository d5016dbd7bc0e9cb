"""gdsurgeon select."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gdsurgeon.cli.command import Query, query_command, selection_options
from gdsurgeon.cli.options import option
from gdsurgeon.cli.terminal import terminal

if TYPE_CHECKING:
    from gdsurgeon.select import Selection


@query_command("select", without=("checkpoint",))
@selection_options
@option("--tensors")
@option("--toposort")
def command(query: Query, selection: Selection, tensors: bool, toposort: bool) -> None:
    """Print the names of selected nodes.

    A node is selected if at least one option selects it and no --exclude matches it. Without options, the command
    prints all nodes. On a terminal, control characters in names are escaped; in a pipe or a file, names are exact.

    \b
    Example:
      gdsurgeon select model.pb --scope block_1 --op Conv2D --exclude /aux/
    """
    from gdsurgeon.analysis.traversal.order import levels
    from gdsurgeon.analysis.traversal.topology import members, topology_of
    from gdsurgeon.select import meant, selected
    from gdsurgeon.view import listing

    graph = query.open().graph
    topology = topology_of(graph)
    selection = meant(graph, selection)
    flags = selected(topology, selection) if not selection.names_nothing else None
    everything = [list(topology.numbers())] if flags is None else [members(flags)]
    found = levels(topology, flags) if toposort else everything
    if query.as_json:
        lines = listing.as_json(topology, found, toposort)
    else:
        escaped = sys.stdout.isatty()
        lines = list(listing.lines(topology, found, tensors=tensors, levels=toposort, escaped=escaped))
    if lines:
        terminal.answer("\n".join(lines))
