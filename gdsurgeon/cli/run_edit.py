"""Runs an edit from the command line: operation, progress, report, summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gdsurgeon.cli.command import current_script
from gdsurgeon.cli.hints import error_json, word_proof, worded
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, Json, OutputError, UsageError

if TYPE_CHECKING:
    from gdsurgeon.operation.edit import Outcome, Request
    from gdsurgeon.operation.sequence import Edit, Instruction

REPORTED = (3, 4, 5, 7)
"""Exit codes of errors in the model, the edit or the result, for which a report is written."""


def run_edit(command: str, request: Request, edit: Edit | Sequence[Instruction]) -> None:
    """Applies EDIT, or several edits, according to REQUEST, and prints the summary.

    In a line of a script, the edit is only added to the script.

    Raises:
        GdsurgeonError: see `gdsurgeon.operation.edit.operate`; if the result differs from the claims of the edit, the
            report contains the difference.
    """
    from gdsurgeon.operation.edit import operate
    from gdsurgeon.wire.output import OutputFile

    script = current_script()
    if script is not None:
        script.take(request, [request.instruction(edit)] if callable(edit) else edit)
        return
    if request.report is not None:
        OutputFile(request.report)  # refused now rather than after the work

    def report(outcome: Outcome, error: GdsurgeonError | None = None) -> None:
        outcome.warnings = [worded(warning) for warning in outcome.warnings]
        outcome.idle = worded(outcome.idle)
        outcome.result.notes[:] = map(worded, outcome.result.notes)
        word_proof(outcome.proof)
        if request.report is not None:
            from gdsurgeon.view.summary import report as make_report

            failure = error_json(error, command) if error is not None else None
            _write(request.report, make_report(outcome, command, failure))
            request.report = None

    def publishing(outcome: Outcome) -> None:
        report(outcome)
        terminal.settle(outcome.has_appeared)

    outcome = operate(request, edit, before_publishing=publishing, on_difference=report, progress=terminal.tell)
    terminal.warn(dict.fromkeys(outcome.warnings))
    if outcome.idle:
        form = "repaired" if outcome.is_mended else "unchanged"
        terminal.note(f"{worded(outcome.idle)}; the output is the {form} graph")
    if not terminal.quiet:
        from gdsurgeon.view.summary import summary

        head, entries = summary(outcome)
        terminal.summary([head], entries)


def report_failure(request: Request, command: str, error: GdsurgeonError, *, of_script: bool = False) -> None:
    """Writes the report of an edit that failed, unless it is already written or would replace an input.

    A usage error gets a report only if it is OF_SCRIPT, because the path of the report may be a part of the error.
    """
    if request.report is None or (error.exit_code not in REPORTED and not of_script):
        return
    if isinstance(error, UsageError) and not _is_clear_where(request):
        return
    from gdsurgeon.operation.paths import check_replaces_nothing

    kept = [request.model, *request.others, *([request.out] if request.out is not None else [])]
    try:
        check_replaces_nothing([("--report", request.report)], kept)
        _write(
            request.report,
            {
                "command": command,
                "passed": False,
                "error": error_json(error, command),
                "model": request.model,
                "output": None,
                "warnings": [worded(warning) for warning in error.warnings],
            },
        )
    except (UsageError, OutputError) as other:
        terminal.warn([other.message])


def _is_clear_where(request: Request) -> bool:
    """Returns whether the output paths of REQUEST are valid, so that a report of other errors can be written."""
    from gdsurgeon.operation.paths import check_apart, output_path

    try:
        out = output_path(
            request.model, request.out, in_place=request.in_place, backup=request.backup, dry_run=request.dry_run,
            becomes=request.becomes,
        )  # fmt: skip
        check_apart(out, request.backup, request.report, request.model, request.others)
    except UsageError:
        return False
    return True


def _write(path: str, report: Mapping[str, Json]) -> None:
    import json

    from gdsurgeon.wire.output import OutputFile

    data = json.dumps(report, indent=2).encode() + b"\n"
    terminal.clear()
    with OutputFile(path) as file:
        if file.is_stream:
            file.stream([data])
        else:
            file.stage([data])
            file.publish()
