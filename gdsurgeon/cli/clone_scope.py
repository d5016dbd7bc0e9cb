"""gdsurgeon clone-scope."""

from __future__ import annotations

import click

from gdsurgeon.cli.complete import nodes, paired, scopes
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import once, option, pairs_in


@edit_command("clone-scope")
@click.argument("source", metavar="SRC", shell_complete=scopes)
@click.argument("target", metavar="DST", shell_complete=scopes)
@option(
    "--map",
    "inputs",
    shell_complete=paired(nodes, nodes),
    parse=lambda texts, name: once(pairs_in(texts, name), name),
    help="The copy reads tensor RIGHT where SRC reads tensor LEFT.",
)
@option("--share")
@option("--unique")
@option("--variables", default="clone", show_default=True)
@option("--with-slots")
def command(**arguments: object) -> dict[str, object]:
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
    return arguments
