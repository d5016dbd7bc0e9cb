"""gdsurgeon import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.complete import files
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import option
from gdsurgeon.cli.parts import load_part

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@edit_command("import")
@click.argument("other", shell_complete=files)
@option("--prefix", "scope", default="")
@option("--map", "connect", help="Connect tensor LEFT of MODEL to placeholder RIGHT of OTHER.")
def command(request: Request, other: str, **arguments: object) -> dict[str, object]:
    """Add the graph of a second model to a model.

    With --map, consumers of a placeholder of OTHER read a tensor of MODEL instead. If OTHER is a SavedModel, its
    variables become constants. If both models are SavedModels, the result also has the signatures of OTHER.

    Proof: the outputs of MODEL are bit-identical. The outputs of OTHER equal what OTHER returns in a separate run for
    the same input values.

    \b
    Example:
      gdsurgeon import detector.pb classifier.pb --prefix classifier --map crops=image -o both.pb
    """
    return {"other": load_part(other, request), **arguments}
