"""Finds commands by name: those of the registry, and those that other packages add by entry points."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import NoSuchCommand
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import UsageError, printable, quoted
from gdsurgeon.registry import COMMANDS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
        return [*COMMANDS, *plugins()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        terminal.command = cmd_name
        if cmd_name not in COMMANDS:
            return self._plugin_command(ctx, cmd_name)
        command: click.Command = import_module(f"gdsurgeon.cli.{cmd_name.replace('-', '_')}").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        with terminal.progress():
            return super().invoke(ctx)

    def _plugin_command(self, ctx: click.Context, name: str) -> click.Command:
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


# -- plugins -----------------------------------------------------------------------------------------------------

GROUP = "gdsurgeon.commands"


def plugins() -> dict[str, EntryPoint]:
    """Returns the commands of other packages by name, in alphabetical order, except those with our names."""
    if not _is_mentioned():
        return {}
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found) if name not in COMMANDS}


def _is_mentioned() -> bool:
    """Returns whether an installed package mentions the group. Importing importlib.metadata takes 50 ms."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except NotADirectoryError:
            return True  # an archive: importlib.metadata can look into it
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                        if GROUP in file.read():
                            return True
                except (OSError, UnicodeDecodeError):
                    pass  # most packages have none
    return False


def load(plugin: EntryPoint) -> click.Command:
    """Returns the command of a plugin.

    Raises:
        UsageError: the plugin cannot be imported, or is not a click command.
    """
    called = f"the command {quoted(plugin.name)} ({printable(plugin.value)})"
    try:
        found = plugin.load()
    except (Exception, SystemExit) as error:  # a plugin can fail in any way
        line = f"{called} cannot be loaded: {type(error).__name__}: {printable(str(error))}"
        raise UsageError(line, code="bad-plugin", name=plugin.name) from error
    if not isinstance(found, click.Command):
        raise UsageError(f"{called} is not a click command", code="bad-plugin", name=plugin.name)
    return found


def short_help(plugin: EntryPoint) -> str:
    """Returns a line for the list of commands, or the error if the plugin cannot be loaded."""
    try:
        return load(plugin).get_short_help_str(limit=80)
    except UsageError as error:
        return f"({error.message})"
