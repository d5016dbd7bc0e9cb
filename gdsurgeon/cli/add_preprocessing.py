"""gdsurgeon add-preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files, paired, placeholders
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import edit_options
from gdsurgeon.cli.part_options import PartOptions, part_options

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("add-preprocessing", cls=Command)
@edit_options
@click.argument("pre", required=False, shell_complete=files)
@part_options
@known_option(
    "--at", "name", shell_complete=placeholders, help="With --steps: the input to preprocess, if MODEL has several."
)
@known_option("--raw")
@known_option(
    "--map",
    "mapped",
    shell_complete=paired(placeholders),
    help="INPUT=RAW,RESULT: pair INPUT of MODEL with the placeholder RAW and the node RESULT of PRE.",
)
def command(
    request: Request,
    own: PartOptions,
    pre: str | None,
    name: str | None,
    raw: str | None,
    mapped: tuple[str, ...],
) -> None:
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
    from gdsurgeon.cli.part_options import check_not_mapped, part_of
    from gdsurgeon.cli.parts import mappings
    from gdsurgeon.cli.run_edit import run_edit
    from gdsurgeon.edits.add_preprocessing import add_preprocessing
    from gdsurgeon.steps import preprocessing

    check_not_mapped("PRE", own, mapped)
    bindings = mappings(mapped)
    part = part_of(
        request,
        "PRE",
        pre,
        own,
        lambda steps, model: preprocessing(steps, model, input=name or "", raw=raw or ""),
        at=name,
        raw=raw,
    )
    run_edit(
        "add-preprocessing",
        request,
        lambda graph: own.held(add_preprocessing(graph, part(graph), mapped=bindings)),
    )
