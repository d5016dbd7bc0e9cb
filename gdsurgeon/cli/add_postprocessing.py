"""gdsurgeon add-postprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, nodes, paired
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.part_options import PartOptions, part_options

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request


@click.command("add-postprocessing", cls=Command)
@edit_options
@click.argument("post", required=False, shell_complete=files)
@part_options
@known_option(
    "--at", "name", shell_complete=nodes, help="With --steps: the output to postprocess, if MODEL has several."
)
@known_option(
    "--map",
    "mapped",
    shell_complete=paired(nodes),
    help="OUTPUT=RAW,RESULT: pair OUTPUT of MODEL with the placeholder RAW and the node RESULT of POST.",
)
def command(request: Request, own: PartOptions, post: str | None, name: str | None, mapped: tuple[str, ...]) -> None:
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
    from gdsurgeon.cli.part_options import check_not_mapped, part_of
    from gdsurgeon.cli.parts import mappings
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.add_postprocessing import SUFFIX, add_postprocessing
    from gdsurgeon.edits.parts import Mapped
    from gdsurgeon.steps import postprocessing
    from gdsurgeon.steps.build import output_meant

    check_not_mapped("POST", own, mapped)
    bindings = mappings(mapped)
    part = part_of(
        request, "POST", post, own, lambda steps, model: postprocessing(steps, model, output=name or ""), at=name
    )

    def edit(graph: Graph) -> EditResult:
        tensor = output_meant(graph, name or "") if own.steps is not None else None
        # The graph that is built binds by the name of the node alone.
        steps = [Mapped(tensor.name, tensor.node.name, tensor.node.name + SUFFIX)] if tensor and tensor.index else []
        return own.held(add_postprocessing(graph, part(graph), mapped=[*bindings, *steps]))

    run_edit("add-postprocessing", request, edit)
