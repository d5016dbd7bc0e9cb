"""gdsurgeon extract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import listed, nodes
from gdsurgeon.cli.options import edit_options, names_in
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("extract", cls=Command)
@edit_options
@click.option(
    "--inputs",
    metavar="TENSOR,...",
    shell_complete=listed(nodes),
    multiple=True,
    help="Tensors at which to cut; they become placeholders.",
)
@click.option(
    "--outputs",
    metavar="TENSOR,...",
    shell_complete=listed(nodes),
    multiple=True,
    help="Tensors that the part computes.",
)
def command(request: Request, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Cut MODEL down to the part that computes some tensors from others.

    Cut inputs become placeholders with their dtype and shape, and keep their names. Proven by running: the part gives
    what MODEL gives when those tensors have the same values.

    \b
    Example:
      gdsurgeon extract model.pb --inputs pool5/Reshape --outputs logits -o head.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.extract import extract

    starts, ends = names_in(inputs, "--inputs"), names_in(outputs, "--outputs")
    if not ends:
        raise UsageError(
            "--outputs TENSOR,... says what the part is to compute",
            code="missing-option",
            facts={"option": "--outputs"},
        )
    run_edit("extract", request, lambda graph: extract(graph, starts, ends))
