"""gdsurgeon remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_bodies
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.selection import required, selection_options
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.select import Selection


@click.command("remove", cls=Command)
@edit_options
@in_bodies
@selection_options
@known_option("--bypass")
@known_option("--bypass-input")
@known_option("--dangling")
@known_option("--allow-outputs")
@known_option("--orphans")
def command(
    request: Request,
    selection: Selection,
    bypass: bool,
    bypass_input: int | None,
    dangling: str | None,
    allow_outputs: bool,
    orphans: bool,
) -> None:
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
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.remove import remove

    required(selection)
    if bypass_input is not None and not bypass:
        raise UsageError("--bypass-input needs --bypass", code="missing-option", facts={"option": "--bypass"})
    if bypass and dangling is not None:
        raise UsageError("give --bypass or --dangling, not both", code="conflicting-options")
    run_edit(
        "remove",
        request,
        lambda graph: remove(
            graph,
            selection,
            bypass=bypass,
            bypass_input=bypass_input,
            dangling=dangling,
            allow_outputs=allow_outputs,
            orphans=orphans,
        ),
    )
