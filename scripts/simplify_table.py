#!/usr/bin/env python3
"""Simplifies every model of a folder, and some of Keras, with proof, and writes what becomes of them as Markdown.

    python scripts/simplify_table.py FOLDER                                   print the page
    python scripts/simplify_table.py FOLDER -o docs/simplified-models.md      write it

Each model that runs must be simplified and proven (exit 0), and no file may grow; otherwise the script ends with 1.
The models of Keras are made with random weights in a temporary folder (`scripts/keras_models.py`).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from math import exp, log
from pathlib import Path
from typing import NamedTuple

import keras_models
from pages import called, error_in, models, page_parser, publish, runs

from gdsurgeon.container.files import ALL
from gdsurgeon.container.load import open_model

HEAD = """\
# Simplified models

Results of `simplify` without options on public models, and on Keras models with random weights. Every result ran, and
its outputs are bit-identical. Nodes in functions are included. Models that do not run are omitted.
`scripts/simplify_table.py` wrote this page.

{measured}

"""
KERAS = ("keras_lstm", "keras_transformer", *keras_models.APPLICATIONS)
"""Those of `scripts/keras_models.py` that are simplified."""


class Row(NamedTuple):
    """The result of a model: its nodes and bytes before and after, and the error if the result is not proven."""

    model: str
    nodes: tuple[int, int]
    sizes: tuple[int, int]
    fault: str = ""


def main() -> int:
    """Runs the table."""
    parser = page_parser(__doc__)
    parser.add_argument("--fold-bn", action="store_true", help="Also fold batch norms; not for the page.")
    options = parser.parse_args()
    more = ["--fold-bn"] if options.fold_bn else []
    with tempfile.TemporaryDirectory() as made:
        rows = [simplified(path, more) for path in models(options, KERAS, made) if runs(path)]
    publish(HEAD, page(rows), options.out)
    faulty = [(row, fault) for row in rows if (fault := fault_of(row))]
    for row, fault in faulty:
        print(f"{row.model}: {fault}", file=sys.stderr)
    return 1 if faulty else 0


def fault_of(row: Row) -> str:
    """Returns the fault of a result, or ''."""
    return row.fault or ("it is larger than before" if row.sizes[1] > row.sizes[0] else "")


def simplified(path: Path, more: Sequence[str]) -> Row:
    """Simplifies the model at `path` with `more` arguments."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / f"out{path.suffix}"
        code, said = called("simplify", str(path), "-o", str(out), "--samples", "1", "--no-v2-check", *more)
        said = error_in(said, 0)
        print(f"{path.name}: {code} {said[:100]}", file=sys.stderr, flush=True)
        after = out if code == 0 else path
        counted, sizes = (nodes(path), nodes(after)), (size(path), size(after))
        return Row(path.name, counted, sizes, said if code else "")


def nodes(path: Path) -> int:
    """The nodes of a model and of its functions."""
    graph = open_model(str(path), ALL).graph
    return graph.node_count + sum(len(function.node_def) for function in graph.functions)


def size(path: Path) -> int:
    """The bytes of a model's graph: of a SavedModel those of the file that holds it."""
    names = ("saved_model.pb", "saved_model.pbtxt")
    found = next((path / name for name in names if (path / name).exists()), path)
    return found.stat().st_size


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(ratio) for ratio in ratios]
    return exp(sum(logs) / len(logs)) if logs else 1.0


def page(rows: Sequence[Row]) -> str:
    """The table, and the geometric means below it."""
    lines = ["| model | nodes | simplified | | bytes | simplified |", "|---|" + "--:|" * 5]
    for r in rows:
        cells = [f"`{r.model}`", f"{r.nodes[0]:,}", f"{r.nodes[1]:,}", f"{r.nodes[1] / r.nodes[0]:.2f}"]
        cells += [f"{r.sizes[0]:,}", f"{r.sizes[1]:,}"]
        lines.append(f"| {' | '.join(cells)} |" + (f" {r.fault}" if r.fault else ""))
    large = [r for r in rows if r.nodes[0] >= 100]
    told = [
        f"{what}: {mean(r.nodes[1] / r.nodes[0] for r in some):.2f} of the nodes, "
        f"{mean(r.sizes[1] / r.sizes[0] for r in some):.2f} of the bytes"
        for what, some in ((f"all {len(rows)}", rows), (f"the {len(large)} of 100 nodes or more", large))
    ]
    return "\n".join(lines) + "\n\nGeometric means: " + "; ".join(told) + ".\n"


if __name__ == "__main__":
    sys.exit(main())
