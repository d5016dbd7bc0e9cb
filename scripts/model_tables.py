#!/usr/bin/env python3
"""Runs commands on every model of a folder, and on models of Keras with random weights, and writes tables of results.

    python scripts/model_tables.py models FOLDER                     print the tables of docs/models.md
    python scripts/model_tables.py models FOLDER -o docs/models.md   replace them in the page, after its introduction

The first argument is a page of docs/: models, simplified-models, quantized-models, edits-on-models, compat-on-models
(with `--in 1.15=PATH` for each release) or check-ops-on-models (with `--in opencv=PATH` for each engine). PATH is a
wheel of the release or engine, or a folder with its content; without PATH, an engine must be installed. The script ends
with 1 if a result is a defect: edits must be proven, or refused for a valid reason. The commands run in this process,
so that TensorFlow starts once.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import keras_models
import pytest
from edit_choices import CHOICES, Model
from record_commands import models_in

import gdsurgeon
from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.container.files import ALL
from gdsurgeon.container.load import open_model
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import ORIGINAL
from gdsurgeon.runtime.packages import unpacked
from gdsurgeon.text import counted

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.workers import lend_workers

DONE, REFUSED, FAILED, NOT_VALIDATED = 0, 4, 5, 7


class Answer(NamedTuple):
    """The result of a command: its exit code, its report or JSON, and its error with all details."""

    code: int
    report: dict[str, Any]
    error: list[str]


class Result(NamedTuple):
    """A cell of a page: its model and column, the exit code, and the text.

    `facts` is a request, an error, or numbers, depending on the page.
    """

    model: str
    column: str
    code: int
    text: str
    facts: Any = ()


class Source(NamedTuple):
    """A model: its name, its file, a folder for results, and the engines or releases with their paths."""

    name: str
    path: Path
    folder: Path
    places: dict[str, str]

    def run(self, command: str, *arguments: str) -> Answer:
        """Runs a command on the model."""
        return answer(self, command, str(self.path), *arguments)

    def edit(self, command: str, *arguments: str) -> tuple[Answer, Path]:
        """Runs an edit. Returns the answer, and the path of the result."""
        out = self.folder / f"out{self.path.suffix}"
        return self.run(command, *arguments, "-o", str(out), "--report", str(self.folder / "report.json")), out


def answer(source: Source, *arguments: str) -> Answer:
    """Runs a command in this process."""
    terminal.__init__()  # type: ignore[misc]
    with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()) as out:
        code = exit_code(list(arguments))
    written = source.folder / "report.json"
    try:
        report = json.loads(written.read_text() if written.exists() else out.getvalue())
    except json.JSONDecodeError:
        report = {}
    written.unlink(missing_ok=True)
    error = report.get("error") or {}
    lines = [error["message"], *error["details"]] if error else err.getvalue().splitlines()[:1] if code else []
    return Answer(code, report, [re.sub(rf"{source.folder}/|{source.path.parent}/", "", line) for line in lines])


# -- pages ------------------------------------------------------------------------------------------------------------


def validated(source: Source) -> Iterator[Result]:
    """Validates a model, and remarks on NaN, empty outputs, and outputs that did not run."""
    done = source.run("validate", "--json")
    graphs, proof, remarks = done.report.get("graphs") or (), done.report.get("proof"), done.error[:2]
    executed = "no"
    if done.code == DONE:
        outputs = sum(not output["inner"] for output in proof["outputs"])
        executed = f"{counted(outputs, 'output')}, {counted(proof['samples'], 'sample')}"
        for name, found in done.report["statistics"].items():
            remarks += [f"{name}: {found['nan']:,} of {found['count']:,} NaN"] if found["nan"] else []
            remarks += [] if found["count"] else [f"{name}: no elements"]
        remarks += [f"{skipped['output']}: {skipped['reason']}" for skipped in proof["skipped"]]
        remarks += done.report["warnings"]
    yield Result(source.name, "nodes:", DONE, f"{graphs[0]['nodes']:,}" if graphs else "")
    yield Result(source.name, "executed", DONE, executed)
    yield Result(source.name, "remarks", DONE, "; ".join(dict.fromkeys(remarks)).replace("|", "\\|"))


def validated_body(results: Sequence[Result]) -> Iterator[str]:
    """Yields the table of `validated`."""
    yield from grid(results)
    ran = [r.text != "no" for r in results if r.column == "executed"]
    yield from ("", f"{len(ran)} files: {sum(ran)} executed, none with an option.")


def simplified(source: Source) -> Iterator[Result]:
    """Simplifies a model. The facts are nodes and bytes, before and after."""
    done, out = source.edit("simplify", "--samples", "1", "--no-v2-check")
    after = out if done.code == DONE else source.path
    facts = *map(node_count, (source.path, after)), *map(size, (source.path, after))
    is_larger = done.code == DONE and facts[3] > facts[2]
    yield Result(
        source.name, "", 1 if is_larger else done.code, "it is larger" if is_larger else "".join(done.error[:1]), facts
    )


def simplified_body(results: Sequence[Result]) -> Iterator[str]:
    """Yields the table of `simplified`, and the geometric means."""
    rows = [
        [f"`{r.model}`", f"{a:,}", f"{b:,}", f"{b / a:.2f}", f"{c:,}", f"{d:,}", *([r.text] if r.code else [])]
        for r in results
        for a, b, c, d in [r.facts]
    ]
    yield from table(["model", "nodes:", "simplified:", ":", "bytes:", "simplified:"], rows)
    large = [r for r in results if r.facts[0] >= 100]
    means = [
        f"{what}: {geometric_mean(r.facts[1] / r.facts[0] for r in some):.2f} of the nodes, "
        f"{geometric_mean(r.facts[3] / r.facts[2] for r in some):.2f} of the bytes"
        for what, some in ((f"all {len(results)}", results), (f"the {len(large)} of 100 nodes or more", large))
        if some
    ]
    yield from ("", f"Geometric means: {'; '.join(means)}.")


def quantized(source: Source) -> Iterator[Result]:
    """Quantizes a model in each form. With a tolerance, the inputs of ops that reorder elements are measured."""
    for form in ("float16", "bfloat16", "int8"):
        done, _ = source.edit("quantize", "--dtype", form, "--tolerance", "1e30")
        text = "refused" if done.code == REFUSED else f"exit {done.code}"
        if done.code == DONE and done.report["nothing_to_do"]:
            text = "-"
        elif done.code == DONE:
            edit, outputs = done.report["edit"], done.report["proof"]["outputs"]
            parts = [edit[f"{kind}_after"] / edit[f"{kind}_before"] for kind in ("bytes", "gzipped")]
            largest = [each.get("of_largest", 0.0) for each in outputs if each["compared"]]
            needed = max((each for each in largest if each is not None), default=None)
            measured = "not measured" if needed is None else f"{needed:.1e}" if needed else "0"
            text = f"{parts[0]:.2f}, {parts[1]:.2f} gz, {measured}"
        yield Result(source.name, form, done.code, text, "; ".join(done.error))


def quantized_body(results: Sequence[Result]) -> Iterator[str]:
    """Yields the table of `quantized`, and the refused models."""
    smaller = {r.model for r in results if r.text != "-"}
    yield from grid([r for r in results if r.model in smaller])
    models = {r.model for r in results}
    omitted = f"{len(models - smaller)} of them are omitted because no constant becomes smaller"
    yield from ("", f"{len(models)} models run. {omitted}; `quantize` prints the reason.")
    failed = [[f"`{r.model}`", r.column, plain(r.facts)] for r in results if r.code]
    yield from section("Refused models", ["model", "form", "reason"], failed)


KNOWN = {
    "od_hand_ssd.meta": "its variables have generated values, so boxes are not finite; each kernel treats such boxes "
    "differently",
    "opencv_face_detector_uint8.pb": "it returns only NaN from 1.12 on, and numbers in 1.4",
    **dict.fromkeys(
        ("serving_half_plus_two_sm", "serving_half_plus_two_tf2_sm"),
        "1.4 cannot read its compressed checkpoint, which compat does not change",
    ),
}
"""Models that return different values in a release, and the reason."""


def downgraded(source: Source) -> Iterator[Result]:
    """Converts a model for each release, and runs the result there. The facts are the errors of compat and the release.

    The release must not load the original of a refused model.
    """
    for release, place in source.places.items():
        done, _ = source.edit("compat", "--for", release, "--run-in", place)
        code, error, there = done.code, "; ".join(done.error[:3]), ""
        text = "refused" if code == REFUSED else "differs"
        if code == DONE:
            ran = done.report["proof"]["run_in"]
            found = re.search(r"(bit-identical|largest difference (\S+))$", ran)
            same = "= " if done.report["nothing_to_do"] else ""
            text = same + ((found[2] or "0") if found else "loads it")
        elif code == REFUSED:
            error = "; ".join(line.partition(": ")[0] for line in done.error[1:]) or "".join(done.error[:1])
            there = error_in_release(source.path, place)
            code = REFUSED if there else 1
        elif code == FAILED and source.name in KNOWN:
            code, there = REFUSED, KNOWN[source.name]
        yield Result(source.name, release, code, text, (error, there))


def error_in_release(path: Path, place: str) -> str:
    """Returns the error of a release for a model; '' if the release loads it."""
    with unpacked(place) as folder:
        settings = Settings(release=folder, reads=(folder, place, str(path)), allow_ops=True)
        with Executor(settings) as executor:
            try:
                executor.load_graph(ORIGINAL, open_model(str(path), ALL).graph)
                executor.loaded(ORIGINAL)
            except Refused as refused:
                return refused.text
            except GdsurgeonError as error:
                return error.message
    return ""


def downgraded_body(results: Sequence[Result]) -> Iterator[str]:
    """Yields the table of `downgraded`, the refused models, and the different results."""
    yield from grid(results)
    written, refused = (sum(r.code == DONE for r in results), sum(r.text == "refused" for r in results))
    yield from ("", f"{len(results):,} pairs of model and release: {written:,} written and run, {refused:,} refused.")
    for title, text, headings in (
        ("Refused models", "refused", ["without an older equivalent", "error of the release"]),
        ("Different results", "differs", ["result", "reason"]),
    ):
        rows = [[f"`{r.model}`", r.column, *map(plain, r.facts)] for r in results if r.text == text]
        yield from section(title, ["model", "release", *headings], rows)


def run_in_engines(source: Source) -> Iterator[Result]:
    """Runs a model in each engine, and also simplified for OpenCV if OpenCV refuses it. The facts are the
    version of the engine, and the errors.
    """
    for name, place in source.places.items():
        where = ("--for", name, "--run", "--json", *(("--run-in", place) if place else ()))
        runs = [source.run("check-ops", *where)]
        if runs[0].code and name == "opencv":
            done, out = source.edit("simplify", "--for", "opencv", "--require-change", "--level", "structure")
            if done.code == DONE:
                runs.append(answer(source, "check-ops", str(out), *where))
        cells, errors, called = [], [], ""
        for run in runs:
            report = run.report.get("run") or {}
            differences = [output["max_relative_difference"] or 0.0 for output in report.get("outputs", ())]
            words = {DONE: f"{max(differences, default=0.0):.1g}", REFUSED: "no", FAILED: "**differs**"}
            cells.append(words.get(run.code, "nothing" if run.code == NOT_VALIDATED else f"exit {run.code}"))
            errors.append((run.code, "; ".join(run.error[: 4 if run.code == FAILED else 1])))
            called = report.get("engine") or called
        if len(runs) == 2 and runs[0].code == runs[1].code:
            cells.pop()
        yield Result(source.name, name, DONE, " → ".join(cells), (called, errors))


def run_in_engines_body(results: Sequence[Result]) -> Iterator[str]:
    """Yields the table of `run_in_engines`, and the errors."""
    called = {r.column: r.facts[0] for r in results if r.facts[0]}
    results = [r._replace(column=called.get(r.column, r.column), facts=r.facts[1]) for r in results]
    yield from (*grid(results), "")
    for name in dict.fromkeys(r.column for r in results):
        runs = [r.facts for r in results if r.column == name]
        first, last = (sum(errors[i][0] == DONE for errors in runs) for i in (0, -1))
        simple = f", simplified {last}" if last != first else ""
        yield f"{name}: of {len(runs)} models {first} agree{simple}.  "
    for title, code in (("Different results", FAILED), ("Not supported", REFUSED)):
        ended = ((r, next((i for i, (found, _) in enumerate(r.facts) if found == code), None)) for r in results)
        rows = [
            [f"`{r.model}`{', simplified' if i else ''}", r.column, plain(r.facts[i][1], 200)]
            for r, i in ended
            if i is not None
        ]
        yield from section(title, ["model", "engine", ""], rows)


def edited(source: Source) -> Iterator[Result]:
    """Runs each edit with each of its choices. The facts are the choice, the command line and the error."""
    for edit, choices in CHOICES.items():
        for choice, arguments_for in choices.items():
            try:
                arguments = arguments_for(model_of(source))
            except IndexError:
                yield Result(source.name, edit, DONE, "-", (choice, "", ""))
                continue
            done, _ = source.edit(edit, *arguments, "--timeout", "60")
            line = re.sub(rf"{source.folder}/|{source.path.parent}/", "", " ".join([edit, *arguments]))
            yield Result(source.name, edit, done.code, "", (choice, line, " ".join(done.error[:2])))


def edited_body(results: Sequence[Result]) -> Iterator[str]:
    """Yields the table of `edited`: proven edits of each command, and what was refused."""
    cells = []
    for model, edit in dict.fromkeys((r.model, r.column) for r in results):
        codes = [r.code for r in results if (r.model, r.column) == (model, edit) and r.text != "-"]
        proven = codes.count(DONE)
        text = "-" if not codes else f"{proven}" if proven == len(codes) else f"{proven}/{len(codes)}"
        cells.append(Result(model, edit, DONE, text))
    yield from grid(cells)
    ran = [r for r in results if r.text != "-"]
    proven, refused = (sum(r.code == code for r in ran) for code in (DONE, REFUSED))
    yield from ("", f"{len(ran):,} edits: {proven:,} proven, {refused:,} refused.")
    yield from section("Requests", ["command", "requests"], [[edit, "; ".join(CHOICES[edit])] for edit in CHOICES])
    for title, codes in (("Refused edits", {REFUSED}), ("Other results", {r.code for r in ran} - {DONE, REFUSED})):
        rows = [[f"`{r.model}`", f"`{r.facts[1]}`", plain(r.facts[2], 500)] for r in ran if r.code in codes]
        yield from section(title, ["model", "command", "message"], rows)


class Page(NamedTuple):
    """A page: functions for its results and its body, its models of Keras, and a condition for models."""

    results: Callable[[Source], Iterator[Result]]
    body: Callable[[Sequence[Result]], Iterator[str]]
    keras: tuple[str, ...] = ()
    is_possible: Callable[[Source], bool] = lambda source: runs(source)


SEVEN = ("keras_lstm", "keras_gru", "keras_bidirectional", "keras_groups", "keras_transformer", "keras_mobilenetv2",
         "keras_resnet50")  # fmt: skip

PAGES = {
    "models": Page(validated, validated_body, is_possible=lambda _: True),
    "simplified-models": Page(
        simplified, simplified_body, ("keras_lstm", "keras_transformer", *keras_models.APPLICATIONS)
    ),
    "quantized-models": Page(quantized, quantized_body, SEVEN),
    "compat-on-models": Page(downgraded, downgraded_body, (*SEVEN, "functions")),
    "check-ops-on-models": Page(run_in_engines, run_in_engines_body, SEVEN),
    "edits-on-models": Page(edited, edited_body, is_possible=lambda source: source.path.is_file() and runs(source)),
}


# -- parts of pages ---------------------------------------------------------------------------------------------------


def runs(source: Source) -> bool:
    """Returns whether a model runs; saves its feeds in the folder."""
    feeds = str(source.folder / "feeds.npz")
    return source.run("validate", "--samples", "1", "--save-feeds", feeds).code == DONE


def model_of(source: Source) -> Model:
    """Returns the facts of a model, for the choices of edits."""
    return Model(source.path, source.folder)


def node_count(path: Path) -> int:
    """Returns the number of nodes of a model and its functions."""
    graph = open_model(str(path), ALL).graph
    return graph.node_count + sum(len(function.node_def) for function in graph.functions)


def size(path: Path) -> int:
    """Returns the bytes of the file with the graph."""
    names = ("saved_model.pb", "saved_model.pbtxt")
    return next((path / name for name in names if (path / name).exists()), path).stat().st_size


def grid(results: Sequence[Result]) -> list[str]:
    """Returns a table with a row for each model, and the columns of the results."""
    rows: dict[str, dict[str, str]] = {}
    for result in results:
        rows.setdefault(result.model, {})[result.column] = result.text
    columns = list(dict.fromkeys(result.column for result in results))
    return table(["model", *columns], ([f"`{name}`", *map(row.get, columns)] for name, row in rows.items()))


def section(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns a heading and a table; nothing without rows."""
    return ["", f"## {title}", "", *table(headings, rows)] if rows else []


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Returns a table in Markdown. A column whose heading ends in ``:`` is aligned to the right."""
    rules = ("--:" if heading.endswith(":") else "---" for heading in headings)
    lines = [f"| {' | '.join(heading.rstrip(':') for heading in headings)} |", f"|{'|'.join(rules)}|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def plain(text: str, most: int = 160) -> str:
    """Returns `text` for a cell of a table, without folders of this machine and at most `most` characters long."""
    text = re.sub(r"(?<![\w.\]'])/\S+/(?=\w)", "", text)
    short = text if len(text) <= most else f"{text[:most]}..."
    return re.sub(r"[|<>*`]", " ", short).replace("_", r"\_")


def measured() -> str:
    """Returns a sentence with the date, the versions of gdsurgeon and TensorFlow, and the processor."""
    versions = f"gdsurgeon {gdsurgeon.__version__} and TensorFlow {version('tensorflow')}"
    today = datetime.date.today().isoformat()
    return f"Measured on {today} with {versions} ({platform.machine()}, {os.cpu_count()} cores)."


def results_of(page: Page, options: argparse.Namespace) -> Iterator[Result]:
    """Yields the results for the models of the folder, then for models of Keras."""
    places = {name: place for name, _, place in (text.partition("=") for text in options.places)}
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        lend_workers(patch)
        keras = options.keras or Path(made)
        if names := [name for name in page.keras if fnmatch(f"{name}.pb", options.models)]:
            keras_models.make(keras, names)
        paths = models_in(options.folder) | {path.name: path for path in sorted(keras.glob("*.pb")) if page.keras}
        for name, path in paths.items():
            with tempfile.TemporaryDirectory() as folder:
                source = Source(name, path, Path(folder), places)
                if fnmatch(name, options.models) and page.is_possible(source):
                    for result in page.results(source):
                        line = f"{name} {result.column}: {result.code} {result.text} {str(result.facts)[:150]}"
                        print(line, file=sys.stderr, flush=True)
                        yield result


def main() -> int:
    """Writes a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", choices=PAGES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", dest="out", type=Path, metavar="FILE")
    parser.add_argument("--models", default="*", metavar="PATTERN", help="Use only these models.")
    parser.add_argument("--keras", type=Path, metavar="DIR", help="Folder for the models of Keras.")
    parser.add_argument("--in", dest="places", action="append", default=[], metavar="NAME[=PATH]",
                        help="A release of TensorFlow, or an engine.")  # fmt: skip
    options = parser.parse_args()
    page = PAGES[options.page]
    results = list(results_of(page, options))
    text = "\n".join([measured(), "", *page.body(results), ""])
    if options.out is None:
        print(text, end="")
    else:
        options.out.write_text(options.out.read_text().partition("Measured on ")[0] + text)
    return 1 if any(result.code not in (DONE, REFUSED) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
