#!/usr/bin/env python3
"""Validates every model in a folder and writes the tally as a table in Markdown.

    python scripts/tally_models.py FOLDER                    print the table
    python scripts/tally_models.py FOLDER -o docs/models.md  write it

Each file is validated on its own; then its first input and output are renamed, and the result is validated against it:
the column "compared" counts these results. For a file that cannot be executed or compared, the table has the error of
the program. The script takes a few seconds for each file.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from pages import answer_of, models, page_parser, publish

from gdsurgeon.text import counted

HEAD = """\
# Published models

`validate` ran on each public model without any option. It then compared the model with a copy whose first input and
first output were renamed. `scripts/tally_models.py` wrote this page.

{measured}

| model | nodes | executed | compared | remarks |
|-------|------:|----------|----------|---------|
"""


class Row(NamedTuple):
    """A model in the table."""

    name: str
    nodes: int | None
    executed: str
    compared: str
    remarks: str


def main() -> None:
    """Runs the tally."""
    options = page_parser(__doc__, keras=False).parse_args()
    rows = []
    for path in models(options):
        rows.append(row(path))
        print(f"{rows[-1].name}: {rows[-1].executed}, {rows[-1].compared}", file=sys.stderr)
    publish(HEAD, "".join(map(line, rows)) + totals(rows), options.out)


def row(path: Path) -> Row:
    """Validates one model."""
    _, alone, error = answer_of("validate", str(path), "--json")
    nodes = alone["graphs"][0]["nodes"] if alone.get("graphs") else None
    if not alone.get("passed"):
        return Row(path.name, nodes, "no", "no", shortened(error, path))
    proof = alone["proof"]
    outputs = sum(not output["inner"] for output in proof["outputs"])
    executed = f"{counted(outputs, 'output')}, {counted(proof['samples'], 'sample')}"
    remarks = [*nan_remarks(alone), *(f"{s['output']}: {s['reason']}" for s in proof["skipped"])]
    remarks += alone["warnings"]
    compared, more = after_a_rename(path)
    return Row(path.name, nodes, executed, compared, "; ".join(dict.fromkeys([*more, *remarks])))


def nan_remarks(alone: dict[str, Any]) -> list[str]:
    """Yields remarks about NaN and empty values."""
    out = []
    for name, found in alone["statistics"].items():
        if found["nan"]:
            out.append(f"{name}: {found['nan']:,} of {found['count']:,} NaN")
        if not found["count"]:
            out.append(f"{name}: no elements")
    return out


def after_a_rename(path: Path) -> tuple[str, list[str]]:
    """Returns the result of the comparison with a renamed copy, and remarks."""
    _, described, error = answer_of("inspect", str(path), "--json")
    if not described:
        return "no", [error]
    ends = [described[kind][0]["name"].split(":")[0] for kind in ("inputs", "outputs") if described[kind]]
    pairs = [f"{name}={name}_renamed" for name in dict.fromkeys(ends)]
    with tempfile.TemporaryDirectory() as folder:
        copy = str(Path(folder, "renamed.pb"))
        _, _, error = answer_of("rename", str(path), *pairs, "-o", copy, "--format", "binary")
        if error:
            return "no", [shortened(error, path)]
        maps = [option for pair in pairs for option in ("--map", pair)]
        _, verdict, error = answer_of("validate", str(path), copy, *maps, "--json")
    if not verdict.get("passed"):
        return "no", [shortened(error, path)]
    proof = verdict["proof"]
    inside = sum(output["inner"] and output["compared"] for output in proof["outputs"])
    inner = f" and {counted(inside, 'inner tensor')}" if inside else ""
    how = "bit-identical" if not proof["largest_difference"] else f"up to {proof['largest_difference']:.3g}"
    remarks = [f"{o['original']}: {o['reason']}" for o in proof["outputs"] if not o["compared"]]
    return f"{counted(proof['compared'], 'output')}{inner}, {how}", remarks


def shortened(text: str, path: Path) -> str:
    """TEXT without the folder."""
    return text.replace(str(path), path.name)


def line(item: Row) -> str:
    """A row of the table."""
    nodes = f"{item.nodes:,}" if item.nodes is not None else ""
    remarks = item.remarks.replace("|", "\\|")
    return f"| `{item.name}` | {nodes} | {item.executed} | {item.compared} | {remarks} |\n"


def totals(rows: list[Row]) -> str:
    """The last line."""
    executed = sum(item.executed != "no" for item in rows)
    compared = sum(item.compared != "no" for item in rows)
    return f"\n{len(rows)} files: {executed} executed, {compared} compared, none with an option.\n"


if __name__ == "__main__":
    main()
