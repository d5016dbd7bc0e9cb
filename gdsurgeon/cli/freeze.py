"""gdsurgeon freeze."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.tensor_lists import named_edit, tensor_lists, tensors_in

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


@click.command("freeze", cls=Command)
@partial(edit_options, without=("as_v1", "no_v2_check"))
@tensor_lists(
    inputs="With --outputs: cut at these tensors; they become placeholders.",
    outputs="Freeze the nodes that compute these tensors; ignore the signatures.",
)
def command(request: Request, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
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
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.freeze import freeze

    starts, ends = tensors_in(inputs, "--inputs"), tensors_in(outputs, "--outputs")
    keys = request.wanted.signatures
    request.form, request.becomes = "graph", ".frozen.pb"

    def edit(graph: Graph) -> EditResult:
        return freeze(
            graph, signatures=keys, outputs=[end.tensor for end in ends], inputs=[start.tensor for start in starts]
        )

    run_edit("freeze", request, named_edit(request, edit, [*starts, *ends]))
