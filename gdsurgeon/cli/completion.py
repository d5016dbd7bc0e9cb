"""gdsurgeon completion."""

from __future__ import annotations

import click

from gdsurgeon.cli.command import Command


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that has SHELL complete gdsurgeon's commands.

    It completes commands, options, their values, and files; where the model is on the line and is not large, the
    names of its nodes, ops, scopes and functions too.

    \b
    Examples:
      gdsurgeon completion bash > ~/.local/share/bash-completion/completions/gdsurgeon
      gdsurgeon completion zsh > ~/.zfunc/_gdsurgeon
      gdsurgeon completion fish > ~/.config/fish/completions/gdsurgeon.fish
    """
    from gdsurgeon.cli.shells import script

    click.echo(script(shell), nl=False)
