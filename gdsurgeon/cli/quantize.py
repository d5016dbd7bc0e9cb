"""gdsurgeon quantize."""

from __future__ import annotations

from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import MissingOption, option, tensor_tolerance


@edit_command("quantize")
@option("--dtype")
@option("--keep", default="")
@option("--min", "least", default=64, show_default=True)
@tensor_tolerance("; fail if not")
def command(**arguments: object) -> dict[str, object]:
    """Quantize weights to float16, bfloat16 or per-channel int8.

    Each constant is stored in the smaller dtype. A Cast restores the original dtype; for int8, a Mul then applies a
    scale for each channel. The last node has the name of the constant, so its consumers do not change. The
    summary lists the largest errors of constants; --report lists all errors. The summary also lists the differences of
    the outputs and of the inputs of Softmax, NonMaxSuppression and TopK. With --tolerance, the command fails if an
    output differs by more.

    \b
    Examples:
      gdsurgeon quantize model.pb --dtype float16 -o half.pb
      gdsurgeon quantize model.pb --dtype int8 --keep '^box_head' --tolerance 0.05 -o small.pb
    """
    if arguments["dtype"] is None:
        raise MissingOption("--dtype is missing: float16, bfloat16 or int8", option="--dtype")
    return arguments
