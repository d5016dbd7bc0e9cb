#!/usr/bin/env python3
"""Measures gdsurgeon against a file copy, plain TensorFlow and the Graph Transform Tool.

    bench.py                          the whole table: some ten minutes, 5 GB of disk, 9 GB of memory
    bench.py --no-peers               gdsurgeon and cp only
    bench.py --quick                  small models, to see that all of it works
    bench.py --rows help,rename-big   some rows
    bench.py --before DIR             also the gdsurgeon of a second checkout, in each round
    bench.py --markdown --json FILE   the table for the README, and every figure

Every command runs as a process of its own, the commands of a row in turn (A B C A B C ...), each
writing a fresh file, the model in the page cache. Time and peak memory are the whole process's, as
the system accounts them. The table shows the median time, its ratio to cp (where the row has no cp,
to gdsurgeon) taken within each round, and the highest peak memory. A command that fails is named
under the table and does not stop the rest.

Run it with the Python of the environment that gdsurgeon and TensorFlow are installed in.
Exit 0, or 1 with --strict where a target is missed or gdsurgeon fails.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_support.measure import MB, Failed, Growth, Measured, Runner, compare, duration, remove
from bench_support.rows import COLUMNS, CP, FULL, GDSURGEON, QUICK, Row, Workshop, rows

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


HEADINGS = ("work", *COLUMNS, "target", "met")


@dataclass
class Outcome:
    """A row and its results; without results, `failure` has the reason."""

    name: str
    row: Row | None = None
    results: list[Measured] = field(default_factory=list)
    failure: str | None = None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0], epilog="Rows: " + ", ".join(rows(FULL))
    )
    parser.add_argument("--rows", metavar="NAME,...", help="only these rows")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument("--slow-repeat", type=int, default=2, metavar="N", help="rounds of slow peers (default 2)")
    parser.add_argument("--quick", action="store_true", help="models a tenth of the size, no ResNet50")
    parser.add_argument("--no-peers", action="store_true", help="leave out TensorFlow and its tool")
    parser.add_argument("--import-graph-def", action="store_true", help="add that peer on the long chain (slow)")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--keep", metavar="DIR", help="make the models in DIR, keep them, use those there")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="per command (default 600)")
    parser.add_argument("--before", metavar="DIR", help="also run gdsurgeon of the checkout DIR in each round")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    args = parser.parse_args()
    args.rows = chosen_rows(parser, args)
    if args.repeat < 1 or args.slow_repeat < 1:
        parser.error("--repeat and --slow-repeat are 1 or more")
    return args


def chosen_rows(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[str]:
    names = list(rows(FULL))
    if args.rows is None:
        return [name for name in names if not (args.quick and name == "proof-resnet")]
    wanted = args.rows.split(",")
    for name in wanted:
        if name not in names:
            parser.error(f"no row {name!r}; there are {', '.join(names)}")
    return [name for name in names if name in wanted]


def say(text: str) -> None:
    """Progress, for people, on one line of the terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def environment() -> dict[str, str]:
    """Returns the environment of the commands: gdsurgeon of this tree, TensorFlow without log messages."""
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}


def measure_all(args: argparse.Namespace, folder: str) -> tuple[list[Outcome], dict[str, Any]]:
    runner = Runner(folder, args.timeout, environment())
    shop = Workshop(folder, runner, say)
    all_rows = rows(QUICK if args.quick else FULL, args.import_graph_def)
    before = os.path.abspath(args.before) if args.before else None
    outcomes = []
    try:
        machine = describe_machine(runner)
        for name in args.rows:
            try:
                row = shop.ready(all_rows[name], before)
                contenders = [each for each in row.contenders if not (each.slow and args.no_peers)]
                results = compare(
                    runner, contenders, args.repeat, args.slow_repeat, lambda text, name=name: say(f"{name}, {text}")
                )
                outcomes.append(Outcome(name, row, results))
            except Failed as fault:
                outcomes.append(Outcome(name, failure=str(fault)))
    finally:
        remove(runner.errors)
        say("")
    return outcomes, machine


def describe_machine(runner: Runner) -> dict[str, Any]:
    """Returns facts about the machine, and the smallest time and memory of a process."""
    python = [runner.run(f"{sys.executable} -c pass") for _ in range(2)][-1]
    return {
        "python": sys.version.split()[0],
        "system": " ".join(os.uname()[i] for i in (0, 2, 4)),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python_start_seconds": python.seconds,
        "floor_rss_bytes": runner.run("true").rss,
    }


def summary(machine: dict[str, Any], args: argparse.Namespace) -> str:
    lines = [
        f"Python {machine['python']}, {machine['system']}, {machine['cpus']} CPUs, "
        f"{megabytes(machine['memory_bytes'])} of memory; median of {args.repeat} round(s) "
        f"({min(args.repeat, args.slow_repeat)} for slow peers). Starting Python takes "
        f"{duration(machine['python_start_seconds'])}; no peak below "
        f"{megabytes(machine['floor_rss_bytes'])} can be measured."
    ]
    if args.quick:
        lines.append("Quick: small models, where a target in seconds or MB means little.")
    return "\n".join(lines)


# -- the table --------------------------------------------------------------------------------------------------------


