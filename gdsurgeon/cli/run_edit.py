"""Runs an edit from the command line: operation, summary, report."""

from __future__ import annotations

from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import UsageError
from gdsurgeon.execute.operate import Edit, Request, operate
from gdsurgeon.wire.output import Output


def run_edit(command: str, request: Request, report: str | None, edit: Edit) -> None:
    """Applies EDIT as REQUEST says, and tells what it has done."""
    _refuse_terminal(request)
    report_file = Output(report) if report is not None else None  # refused now rather than after the work
    outcome = operate(request, edit)
    terminal.warn(dict.fromkeys(outcome.warnings))
    if not terminal.quiet:
        from gdsurgeon.view.summary import summary

        terminal.summary(summary(outcome))
    if report_file is not None:
        import json

        from gdsurgeon.view.summary import report as make_report

        data = json.dumps(make_report(outcome, command), indent=2).encode() + b"\n"
        with report_file:
            if report_file.is_stream:
                report_file.stream([data])
            else:
                report_file.stage([data])
                report_file.publish()


def _refuse_terminal(request: Request) -> None:
    """A binary graph does not belong on a terminal."""
    import sys

    to_stdout = request.out == "-" or (request.out is None and request.model == "-" and not request.in_place)
    if (
        to_stdout
        and not request.dry_run
        and request.text is not True
        and sys.stdout is not None
        and sys.stdout.isatty()
    ):
        raise UsageError("the result is binary and standard output is a terminal", hint="-o FILE, or a pipe")
