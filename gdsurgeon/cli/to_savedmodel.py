"""gdsurgeon to-savedmodel."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gdsurgeon.cli.command import current_script
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import Pairs, option, signature_entries

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@edit_command("to-savedmodel", without=("as_v1", "checkpoint"))
@option(
    "--inputs",
    help="Inputs of a signature; KEY:NAME=TENSOR selects signature KEY.  [default: all placeholders]",
    parse=signature_entries,
)
@option("--outputs", help="Outputs of a signature.  [default: all outputs]", parse=signature_entries)
@option("--init")
@option("--asset", "assets")
@option("--unfreeze")
def command(request: Request, assets: Pairs, **arguments: object) -> dict[str, object]:
    """Convert a frozen GraphDef to a SavedModel.

    The SavedModel works with servers and loaders of TensorFlow 1 and 2. --inputs and --outputs define its signatures.
    In these options, KEY is the key of a signature [default: serving_default]. The graph does not change, except that
    the constants of --unfreeze become variables with a checkpoint.

    Proof: the signatures return what MODEL returns.

    \b
    Example:
      gdsurgeon to-savedmodel model.pb --inputs images=image_tensor --outputs boxes=detection_boxes -o served/1
    """
    from gdsurgeon.edits.to_savedmodel import Asset

    request.form, paths = "saved_model", tuple(path for _, path in assets)
    request.others += paths
    request.settings = request.settings.reading(paths)
    if current_script() is not None:  # its folder is the working folder only now
        assets = [(tensor, os.path.abspath(path)) for tensor, path in assets]
    return {"assets": [Asset(*pair) for pair in assets], **arguments}
