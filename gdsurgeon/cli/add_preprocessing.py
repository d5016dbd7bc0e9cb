"""gdsurgeon add-preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.complete import files, paired, placeholders
from gdsurgeon.cli.edit import edit_command
from gdsurgeon.cli.options import mappings, option
from gdsurgeon.cli.parts import PartOptions, part_of, part_options

if TYPE_CHECKING:
    from gdsurgeon.edits.parts import Mapped
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit


@edit_command("add-preprocessing")
@click.argument("pre", required=False, shell_complete=files)
@part_options
@option(
    "--at", "name", needs="--steps", shell_complete=placeholders,
    help="With --steps: the input to preprocess, if MODEL has several.",
)  # fmt: skip
@option("--raw", needs="--steps")
@option(
    "--map",
    "mapped",
    shell_complete=paired(placeholders),
    parse=mappings,
    help="INPUT=RAW,RESULT: pair INPUT of MODEL with the placeholder RAW and the node RESULT of PRE.",
)
def command(
    request: Request, own: PartOptions, pre: str | None, name: str | None, raw: str | None, mapped: list[Mapped]
) -> Edit:
    """Add a graph before the inputs of a model.

    The graph is read from PRE, or built from --steps. Each Placeholder of PRE must have the name of a Placeholder of
    MODEL. For a Placeholder P, PRE must also contain a node P_preprocessed. In MODEL, the consumers of P then read
    P_preprocessed instead of P. P keeps its name and gets its dtype and shape from PRE.

    Proof: PRE computes inputs of MODEL from raw inputs. On the raw inputs, the result returns the same values as MODEL
    on the inputs that PRE computes.

    \b
    Examples:
      gdsurgeon add-preprocessing classifier.pb decode_jpeg.pb -o served.pb
      gdsurgeon add-preprocessing classifier.pb --steps 'decode-image|resize(64,64,like=pillow)|rescale(1/255)'
    """
    from gdsurgeon.edits.parts import add_preprocessing
    from gdsurgeon.steps import preprocessing

    def build(steps: str, model: Graph) -> Graph:
        return preprocessing(steps, model, input=name or "", raw=raw or "")

    part = part_of(request, "PRE", pre, own, build, mapped)
    return lambda graph: own.checked(add_preprocessing(graph, part(graph), mapped=mapped))
