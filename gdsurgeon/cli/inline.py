"""gdsurgeon inline."""

from __future__ import annotations

from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import option, tolerance_options


@edit_command("inline")
@tolerance_options
@option("--function", "functions")
@option("--keep-names")
def command(**arguments: object) -> dict[str, object]:
    """Replace calls of functions by the nodes of the functions.

    Nested calls are also replaced. The new nodes are named CALL/NAME. Loops and conditionals (While, If) still call
    their functions. Functions that are no longer used are removed.

    Proof: all outputs are bit-identical.

    \b
    Example:
      gdsurgeon inline model.pb -o flat.pb
    """
    return arguments
