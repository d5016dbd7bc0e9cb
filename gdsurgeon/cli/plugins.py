"""Commands that other packages add, by entry points of the group ``gdsurgeon.commands``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gdsurgeon.errors import UsageError, printable, quoted
from gdsurgeon.registry import COMMANDS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    try:
        found = plugin.load()
    except (Exception, SystemExit) as error:  # what another package does wrong, it does in ways of its own
        raise UsageError(
            f"the command {quoted(plugin.name)} ({printable(plugin.value)}) cannot be loaded: "
            f"{type(error).__name__}: {printable(str(error))}",
            code="bad-plugin",
            facts={"name": plugin.name},
        ) from error
    if not isinstance(found, click.Command):
        raise UsageError(
            f"the command {quoted(plugin.name)} ({printable(plugin.value)}) is not a click command",
            code="bad-plugin",
            facts={"name": plugin.name},
        )
    return found


def short_help(plugin: EntryPoint) -> str:
    """Returns a line for the list of commands, or the error if the plugin cannot be loaded."""
    try:
        return load(plugin).get_short_help_str(limit=80)
    except UsageError as error:
        return f"({error.message})"
