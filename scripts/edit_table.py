#!/usr/bin/env python3
"""Runs every edit command on every model of a folder that runs, and writes what becomes of it as Markdown.

    python scripts/edit_table.py FOLDER                              print the page
    python scripts/edit_table.py FOLDER -o docs/edits-on-models.md   write it
    python scripts/edit_table.py FOLDER --edits extract,remove --models 'dl4j_*'

Each command is called three times for each model, as `edit_support.choices` says. All edits are valid, so each
must be proven, or refused (exit 4) for a valid reason. Any other end is a defect: it has a table of its own,
and the script ends with 1. A quarter of an hour on two processors; TensorFlow is loaded once.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from edit_support.choices import CHOICES
from edit_support.model import Model
from pages import called, error_in, models, page_parser, publish, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.workers import lend_workers

HEAD = """\
---
hide: [navigation, toc]
---

# Edits of published models

Results of every edit command on public models. `scripts/edit_table.py` wrote this page. It calls each command three
times (`set-attr` six times) for each model that runs, without options for the proof. All requests are valid, so each
edit must be proven, or refused for a valid reason. A number counts proven edits, `2/3` means that two of three edits
are proven, and `-` that the command does not apply.

{measured}

"""

PROVEN, REFUSED = 0, 4


class Run(NamedTuple):
    """A call of a command.

    Attributes:
        model, edit, choice: the file, the command, and what is asked, in words.
        arguments: those behind MODEL; empty where the choice does not apply.
        code: the exit code; None where the choice does not apply.
        said: the error, on one line.
    """

    model: str
    edit: str
    choice: str
    arguments: Sequence[str] = ()
    code: int | None = None
    said: str = ""


def main() -> int:
    """Runs the table."""
    parser = page_parser(__doc__, keras=False)
    parser.add_argument("--edits", default=",".join(CHOICES), help="Some of the commands.")
    parser.add_argument("--timeout", type=int, default=60, help="For each step in TensorFlow, in seconds.")
    options = parser.parse_args()
    paths = [path for path in models(options) if path.is_file()]
    with pytest.MonkeyPatch.context() as patch:
        lend_workers(patch)
        runs = [run for path in paths for run in runs_of(path, options.edits.split(","), options.timeout)]
    publish(HEAD, page(runs), options.out)
    return 1 if any(run.code not in (None, PROVEN, REFUSED) for run in runs) else 0


def runs_of(path: Path, edits: Sequence[str], timeout: int) -> Iterator[Run]:
    """All calls for the model in the file PATH; none where it does not run."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        feeds = ("--samples", "1", "--save-feeds", str(folder / "feeds.npz"))
        code, _ = called("validate", str(path), *feeds, "--timeout", str(timeout))
        if code:
            return
        for edit in edits:
            for choice, arguments_for in CHOICES[edit].items():
                arguments = arguments_for(Model(path, folder))
                if arguments is None:
                    yield Run(path.name, edit, choice)
                    continue
                out = ("-o", str(folder / "out.pb"), "--timeout", str(timeout))
                code, said = called(edit, str(path), *arguments, *out)
                said = error_in(said).replace(f"{folder}/", "").replace(f"{path.parent}/", "")
                plain = [argument.replace(f"{folder}/", "").replace(f"{path.parent}/", "") for argument in arguments]
                print(f"{path.name}: {edit} {' '.join(plain)}: {code} {said[:100]}", file=sys.stderr, flush=True)
                yield Run(path.name, edit, choice, plain, code, said)


def page(runs: Sequence[Run]) -> str:
    """The page: a table of counts, and below it what was refused, with the reason."""
    edits, names = (list(dict.fromkeys(found)) for found in ([r.edit for r in runs], [r.model for r in runs]))
    cells = [[cell([r for r in runs if (r.model, r.edit) == (name, edit)]) for edit in edits] for name in names]
    lines = table(f"model | {' | '.join(edits)}", ([f"`{name}`", *row] for name, row in zip(names, cells, strict=True)))
    ran = [run for run in runs if run.code is not None]
    proven, refused = (sum(run.code == code for run in ran) for code in (PROVEN, REFUSED))
    lines += ["", f"{len(ran):,} edits: {proven:,} proven, {refused:,} refused."]
    lines += ["", "## Requests", ""]
    lines += table("command | requests", ([edit, "; ".join(CHOICES[edit])] for edit in edits))
    others = [run for run in ran if run.code not in (PROVEN, REFUSED)]
    for title, some in (("Refused edits", [run for run in ran if run.code == REFUSED]), ("Other results", others)):
        rows = [[f"`{r.model}`", f"`{escaped(' '.join([r.edit, *r.arguments]))}`", escaped(r.said)] for r in some]
        lines += ["", f"## {title}", "", *table("model | command | message", rows)] if rows else []
    return "\n".join(lines) + "\n"


def cell(runs: Sequence[Run]) -> str:
    """Returns how many of RUNS are proven; ``1/3`` if not all of them are, ``-`` if no choice applies."""
    codes = [run.code for run in runs if run.code is not None]
    proven = codes.count(PROVEN)
    return "-" if not codes else f"{proven}" if proven == len(codes) else f"{proven}/{len(codes)}"


def escaped(text: str) -> str:
    """TEXT in a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
