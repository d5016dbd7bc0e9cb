#!/usr/bin/env python3
"""Simplifies every model of a folder, with proof, and writes the nodes and bytes before and after as Markdown.

    python scripts/simplify_table.py FOLDER                                   print the page
    python scripts/simplify_table.py FOLDER -o docs/simplified-models.md      write it

Each model that runs is to be simplified and proven (exit 0), and no file may be larger after; the script ends with 1
where that is not so. Some minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from math import exp, log
from pathlib import Path
from typing import NamedTuple

from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.container.load import open_model
from gdsurgeon.container.wanted import ALL

HEAD = """\
# Simplified models

What `simplify` makes of models that others have published, with no option, each proven by running: the outputs are
bit-identical. Made by `scripts/simplify_table.py`; models that do not run are left out.

| model | nodes | simplified | | bytes | simplified |
|---|--:|--:|--:|--:|--:|
"""


class Row(NamedTuple):
    """What has become of a model: its nodes and bytes, before and after, and what was said where it was not proven."""

    model: str
    nodes: tuple[int, int]
    sizes: tuple[int, int]
    fault: str = ""


def main() -> int:
    """Runs the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", dest="out", type=Path)
    parser.add_argument("--models", default="*", metavar="PATTERN", help="Some of the models.")
    options = parser.parse_args()
    paths = sorted(path for path in options.folder.iterdir() if fnmatch(path.name, options.models))
    rows = [row for path in paths if (row := simplified(path)) is not None]
    text = page(rows)
    if options.out is None:
        print(text, end="")
    else:
        options.out.write_text(text)
    faulty = [row for row in rows if row.fault or row.sizes[1] > row.sizes[0]]
    for row in faulty:
        print(f"{row.model}: {row.fault or 'it is larger than before'}", file=sys.stderr)
    return 1 if faulty else 0


def simplified(path: Path) -> Row | None:
    """What becomes of the model at PATH; None where it does not run."""
    if called("validate", str(path), "--samples", "1")[0]:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / f"out{path.suffix}"
        code, said = called("simplify", str(path), "-o", str(out), "--samples", "1", "--no-v2-check")
        print(f"{path.name}: {code} {said[:100]}", file=sys.stderr, flush=True)
        after = out if code == 0 else path
        return Row(path.name, (nodes(path), nodes(after)), (size(path), size(after)), said if code else "")


def nodes(path: Path) -> int:
    """The nodes of a model."""
    return open_model(str(path), ALL).graph.node_count


def size(path: Path) -> int:
    """The bytes of a model's graph: of a SavedModel those of the file that holds it."""
    names = ("saved_model.pb", "saved_model.pbtxt")
    found = next((path / name for name in names if (path / name).exists()), path)
    return found.stat().st_size


def called(*arguments: str) -> tuple[int, str]:
    """The exit code of a command that is run in this process, and the error, if it says one."""
    terminal.__init__()  # type: ignore[misc]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = exit_code(list(arguments))
    lines = [line for line in errors.getvalue().splitlines() if line.startswith("Error: ")]
    return code, lines[0].removeprefix("Error: ") if lines else ""


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(ratio) for ratio in ratios]
    return exp(sum(logs) / len(logs)) if logs else 1.0


def page(rows: Sequence[Row]) -> str:
    """The table, and the geometric means below it."""
    lines = [
        f"| `{r.model}` | {r.nodes[0]:,} | {r.nodes[1]:,} | {r.nodes[1] / r.nodes[0]:.2f} "
        f"| {r.sizes[0]:,} | {r.sizes[1]:,} |" + (f" {r.fault}" if r.fault else "")
        for r in rows
    ]
    large = [r for r in rows if r.nodes[0] >= 100]
    told = [
        f"{what}: {mean(r.nodes[1] / r.nodes[0] for r in some):.2f} of the nodes, "
        f"{mean(r.sizes[1] / r.sizes[0] for r in some):.2f} of the bytes"
        for what, some in ((f"All {len(rows)}", rows), (f"the {len(large)} of 100 nodes or more", large))
    ]
    return HEAD + "\n".join(lines) + "\n\nIn the geometric mean: " + "; ".join(told) + ".\n"


if __name__ == "__main__":
    sys.exit(main())
