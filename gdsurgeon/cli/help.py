"""gdsurgeon help."""

from __future__ import annotations

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import commands


@click.command("help", cls=Command)
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=commands)
@click.pass_context
def command(context: click.Context, name: str | None) -> None:
    """Show the help of COMMAND, or the list of commands.

    \b
    Example:
      gdsurgeon help rename
    """
    program = context.find_root()
    if name is None:
        click.echo(program.get_help())
        return
    assert isinstance(program.command, click.Group)
    found = program.command.get_command(program, name)
    assert found is not None
    with click.Context(found, info_name=name, parent=program) as shown:
        click.echo(shown.get_help())
