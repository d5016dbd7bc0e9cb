#!/usr/bin/env python3
"""Has every model of a folder, and some of Keras, store its weights in fewer bytes, in each form, and writes a page.

    python scripts/quantize_table.py FOLDER                             print the page
    python scripts/quantize_table.py FOLDER -o docs/quantized-models.md    write it

The script gives each model that runs to `gdsurgeon quantize --dtype TYPE`. An exit code other than 0 or 4 is a defect,
and the script ends with 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import compat_table
import keras_models
from measured import called, publish

FORMS = ("float16", "bfloat16", "int8")
ANY = "1e30"
"""A tolerance that nothing exceeds: with one, what was chosen from is measured, not what may be in another order."""
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
    """What has become of a model in a form: the exit code, and in words what was measured, or the error."""

    model: str
    form: str
    code: int
    told: str


def main() -> int:
    """Runs the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", dest="out", type=Path)
    parser.add_argument("--keras", type=Path, metavar="DIR", help="Where the models of Keras are, or are made.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        keras = options.keras or Path(made)
        if not list(keras.glob("*.pb")):
            keras_models.make(keras, compat_table.KERAS)
        paths = [*sorted(options.folder.iterdir()), *sorted(keras.glob("*.pb"))]
        runs = [run for path in paths for run in runs_of(path)]
    publish(HEAD, page(runs), options.out)
    return 0 if all(run.code in (0, 4) for run in runs) else 1


def runs_of(path: Path) -> Iterator[Run]:
    """What becomes of the model at PATH; nothing where it does not run."""
    if called("validate", str(path), "--samples", "1")[0]:
        return
    for form in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            out, report = f"{folder}/out.pb", f"{folder}/report.json"
            arguments = ["quantize", str(path), "--dtype", form, "-o", out, "--report", report, "--tolerance", ANY]
            code, said = called(*arguments)
            run = Run(path.name, form, code, told(code, said, report))
        print(f"{run.model} {form}: {code} {run.told}", file=sys.stderr, flush=True)
        yield run


def told(code: int, said: str, report: str) -> str:
    """What was measured, or what was SAID of what is wrong."""
    if code:
        return "; ".join(line.strip() for line in said.splitlines() if line.startswith(("Error: ", "  ")))
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
    lines = [f"| model | {' | '.join(FORMS)} |", "|---|" + "---|" * len(FORMS)]
    by_place = {(run.model, run.form): run for run in runs}
    models = list(dict.fromkeys(run.model for run in runs))
    for model in models:
        cells = [by_place[model, form] for form in FORMS]
        if any(run.told != "-" for run in cells):
            told = (run.told if run.code == 0 else "refused" if run.code == 4 else f"exit {run.code}" for run in cells)
            lines.append(f"| `{model}` | {' | '.join(told)} |")
    nothing = [model for model in models if all(by_place[model, form].told == "-" for form in FORMS)]
    omitted = f"{len(nothing)} of them are omitted because no constant becomes smaller; `quantize` prints the reason"
    lines += ["", f"{len(models)} models run. {omitted}."]
    failed = [run for run in runs if run.code]
    if failed:
        lines += ["", "## Refused models", "", "| model | form | reason |", "|---|---|---|"]
        lines += [f"| `{run.model}` | {run.form} | {compat_table.plain(run.told)} |" for run in failed]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
