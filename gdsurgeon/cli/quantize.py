"""gdsurgeon quantize."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options, tensor_tolerance
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("quantize", cls=Command)
@edit_options
@click.option("--dtype", type=click.Choice(["float16", "bfloat16", "int8"]), help="What to store weights as.")
@click.option("--keep", metavar="REGEX", default="", help="Leave constants whose names match as they are.")
@click.option(
    "--min",
    "least",
    metavar="N",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Leave constants of fewer elements as they are.",
)
@tensor_tolerance("; fail if not")
def command(request: Request, dtype: str | None, keep: str, least: int, tolerance: float | None) -> None:
    """Store weights in fewer bytes: halves with a Cast, or int8 with a scale for each channel and a Mul.

    What the Cast or the Mul gives has the name of the constant, so that readers are as they were. The exact error of
    each constant is told, the largest first (all of them in --report), and how far outputs are from what they were, and
    what is before a Softmax, a NonMaxSuppression or a TopK. Nothing is claimed of that unless --tolerance says how far
    they may be.

    \b
    Examples:
      gdsurgeon quantize model.pb --dtype float16 -o half.pb
      gdsurgeon quantize model.pb --dtype int8 --keep '^box_head' --tolerance 0.05 -o small.pb
    """
    if dtype is None:
        raise UsageError(
            "what to store weights as is missing: --dtype float16, bfloat16 or int8",
            code="missing-option",
            facts={"option": "--dtype"},
        )
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.quantize import quantize

    run_edit("quantize", request, lambda graph: quantize(graph, dtype, keep=keep, least=least, tolerance=tolerance))
