"""gdsurgeon to-savedmodel."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, pair
from gdsurgeon.cli.tensor_lists import signature_entries, tensor_lists

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("to-savedmodel", cls=Command)
@partial(edit_options, without=("as_v1", "checkpoint"))
@tensor_lists(
    inputs="Inputs of a signature; KEY:NAME=TENSOR selects signature KEY.  [default: all placeholders]",
    outputs="Outputs of a signature.  [default: all outputs]",
)
@known_option("--init", shell_complete=nodes)
@known_option("--asset", "assets", shell_complete=files)
@known_option("--unfreeze")
def command(
    request: Request,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    init: tuple[str, ...],
    assets: tuple[str, ...],
    unfreeze: str | None,
) -> None:
    """Convert a frozen GraphDef to a SavedModel.

    The SavedModel works with servers and loaders of TensorFlow 1 and 2. --inputs and --outputs define its signatures.
    In these options, KEY is the key of a signature [default: serving_default]. The graph does not change, except that
    the constants of --unfreeze become variables with a checkpoint.

    Proof: the signatures return what MODEL returns.

    \b
    Example:
      gdsurgeon to-savedmodel model.pb --inputs images=image_tensor --outputs boxes=detection_boxes -o served/1
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.to_savedmodel import Asset, to_savedmodel

    taken = signature_entries(inputs, "--inputs")
    given = signature_entries(outputs, "--outputs")
    read = [Asset(*pair(text, "--asset")) for text in assets]
    request.form, request.becomes = "saved_model", ".saved_model"
    request.assets = tuple(asset.path for asset in read)
    request.others = (*request.others, *request.assets)
    run_edit(
        "to-savedmodel",
        request,
        lambda graph: to_savedmodel(graph, taken, given, init=init, assets=read, unfreeze=unfreeze),
    )
