"""gdsurgeon control-edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gdsurgeon.cli.command import in_functions, selection_options
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import BadValue, MissingOption, not_a_pair, option
from gdsurgeon.errors import quoted

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.graph.node import Node
    from gdsurgeon.operation.sequence import Edit
    from gdsurgeon.select import Selection


@edit_command("control-edges")
@in_functions
@selection_options
@option("--add")
@option("--remove")
def command(selection: Selection, add: tuple[str, ...], remove: tuple[str, ...]) -> Edit:
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
    if not add and not remove:
        raise MissingOption("nothing to do: give --add NODE=^BEFORE or --remove NODE=^BEFORE")
    added = [_edge(text, "--add", selection) for text in add]
    removed = [_edge(text, "--remove", selection) for text in remove]
    if not selection.names_nothing and all(node for node, _ in (*added, *removed)):
        raise MissingOption("nodes are selected, but no edge ^BEFORE is given for them")

    def edit(graph: Graph) -> EditResult:
        from gdsurgeon.edits.control_edges import control_edges
        from gdsurgeon.select import selected_nodes

        chosen = [] if selection.names_nothing else selected_nodes(graph, selection)

        def having(before: str) -> Sequence[Node]:  # all, if no node has the control input
            return [n for n in chosen if any(before in ("^*", f"^{control.name}") for control in n.controls)] or chosen

        def edges(given: list[tuple[str, str]], nodes: Callable[[str], Sequence[Node]]) -> list[tuple[str, str]]:
            return [(name, before) for node, before in given
                    for name in ([node] if node else [each.name for each in nodes(before)])]  # fmt: skip

        return control_edges(graph, add=edges(added, lambda _: chosen), remove=edges(removed, having))

    return edit


def _edge(text: str, option: str, selection: Selection) -> tuple[str, str]:
    """Returns NODE and ^BEFORE; NODE is '' in an edge of the selected nodes."""
    node, _, before = text.partition("=") if not text.startswith("^") else ("", "", text)
    if not before.removeprefix("^") or not (node or (text == before and not selection.names_nothing)):
        raise not_a_pair(text, option, "NODE=^BEFORE" if selection.names_nothing else "[NODE=]^BEFORE")
    if not before.startswith("^"):
        line, near = f"{option} {quoted(text)}: a control input is written ^node", f"{node}=^{before}"
        raise BadValue(line, hint=f"{option} {quoted(near)}", option=option, value=text, near=near)
    return node, before
