"""gdsurgeon clone-scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import nodes, paired, scopes
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, once, pair

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


@click.command("clone-scope", cls=Command)
@edit_options
@click.argument("source", metavar="SRC", shell_complete=scopes)
@click.argument("target", metavar="DST", shell_complete=scopes)
@known_option(
    "--map",
    "mapped",
    shell_complete=paired(nodes, nodes),
    help="The copy reads tensor RIGHT where SRC reads tensor LEFT.",
)
@known_option("--share")
@known_option("--unique")
@known_option("--variables", default="clone", show_default=True)
@known_option("--with-slots")
def command(
    request: Request,
    source: str,
    target: str,
    mapped: tuple[str, ...],
    share: tuple[str, ...],
    unique: bool,
    variables: Literal["clone", "share", "all"],
    with_slots: bool,
) -> None:
    """Copy a name scope, with its own weights.

    All nodes of scope SRC are copied to scope DST. The copied nodes read each other. Tensors from outside SRC are not
    copied: the copy reads the same tensors as SRC, unless --map gives it different ones. The copy has its own while
    loops, tables, queues, variables and initialisers. In a SavedModel or MetaGraph, the saver, the collections and the
    checkpoint are updated.

    Proof: the copy returns what SRC returns for the same inputs, and the other outputs are bit-identical. If the
    variables of SRC change, the outputs of the copy do not change, and vice versa.

    \b
    Example:
      gdsurgeon clone-scope model.pb tower_0 tower_1 --map image=image_2 -o two_towers.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.clone_scope import clone_scope

    wanted = once((pair(text, "--map") for text in mapped), "--map")

    def edit(graph: Graph) -> EditResult:
        return clone_scope(
            graph, source, target, inputs=wanted, share=share, unique=unique, variables=variables, with_slots=with_slots
        )

    run_edit("clone-scope", request, edit)
