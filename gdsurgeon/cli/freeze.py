"""gdsurgeon freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import listed, nodes
from gdsurgeon.cli.options import edit_options, names_in

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("freeze", cls=Command)
@edit_options
@click.option(
    "--outputs",
    metavar="TENSOR,...",
    shell_complete=listed(nodes),
    multiple=True,
    help="Freeze what computes these, and no signature.",
)
@click.option(
    "--inputs",
    metavar="TENSOR,...",
    shell_complete=listed(nodes),
    multiple=True,
    help="With --outputs: tensors at which to cut; they become placeholders.",
)
def command(request: Request, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Make a SavedModel, or a .meta with its checkpoint, a frozen GraphDef: variables become constants.

    It is cut down to what a signature computes (--signature KEY; serving_default, or the only one there is), or what
    --outputs name. Values are copied from the checkpoint, functions are kept. Proven by running: it gives what the
    restored model gives, bit for bit.

    \b
    Examples:
      gdsurgeon freeze saved_model/ -o frozen.pb
      gdsurgeon freeze model.ckpt.meta --outputs logits -o frozen.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.freeze import freeze

    starts, ends = names_in(inputs, "--inputs"), names_in(outputs, "--outputs")
    keys = request.wanted.signatures
    request.form, request.becomes = "graph", ".frozen.pb"
    run_edit("freeze", request, lambda graph: freeze(graph, signatures=keys, outputs=ends, inputs=starts))
