"""gdsurgeon set-attr."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import in_functions, required, selecting
from gdsurgeon.cli.complete import nodes
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import MissingArgument, once, option
from gdsurgeon.errors import UsageError, quoted

if TYPE_CHECKING:
    from gdsurgeon.select import Selection


@edit_command("set-attr")
@in_functions
@selecting(by_position=False)
@click.argument("words", metavar="[NODE]... KEY=VALUE...", shell_complete=nodes, nargs=-1)
@option("--unset", "remove")
def command(selection: Selection, words: tuple[str, ...], remove: tuple[str, ...]) -> dict[str, object]:
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
    named = tuple(word for word in words if "=" not in word)
    wrong = next((word for word in words if word.startswith("=")), None)
    if wrong is not None:
        raise UsageError(f"{quoted(wrong)} is not a pair KEY=VALUE", code="not-a-pair", value=wrong)
    values = once([(key, value) for key, equals, value in (word.partition("=") for word in words) if equals])
    if not values and not remove:
        raise MissingArgument("nothing to do: give KEY=VALUE or --unset KEY")
    selection = replace(selection, nodes=(*named, *selection.nodes))
    required(selection)
    return {"nodes": selection, "values": values, "remove": remove}
