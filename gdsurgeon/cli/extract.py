"""gdsurgeon extract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.cli.edit import edit_command, named_edit
from gdsurgeon.cli.options import ListedTensor, option

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Instruction


@edit_command("extract")
@option("--inputs", help="Cut at these tensors; they become placeholders.")
@option("--outputs", required=True, help="Keep the nodes that compute these tensors.")
@option("--sort")
def command(request: Request, inputs: list[ListedTensor], outputs: list[ListedTensor], sort: bool) -> list[Instruction]:
    """Keep the part of a model between inputs and outputs.

    The tensors of --inputs become placeholders with the same dtype, shape and name. Nodes that the tensors of --outputs
    do not need are removed.

    Proof: the part returns what MODEL returns when the tensors of --inputs have the same values in MODEL.

    \b
    Example:
      gdsurgeon extract model.pb --inputs pool5/Reshape --outputs logits -o head.pb
    """
    from gdsurgeon.edits.extract import extract

    starts, ends = ([each.tensor for each in listed] for listed in (inputs, outputs))
    return named_edit(request, lambda graph: extract(graph, starts, ends, sort=sort), [*inputs, *outputs])
