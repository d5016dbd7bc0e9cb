"""gdsurgeon set-attr."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_bodies
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import nodes
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options, once
from gdsurgeon.cli.selection import required, selection_options
from gdsurgeon.errors import UsageError, quoted

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.select import Selection


@click.command("set-attr", cls=Command)
@edit_options
@in_bodies
@partial(selection_options, by_position=False)
@click.argument("words", metavar="[NODE]... KEY=VALUE...", shell_complete=nodes, nargs=-1)
@known_option("--unset", "remove")
def command(request: Request, selection: Selection, words: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Set attrs of nodes, or change their op.

    VALUE has the type that the op declares for the attr: an int, a float, true or false, a dtype (float32 or DT_FLOAT),
    a shape such as ?,224,3, a string, a function name, or a list with commas ([] is the empty list). For a shape, '?'
    is an unknown dimension, '[]' is a scalar, and '...' is a shape of unknown rank. If the op does not declare the
    attr, add the type to KEY: _note:string=text, '_sizes:list(int)=1,2'.

    op=NEWOP changes the op. The nodes keep their names, their inputs and the attrs that NEWOP also has. The other pairs
    KEY=VALUE set attrs of NEWOP. The command fails if a value or NEWOP does not fit the inputs or the consumers of a
    node.

    \b
    Examples:
      gdsurgeon set-attr model.pb resize align_corners=true half_pixel_centers=false
      gdsurgeon set-attr model.pb --op Conv2D dilations=1,1,1,1
      gdsurgeon set-attr model.pb --select . --unset _output_shapes
      gdsurgeon set-attr model.pb --op Relu6 op=Relu
      gdsurgeon set-attr model.pb activation op=LeakyRelu alpha=0.1
    """
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.set_attr import set_attr

    nodes = tuple(word for word in words if "=" not in word)
    values = once(_value(word) for word in words if "=" in word)
    wanted = replace(selection, nodes=(*nodes, *selection.nodes))
    if not values and not remove:
        raise UsageError("nothing to do: give KEY=VALUE or --unset KEY", code="missing-argument")
    required(wanted)
    run_edit("set-attr", request, lambda graph: set_attr(graph, wanted, values, remove=remove))


def _value(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if not key:
        raise UsageError(f"{quoted(text)} is not a pair KEY=VALUE", code="not-a-pair", facts={"value": text})
    return key, value
