#!/usr/bin/env python3
"""Has every model of a folder, and some of Keras, store its weights in fewer bytes, in each form, and writes a page.

    python scripts/quantize_table.py FOLDER                             print the page
    python scripts/quantize_table.py FOLDER -o docs/quantized-models.md    write it

The script gives each model that runs to `gdsurgeon quantize --dtype TYPE`. An exit code other than 0 or 4 is a defect,
and the script ends with 1.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from compat_table import KERAS
from pages import called, error_in, models, page_parser, plain, publish, runs, table

FORMS = ("float16", "bfloat16", "int8")
ANY = "1e30"
"""A tolerance that no difference exceeds: with a tolerance, the inputs of ops that reorder elements are measured."""
HEAD = """\
# Quantized models

Results of `quantize` on public models, and on Keras models with random weights. `scripts/quantize_table.py` wrote
this page. Each cell has three values:

- the size of the result, as a fraction of the original size;
- the same fraction after gzip (gz);
- the `--tolerance` within which outputs, and the inputs of a Softmax, agree on two input sets.

NonMaxSuppression and TopK may return elements in a different order. For such models, the tolerance is for the inputs
of the two ops. `-` means that no constant becomes smaller.

{measured}

"""


class Run(NamedTuple):
    """The result of a model in a form: the exit code, and the measured values or the error as text."""

    model: str
    form: str
    code: int
    told: str


def main() -> int:
    """Runs the table."""
    options = page_parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as made:
        found = [run for path in models(options, KERAS, made) if runs(path) for run in runs_of(path)]
    publish(HEAD, page(found), options.out)
    return 0 if all(run.code in (0, 4) for run in found) else 1


def runs_of(path: Path) -> Iterator[Run]:
    """Quantizes the model at `path` in each form."""
    for form in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            out, report = f"{folder}/out.pb", f"{folder}/report.json"
            arguments = ["quantize", str(path), "--dtype", form, "-o", out, "--report", report, "--tolerance", ANY]
            code, said = called(*arguments)
            run = Run(path.name, form, code, told(code, said, report))
        print(f"{run.model} {form}: {code} {run.told}", file=sys.stderr, flush=True)
        yield run


def told(code: int, said: str, report: str) -> str:
    """Returns the measured values, or the error in the output `said`."""
    if code:
        return error_in(said, 1000, "; ")
    facts = json.loads(Path(report).read_text())
    edit = facts["edit"]
    if facts["nothing_to_do"]:
        return "-"
    left = edit["bytes_after"] / edit["bytes_before"]
    packed = edit["gzipped_after"] / edit["gzipped_before"]
    measured = [each.get("of_largest", 0.0) for each in facts["proof"]["outputs"] if each["compared"]]
    needed = max((each for each in measured if each is not None), default=None)
    return f"{left:.2f}, {packed:.2f} gz, {'not measured' if needed is None else f'{needed:.1e}' if needed else '0'}"


def page(runs: Sequence[Run]) -> str:
    """The page: a table, and below it what was refused."""
    by_model: dict[str, list[Run]] = {}
    for run in runs:
        by_model.setdefault(run.model, []).append(run)
    rows = []
    for model, cells in by_model.items():
        if any(run.told != "-" for run in cells):
            told = (run.told if run.code == 0 else "refused" if run.code == 4 else f"exit {run.code}" for run in cells)
            rows.append([f"`{model}`", *told])
    lines = table(f"model | {' | '.join(FORMS)}", rows)
    nothing = [model for model, cells in by_model.items() if all(run.told == "-" for run in cells)]
    omitted = f"{len(nothing)} of them are omitted because no constant becomes smaller; `quantize` prints the reason"
    lines += ["", f"{len(by_model)} models run. {omitted}."]
    failed = [run for run in runs if run.code]
    if failed:
        lines += ["", "## Refused models", ""]
        lines += table("model | form | reason", ([f"`{run.model}`", run.form, plain(run.told)] for run in failed))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
