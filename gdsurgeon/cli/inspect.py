"""gdsurgeon inspect."""

from __future__ import annotations

import click

from gdsurgeon.cli.options import query_options
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError


@click.command("inspect")
@query_options
def command(model: str, as_json: bool, verbose: bool) -> None:
    """Show what a graph takes and gives: inputs, outputs, ops, and what is wrong with it.

    A graph with structural faults is shown too; the faults go to standard error, and the exit code is 3.

    \b
    Example:
      gdsurgeon inspect model.pb --json | jq -r '.inputs[].name'
    """
    del verbose
    from gdsurgeon.analysis.check import broken, check
    from gdsurgeon.analysis.signature import signature
    from gdsurgeon.graph.load import load
    from gdsurgeon.view import inspection

    graph = load(model)
    findings = check(graph)
    try:
        found = inspection.Inspection(graph, signature(graph), findings)
    except GdsurgeonError:
        if not findings.fault_count:
            raise
        raise broken(graph, findings) from None  # too broken to say more
    if as_json:
        import json

        lines = [json.dumps(inspection.as_json(found), indent=2)]
    else:
        lines = inspection.lines(found)
    click.echo("\n".join(lines))
    terminal.warn(findings.warnings)
    if findings.fault_count:
        raise broken(graph, findings)
