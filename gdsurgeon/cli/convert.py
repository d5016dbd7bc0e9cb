"""gdsurgeon convert."""

from __future__ import annotations

import click

from gdsurgeon.cli.command import Command, answer_options, output_option
from gdsurgeon.cli.options import ConflictingOptions, option
from gdsurgeon.cli.terminal import terminal


@click.command("convert", cls=Command)
@answer_options
@option("--format", "form", choices=["binary", "text"])
@output_option("-o", "--output", "out")
@output_option("-n", "--dry-run")
def command(model: str, as_json: bool, form: str | None, out: str | None, dry_run: bool) -> None:
    """Convert a model file between binary and text.

    Only the format changes. MODEL is a GraphDef, a MetaGraph or the folder of a SavedModel. If MODEL is a folder, the
    result is also a folder. Without --format, the suffix of OUT selects the format. If OUT has no known suffix, binary
    becomes text and text becomes binary.

    Proof: the result is read back, and every field has the same value as in MODEL.

    \b
    Examples:
      gdsurgeon convert model.pb -o model.pbtxt
      gdsurgeon convert model.pb -o - --format text | grep -c 'op: "Conv2D"'
      gdsurgeon convert model.pbtxt -o model.pb
    """
    from gdsurgeon.operation.convert import ConvertRequest, operate_convert
    from gdsurgeon.view.checkpoint import converted_json, converted_summary
    from gdsurgeon.wire.output import STANDARD_OUTPUT

    if as_json and (model if out is None else out) in STANDARD_OUTPUT:
        raise ConflictingOptions("--json and the result cannot both be written to standard output", option="--json")
    text = None if form is None else form == "text"
    done = operate_convert(ConvertRequest(model, out, text, dry_run), before_publishing=terminal.settle)
    summary = converted_summary(done, model, dry_run=dry_run)
    terminal.report(done, "file", converted_json(done, model), summary, as_json=as_json)
