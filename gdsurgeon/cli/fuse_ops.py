"""gdsurgeon fuse-ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes, paired
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, pair, tolerance_options
from gdsurgeon.cli.selection import required, selection_options
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.select import Selection


@click.command("fuse-ops", cls=Command)
@edit_options
@selection_options
@tolerance_options
@known_option("--name", required=True)
@known_option("--inline", "may_inline")
@known_option("--xla")
@known_option("--with", "body", shell_complete=files)
@known_option(
    "--map",
    "mapped",
    shell_complete=paired(nodes),
    help="Pair a tensor at the boundary of the selection with a node of BODY.",
)
@known_option("--expose", "keep", shell_complete=nodes)
def command(
    request: Request,
    selection: Selection,
    name: str,
    may_inline: bool,
    xla: bool,
    body: str | None,
    mapped: tuple[str, ...],
    keep: tuple[str, ...],
    rtol: float | None,
    atol: float | None,
) -> None:
    """Replace the selected nodes by one call of a function.

    TensorFlow does not inline the function when it runs the graph, unless --inline is given. Outputs of the graph keep
    their names.

    Proof: all outputs are bit-identical. With --xla, they may differ within a tolerance.

    \b
    Example:
      gdsurgeon fuse-ops model.pb --between conv1/Conv2D=conv1/Relu --with-consts --name conv1_block
    """
    from gdsurgeon.cli.parts import load_part
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.fuse_ops import fuse_ops

    required(selection)
    if mapped and body is None:
        raise UsageError(
            "--map needs --with BODY",
            code="missing-option",
            facts={"option": "--with"},
        )
    part = load_part(body, request) if body is not None else None
    pairs = [pair(text, "--map") for text in mapped]
    run_edit(
        "fuse-ops",
        request,
        lambda graph: fuse_ops(
            graph, selection, name, inline=may_inline, xla=xla, body=part, mapped=pairs, keep=keep, rtol=rtol, atol=atol
        ),
    )
