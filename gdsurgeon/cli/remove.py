"""gdsurgeon remove."""

from __future__ import annotations

from gdsurgeon.cli.command import in_functions, selecting
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import option


@edit_command("remove")
@in_functions
@selecting("nodes", is_required=True)
@option("--bypass", excludes="--dangling")
@option("--bypass-input", needs="--bypass")
@option("--dangling")
@option("--allow-outputs")
@option("--orphans")
def command(**arguments: object) -> dict[str, object]:
    """Remove nodes.

    If remaining nodes read a removed node, they need a different input: use --bypass or --dangling. Without these
    options, the command fails. Control edges and colocations are updated.

    Proof: the result computes a new value for each removed tensor. MODEL runs with these values in place of the removed
    tensors. Both graphs then return the same remaining outputs.

    \b
    Examples:
      gdsurgeon remove model.pb --select '/dropout/' --bypass -o out.pb
      gdsurgeon remove model.pb --op Assert --orphans -o out.pb
    """
    return arguments
