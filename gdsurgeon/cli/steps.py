"""gdsurgeon steps."""

from __future__ import annotations

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import steps
from gdsurgeon.cli.options import option
from gdsurgeon.cli.terminal import terminal


@click.command("steps", cls=Command)
@click.argument("name", required=False, shell_complete=steps)
@option("--json", "as_json")
def command(name: str | None, as_json: bool) -> None:
    """List the steps for preprocessing and postprocessing.

    With NAME, the command explains this step. The commands add-preprocessing, add-postprocessing and insert build a
    graph from steps: --steps 'STEP | STEP(argument, key=value)'.

    \b
    Examples:
      gdsurgeon steps
      gdsurgeon steps resize
    """
    from gdsurgeon.steps.catalog import catalog, find
    from gdsurgeon.view import steps as view

    found = [find(name)] if name is not None else list(catalog().values())
    if as_json:
        terminal.answer(view.as_json(found))
    else:
        terminal.answer("\n".join(view.listed(found) if name is None else view.explained(found[0])))
