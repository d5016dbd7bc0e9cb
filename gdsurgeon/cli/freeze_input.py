"""gdsurgeon freeze-input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import selecting
from gdsurgeon.cli.complete import inputs_and_constants, paired
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import MissingArgument, option, pair
from gdsurgeon.errors import UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit
    from gdsurgeon.select import Selection


@edit_command("freeze-input")
@selecting(by_position=False)
@click.argument("words", metavar="[NODE[=VALUE]]...", shell_complete=paired(inputs_and_constants), nargs=-1)
@option("--value")
@option("--values", "weights")
def command(
    request: Request, selection: Selection, words: tuple[str, ...], value: str | None, weights: str | None
) -> Edit:
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
    values: dict[str, object] = {}
    for word in words:
        if "=" in word:
            name, text = pair(word, "value", form="NAME=VALUE")
            _add(values, name, _read(text, request))
    names = [word.removesuffix(":0") for word in words if "=" not in word]
    selection = replace(selection, nodes=(*names, *selection.nodes))
    if selection.names_nothing == (value is not None):
        message = "--value needs nodes: NODE ..., or a selection" if value is not None else "the nodes have no value"
        raise MissingArgument(message, hint="NODE=VALUE, or --value", option="--value")
    if not values and weights is None and value is None:
        raise MissingArgument("nothing to freeze: give NODE=VALUE or --values FILE.npz")
    request.others += (weights,) if weights is not None else ()
    shared = None if value is None else _read(value, request)

    def edit(graph: Graph) -> EditResult:
        from gdsurgeon.edits.freeze_input import freeze_input
        from gdsurgeon.select import selected_nodes

        frozen = dict(values)
        for name, array in _arrays(weights).items() if weights is not None else ():
            _add(frozen, name, array)
        for node in selected_nodes(graph, selection) if shared is not None else ():
            _add(frozen, node.name, shared)
        return freeze_input(graph, frozen)

    return edit


def _add(values: dict[str, object], tensor: str, value: object) -> None:
    """Adds the value of a tensor. Raises UsageError if its node already has a value."""
    name = tensor.removesuffix(":0")
    if name in values:
        raise UsageError(f"{printable(name)} has two values", code="given-twice", node=name)
    values[name] = value


def _read(value: str, request: Request) -> object:
    """Returns the value that the text stands for: the text itself, or the array of @FILE.npy."""
    if not value.startswith("@"):
        return value
    from gdsurgeon.feeds.given import array_file

    request.others += (value[1:],)
    return array_file(f"the value {printable(value[1:])}", value[1:])


def _arrays(path: str) -> dict[str, object]:
    """Returns the arrays in an .npz archive, by the node's name."""
    from gdsurgeon.feeds.archive import load
    from gdsurgeon.runtime.tensor import Tensor

    found = load(path, "the values")[0]
    return {name: value.numpy() if isinstance(value, Tensor) else value for name, value in found.items()}
