"""gdsurgeon apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Command
from gdsurgeon.cli.complete import files
from gdsurgeon.cli.edit import edit_options
from gdsurgeon.cli.options import ConflictingOptions, MissingArgument, Pairs, option
from gdsurgeon.errors import InputError, UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Request


@click.command("apply", cls=Command)
@edit_options
@click.argument("script", shell_complete=files, required=False)
@option("--var", "variables")
@option("--check", help="Only check SCRIPT, with or without MODEL: exit 0 or 2.")
@option("--prove-each")
@click.pass_context
def command(
    context: click.Context,
    request: Request,
    script: str | None,
    variables: Pairs,
    check: bool,
    prove_each: bool,
) -> None:
    """Apply a script of edits; prove and write the result once.

    A line of SCRIPT is a command line without 'gdsurgeon' and MODEL, such as 'rename x=image'. '#' starts a comment. A
    backslash at the end continues a line. $VAR is an environment variable or a variable of --var. Paths are relative to
    SCRIPT; '-' reads SCRIPT from standard input. A script can read and write files, so run only scripts that you trust.

    Proof: one proof checks the claims of all edits together.

    \b
    Example:
      gdsurgeon apply model.pb fix.gds -o fixed.pb
    """
    from gdsurgeon.cli.edit import report_failure, run_edit
    from gdsurgeon.cli.script import ScriptEdits, Variables
    from gdsurgeon.cli.terminal import terminal

    if script is None and not check:
        raise MissingArgument("apply expects MODEL and SCRIPT, or --check SCRIPT")
    path = request.model if script is None else script
    if path == "-" and request.model == "-" and script is not None:
        raise ConflictingOptions("only one of MODEL and SCRIPT can be read from standard input")
    edits = ScriptEdits(path, request, context)
    given = Variables(variables)
    try:
        instructions = edits.read(given)
    except UsageError as error:
        report_failure(request, "apply", error, of_script=True)
        raise
    if check:
        count = len({instruction.called for instruction in instructions})
        terminal.summary([f"{edits.name}  {count} edit{'s' * (count != 1)}, no faults"])
        return
    request.prove_each = prove_each
    try:
        run_edit("apply", request, instructions)
    except InputError as error:
        error.advice = tuple("repair-first" if code == "repair" else code for code in error.advice)
        raise
