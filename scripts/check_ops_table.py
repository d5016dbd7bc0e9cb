#!/usr/bin/env python3
"""Has other engines run every model of a folder, and some of Keras, and writes a page.

    python scripts/check_ops_table.py FOLDER --engine opencv=PATH --engine tflite ...      print the page
    python scripts/check_ops_table.py FOLDER --engine ... -o docs/check-ops-on-models.md   write it

PATH is a wheel of the engine, or a folder or virtual environment with it, as `gdsurgeon check-ops --run-in` takes it;
without one it has to be installed. Models that do not run in TensorFlow are left out. With --keep FILE what was found
is kept in FILE after each model, and what is there is not asked for again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from compat_table import KERAS
from pages import answer_of, models, page_parser, plain, publish, table

ROOT = Path(__file__).parent.parent
HEAD = """\
# Models in other engines

Results of OpenCV, OpenVINO and TFLite on public models, and on Keras models with random weights.
`scripts/check_ops_table.py` ran `check-ops --run` and wrote this page. Each engine ran the model on the feeds of a
proof, and its outputs were compared with TensorFlow. The number is the largest difference over all outputs and input
sets, relative to the largest element of the output; 0 means bit-identical. After an arrow is the result for the model
after `gdsurgeon simplify --for opencv`, if OpenCV does not accept the original.

- **differs**: the model loads and runs, but returns different values (exit code 5). The differences are listed below.
- no: the engine does not load or run the model (exit code 4). The reasons are listed below.
- nothing: no result, because TensorFlow itself returns only NaN (exit code 7).

{measured}

"""


class Run(NamedTuple):
    """The result of a model in an engine.

    Attributes:
        code: the exit code of `check-ops --run`.
        lacking: ops that are missing in the list.
        relative: the largest difference, where there is one.
        said: the error if `code` is not 0.
    """

    code: int
    lacking: tuple[str, ...]
    relative: float
    called: str
    said: str

    @property
    def cell(self) -> str:
        """In a word."""
        words = {4: "no", 5: "**differs**", 7: "nothing"}
        return words.get(self.code, f"exit {self.code}") if self.code else f"{self.relative:.1g}"


class Row(NamedTuple):
    """A model and its results by engine, for the original and for the simplified model."""

    model: str
    runs: dict[str, tuple[Run, Run | None]]


def main() -> int:
    """Runs the table."""
    parser = page_parser(__doc__)
    parser.add_argument("--engine", action="append", default=[], metavar="NAME[=PATH]", help="An engine to ask.")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="Where what was found is kept.")
    options = parser.parse_args()
    engines = {name: place for name, _, place in (text.partition("=") for text in options.engine)}
    with tempfile.TemporaryDirectory() as made:
        rows = list(found(models(options, KERAS, made), engines, options.keep))
    publish(HEAD, page(rows, list(engines)), options.out)
    return 0


def found(paths: Sequence[Path], engines: dict[str, str], keep: Path | None) -> Iterator[Row]:
    """What becomes of each model that runs in TensorFlow; the file KEEP grows with it."""
    kept = json.loads(keep.read_text()) if keep is not None and keep.exists() else {}
    for path in paths:
        if path.name not in kept:
            runs = row_of(path, engines)
            kept[path.name] = runs
            if keep is not None:
                keep.write_text(json.dumps(kept))
        runs = {name: (Run(*run), Run(*simple) if simple else None) for name, (run, simple) in kept[path.name].items()}
        if runs:
            yield Row(path.name, runs)


def row_of(path: Path, engines: dict[str, str]) -> dict[str, tuple[Run, Run | None]]:
    """What becomes of the model at PATH by engine; nothing where it does not run in TensorFlow."""
    runs: dict[str, tuple[Run, Run | None]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, place in engines.items():
            run = run_of(path, name, place)
            if run.code in (3, 7) and "shows nothing" not in run.said:
                return {}
            simple = simplified(path, Path(folder)) if run.code and name == "opencv" else None
            runs[name] = run, run_of(simple, name, place) if simple is not None else None
            cells = [each.cell for each in runs[name] if each]
            print(path.name, name, *cells, run.said[:90], file=sys.stderr, flush=True)
    return runs


def simplified(path: Path, folder: Path) -> Path | None:
    """Returns the path of the model simplified for OpenCV; None if nothing changes. `run_of` shows the result."""
    out = folder / f"simple{path.suffix or '.tar'}"
    more = ("--for", "opencv", "-o", str(out), "--require-change", "--level", "structure")
    return None if answer_of("simplify", str(path), *more)[0] else out


def run_of(path: Path, engine: str, place: str) -> Run:
    """Runs the model at `path` in an engine."""
    where = ("--run-in", place) if place else ()
    code, answer, _ = answer_of("check-ops", str(path), "--for", engine, "--run", "--json", *where)
    error = answer.get("error") or {}
    run = answer.get("run") or {}
    outputs = run.get("outputs", [])
    relative = max((output["max_relative_difference"] or 0.0 for output in outputs), default=0.0)
    details = error.get("details", [])[:3] if code == 5 else []
    said = "; ".join([error.get("message", ""), *details]).replace(str(path), path.name)
    lacking = tuple(each["op"] for each in answer.get("lacking", []))
    return Run(code, lacking, relative, run.get("engine", ""), said)


def page(rows: Sequence[Row], engines: Sequence[str]) -> str:
    """The page: a table of differences, and below it what differs or is not taken."""
    versions = {name: next((r.runs[name][0].called for r in rows if r.runs[name][0].called), name) for name in engines}
    cells = ([f"`{row.model}`", *(cell(*row.runs[name]) for name in engines)] for row in rows)
    lines = table(f"model | {' | '.join(versions.values())}", cells)
    lines.append("")
    for name in engines:
        first = [row.runs[name][0] for row in rows]
        last = [row.runs[name][1] or row.runs[name][0] for row in rows]
        simple = f", simplified {agreeing(last)}" if last != first else ""
        lines.append(f"{versions[name]}: of {len(rows)} models {agreeing(first)} agree{simple}.  ")
    for title, code in (("Different results", 5), ("Not supported", 4)):
        lines += ["", f"## {title}", "", *table("model | engine | ", ended(rows, versions, code))]
    return "\n".join(lines) + "\n"


def agreeing(runs: Sequence[Run]) -> int:
    """How many agree."""
    return sum(run.code == 0 for run in runs)


def cell(run: Run, simple: Run | None) -> str:
    """What becomes of a model, and what simplified where that is something else."""
    return run.cell if simple is None or simple.code == run.code else f"{run.cell} → {simple.cell}"


def ended(rows: Sequence[Row], versions: dict[str, str], code: int) -> Iterator[list[str]]:
    """Yields the runs that ended with `code`; if only the run of the simplified model did, yields that run."""
    for row in rows:
        for name, (run, simple) in row.runs.items():
            if run.code == code:
                yield [f"`{row.model}`", versions[name], plain(run.said, 200)]
            elif simple is not None and simple.code == code:
                yield [f"`{row.model}`, simplified", versions[name], plain(simple.said, 200)]


if __name__ == "__main__":
    sys.exit(main())
