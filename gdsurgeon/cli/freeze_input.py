"""gdsurgeon freeze-input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, inputs_and_constants, paired
from gdsurgeon.cli.options import edit_options, pair
from gdsurgeon.errors import UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("freeze-input", cls=Command)
@edit_options
@click.argument("values", metavar="[NAME=VALUE|@FILE.npy]...", shell_complete=paired(inputs_and_constants), nargs=-1)
@click.option(
    "--values",
    "weights",
    metavar="FILE.npz",
    shell_complete=files,
    help="Values for inputs and constants, by their names.",
)
def command(request: Request, values: tuple[str, ...], weights: str | None) -> None:
    """Make inputs constants, which keep their names, and give constants other values.

    VALUE is a number, true or false, a text, or a list in brackets. Proven by running: the result gives what MODEL
    gives when it is fed those values.

    \b
    Examples:
      gdsurgeon freeze-input model.pb is_training=false keep_prob=1.0 -o out.pb
      gdsurgeon freeze-input model.pb --values weights.npz -o tuned.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.freeze_input import freeze_input
    from gdsurgeon.feeds.given import array_file

    wanted: dict[str, object] = {}
    for text in values:
        name, value = pair(text, "value")
        name = name.removesuffix(":0")
        if name in wanted:
            raise _given_twice(name)
        if value.startswith("@"):
            request.others += (value[1:],)
            wanted[name] = array_file(f"the value {printable(value[1:])}", value[1:])
        else:
            wanted[name] = value
    if not wanted and weights is None:
        raise UsageError("nothing to freeze: NAME=VALUE or --values FILE.npz", code="missing-argument")
    request.others += (weights,) if weights is not None else ()
    run_edit("freeze-input", request, lambda graph: freeze_input(graph, _together(wanted, weights)))


def _given_twice(name: str) -> UsageError:
    return UsageError(f"{printable(name)} is given two values", code="given-twice", facts={"node": name})


def _together(values: dict[str, object], path: str | None) -> dict[str, object]:
    """VALUES, and those in the archive at PATH."""
    arrays = _arrays(path) if path is not None else {}
    arrays = {name.removesuffix(":0"): array for name, array in arrays.items()}
    twice = [name for name in arrays if name in values]
    if twice:
        raise _given_twice(twice[0])
    return values | arrays


def _arrays(path: str) -> dict[str, object]:
    """The arrays in an .npz archive, by the node's name."""
    from gdsurgeon.feeds.archive import load
    from gdsurgeon.runtime.tensor import Tensor

    found = load(path, "the values")[0]
    return {name: value.numpy() if isinstance(value, Tensor) else value for name, value in found.items()}
