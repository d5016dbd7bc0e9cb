"""gdsurgeon repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import EditError, UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("repair", cls=Command)
@edit_options
@click.option("--check", "--list", "only_check", is_flag=True, help="Only list what is wrong: exit 0 or 4.")
def command(request: Request, only_check: bool) -> None:
    """Put right what keeps an old graph from being loaded.

    Ops that want a variable and read a value, as in a frozen graph (RefSwitch, Assign, ReadVariableOp, ...), become
    those that give the same of a value; colocations with nodes that are not there go; of several nodes with one name
    each gets its own. Tables that nothing initialises are named. Proven by running: the result runs, and where MODEL
    does, the outputs are bit-identical.

    \b
    Examples:
      gdsurgeon repair model.pb --list
      gdsurgeon repair model.pb -o mended.pb
    """
    if only_check:
        if request.out is not None or request.in_place:
            raise UsageError("--check (--list) writes nothing: it goes with neither -o nor -i")
        _check(request)
        return
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.repair import repair

    request.mends = True
    run_edit("repair", request, repair)


def _check(request: Request) -> None:
    """Lists what is wrong. Raises EditError: something is."""
    from gdsurgeon.analysis.checks.check import check
    from gdsurgeon.analysis.queries.ailments import ailments
    from gdsurgeon.container.load import open_model
    from gdsurgeon.graph.uniquely import uniquely_named

    graph = uniquely_named(open_model(request.model, request.wanted).graph)
    found = [each.text if each.is_mendable else f"{each.text} (cannot be mended)" for each in ailments(graph)]
    nodes = {each.node for each in ailments(graph)}
    others = [fault for fault in check(graph).faults if not any(repr(name) in fault for name in nodes)]
    lines = [*graph.mended, *found, *(f"{fault} (cannot be mended)" for fault in others)]
    name = printable(graph.source_name)
    if lines:
        raise EditError(f"{name} is to be mended:", code="to-be-mended", details=tuple(lines))
    terminal.summary([f"nothing is wrong with {name} that is known here: {graph.node_count:,} nodes"])
