"""gdsurgeon slim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.cli.edit import edit_command

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@edit_command("slim", without=("as_v1",))
def command(request: Request) -> dict[str, object]:
    """Write a SavedModel with only what its signatures need.

    The result has only the nodes, functions, variables (with their values) and assets that the signatures need. With
    --signature KEY, only this signature is kept. All loaders can restore the result, because it neither contains nor
    needs the Python objects of MODEL.

    Proof: every signature returns bit-identical outputs.

    \b
    Examples:
      gdsurgeon slim exported -o served/1
      gdsurgeon slim exported --signature serving_default -o served/1
    """
    request.form = "slim"
    return {"signatures": request.wanted.signatures}
