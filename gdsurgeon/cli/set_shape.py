"""gdsurgeon set-shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, paired, placeholders
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, pairs
from gdsurgeon.errors import EditError, UsageError

if TYPE_CHECKING:
    from gdsurgeon.graph.attrs import Shape
    from gdsurgeon.operation.edit import Request


@click.command("set-shape", cls=Command)
@edit_options
@click.argument("inputs", metavar="INPUT=SHAPE...", shell_complete=paired(placeholders), nargs=-1)
@known_option("--fix-batch")
@known_option("--no-batch-check")
@known_option("--map-file", "file", shell_complete=files, help="File of pairs INPUT=SHAPE, one per line.")
def command(request: Request, inputs: tuple[str, ...], fix_batch: bool, no_batch_check: bool, file: str | None) -> None:
    """Set the shapes of inputs.

    SHAPE is a list of dimensions, such as 8,224,224,3. Write '?' for an unknown dimension, '[]' for a scalar, and '...'
    for an unknown rank.

    The new shape can conflict with constants, such as the batch size in the shape of a Reshape. The command then lists
    these constants and writes nothing. If only the batch size of a Reshape does not fit, --fix-batch makes the Reshape
    accept any batch size.

    Proof: the outputs equal those of MODEL. If the batch size grows or becomes unknown, the result must also return the
    same values for each row of a batch as MODEL returns for this row in isolation.

    \b
    Examples:
      gdsurgeon set-shape model.pb input=?,224,224,3
      gdsurgeon set-shape model.pb input=8,224,224,3 --fix-batch -o batch8.pb
    """
    from gdsurgeon.analysis.queries.attr_text import parse_shape
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.set_shape import set_shape

    if file is not None:
        request.others += (file,)
    wanted: list[tuple[str, Shape]] = []
    for name, text in pairs(inputs, file):
        try:
            wanted.append((name, parse_shape(text) if text.strip() else ()))
        except EditError as error:
            raise UsageError(error.message, code=error.code, facts=error.facts) from error
    if not wanted:
        raise UsageError("nothing to do: give INPUT=SHAPE or --map-file FILE", code="missing-argument")
    run_edit(
        "set-shape",
        request,
        lambda graph: set_shape(graph, wanted, fix_batch=fix_batch, batch_check=not no_batch_check),
    )
