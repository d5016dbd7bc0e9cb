"""The options that select nodes, the same in all commands."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gdsurgeon.cli.command import selection_option
from gdsurgeon.cli.complete import files, listed, nodes, ops, paired, scopes
from gdsurgeon.cli.options import lines_of, names_in
from gdsurgeon.errors import EditError, UsageError, printable, quoted

if TYPE_CHECKING:
    from gdsurgeon.select import Selection

F = TypeVar("F", bound=Callable[..., object])

_SELECTION = (
    selection_option("--node", "nodes", shell_complete=nodes),
    selection_option("--nodes", "file", shell_complete=files),
    selection_option("--select", "regexes"),
    selection_option("--op", "ops", shell_complete=ops),
    selection_option("--scope", "scopes", shell_complete=scopes),
    selection_option("--between", shell_complete=paired(listed(nodes), listed(nodes))),
    selection_option("--forward", shell_complete=listed(nodes)),
    selection_option("--backward", shell_complete=listed(nodes)),
    selection_option("--exclude"),
    selection_option("--control-edges", "control"),
    selection_option("--with-consts", "constants"),
)


def selection_options(command: F, *, by_position: bool = True) -> F:
    """Adds the options of a selection, and the argument [NODE]... BY_POSITION; they arrive as one `selection`."""

    @functools.wraps(command)
    def wrapper(chosen: tuple[str, ...] = (), **options: Any) -> object:
        from gdsurgeon.select import Selection

        take = options.pop
        nodes, file = (*chosen, *take("nodes")), take("file")
        if file == "-" and "-" in (options.get("model"), getattr(options.get("request"), "model", None)):
            raise UsageError(
                "only one of MODEL and --nodes can be read from standard input", code="conflicting-options"
            )
        selection = Selection(
            nodes=(*nodes, *(_names(file) if file is not None else ())),
            regexes=take("regexes"),
            ops=take("ops"),
            scopes=take("scopes"),
            between=tuple(_boundary(text) for text in take("between")),
            forward=tuple(names_in(take("forward"), "--forward")),
            backward=tuple(names_in(take("backward"), "--backward")),
            exclude=take("exclude"),
            control=take("control"),
            constants=take("constants"),
        )
        return command(selection=selection, **options)

    if by_position:
        wrapper = click.argument("chosen", metavar="[NODE]...", shell_complete=nodes, nargs=-1)(wrapper)
    for option in reversed(_SELECTION):
        wrapper = option(wrapper)
    return wrapper  # type: ignore[return-value]


def required(selection: Selection) -> None:
    """Raises UsageError if SELECTION names nothing."""
    if selection.names_nothing:
        raise UsageError(
            "no nodes are selected",
            code="nothing-selected",
            hint="NODE ..., --select REGEX, --op TYPE, --scope SCOPE, --between IN=OUT, ...",
        )


def _boundary(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    start, equals, end = text.partition("=")
    sources, targets = (tuple(filter(None, map(str.strip, side.split(",")))) for side in (start, end))
    if not equals or not sources or not targets:
        facts = {"option": "--between", "value": text}
        raise UsageError(f"--between {quoted(text)} is not IN,...=OUT,...", code="not-a-pair", facts=facts)
    return sources, targets


def _names(file: str) -> list[str]:
    """The nodes in the lines of FILE; the name of a tensor means its node."""
    names = [line.partition(":")[0] for line in lines_of(file, "--nodes", sys.stdin if file == "-" else None) if line]
    if not names:  # a pipe that has found nothing does not mean everything
        raise EditError(
            f"{'standard input' if file == '-' else printable(file)} contains no names",
            code="nothing-selected",
            facts={"file": file},
        )
    return names
