"""gdsurgeon freeze-input."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, inputs_and_constants, paired
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, pair
from gdsurgeon.cli.selection import selection_options
from gdsurgeon.errors import UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.select import Selection


@click.command("freeze-input", cls=Command)
@edit_options
@partial(selection_options, by_position=False)
@click.argument("words", metavar="[NODE[=VALUE]]...", shell_complete=paired(inputs_and_constants), nargs=-1)
@known_option("--value")
@known_option("--values", "weights", shell_complete=files)
def command(
    request: Request, selection: Selection, words: tuple[str, ...], value: str | None, weights: str | None
) -> None:
    """Replace inputs by constants of the same name.

    If NODE is a constant, its value is replaced. VALUE is a number, true or false, a text, a list in brackets, or
    @FILE.npy.

    Proof: the outputs of the result are bit-identical to the outputs of MODEL when the nodes have the same values in
    MODEL.

    \b
    Examples:
      gdsurgeon freeze-input model.pb is_training=false keep_prob=1.0 -o out.pb
      gdsurgeon freeze-input model.pb --op PlaceholderWithDefault --value 1.0 -o out.pb
      gdsurgeon freeze-input model.pb --values weights.npz -o tuned.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.freeze_input import freeze_input

    wanted: dict[str, object] = {}
    for text in words:
        if "=" in text:
            name, spelt = pair(text, "value", form="NAME=VALUE")
            if name.removesuffix(":0") in wanted:
                raise _given_twice(name.removesuffix(":0"))
            wanted[name.removesuffix(":0")] = _read(spelt, request)
    names = [word.removesuffix(":0") for word in words if "=" not in word]
    selection = replace(selection, nodes=(*names, *selection.nodes))
    if selection.names_nothing == (value is not None):
        message = "--value needs nodes: NODE ..., or a selection" if value is not None else "the nodes have no value"
        raise UsageError(message, code="missing-argument", facts={"option": "--value"}, hint="NODE=VALUE, or --value")
    if not wanted and weights is None and value is None:
        raise UsageError("nothing to freeze: give NODE=VALUE or --values FILE.npz", code="missing-argument")
    request.others += (weights,) if weights is not None else ()
    shared = None if value is None else _read(value, request)

    def edit(graph: Graph) -> EditResult:
        from gdsurgeon.select import selected_nodes

        values = _together(wanted, weights)
        for node in [] if shared is None else selected_nodes(graph, selection):
            if node.name in values:
                raise _given_twice(node.name)
            values[node.name] = shared
        return freeze_input(graph, values)

    run_edit("freeze-input", request, edit)


def _read(value: str, request: Request) -> object:
    """Returns the value that the text stands for: the text itself, or the array of @FILE.npy."""
    if not value.startswith("@"):
        return value
    from gdsurgeon.feeds.given import array_file

    request.others += (value[1:],)
    return array_file(f"the value {printable(value[1:])}", value[1:])


def _given_twice(name: str) -> UsageError:
    return UsageError(f"{printable(name)} has two values", code="given-twice", facts={"node": name})


def _together(values: dict[str, object], path: str | None) -> dict[str, object]:
    """Returns VALUES and the values in the archive at PATH."""
    arrays = _arrays(path) if path is not None else {}
    arrays = {name.removesuffix(":0"): array for name, array in arrays.items()}
    twice = [name for name in arrays if name in values]
    if twice:
        raise _given_twice(twice[0])
    return values | arrays


def _arrays(path: str) -> dict[str, object]:
    """Returns the arrays in an .npz archive, by the node's name."""
    from gdsurgeon.feeds.archive import load
    from gdsurgeon.runtime.tensor import Tensor

    found = load(path, "the values")[0]
    return {name: value.numpy() if isinstance(value, Tensor) else value for name, value in found.items()}
