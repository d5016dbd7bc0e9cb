"""gdsurgeon set-device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_bodies
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, once, pair
from gdsurgeon.cli.selection import required, selection_options
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.select import Selection


@click.command("set-device", cls=Command)
@edit_options
@in_bodies
@selection_options
@known_option("--clear")
@known_option("--replace", "mapped")
@known_option("--assign", "placed")
def command(request: Request, selection: Selection, clear: bool, mapped: tuple[str, ...], placed: str | None) -> None:
    """Change or clear the device of nodes.

    If nodes are named or selected, --clear and --replace change only these nodes. If not, they change all nodes, also
    inside functions. --op also selects nodes inside functions. /gpu:0 means /device:GPU:0, and /gpu:* means any GPU.
    OLD can be a part of a device: /gpu:0 matches /job:worker/task:0/device:GPU:0, and the other parts are kept. The
    option --device does not change nodes; it sets the device that runs the proof.

    \b
    Examples:
      gdsurgeon set-device model.pb --clear
      gdsurgeon set-device model.pb --replace /gpu:0=/cpu:0 --replace /job:worker=
      gdsurgeon set-device model.pb --assign /cpu:0 --op DecodeJpeg
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.set_device import set_device

    if (clear, bool(mapped), placed is not None).count(True) != 1:
        code = "conflicting-options" if clear or mapped or placed is not None else "missing-option"
        raise UsageError("give exactly one of --clear, --replace OLD=NEW and --assign DEVICE", code=code)
    if placed is not None:
        required(selection)
    request.tolerates = "bad-device"
    nodes = None if selection.names_nothing else selection
    pairs = once((pair(text) for text in mapped), "--replace")
    run_edit(
        "set-device", request, lambda graph: set_device(graph, clear=clear, pairs=pairs, device=placed, nodes=nodes)
    )
