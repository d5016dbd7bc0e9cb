"""gdsurgeon rename."""

from __future__ import annotations

from gdsurgeon.cli.command import in_functions, pairs_argument
from gdsurgeon.cli.complete import nodes, paired
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import MissingArgument, option


@edit_command("rename")
@in_functions
@option("--rename-scope", "scopes")
@option("--regex", "patterns")
@pairs_argument("OLD=NEW...", paired(nodes))
def command(**renames: object) -> dict[str, object]:
    """Rename nodes, scopes, or nodes that match a pattern.

    Inputs, control inputs and colocations get the new names. All renames are made in one step, so a=b b=a exchanges two
    names.

    Proof: every output is bit-identical to the output of MODEL that has the old name.

    \b
    Example:
      gdsurgeon rename model.pb image_tensor=image detection_classes=classes -o renamed.pb
    """
    if not any(renames.values()):
        raise MissingArgument("nothing to rename: give OLD=NEW, --rename-scope, --regex or --map-file")
    return renames
