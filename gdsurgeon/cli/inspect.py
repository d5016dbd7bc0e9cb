"""gdsurgeon inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.bodies import in_body, opened
from gdsurgeon.cli.command import Command
from gdsurgeon.cli.hints import HINTS, worded
from gdsurgeon.cli.meanings import known_option
from gdsurgeon.cli.options import query_options
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, UsageError

if TYPE_CHECKING:
    from gdsurgeon.analysis.queries.model_contents import Contents, LoadingProblem
    from gdsurgeon.container.container import Container
    from gdsurgeon.container.wanted import Wanted
    from gdsurgeon.view.inspection import Inspection


@click.command("inspect", cls=Command)
@query_options
@in_body
@known_option("--ops", "with_ops")
@known_option("--sizes", "with_sizes")
@known_option("--functions", "with_functions")
@known_option("--strings", "with_strings")
@known_option("--top")
def command(
    model: str,
    function: str | None,
    wanted: Wanted,
    as_json: bool,
    verbose: bool,
    with_ops: bool,
    with_sizes: bool,
    with_functions: bool,
    with_strings: bool,
    top: int | None,
) -> None:
    """Show the inputs, outputs, ops and problems of a model.

    The command also shows a graph that has structural faults. In this case it prints the faults to standard error and
    ends with exit code 3.

    \b
    Examples:
      gdsurgeon inspect model.pb --json | jq -r '.inputs[].name'
      gdsurgeon inspect model.pb --sizes --top 20
      gdsurgeon inspect model.pb --strings --json | jq -r '.strings[].paths[]'
    """
    if top is not None and not (with_sizes or with_strings):
        raise UsageError(
            "--top needs --sizes or --strings",
            code="missing-option",
            facts={"option": "--top"},
        )
    from gdsurgeon.analysis.checks.check import broken, check
    from gdsurgeon.analysis.queries.signature import inferred_signature, signature
    from gdsurgeon.view.inspection import Inspection

    graph, container = opened(model, function, wanted)
    findings = check(graph)
    try:
        found = Inspection(graph, inferred_signature(graph, signature(graph)), findings, most=top or 10, whole=verbose)
        if container is not None:
            found.contents, found.troubles = _shipped(container)
        _ask(found, with_ops=with_ops, with_sizes=with_sizes, with_functions=with_functions, with_strings=with_strings)
    except GdsurgeonError:
        if not findings.fault_count:
            raise
        raise broken(graph, findings) from None  # too broken to say more
    from gdsurgeon.view import inspection

    if as_json:
        terminal.answer_json(inspection.as_json(found))
    else:
        terminal.answer_lines(map(worded, inspection.lines(found)))
    terminal.warn(findings.warnings)
    if findings.fault_count:
        raise broken(graph, findings)


def _ask(found: Inspection, *, with_ops: bool, with_sizes: bool, with_functions: bool, with_strings: bool) -> None:
    """Adds the requested parts to FOUND; only modules for these are imported."""
    if with_ops:
        from gdsurgeon.analysis.queries.usage import op_usage

        found.op_usage = op_usage(found.graph)
    if with_sizes:
        from gdsurgeon.analysis.queries.constants import constant_sizes

        found.sizes = constant_sizes(found.graph, found.most)
    if with_functions:
        from gdsurgeon.analysis.queries.usage import function_summaries

        found.functions = function_summaries(found.graph)
    if with_strings:
        from gdsurgeon.analysis.queries.strings import baked_strings

        found.strings = baked_strings(found.graph)


def _shipped(container: Container) -> tuple[Contents, list[tuple[LoadingProblem, str]]]:
    """Returns the contents of CONTAINER other than the graph, and the problems for loaders with their fixes."""
    from gdsurgeon.analysis.queries.model_contents import contents, loading_problems

    held = contents(container)
    found = [(t, HINTS[t.advice].format_map(t.facts) if t.advice else "") for t in loading_problems(container, held)]
    return held, found
