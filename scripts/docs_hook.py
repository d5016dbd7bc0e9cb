"""A hook of mkdocs: adds pages to the navigation, and adds to the page of each command what the program declares.

Pages under docs/commands and docs/recipes appear in the navigation because they exist. The page of a command gets the
command's usage and options, `index.md` the list of commands, and `steps.md` the list of steps. The table of edits in
`library.md` gets the functions of commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import click

from gdsurgeon.cli.command import common_options
from gdsurgeon.cli.main import main as program
from gdsurgeon.cli.options import HEADINGS, Option
from gdsurgeon.registry import COMMANDS, HOMES
from gdsurgeon.steps.catalog import Step, catalog, spelt

OWN = HEADINGS[0]
"""The heading of the options that only one command has."""

EDITS = "| edits | |\n|---|---|\n"
"""The head of the table of edits in `library.md`."""


def on_config(config: Any) -> Any:
    """Adds the recipes to the navigation, and the commands in the groups of `gdsurgeon --help`."""
    folder = Path(config["docs_dir"]) / "recipes"
    sections = {title: pages for section in config["nav"] for title, pages in section.items()}
    sections["Recipes"] += sorted(f"recipes/{path.name}" for path in folder.glob("*.md") if path.name != "index.md")
    groups: dict[str, list[str]] = {}
    for name, entry in COMMANDS.items():
        groups.setdefault(entry.group, []).append(f"commands/{name}.md")
    sections["Commands"] += [{group: pages} for group, pages in groups.items()]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Returns MARKDOWN, the text of PAGE, followed by the reference for a page of docs/commands."""
    folder, _, name = page.file.src_uri.rpartition("/")
    if page.file.src_uri == "library.md":
        return markdown.replace(EDITS, EDITS + "".join(edits()))
    if folder != "commands":
        return markdown
    parts = list_of_commands() if name == "index.md" else reference(name.removesuffix(".md"))
    return "\n\n".join((markdown.rstrip(), *parts)) + "\n"


def edits() -> Iterator[str]:
    """Yields a row for the function of each command that is an edit."""
    for name, entry in COMMANDS.items():
        if HOMES.get(entry.function, "").startswith("edits."):
            yield f"| `{entry.function}` | [{name}](commands/{name}.md): {entry.help} |\n"


def list_of_commands() -> Iterator[str]:
    """Yields a table of commands for each group of `gdsurgeon --help`, and the options that most commands have."""
    yield "## All commands"
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, entry in COMMANDS.items():
        groups.setdefault(entry.group, []).append((f'<a href="{name}.html">{code(name)}</a>', escape(entry.help)))
    for group, rows in groups.items():
        yield f"### {group}"
        yield table(rows)
    yield "## Common options"
    yield "Most commands have these options. `gdsurgeon help options` prints them."
    context = click.Context(program, info_name="gdsurgeon", **program.context_settings)
    yield from tables(common_options(), context)


def reference(name: str) -> Iterator[str]:
    """Yields the usage and the options of the command NAME: tables of its own options, the names of common ones."""
    top = click.Context(program, info_name="gdsurgeon", **program.context_settings)
    command = program.get_command(top, name)
    assert command is not None
    context = click.Context(command, parent=top, info_name=name, **command.context_settings)
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    common = [option for option in options if isinstance(option, Option) and option.is_common]
    yield f"## {OWN}"
    yield f"```text\ngdsurgeon {name} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield from tables([option for option in options if option not in common], context)
    if common:
        names = ", ".join(f'<code class="option">{option.opts[0]}</code>' for option in common)
        yield f"### Common options\n\n{names}: see [the list of common options](index.md#common-options)."
    if name == "steps":
        yield "## All steps"
        for step in catalog().values():
            yield from step_reference(step)


def tables(options: Iterable[click.Option], context: click.Context) -> Iterator[str]:
    """Yields a table of OPTIONS for each heading of the help, below that heading if it is not the first."""
    sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            sections[getattr(option, "heading", OWN)].append((code(record[0]), escape(record[1])))
    for heading, rows in sections.items():
        if rows:
            yield from (table(rows),) if heading == OWN else (f"### {heading}", table(rows))


def step_reference(step: Step) -> Iterator[str]:
    """Yields all that a step declares, below a heading with its name."""
    yield f"### {step.name}"
    yield f"<p><code>{escape(step.usage)}</code></p>"
    yield from (f"<p>{escape(text)}</p>" for text in (step.summary, step.explanation) if text)
    rows = []
    for parameter in step.parameters:
        has_default = not parameter.is_required and parameter.default is not None
        default = f" [default: {spelt(parameter.default)}]" if has_default else ""
        rows.append((code(parameter.name), escape(f"{parameter.help} ({parameter.kind.says}){default}")))
    if rows:
        yield table(rows)
    yield f"<p>Example: <code>{escape(step.example)}</code></p>"


def table(rows: list[tuple[str, str]]) -> str:
    """Returns a table in HTML, where no character of a cell is Markdown."""
    lines = (f"<tr><td>{left}</td><td>{right}</td></tr>" for left, right in rows)
    return "\n".join(("<table>", *lines, "</table>"))


def code(text: str) -> str:
    """Returns TEXT as code in HTML."""
    return f"<code>{escape(text)}</code>"
