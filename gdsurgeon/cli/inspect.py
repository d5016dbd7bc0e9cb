"""gdsurgeon inspect."""

from __future__ import annotations

import click

from gdsurgeon.cli.options import query_options
from gdsurgeon.cli.terminal import terminal


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
    found = inspection.Inspection(graph, signature(graph), findings)
    if as_json:
        import json

        click.echo(json.dumps(inspection.as_json(found), indent=2))
    else:
        for line in inspection.lines(found):
            click.echo(line)
    terminal.warn(findings.warnings)
    if findings.fault_count:
        raise broken(graph, findings)
