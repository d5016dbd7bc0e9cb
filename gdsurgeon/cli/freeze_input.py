"""gdsurgeon freeze-input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gdsurgeon.cli.options import edit_options, pair
from gdsurgeon.errors import UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.execute.operate import Request


@click.command("freeze-input")
@edit_options
@click.argument("values", metavar="NAME=VALUE|@FILE.npy...", nargs=-1, required=True)
def command(request: Request, values: tuple[str, ...]) -> None:
    """Make inputs constants; they keep their names.

    VALUE is a number, true or false, a text, or a list in brackets. Proven by running: the result gives what MODEL
    gives when it is fed those values.

    \b
    Example:
      gdsurgeon freeze-input model.pb is_training=false keep_prob=1.0 -o out.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.freeze_input import freeze_input

    wanted: dict[str, Any] = {}
    for text in values:
        name, value = pair(text, "value")
        name = name.removesuffix(":0")
        if name in wanted:
            raise UsageError(f"{printable(name)} is given two values")
        if value.startswith("@"):
            request.others += (value[1:],)
            wanted[name] = _array(value[1:])
        else:
            wanted[name] = value
    run_edit("freeze-input", request, lambda graph: freeze_input(graph, wanted))


def _array(path: str) -> Any:
    """The array in an .npy file."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"the value {printable(path)} cannot be read: {reason}") from error
    except Exception as error:  # numpy has many ways to say that a file is none of its own
        raise UsageError(f"the value {printable(path)} cannot be read: it is no .npy file") from error
    if not isinstance(found, np.ndarray):
        raise UsageError(f"the value {printable(path)} is an archive, no .npy file")
    return found
