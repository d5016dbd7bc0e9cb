"""gdsurgeon signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, pair
from gdsurgeon.cli.tensor_lists import signature_entries, tensor_lists
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("signature", cls=Command)
@edit_options
@known_option("--rename", "renamed", help="Rename a signature (KEY=NEW), or its input or output (KEY/NAME=NEW).")
@known_option("--delete", "removed")
@tensor_lists(
    inputs="Add these inputs to serving_default, or, with KEY:NAME=TENSOR, to signature KEY.",
    outputs="Add these outputs to a signature.",
)
def command(
    request: Request,
    renamed: tuple[str, ...],
    removed: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Rename, remove and add signatures.

    MODEL is a SavedModel or a MetaGraph. Signatures, their inputs and their outputs can be changed. The graph does not
    change. The functions that TensorFlow 2 calls for the signatures are updated.

    \b
    Examples:
      gdsurgeon signature model/ --rename serving_default/inputs=images -o renamed/
      gdsurgeon signature model/ --inputs features:x=image --outputs features:y=pool5/Reshape -o more/
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.change_signatures import change_signatures

    if not (renamed or removed or inputs or outputs):
        message = "nothing to do: give --rename, --delete, --inputs or --outputs (inspect lists signatures)"
        raise UsageError(message, code="missing-option")
    names = [pair(text, "--rename") for text in renamed]
    taken, given = signature_entries(inputs, "--inputs"), signature_entries(outputs, "--outputs")
    run_edit(
        "signature",
        request,
        lambda graph: change_signatures(graph, renamed=names, removed=removed, inputs=taken, outputs=given),
    )
