"""gdsurgeon completion."""

from __future__ import annotations

import click

from gdsurgeon.cli.command import Command


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the shell script that completes commands.

    The script completes commands, options, values of options, and files. If the command line names a model that is not
    too large, the script also completes the names of nodes, ops, scopes and functions.

    \b
    Examples:
      gdsurgeon completion bash > ~/.local/share/bash-completion/completions/gdsurgeon
      gdsurgeon completion zsh > ~/.zfunc/_gdsurgeon
      gdsurgeon completion fish > ~/.config/fish/completions/gdsurgeon.fish
    """
    from gdsurgeon.cli.shells import script

    click.echo(script(shell), nl=False)
