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
    outputs="Freeze what computes these tensors, and ignore the signatures.",
)
def command(request: Request, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Make a SavedModel, or a .meta with its checkpoint, a frozen GraphDef: variables become constants.

    It is cut down to what a signature computes (--signature KEY; serving_default, or the only one there is), or what
    --outputs name. Values are copied from the checkpoint, functions are kept. Proven by running: it gives what the
    restored model gives, bit for bit.

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
