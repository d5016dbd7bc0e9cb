"""gdsurgeon convert."""

from __future__ import annotations

import click

from gdsurgeon.cli.command import Command, output_option
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import OUT, answer_options
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import UsageError


@click.command("convert", cls=Command)
@answer_options
@known_option("--format", "form", choices=["binary", "text"])
@OUT
@output_option("-n", "--dry-run")
def command(model: str, as_json: bool, verbose: bool, form: str | None, out: str | None, dry_run: bool) -> None:
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
    del verbose
    from gdsurgeon.operation.convert import ConvertRequest, operate_convert
    from gdsurgeon.view import converted
    from gdsurgeon.wire.output import STANDARD_OUTPUT

    if as_json and (model if out is None else out) in STANDARD_OUTPUT:
        raise UsageError(
            "--json and the result cannot both be written to standard output",
            code="conflicting-options",
            facts={"option": "--json"},
        )

    text = None if form is None else form == "text"
    done = operate_convert(ConvertRequest(model, out, text, dry_run), before_publishing=terminal.settle)
    terminal.warn(done.warnings)
    if done.idle:
        terminal.note(f"{done.idle}; the output is the unchanged file")
    if as_json:
        terminal.answer_json(converted.as_json(done, model))
    head, entries = converted.summary(done, model, dry_run=dry_run)
    terminal.summary([head], entries)
