#!/usr/bin/env python3
"""Writes into docs/commands what `--help` and `steps NAME` print: what is between a page's two marks is made here.

    scripts/make_reference.py            write the pages that are stale
    scripts/make_reference.py --check    write nothing; exit 1 where a page is stale, or missing

Every command has a page of its name; `gdsurgeon --help` itself is on the page `index.md`.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

import click

from gdsurgeon.cli.main import main as program
from gdsurgeon.registry import COMMANDS
from gdsurgeon.steps.book import book
from gdsurgeon.view.steps import explained

PAGES = Path(__file__).resolve().parent.parent / "docs" / "commands"
START = "<!-- made by scripts/docs --reference: what is between the marks is not to be edited -->"
END = "<!-- end of what is made -->"
WIDTH = 100
"""Columns of the terminal that is shown."""


def main() -> int:
    """Writes or checks the pages; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, text in references().items():
        page = PAGES / f"{name}.md"
        if not page.exists():
            stale.append(f"{page.name} is missing: write it, with the two marks of another page in it")
            continue
        old = page.read_text()
        new = with_reference(old, text)
        if new != old:
            stale.append(f"{page.name} is stale")
            if not check:
                page.write_text(new)
    for line in stale:
        print(f"docs/commands/{line}", file=sys.stderr)
    if check and stale:
        print("scripts/docs --reference writes what is stale", file=sys.stderr)
    return int(check and bool(stale))


def references() -> dict[str, str]:
    """What is to stand between the marks, by the name of the page: what `--help` prints."""
    # The width of the terminal that it is run in must not count; below a context, contexts inherit it.
    top = click.Context(program, info_name="gdsurgeon", terminal_width=WIDTH, **program.context_settings)
    names = list(COMMANDS)
    links = ", ".join(f"[{name}]({name}.md)" for name in names)
    out = {"index": f"{block(program.get_help(top))}\n\n{textwrap.fill(links, WIDTH, break_on_hyphens=False)}"}
    for name in names:
        command = program.get_command(top, name)
        assert command is not None
        context = click.Context(command, parent=top, info_name=name, **command.context_settings)
        out[name] = block(command.get_help(context))
    each = (f"### {step.name}\n\n{block(chr(10).join(explained(step)))}" for step in book().values())
    out["steps"] = "\n\n".join((out["steps"], "## All steps", *each))
    return out


def block(text: str) -> str:
    """TEXT as a block that shows a terminal."""
    return f"```text\n{text.rstrip()}\n```"


def with_reference(page: str, text: str) -> str:
    """PAGE with TEXT between its marks.

    Raises:
        ValueError: it does not have both marks, once each and in order.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{page.splitlines()[0]!r}: the page lacks the marks {START!r} and {END!r}")
    return f"{before}{START}\n\n{text}\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
