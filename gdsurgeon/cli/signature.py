"""gdsurgeon signature."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import OUT_BY_LETTER, edit_options, pair
from gdsurgeon.cli.signature_tensors import named, taking_and_giving
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("signature", cls=Command)
@partial(edit_options, out=OUT_BY_LETTER)
@click.option(
    "--rename", "renamed", metavar="OLD=NEW", multiple=True, help="KEY=NEW, or KEY/NAME=NEW of an input or output."
)
@click.option("--delete", "removed", metavar="KEY[/NAME]", multiple=True, help="A signature, or an input or output.")
@taking_and_giving("What a signature takes besides; one that is not there is made.", "What it gives besides.")
def command(
    request: Request,
    renamed: tuple[str, ...],
    removed: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Rename, remove and add signatures of a SavedModel, or of a MetaGraph, and their inputs and outputs.

    The graph stays as it is. The functions by which TensorFlow 2 serves it follow.

    \b
    Examples:
      gdsurgeon signature model/ --rename serving_default/inputs=images -o renamed/
      gdsurgeon signature model/ --input features:x=image --output features:y=pool5/Reshape -o more/
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.change_signatures import change_signatures

    if not (renamed or removed or inputs or outputs):
        message = "--rename, --delete, --input or --output says what is to change; inspect lists signatures"
        raise UsageError(message, code="missing-option")
    names = [pair(text, "--rename") for text in renamed]
    taken, given = [named(text, "--input") for text in inputs], [named(text, "--output") for text in outputs]
    run_edit(
        "signature",
        request,
        lambda graph: change_signatures(graph, renamed=names, removed=removed, inputs=taken, outputs=given),
    )
