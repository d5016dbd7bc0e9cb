"""gdsurgeon control-edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_bodies
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import control, nodes, paired
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.selection import selection_options
from gdsurgeon.errors import UsageError, quoted

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.graph.node import Node
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.select import Selection


@click.command("control-edges", cls=Command)
@edit_options
@in_bodies
@selection_options
@known_option("--add", shell_complete=paired(nodes, control))
@known_option("--remove", shell_complete=paired(nodes, control))
def command(request: Request, selection: Selection, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Add and remove control edges.

    NODE=^BEFORE is a control edge from BEFORE to NODE: NODE runs only after BEFORE. ^BEFORE, without NODE, means
    control edges from BEFORE to all named and selected nodes. All edges are changed in one step. Every output stays
    bit-identical.

    \b
    Examples:
      gdsurgeon control-edges model.pb --add 'logits=^check_inputs'
      gdsurgeon control-edges model.pb --remove 'logits=^Assert' --remove 'probabilities=^*'
      gdsurgeon control-edges model.pb --op Conv2D --remove '^*'
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.control_edges import control_edges

    if not add and not remove:
        raise UsageError("nothing to do: give --add NODE=^BEFORE or --remove NODE=^BEFORE", code="missing-option")
    added = [_edge(text, "--add", selection) for text in add]
    removed = [_edge(text, "--remove", selection) for text in remove]
    if not selection.names_nothing and all(node for node, _ in (*added, *removed)):
        raise UsageError("nodes are selected, but no edge ^BEFORE is given for them", code="missing-option")

    def edit(graph: Graph) -> EditResult:
        from gdsurgeon.select import selected_nodes

        chosen = [] if selection.names_nothing else selected_nodes(graph, selection)
        return control_edges(
            graph,
            add=list(_edges(added, lambda _: chosen)),
            remove=list(_edges(removed, lambda before: _having(chosen, before))),
        )

    run_edit("control-edges", request, edit)


def _edges(edges: Iterable[tuple[str, str]], chosen: Callable[[str], Iterable[Node]]) -> Iterator[tuple[str, str]]:
    """Yields EDGES; an edge ^BEFORE without a node once for each node that CHOSEN returns for BEFORE."""
    for node, before in edges:
        yield from [(node, before)] if node else [(each.name, before) for each in chosen(before.removeprefix("^"))]


def _having(nodes: Sequence[Node], before: str) -> Sequence[Node]:
    """Returns those of NODES that have the control input BEFORE, or any if that is ``*``; all of NODES if none has."""
    return [node for node in nodes if any(before in ("*", control.name) for control in node.controls)] or nodes


def _edge(text: str, option: str, selection: Selection) -> tuple[str, str]:
    """Returns NODE and ^BEFORE; NODE is '' in an edge of the selected nodes."""
    node, _, before = text.partition("=") if not text.startswith("^") else ("", "", text)
    if not before.removeprefix("^") or not (node or (text == before and not selection.names_nothing)):
        expected = "NODE=^BEFORE" if selection.names_nothing else "[NODE=]^BEFORE"
        facts = {"option": option, "value": text, "expected": expected}
        raise UsageError(f"{option} {quoted(text)} is not {expected}", code="not-a-pair", facts=facts)
    if not before.startswith("^"):
        raise UsageError(
            f"{option} {quoted(text)}: a control input is written ^node",
            code="bad-value",
            facts={"option": option, "value": text, "near": f"{node}=^{before}"},
            hint=f"{option} {quoted(f'{node}=^{before}')}",
        )
    return node, before
