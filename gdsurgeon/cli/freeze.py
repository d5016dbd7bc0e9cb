"""gdsurgeon freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.cli.edit import edit_command, named_edit
from gdsurgeon.cli.options import ListedTensor, option

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Instruction


@edit_command("freeze", without=("as_v1", "no_v2_check"))
@option("--inputs", help="With --outputs: cut at these tensors; they become placeholders.")
@option("--outputs", help="Freeze the nodes that compute these tensors; ignore the signatures.")
def command(request: Request, inputs: list[ListedTensor], outputs: list[ListedTensor]) -> list[Instruction]:
    """Convert a SavedModel or MetaGraph to a frozen GraphDef.

    Variables become constants with the values of the checkpoint. Only the nodes that the outputs need are kept. Choose
    the outputs with --signature or --outputs. Without these options, the signature serving_default is used, or the only
    signature. Functions are kept.

    Proof: the outputs are bit-identical to those of the restored model.

    \b
    Examples:
      gdsurgeon freeze saved_model/ -o frozen.pb
      gdsurgeon freeze model.ckpt.meta --outputs logits -o frozen.pb
    """
    from gdsurgeon.edits.freeze import freeze

    keys = request.wanted.signatures
    request.form = "graph"
    starts, ends = ([each.tensor for each in listed] for listed in (inputs, outputs))
    return named_edit(
        request, lambda graph: freeze(graph, signatures=keys, outputs=ends, inputs=starts), [*inputs, *outputs]
    )
