"""gdsurgeon help."""

from __future__ import annotations

import click

from gdsurgeon.cli.command import Command, write_options
from gdsurgeon.cli.complete import commands

OPTIONS = "options"


@click.command("help", cls=Command)
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=commands)
@click.pass_context
def command(context: click.Context, name: str | None) -> None:
    """Show the help of a command, or the common options.

    \b
    Examples:
      gdsurgeon help rename
      gdsurgeon help options
    """
    program = context.find_root()
    if name is None:
        click.echo(program.get_help())
        return
    if name == OPTIONS:
        click.echo(_common_options(context))
        return
    assert isinstance(program.command, click.Group)
    found = program.command.get_command(program, name)
    assert found is not None
    with click.Context(found, info_name=name, parent=program) as shown:
        click.echo(shown.get_help())


def _common_options(context: click.Context) -> str:
    """Returns the help of the options that most commands have."""
    from gdsurgeon.cli.command import common_options

    formatter = context.make_formatter()
    formatter.write_text("Options that most commands have. COMMAND --help-all shows all options of a command.")
    write_options(common_options(), context, formatter)
    return formatter.getvalue().rstrip("\n")
