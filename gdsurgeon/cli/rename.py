"""gdsurgeon rename."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_bodies
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes, paired, scopes
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, pair, pairs
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("rename", cls=Command)
@edit_options
@in_bodies
@click.argument("names", metavar="OLD=NEW...", shell_complete=paired(nodes), nargs=-1)
@known_option("--rename-scope", "scopes", shell_complete=paired(scopes))
@known_option("--regex", "patterns")
@known_option("--map-file", "file", shell_complete=files)
def command(
    request: Request,
    names: tuple[str, ...],
    scopes: tuple[str, ...],
    patterns: tuple[str, ...],
    file: str | None,
) -> None:
    """Rename nodes, scopes, or nodes that match a pattern.

    Inputs, control inputs and colocations get the new names. All renames are made in one step, so a=b b=a exchanges two
    names.

    Proof: every output is bit-identical to the output of MODEL that has the old name.

    \b
    Example:
      gdsurgeon rename model.pb image_tensor=image detection_classes=classes -o renamed.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.rename import rename

    if file is not None:
        request.others += (file,)
    wanted = pairs(names, file)
    if not (wanted or scopes or patterns):
        raise UsageError(
            "nothing to rename: give OLD=NEW, --rename-scope, --regex or --map-file", code="missing-argument"
        )
    by_scope = [pair(text, "--rename-scope") for text in scopes]
    by_pattern = [pair(text, "--regex", last=True) for text in patterns]
    run_edit("rename", request, lambda graph: rename(graph, wanted, scopes=by_scope, patterns=by_pattern))
