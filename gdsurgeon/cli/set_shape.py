"""gdsurgeon set-shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.cli.command import pairs_argument
from gdsurgeon.cli.complete import paired, placeholders
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import MissingArgument, Pairs, option
from gdsurgeon.errors import EditError, UsageError

if TYPE_CHECKING:
    from gdsurgeon.graph.attrs import Shape


@edit_command("set-shape")
@option("--fix-batch")
@option("--no-batch-check")
@pairs_argument("INPUT=SHAPE...", paired(placeholders), help="File of pairs INPUT=SHAPE, one per line.")
def command(pairs: Pairs, fix_batch: bool, no_batch_check: bool) -> dict[str, object]:
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

    shapes: list[tuple[str, Shape]] = []
    for name, text in pairs:
        try:
            shapes.append((name, parse_shape(text) if text.strip() else ()))
        except EditError as error:
            raise UsageError(error.message, code=error.code, facts=error.facts) from error
    if not shapes:
        raise MissingArgument("nothing to do: give INPUT=SHAPE or --map-file FILE")
    return {"shapes": shapes, "fix_batch": fix_batch, "batch_check": not no_batch_check}
