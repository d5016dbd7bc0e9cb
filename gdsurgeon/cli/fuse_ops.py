"""gdsurgeon fuse-ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.cli.command import selecting
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import option, tolerance_options
from gdsurgeon.cli.parts import load_part

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@edit_command("fuse-ops")
@selecting("nodes", is_required=True)
@tolerance_options
@option("--name", required=True)
@option("--inline")
@option("--xla")
@option("--with", "body")
@option("--map", "mapped", needs="--with", help="Pair a tensor at the boundary of the selection with a node of BODY.")
@option("--expose", "keep")
def command(request: Request, body: str | None, **arguments: object) -> dict[str, object]:
    """Replace the selected nodes by one call of a function.

    TensorFlow does not inline the function when it runs the graph, unless --inline is given. Outputs of the graph keep
    their names.

    Proof: all outputs are bit-identical. With --xla, they may differ within a tolerance.

    \b
    Example:
      gdsurgeon fuse-ops model.pb --between conv1/Conv2D=conv1/Relu --with-consts --name conv1_block
    """
    return {"body": load_part(body, request) if body is not None else None, **arguments}
