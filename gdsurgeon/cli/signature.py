"""gdsurgeon signature."""

from __future__ import annotations

from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import MissingOption, option, signature_entries


@edit_command("signature")
@option("--rename", "renamed", help="Rename a signature (KEY=NEW), or its input or output (KEY/NAME=NEW).")
@option("--delete", "removed")
@option(
    "--inputs",
    help="Add these inputs to serving_default, or, with KEY:NAME=TENSOR, to signature KEY.",
    parse=signature_entries,
)
@option("--outputs", help="Add these outputs to a signature.", parse=signature_entries)
def command(**changes: object) -> dict[str, object]:
    """Rename, remove and add signatures.

    MODEL is a SavedModel or a MetaGraph. Signatures, their inputs and their outputs can be changed. The graph does not
    change. The functions that TensorFlow 2 calls for the signatures are updated.

    \b
    Examples:
      gdsurgeon signature model/ --rename serving_default/inputs=images -o renamed/
      gdsurgeon signature model/ --inputs features:x=image --outputs features:y=pool5/Reshape -o more/
    """
    if not any(changes.values()):
        message = "nothing to do: give --rename, --delete, --inputs or --outputs (inspect lists signatures)"
        raise MissingOption(message)
    return changes
