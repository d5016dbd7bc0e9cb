"""gdsurgeon extract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.tensor_lists import named_edit, tensor_lists, tensors_in
from gdsurgeon.errors import UsageError

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


@click.command("extract", cls=Command)
@edit_options
@tensor_lists(
    inputs="Cut at these tensors; they become placeholders.", outputs="Keep the nodes that compute these tensors."
)
def command(request: Request, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Keep the part of a model between inputs and outputs.

    The tensors of --inputs become placeholders with the same dtype, shape and name. Nodes that the tensors of --outputs
    do not need are removed.

    Proof: the part returns what MODEL returns when the tensors of --inputs have the same values in MODEL.

    \b
    Example:
      gdsurgeon extract model.pb --inputs pool5/Reshape --outputs logits -o head.pb
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.extract import extract

    starts, ends = tensors_in(inputs, "--inputs"), tensors_in(outputs, "--outputs")
    if not ends:
        raise UsageError(
            "--outputs is missing: give the tensors that the result must compute",
            code="missing-option",
            facts={"option": "--outputs"},
        )

    def edit(graph: Graph) -> EditResult:
        return extract(graph, [start.tensor for start in starts], [end.tensor for end in ends])

    run_edit("extract", request, named_edit(request, edit, [*starts, *ends]))
