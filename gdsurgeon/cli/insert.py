"""gdsurgeon insert."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import selecting
from gdsurgeon.cli.complete import files
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import ConflictingOptions, MissingOption, option
from gdsurgeon.cli.parts import PartOptions, part_of, part_options

if TYPE_CHECKING:
    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit
    from gdsurgeon.select import Selection


@edit_command("insert")
@selecting(by_position=False)
@click.argument("words", metavar="[BODY] [NODE]...", shell_complete=files, nargs=-1)
@part_options
@option("--at", "tensor")
@option("--prefix", "scope", default="")
def command(
    request: Request, own: PartOptions, selection: Selection, tensor: str | None, words: tuple[str, ...], scope: str
) -> Edit:
    """Insert a graph at a tensor.

    BODY is a graph with one input and one output; --steps builds this graph from steps. Consumers of the tensor read
    the output of BODY instead of the tensor. Choose the tensor with --at, or choose nodes by NODE or by the options
    that select nodes. For nodes, a copy of BODY is inserted at the first output of each node, under the name of the
    node.

    Proof: BODY returns the same values inside the result and in a separate run. In MODEL, the value that
    BODY returns also replaces the value of the tensor. The outputs of MODEL then equal the outputs of the result.

    \b
    Examples:
      gdsurgeon insert model.pb clip.pb --at conv1/Relu -o out.pb
      gdsurgeon insert model.pb --at conv1/Relu --steps 'clip(0, 6)' -o out.pb
      gdsurgeon insert model.pb clip.pb --op Conv2D --prefix clip -o out.pb
    """
    from gdsurgeon.edits.parts import insert
    from gdsurgeon.steps import inserted

    body, names = (words[0] if words else None, words[1:])
    if own.steps is not None and tensor is None:
        body, names = None, words
    selection = replace(selection, nodes=(*names, *selection.nodes))
    if selection.names_nothing and tensor is None:
        raise MissingOption("give --at TENSOR, or name or select nodes", option="--at")
    for name, value in {"--at": tensor, "--emit": own.emit, "--against": own.against}.items():
        if value is not None and not selection.names_nothing:
            raise ConflictingOptions(f"{name} is for one tensor, but nodes are selected", option=name)
    part = part_of(request, "BODY", body, own, inserted)

    def edit(graph: Graph) -> EditResult:
        if tensor is not None:
            return own.checked(insert(graph, tensor, part(graph, tensor), scope=scope))
        bodies = partial(part, graph) if own.steps is not None else part(graph)
        return insert(graph, selection, bodies, scope=scope)

    return edit
