"""gdsurgeon view."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdsurgeon.cli.command import Query, query_command
from gdsurgeon.cli.options import BadValue, ConflictingOptions, option
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import UsageError, printable

if TYPE_CHECKING:
    from gdsurgeon.view.outline import Outlines
    from gdsurgeon.view.tree import Item


FORMS = ("html", "svg", "dot", "md")
"""The forms of pictures, which are also suffixes of files."""

PIPED_WIDTH = 80
"""Columns of the output if it is not a terminal."""


@query_command("view", without=("checkpoint",))
@option("--depth")
@option("--scope", "scopes", help="Show only this scope.")
@option("--gradients", default="separate")
@option("-o", "--output", "out", help="Draw a picture to OUT: .html, .svg, .dot (Graphviz) or .md (Mermaid).")
@option("--format", "form", choices=FORMS)
def command(
    query: Query,
    depth: int | None,
    scopes: tuple[str, ...],
    gradients: str,
    out: str | None,
    form: str | None,
) -> None:
    """Draw the scopes of a graph as a tree or a picture.

    Neighbouring scopes with the same structure share one line. Without --depth, the tree shows as many levels as fit on
    the screen.

    \b
    Examples:
      gdsurgeon view model.pb
      gdsurgeon view model.pb --scope block_1 --depth 2
      gdsurgeon view model.pb -o model.html
      gdsurgeon view model.pb --depth 2 -o - --format md
    """
    from gdsurgeon.analysis.checks.check import check
    from gdsurgeon.analysis.queries.training import saver_scopes
    from gdsurgeon.view.content import content_of
    from gdsurgeon.view.outline import Outlines
    from gdsurgeon.view.tree import whole
    from gdsurgeon.wire.output import OutputFile

    if query.as_json and (out is not None or form is not None):
        raise ConflictingOptions("--json prints the tree: leave out -o and --format", option="--json")
    if len(scopes) > 1:
        raise UsageError("view shows one scope: give --scope once", code="given-twice", option="--scope")
    scope = scopes[0] if scopes else None
    chosen = _form(out, form) if out is not None or form is not None else None
    if chosen == "html" and (scope is not None or depth is not None):
        line = "an HTML page shows the whole model: --scope and --depth are for the tree and the other pictures"
        raise ConflictingOptions(line)
    if out is not None:
        from gdsurgeon.operation.paths import check_replaces_nothing

        check_replaces_nothing([("-o", out)], [query.path])
    graph = query.open().graph
    findings = check(graph)
    content = content_of(graph, os.path.basename(graph.source_name), findings.faults)
    outlines = Outlines(graph, content, together=gradients == "together")
    head = whole(outlines, scope)
    if chosen is None:
        savers = saver_scopes(graph) if not findings.fault_count else []
        terminal.answer(_tree(outlines, head, depth, savers, as_json=query.as_json))
    else:
        from gdsurgeon.view.picture import drawn

        with OutputFile(out or "-") as output:
            if findings.fault_count and out is not None and os.path.lexists(out) and not output.is_stream:
                findings.warnings.append(f"{printable(out)} is not replaced, because the graph has faults")
            else:
                output.stage([drawn(chosen, outlines, head, depth).encode("utf-8", "backslashreplace")])
                terminal.clear()
                output.publish()
    terminal.warn(findings.warnings)
    if findings.fault_count:
        raise findings.as_error(graph.source_name)


def _form(out: str | None, form: str | None) -> str:
    """Returns the form of a picture: that of --format, or the suffix of the file."""
    by_name = os.path.splitext(out or "")[1][1:].lower()
    if form is None and by_name not in FORMS:
        names = ", ".join(f".{name}" for name in FORMS)
        raise BadValue(f"-o {printable(out or '')}: expected the suffix {names}, or --format", option="-o", value=out)
    return form or by_name


def _tree(outlines: Outlines, head: Item, depth: int | None, savers: Sequence[str], *, as_json: bool) -> str:
    """Returns the scopes in `head` as a tree or as JSON, with `depth` levels or as many as fit the screen.

    With a `depth`, more scopes of a level are shown; with -v all of them, and the scopes of `savers` are opened.
    """
    from gdsurgeon.view import tree as view
    from gdsurgeon.view.tree import fitting, within

    if depth is None:
        head.items = fitting(outlines, head, lambda items: view.count(view.folded(items)), view.ENOUGH)
    else:
        head.items = within(outlines, head, depth)
    if not terminal.verbose and not as_json:
        view.close(head, savers)
    if as_json:
        return json.dumps(view.as_json(head), indent=2)
    limits = view.ALL if depth is not None and terminal.verbose else view.SCREEN if depth is None else view.PAGE
    lines = view.folded(head.items or (), limits)
    is_shown = sys.stdout.isatty()
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if is_shown else PIPED_WIDTH
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return view.table(head, lines, width=width, colour=terminal.colours(sys.stdout), ascii_only=ascii_only)
