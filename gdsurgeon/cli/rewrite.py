"""gdsurgeon rewrite."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import in_functions
from gdsurgeon.cli.edit import OUTPUTS, check_edit, check_option, edit_command
from gdsurgeon.cli.hints import HINTS
from gdsurgeon.cli.options import ConflictingOptions, MissingArgument, option, tensor_tolerance
from gdsurgeon.cli.parts import load_part
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdsurgeon.edits.claims import EditResult
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.operation.edit import Request
    from gdsurgeon.operation.sequence import Edit
    from gdsurgeon.patterns.terms import Rule


@edit_command("rewrite")
@in_functions
@click.argument("rule", metavar="'PATTERN -> REPLACEMENT'", required=False)
@option("--rules", "sources")
@option("--with", "body", help="Graph that replaces each match; its Placeholder x gets the tensor $x.")
@option("--limit")
@option(
    "--list", "only_list", excludes=OUTPUTS, help="List the matches, and the reasons for skipped ones; write nothing."
)
@partial(check_option, others="--list")
@tensor_tolerance(" (default 1e-4)")
def command(
    request: Request,
    rule: str | None,
    sources: tuple[str, ...],
    body: str | None,
    limit: int | None,
    only_list: bool,
    only_check: bool,
    as_json: bool,
    tolerance: float | None,
) -> Edit:
    """Replace nodes that match a pattern.

    In a pattern, $x matches any tensor, $c:const matches a constant, 0.5 matches a constant with the value 0.5, and
    Op{attr=value}(...) matches a node. A match is skipped if one of its inner nodes is used elsewhere, if the match
    crosses a loop or branch, or if an output name would be lost. The command prints the reason.

    Proof: the outputs and the results of each match are compared. The allowed difference is relative to the largest
    element of the tensor. Each match is also run in isolation on positive and negative numbers.

    \b
    Examples:
      gdsurgeon rewrite model.pb 'Relu6($x) -> Minimum(Maximum($x, 0), 6)' -o out.pb
      gdsurgeon rewrite model.pb --rules builtin:gelu --rules my.rules -o out.pb
      gdsurgeon rewrite model.pb 'Conv2D{padding="SAME"}($x, $w:const)' --list
    """
    from gdsurgeon.edits.rewrite import OF_LARGEST, rewrite
    from gdsurgeon.patterns.catalog import rules_in
    from gdsurgeon.patterns.parse import rule_of

    if rule is None and not sources:
        raise MissingArgument("the rule is missing: give 'PATTERN -> REPLACEMENT', or --rules")
    if rule is not None and sources:
        raise ConflictingOptions("give a rule or --rules, not both: add the rule to the file")
    with _hinting(rule):
        only_patterns = only_list or body is not None
        rules = [each for source in sources for each in rules_in(source, only_patterns=only_patterns)]
        if rule is not None:
            rules = [rule_of(rule, name="rule", only_pattern=only_patterns)]
    if rule is not None and body is not None and rules[0].replacement is not None:
        raise ConflictingOptions("--with BODY replaces the matches: give only the pattern, without '->'")
    if only_list:
        with _hinting(rule):
            count = _list(request, rules, as_json)
        if not count and _lacks_variables(rule):
            terminal.note(HINTS["single-quotes"])
        click.get_current_context().exit()
    part = load_part(body, request) if body is not None else None
    near = OF_LARGEST if tolerance is None else tolerance

    def edit(graph: Graph) -> EditResult:
        with _hinting(rule):
            return rewrite(graph, rules, part, limit=limit, of_largest=near)

    if only_check:
        check_edit("rewrite", request, [request.instruction(edit)], as_json=as_json)
    return edit


_EMPTY = re.compile(r"[(,]\s*[,):]|->\s*$")
"""An empty argument or side of a rule: the shell has replaced $x by nothing."""


@contextmanager
def _hinting(rule: str | None) -> Iterator[None]:
    """Adds a hint about quotes to errors of a RULE in which the shell seems to have replaced variables."""
    try:
        yield
    except GdsurgeonError as error:
        if _lacks_variables(rule):
            error.advice += ("single-quotes",)
        raise


def _lacks_variables(rule: str | None) -> bool:
    """Returns whether the shell seems to have replaced variables of RULE."""
    return rule is not None and "$" not in rule and _EMPTY.search(rule) is not None


def _list(request: Request, rules: list[Rule], as_json: bool) -> int:
    """Prints the matches in the graph, or in the bodies that are meant; returns how many there are."""
    from gdsurgeon.container.load import open_model
    from gdsurgeon.edits.rewrite import listed
    from gdsurgeon.graph.body import Body

    graph = open_model(request.model, request.wanted).graph
    graphs: dict[str, Graph] = {name: Body(graph, name).graph for name in request.functions} or {"": graph}
    found = [(name, each) for name, body in graphs.items() for each in listed(body, rules)]
    if as_json:
        terminal.answer_json([
            {"rule": each.rule, "nodes": list(each.nodes), "bindings": each.bindings, "left": each.why or None,
             **({"function": function} if function else {})}
            for function, each in found
        ])  # fmt: skip
        return len(found)
    for function, each in found:
        where = f"{printable(function)}/" if function else ""
        parts = [", ".join(f"{where}{printable(name)}" for name in each.nodes)]
        parts += [f"{name}={printable(value)}" for name, value in each.bindings.items()]
        parts += [f"left: {printable(each.why)}"] if each.why else []
        parts += [f"({printable(each.rule)})"] if len(rules) > 1 else []
        terminal.answer("  ".join(parts))
    return len(found)
