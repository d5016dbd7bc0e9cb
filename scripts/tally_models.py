#!/usr/bin/env python3
"""Validates every model in a folder and writes the tally as a table in Markdown.

    python scripts/tally_models.py FOLDER                    print the table
    python scripts/tally_models.py FOLDER -o docs/models.md  write it

Each file is validated on its own; then its first input and output are renamed, and the result is validated against it:
that is what "compared" counts. A file that cannot be executed or compared has the reason beside it, in the program's
own words. Takes a few seconds for each file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from measured import publish

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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", dest="out", type=Path)
    options = parser.parse_args()
    models = sorted(path for path in options.folder.iterdir() if path.suffix != ".md")
    rows = []
    for path in models:
        rows.append(row(path))
        print(f"{rows[-1].name}: {rows[-1].executed}, {rows[-1].compared}", file=sys.stderr)
    publish(HEAD, "".join(map(line, rows)) + totals(rows), options.out)


def row(path: Path) -> Row:
    """Validates one model."""
    alone, error = gdsurgeon("validate", str(path), "--json")
    if alone is None:
        return Row(path.name, None, "no", "no", shortened(error, path))
    nodes = alone["graphs"][0]["nodes"] if alone["graphs"] else None
    if not alone["passed"]:
        return Row(path.name, nodes, "no", "no", shortened(error, path))
    proof = alone["proof"]
    outputs = sum(not output["inner"] for output in proof["outputs"])
    executed = f"{counted(outputs, 'output')}, {counted(proof['samples'], 'sample')}"
    remarks = [*nan_remarks(alone), *(f"{s['output']}: {s['reason']}" for s in proof["skipped"])]
    remarks += alone["warnings"]
    compared, more = after_a_rename(path)
    return Row(path.name, nodes, executed, compared, "; ".join(dict.fromkeys([*more, *remarks])))


def nan_remarks(alone: dict[str, Any]) -> list[str]:
    """What is odd about the values."""
    out = []
    for name, found in alone["statistics"].items():
        if found["nan"]:
            out.append(f"{name}: {found['nan']:,} of {found['count']:,} NaN")
        if not found["count"]:
            out.append(f"{name}: no elements")
    return out


def after_a_rename(path: Path) -> tuple[str, list[str]]:
    """What the comparison with a renamed copy says, and remarks."""
    described, error = gdsurgeon("inspect", str(path), "--json")
    if described is None:
        return "no", [error]
    ends = [described[kind][0]["name"].split(":")[0] for kind in ("inputs", "outputs") if described[kind]]
    pairs = [f"{name}={name}_renamed" for name in dict.fromkeys(ends)]
    with tempfile.TemporaryDirectory() as folder:
        copy = str(Path(folder, "renamed.pb"))
        _, error = gdsurgeon("rename", str(path), *pairs, "-o", copy, "--format", "binary")
        if error:
            return "no", [shortened(error, path)]
        maps = [option for pair in pairs for option in ("--map", pair)]
        verdict, error = gdsurgeon("validate", str(path), copy, *maps, "--json")
    if verdict is None or not verdict["passed"]:
        return "no", [shortened(error, path)]
    proof = verdict["proof"]
    inside = sum(output["inner"] and output["compared"] for output in proof["outputs"])
    inner = f" and {counted(inside, 'inner tensor')}" if inside else ""
    how = "bit-identical" if not proof["largest_difference"] else f"up to {proof['largest_difference']:.3g}"
    remarks = [f"{o['original']}: {o['reason']}" for o in proof["outputs"] if not o["compared"]]
    return f"{counted(proof['compared'], 'output')}{inner}, {how}", remarks


def gdsurgeon(*arguments: str) -> tuple[dict[str, Any] | None, str]:
    """Runs a command: what it prints as JSON, or None, and its error, or ''."""
    done = subprocess.run([sys.executable, "-m", "gdsurgeon", *arguments], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    at = next((i for i, text in enumerate(lines) if text.startswith("Error: ")), None)
    error = ""
    if at is not None:
        details = [text.strip() for text in lines[at + 1 :] if text.startswith("  ")]
        message = lines[at].removeprefix("Error: ").removeprefix(f"{arguments[0]}: ")
        error = " ".join([message, *details[:1]])
    try:
        return (json.loads(done.stdout) if done.stdout.strip() else None), error
    except json.JSONDecodeError:
        return None, error


def shortened(text: str, path: Path) -> str:
    """TEXT without the folder."""
    return text.replace(str(path), path.name)


def counted(number: int, what: str) -> str:
    """``2 outputs``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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
