"""gdsurgeon control-edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_bodies
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import control, nodes, paired
from gdsurgeon.cli.options import edit_options
from gdsurgeon.errors import UsageError, quoted

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("control-edges", cls=Command)
@edit_options
@in_bodies
@click.option(
    "--add",
    metavar="NODE=^BEFORE",
    shell_complete=paired(nodes, control),
    multiple=True,
    help="Have NODE wait for BEFORE.",
)
@click.option(
    "--remove",
    metavar="NODE=^BEFORE",
    shell_complete=paired(nodes, control),
    multiple=True,
    help="Have NODE wait no longer; ^* is for anything.",
)
def command(request: Request, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Add and remove control edges: NODE runs only after BEFORE has.

    All edges change at once. Proven by running: every output is bit-identical.

    \b
    Examples:
      gdsurgeon control-edges model.pb --add 'logits=^check_inputs'
      gdsurgeon control-edges model.pb --remove 'logits=^Assert' --remove 'probabilities=^*'
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.control_edges import control_edges

    if not add and not remove:
        raise UsageError("nothing to do: give --add NODE=^BEFORE or --remove NODE=^BEFORE", code="missing-option")
    added = [_edge(text, "--add") for text in add]
    removed = [_edge(text, "--remove") for text in remove]
    run_edit("control-edges", request, lambda graph: control_edges(graph, add=added, remove=removed))


def _edge(text: str, option: str) -> tuple[str, str]:
    node, equals, before = text.partition("=")
    if not equals or not node or not before.removeprefix("^"):
        facts = {"option": option, "value": text, "expected": "NODE=^BEFORE"}
        raise UsageError(f"{option} {quoted(text)} is not a pair NODE=^BEFORE", code="not-a-pair", facts=facts)
    if not before.startswith("^"):
        raise UsageError(
            f"{option} {quoted(text)}: a control input is written ^node",
            code="bad-value",
            facts={"option": option, "value": text, "near": f"{node}=^{before}"},
            hint=f"{option} {quoted(f'{node}=^{before}')}",
        )
    return node, before
