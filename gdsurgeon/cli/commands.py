"""Finds commands by name: those of the registry and of plugins."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import NoSuchCommand
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.registry import COMMANDS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


SYNONYMS = {
    "control": "control-edges",
    "cut": "extract",
    "draw": "view",
    "export": "to-savedmodel",
    "fold-bn": "simplify --fold-bn",
    "info": "inspect",
    "join": "import",
    "merge": "import",
    "netron": "view",
    "optimise": "simplify",
    "optimize": "simplify",
    "plot": "view",
    "prune": "simplify",
    "set-input-shape": "set-shape",
    "shrink": "quantize",
    "split": "extract",
    "strip": "strip-weights",
    "subgraph": "extract",
    "summary": "inspect",
    "swap-op": "set-attr",
}
"""The commands that users may mean by names that no command has."""


class Commands(click.Group):
    """The group of all commands. The module of a command is imported when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from gdsurgeon.cli.plugins import plugins

        return [*COMMANDS, *plugins()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        terminal.command = cmd_name
        if cmd_name not in COMMANDS:
            return self._from_elsewhere(ctx, cmd_name)
        command: click.Command = import_module(f"gdsurgeon.cli.{cmd_name.replace('-', '_')}").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        with terminal.progress():
            return super().invoke(ctx)

    def _from_elsewhere(self, ctx: click.Context, name: str) -> click.Command:
        from gdsurgeon.cli.plugins import load, plugins

        found = plugins()
        if name not in found:
            from gdsurgeon.text import nearest

            raise NoSuchCommand(name, SYNONYMS.get(name) or nearest(name, [*COMMANDS, *found]), ctx)
        return load(found[name])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        if not incomplete or incomplete[0].isalnum():
            return [CompletionItem(name) for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from gdsurgeon.cli.plugins import plugins, short_help

        groups: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            groups.setdefault(entry.group, []).append((name, entry.help))
        found = plugins()
        if found:
            groups["From other packages"] = [(name, short_help(plugin)) for name, plugin in found.items()]
        widest = max(len(name) for records in groups.values() for name, _ in records)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), text) for name, text in records])
