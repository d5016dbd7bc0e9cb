"""gdsurgeon quantize."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, tensor_tolerance
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("quantize", cls=Command)
@edit_options
@known_option("--dtype")
@known_option("--keep", default="")
@known_option("--min", "least", default=64, show_default=True)
@tensor_tolerance("; fail if not")
def command(request: Request, dtype: str | None, keep: str, least: int, tolerance: float | None) -> None:
    """Quantize weights to float16, bfloat16 or per-channel int8.

    Each constant is stored in the smaller dtype. A Cast restores the original dtype; for int8, a Mul then applies a
    scale for each channel. The last of these nodes has the name of the constant, so its consumers do not change. The
    summary lists the largest errors of constants; --report lists all errors. The summary also lists the differences of
    the outputs and of the inputs of Softmax, NonMaxSuppression and TopK. With --tolerance, the command fails if an
    output differs by more.

    \b
    Examples:
      gdsurgeon quantize model.pb --dtype float16 -o half.pb
      gdsurgeon quantize model.pb --dtype int8 --keep '^box_head' --tolerance 0.05 -o small.pb
    """
    if dtype is None:
        raise UsageError(
            "--dtype is missing: float16, bfloat16 or int8",
            code="missing-option",
            facts={"option": "--dtype"},
        )
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.quantize import quantize

    run_edit("quantize", request, lambda graph: quantize(graph, dtype, keep=keep, least=least, tolerance=tolerance))