def megabytes(size: int) -> str:
    return f"{size / MB:.0f} MB" if size < 1000 * MB else f"{size / MB / 1000:.1f} GB"


def reference(results: Sequence[Measured]) -> Measured | None:
    """Returns the contender to which the ratios of a row refer: the copy, or else the subject."""
    for result in results:
        if result.contender.label == CP and result.samples:
            return result
    return results[0] if results[0].samples else None


def figures(result: Measured, base: Measured | None, floor: int) -> str:
    """Time, ratio and peak memory of one contender: `610 ms, 1.15 x, 21 MB`."""
    if not result.samples:
        return ""
    parts = [duration(result.seconds)]
    ratio = result.ratio(base) if base is not None and base is not result else None
    if base is not None and ratio is not None:
        parts.append(f"{ratio:.3g} x" if ratio < 100 else f"{ratio:.0f} x")
    parts.append(megabytes(result.rss) if result.rss > 1.02 * floor else f"<= {megabytes(floor)}")
    if base is not None and base is not result and result.contender.has_figures and base.contender.has_figures:
        parts.append(f"{result.rss / base.rss:.3g} x the memory")
    return ", ".join(parts)


def cell(outcome: Outcome, column: str, floor: int) -> str:
    """All that the tools of one column took in a row."""
    growing = outcome.row is not None and isinstance(outcome.row.target, Growth)
    base = None if growing else reference(outcome.results)
    texts = []
    for result in outcome.results:
        if result.contender.column == column:
            text = "failed" if result.failure else figures(result, base, floor)
            note = result.contender.note
            texts.append(f"{note}: {text}" if text and note else text)
    return "; ".join(filter(None, texts))


def line(outcome: Outcome, floor: int) -> list[str]:
    row, results = outcome.row, outcome.results
    if row is None:
        return [outcome.name, *("" for _ in COLUMNS), "", "?"]
    verdict = "" if row.target is None else {True: "yes", False: "NO", None: "?"}[row.target.met(results)]
    if isinstance(row.target, Growth):
        verdict += f": {row.target.detail(results)}"
    return [row.work, *(cell(outcome, column, floor) for column in COLUMNS), str(row.target or ""), verdict]


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """A sentence for each contender, or whole row, that could not be measured."""
    lines = []
    for outcome in outcomes:
        if outcome.failure:
            lines.append(f"{outcome.name}: {outcome.failure}")
        for result in outcome.results:
            if result.failure:
                lines.append(f"{outcome.name}, {result.contender.label}: {result.failure}")
    return lines


def render(outcomes: Sequence[Outcome], floor: int, markdown: bool) -> str:
    """The table. `floor` is the smallest peak of memory, in bytes, that could be told."""
    table = [list(HEADINGS), *(line(outcome, floor) for outcome in outcomes)]
    if markdown:
        rows = ["| " + " | ".join(cells) + " |" for cells in table]
        rows.insert(1, "|" + "---|" * len(HEADINGS))
    else:
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        rows = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table]
        rows.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(rows)


def row_json(outcome: Outcome) -> dict[str, Any]:
    row, results = outcome.row, outcome.results
    if row is None:
        return {"name": outcome.name, "failure": outcome.failure}
    contenders = [
        {
            "tool": result.contender.column,
            "note": result.contender.note,
            "command": shlex.split(result.contender.line),
            "median_seconds": result.seconds if result.samples else None,
            "peak_rss_bytes": result.rss if result.samples else None,
            "times_first_contender": result.ratio(results[0]),
            "failure": result.failure,
            "samples": [{"round": turn, **sample._asdict()} for turn, sample in result.samples.items()],
        }
        for result in results
    ]
    return {
        "name": outcome.name,
        "work": row.work,
        "target": str(row.target) if row.target else None,
        "met": row.target.met(results) if row.target else None,
        "growth": row.target.slope(results[:3]) if isinstance(row.target, Growth) else None,
        "contenders": contenders,
    }


def is_missed(outcome: Outcome) -> bool:
    """Returns whether the target was missed or a gdsurgeon command failed."""
    row, own = outcome.row, (each for each in outcome.results if each.contender.column == GDSURGEON)
    is_below = row is not None and row.target is not None and row.target.met(outcome.results) is False
    return row is None or is_below or any(result.failure for result in own)


def run(args: argparse.Namespace, folder: str) -> int:
    # As an installer does: otherwise, where bytecode is not cached, every run would compile the package anew.
    for tree in filter(None, (ROOT, args.before)):
        compileall.compile_dir(os.path.join(tree, "gdsurgeon"), quiet=2)
    outcomes, machine = measure_all(args, folder)
    print(render(outcomes, machine["floor_rss_bytes"], args.markdown))
    print(f"\n{summary(machine, args)}")
    for text in failures(outcomes):
        print(f"Not measured: {text}")
    if args.json:
        figures = {"quick": args.quick, "machine": machine, "rows": list(map(row_json, outcomes))}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    return int(args.strict and any(map(is_missed, outcomes)))


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the models are deleted
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
        return run(args, os.path.abspath(args.keep))
    folder = tempfile.mkdtemp(prefix="gdsurgeon-bench-")
    try:
        return run(args, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
