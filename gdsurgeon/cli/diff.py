"""gdsurgeon diff."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from gdsurgeon.cli.command import Query, output_option, query_command
from gdsurgeon.cli.complete import files
from gdsurgeon.cli.hints import worded
from gdsurgeon.cli.options import BadValue, ConflictingOptions, MissingArgument, option
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.errors import GdsurgeonError, UsageError, printable, quoted
from gdsurgeon.wire.output import STANDARD_OUTPUT
from gdsurgeon.wire.source import STANDARD_INPUT

if TYPE_CHECKING:
    from gdsurgeon.compare.diff import Difference


DIFFERENT = 1
"""The exit code if the models differ."""

GIT_ARGUMENTS = (6, 8)
"""The numbers of git's arguments after the path: the old file, its hash and mode, the new file, its hash and mode; and
after a rename also the new path and the similarity."""


@query_command("diff")
@click.argument("others", metavar="[OTHER]", shell_complete=files, nargs=-1)
@option("--stat")
@option("--markdown")
@option("--ignore", "ignored")
@option("--textconv")
@option("--git", "is_git")
@output_option("-o", "--output", "out", help="Write a page (.html) that shows both models as one graph.")
@output_option("--map-file", "mapping", help="Write the pairs of names to FILE, for validate --map-file.")
def command(
    query: Query,
    others: tuple[str, ...],
    stat: bool,
    markdown: bool,
    ignored: list[str],
    textconv: bool,
    is_git: bool,
    out: str | None,
    mapping: str | None,
) -> None:
    """Show what changed between two models.

    Nodes are matched by what they compute and how they are wired, not by name. So models that were exported again,
    retrained or extended can be compared. The command lists the nodes that were changed, added, removed or renamed. It
    does not run the models.

    Exit code 0: no difference; 1: a difference; higher codes: errors.

    \b
    Examples:
      gdsurgeon diff old.pb new.pb
      gdsurgeon diff old.pb new.pb --ignore names,weights --stat
      gdsurgeon diff old.pb new.pb -o difference.html
      gdsurgeon diff old.pb new.pb --map-file pairs.txt
    """
    if sum((query.as_json, stat, markdown, textconv)) > 1:
        raise ConflictingOptions("give only one of --json, --stat, --markdown and --textconv")
    from gdsurgeon.compare.diff import IGNORABLE, diff_models

    unknown = sorted({*ignored}.difference(IGNORABLE))
    if unknown:
        line = f"--ignore {printable(unknown[0])}: expected one of {', '.join(IGNORABLE)}"
        raise BadValue(line, option="--ignore", value=unknown[0])
    ignore = frozenset(ignored)
    if textconv:
        if others:
            raise ConflictingOptions("--textconv expects one model", option="--textconv")
        from gdsurgeon.view.difference import graph_lines

        terminal.answer("\n".join(graph_lines(query.open().graph)))
        return
    if is_git:
        terminal.answer(_answer_to_git(query, others, ignore))
        return
    if not others:
        raise MissingArgument("diff expects two models: OTHER is missing", name="OTHER")
    if len(others) > 1:
        line = f"diff expects two models, got a third: {quoted(others[1])}"
        raise UsageError(line, code="extra-argument", value=others[1])
    if query.path in STANDARD_INPUT and others[0] in STANDARD_INPUT:
        raise ConflictingOptions("only one of the models can be read from standard input")
    _check_outputs(out, mapping, [query.path, *others], is_answered=query.as_json or stat or markdown)
    found = diff_models(query.open(), query.open(others[0]), ignore)
    page = _page(found) if out is not None else ""
    if mapping is not None:
        terminal.write(mapping, found.mapping().encode("utf-8", "backslashreplace"))
    if out is not None:
        terminal.write(out, page.encode("utf-8", "backslashreplace"))
    if mapping not in STANDARD_OUTPUT:
        terminal.answer(_text(found, as_json=query.as_json, stat=stat, markdown=markdown))
    if not found.is_empty:
        click.get_current_context().exit(DIFFERENT)


def _check_outputs(out: str | None, mapping: str | None, models: list[str], *, is_answered: bool) -> None:
    """Raises UsageError if an output would replace one of `models`, or if two outputs are standard output."""
    if out == "-":
        raise BadValue("-o expects a file: the answer is printed to standard output", option="-o")
    if mapping in STANDARD_OUTPUT and is_answered:
        line = "--map-file - prints only the pairs: leave out --json, --stat and --markdown"
        raise ConflictingOptions(line, option="--map-file")
    written = [(option, path) for option, path in (("--map-file", mapping), ("-o", out)) if path is not None]
    if written:
        from gdsurgeon.operation.paths import check_replaces_nothing

        check_replaces_nothing(written, models)


def _text(found: Difference, *, as_json: bool, stat: bool, markdown: bool) -> str:
    from gdsurgeon.view import difference

    if as_json:
        import json

        return json.dumps(difference.as_json(found), indent=2)
    if markdown:
        return "\n".join(difference.markdown(found))
    return "\n".join(difference.lines(found, short=stat, whole=terminal.verbose))


def _answer_to_git(query: Query, rest: tuple[str, ...], ignore: frozenset[str]) -> str:
    """Returns the difference of the two files that git passes for a path, or the error if one cannot be read."""
    from gdsurgeon.compare.diff import diff

    path, query = query.path, query._replace(function=None)
    if not rest:
        return f"* {printable(path)} is unmerged"
    if len(rest) not in GIT_ARGUMENTS:
        line = "--git expects the 7 or 9 arguments with which git calls a diff driver"
        raise UsageError(line, code="wrong-count", option="--git")
    old, new, new_path = rest[0], rest[3], rest[6] if len(rest) > 6 else path
    for file, what, name in ((old, "added", new_path), (new, "deleted", path)):
        if file == os.devnull:
            return f"{what} {printable(name)}"
    try:
        a, b = (query.open(file).graph for file in (old, new))
        a.source.name, b.source.name = f"a/{path}", f"b/{new_path}"  # not the names of git's temporary files
        return _text(diff(a, b, ignore), as_json=False, stat=False, markdown=False)
    except GdsurgeonError as error:
        return f"{printable(path)}: {worded(error.message)}"


def _page(found: Difference) -> str:
    """Returns an HTML page that shows both graphs as one and marks the differences."""
    from gdsurgeon.view.content import content_of
    from gdsurgeon.view.difference import notes
    from gdsurgeon.view.outline import Outlines
    from gdsurgeon.view.page import page, union

    before, after = (content_of(graph, os.path.basename(graph.source_name)) for graph in (found.a, found.b))
    both = union(found, before, after)
    return page(Outlines(found.b, both.content), marks=both.marks, notes=notes(found))
