"""gdsurgeon strip-weights."""

from __future__ import annotations

from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import option


@edit_command("strip-weights")
@option("--keep-strings")
@option("--keep", default="")
def command(**arguments: object) -> dict[str, object]:
    """Remove the weights, for example to share the graph.

    The result loads, runs and keeps all shapes. Every constant, also inside functions, becomes a single 0, False or
    empty string. Small constants that determine shapes do not change: axes, sizes, paddings and counts.

    Proof: each output keeps its dtype and shape. The result has the same ops, wiring and attrs as MODEL.

    \b
    Examples:
      gdsurgeon strip-weights model.pb -o shared.pb
      gdsurgeon strip-weights model.pb --keep-strings --keep '^anchors' -o shared.pb
    """
    return arguments
