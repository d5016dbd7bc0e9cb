"""gdsurgeon help."""

from __future__ import annotations

import click

from gdsurgeon.cli.command import Command, common_options, write_options

OPTIONS = "options"


def _topics(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Returns the names of commands, and ``options``."""
    program = context.find_root()
    assert isinstance(program.command, click.Group)
    return [name for name in (*program.command.list_commands(program), OPTIONS) if name.startswith(incomplete)]


@click.command("help", cls=Command)
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=_topics)
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
        formatter = context.make_formatter()
        formatter.write_text("Options that most commands have. COMMAND --help-all shows all options of a command.")
        write_options(common_options(), context, formatter)
        click.echo(formatter.getvalue().rstrip("\n"))
        return
    assert isinstance(program.command, click.Group)
    found = program.command.get_command(program, name)
    assert found is not None
    with click.Context(found, info_name=name, parent=program) as shown:
        click.echo(shown.get_help())
