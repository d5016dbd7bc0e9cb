"""gdsurgeon set-device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.cli.command import in_functions, required, selection_options
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import Pairs, once, option, pairs_in
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.select import Selection


@edit_command("set-device")
@in_functions
@selection_options
@option("--clear")
@option("--replace", "pairs", parse=lambda texts, name: once(pairs_in(texts, name), name))
@option("--assign", "assigned")
def command(
    request: Request, selection: Selection, clear: bool, pairs: Pairs, assigned: str | None
) -> dict[str, object]:
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
    if (clear, bool(pairs), assigned is not None).count(True) != 1:
        code = "conflicting-options" if clear or pairs or assigned is not None else "missing-option"
        raise UsageError("give exactly one of --clear, --replace OLD=NEW and --assign DEVICE", code=code)
    if assigned is not None:
        required(selection)
    request.tolerates = "bad-device"
    nodes = None if selection.names_nothing else selection
    return {"clear": clear, "pairs": pairs, "device": assigned, "nodes": nodes}
