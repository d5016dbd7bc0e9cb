"""Runs an edit from the command line: operation, report, summary."""

from __future__ import annotations

from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.operate.edit import Edit, Outcome, Request, operate
from gdsurgeon.wire.output import OutputFile


def run_edit(command: str, request: Request, edit: Edit) -> None:
    """Applies EDIT as REQUEST says, and tells what it has done."""
    report = (
        OutputFile(request.report) if request.report is not None else None
    )  # refused now rather than after the work

    def write_report(outcome: Outcome, error: GdsurgeonError | None = None) -> None:
        if report is not None:
            _write_report(report, outcome, command, error)

    outcome = operate(request, edit, before_publishing=write_report, on_difference=write_report)
    terminal.warn(dict.fromkeys(outcome.warnings))
    if not terminal.quiet:
        from gdsurgeon.view.summary import summary

        terminal.summary(summary(outcome))


def _write_report(report: OutputFile, outcome: Outcome, command: str, error: GdsurgeonError | None) -> None:
    import json

    from gdsurgeon.view.summary import report as make_report

    data = json.dumps(make_report(outcome, command, error), indent=2).encode() + b"\n"
    with report:
        if report.is_stream:
            report.stream([data])
        else:
            report.stage([data])
            report.publish()
