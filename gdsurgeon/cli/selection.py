"""The options that select nodes, the same in all commands."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import click

from gdsurgeon.cli.command import Decorator, collected
from gdsurgeon.cli.complete import nodes
from gdsurgeon.cli.options import lines_of, option
from gdsurgeon.errors import EditError, UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.select import Selection

_option = functools.partial(option, heading="Selection")
_SELECTION = (
    _option("--node", "nodes"),
    _option("--nodes", "file"),
    _option("--select", "regexes"),
    _option("--op", "ops"),
    _option("--scope", "scopes"),
    _option("--between"),
    _option("--forward"),
    _option("--backward"),
    _option("--exclude"),
    _option("--control-edges", "control"),
    _option("--with-consts", "constants"),
)

in_functions = _option("--in", "in_functions")
"""The option --in of an edit: its request has the functions whose bodies are edited."""


def selecting(name: str = "selection", *, by_position: bool = True, is_required: bool = False) -> Decorator:
    """Returns a decorator that adds the options of a selection; they arrive as one selection.

    Args:
        name: the argument of the command that gets the selection.
        by_position: whether the command also has the argument [NODE]...
        is_required: whether a selection that names nothing is refused.
    """

    def collect(options: dict[str, Any]) -> Selection:
        selection = _selection(options)
        if is_required:
            required(selection)
        return selection

    arguments = [click.argument("chosen", metavar="[NODE]...", shell_complete=nodes, nargs=-1)] * by_position
    return collected(name, [*_SELECTION, *arguments], collect)


selection_options = selecting()
"""Adds the options of a selection, and the argument [NODE]...; they arrive as `selection`."""


def _selection(options: dict[str, Any]) -> Selection:
    """Removes the options of a selection from `options`, and returns the selection."""
    from gdsurgeon.select import Selection

    take = options.pop
    nodes, file = (*take("chosen", ()), *take("nodes")), take("file")
    model = click.get_current_context().params.get("model")
    if file == "-" == model:
        raise UsageError("only one of MODEL and --nodes can be read from standard input", code="conflicting-options")
    kept: dict[str, Any] = {
        name: take(name) for name in ("regexes", "ops", "scopes", "exclude", "control", "constants")
    }
    kept |= {name: tuple(take(name)) for name in ("between", "forward", "backward")}
    return Selection(nodes=(*nodes, *(_names(file) if file is not None else ())), **kept)


def required(selection: Selection) -> None:
    """Raises UsageError if `selection` names nothing."""
    if selection.names_nothing:
        hint = "NODE ..., --select REGEX, --op TYPE, --scope SCOPE, --between IN=OUT, ..."
        raise UsageError("no nodes are selected", code="nothing-selected", hint=hint)


def _names(file: str) -> list[str]:
    """Returns the nodes in the lines of `file`; the name of a tensor means its node."""
    names = [line.partition(":")[0] for line in lines_of(file, "--nodes", sys.stdin if file == "-" else None) if line]
    if not names:  # a pipe that has found nothing does not mean everything
        raise EditError(
            f"{'standard input' if file == '-' else printable(file)} contains no names",
            code="nothing-selected",
            file=file,
        )
    return names
