"""gdsurgeon add-postprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.complete import files
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import mappings, option
from gdsurgeon.cli.parts import PartOptions, part_of, part_options

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.edits.parts import Mapped
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit


@edit_command("add-postprocessing")
@click.argument("post", required=False, shell_complete=files)
@part_options
@option("--at", "name", needs="--steps", help="With --steps: the output to postprocess, if MODEL has several.")
@option(
    "--map",
    "mapped",
    parse=mappings,
    help="OUTPUT=RAW,RESULT: pair OUTPUT of MODEL with the placeholder RAW and the node RESULT of POST.",
)
def command(request: Request, own: PartOptions, post: str | None, name: str | None, mapped: list[Mapped]) -> Edit:
    """Add a graph after the outputs of a model.

    The graph is read from POST, or built from --steps. Each Placeholder of POST must have the name of an output of
    MODEL. For a Placeholder X, POST must also contain a node X_postprocessed. The result returns X_postprocessed under
    the name X. The original value of X is available as X_raw. Consumers of X inside MODEL still read the original
    value.

    Proof: the result returns what POST returns for the outputs of MODEL.

    \b
    Examples:
      gdsurgeon add-postprocessing classifier.pb label_lookup.pb -o served.pb
      gdsurgeon add-postprocessing classifier.pb --at logits --steps 'softmax|top-k(5)' -o out.pb
    """
    from gdsurgeon.edits.parts import POST_SUFFIX, Mapped, add_postprocessing
    from gdsurgeon.steps import postprocessing
    from gdsurgeon.steps.build import output_meant

    def build(steps: str, model: Graph) -> Graph:
        return postprocessing(steps, model, output=name or "")

    part = part_of(request, "POST", post, own, build, mapped)

    def edit(graph: Graph) -> EditResult:
        tensor = output_meant(graph, name or "") if own.steps is not None else None
        # The graph that is built from steps has the name of the node, not of the tensor.
        steps = (
            [Mapped(tensor.name, tensor.node.name, tensor.node.name + POST_SUFFIX)] if tensor and tensor.index else []
        )
        return own.checked(add_postprocessing(graph, part(graph), mapped=[*mapped, *steps]))

    return edit
