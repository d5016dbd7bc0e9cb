"""gdsurgeon inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.cli.command import Query, query_command
from gdsurgeon.cli.hints import HINTS, worded
from gdsurgeon.cli.options import MissingOption, option
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError

if TYPE_CHECKING:
    from gdsurgeon.view.inspection import Inspection


@query_command("inspect")
@option("--ops")
@option("--sizes")
@option("--functions")
@option("--strings")
@option("--top")
def command(query: Query, top: int | None, **parts: bool) -> None:
    """Show the inputs, outputs, ops and problems of a model.

    The command also shows a graph that has structural faults. In this case it prints the faults to standard error and
    ends with exit code 3.

    \b
    Examples:
      gdsurgeon inspect model.pb --json | jq -r '.inputs[].name'
      gdsurgeon inspect model.pb --sizes --top 20
      gdsurgeon inspect model.pb --strings --json | jq -r '.strings[].paths[]'
    """
    if top is not None and not (parts["sizes"] or parts["strings"]):
        raise MissingOption("--top needs --sizes or --strings", option="--top")
    from gdsurgeon.analysis.checks.check import check
    from gdsurgeon.analysis.queries.signature import inferred_signature, signature
    from gdsurgeon.view import inspection

    graph, container = query.open()
    findings = check(graph)
    try:
        inputs_and_outputs = inferred_signature(graph, signature(graph))
        found = inspection.Inspection(graph, inputs_and_outputs, findings, most=top or 10, whole=terminal.verbose)
        if container is not None:
            from gdsurgeon.analysis.queries.model_contents import contents, loading_problems

            found.contents = contents(container)
            problems = loading_problems(container, found.contents)
            found.troubles = [(p, HINTS[p.advice].format_map(p.facts) if p.advice else "") for p in problems]
        _add_parts(found, **parts)
    except GdsurgeonError:
        if not findings.fault_count:
            raise
        raise findings.as_error(graph.source_name) from None  # the faults keep the command from showing more

    if query.as_json:
        terminal.answer_json(inspection.as_json(found))
    else:
        terminal.answer_lines(map(worded, inspection.lines(found)))
    terminal.warn(findings.warnings)
    if findings.fault_count:
        raise findings.as_error(graph.source_name)


def _add_parts(found: Inspection, *, ops: bool, sizes: bool, functions: bool, strings: bool) -> None:
    """Adds the requested parts to `found`; only modules for these are imported."""
    if ops:
        from gdsurgeon.analysis.queries.usage import op_usage

        found.op_usage = op_usage(found.graph)
    if sizes:
        from gdsurgeon.analysis.queries.constants import constant_sizes

        found.sizes = constant_sizes(found.graph, found.most)
    if functions:
        from gdsurgeon.analysis.queries.usage import function_summaries

        found.functions = function_summaries(found.graph)
    if strings:
        from gdsurgeon.analysis.queries.strings import baked_strings

        found.strings = baked_strings(found.graph)
