#!/usr/bin/env python3
"""Measures gdsurgeon against a file copy, plain TensorFlow and the Graph Transform Tool, and prints a Markdown table.

    bench.py                          the whole table: some ten minutes, 5 GB of disk, 9 GB of memory
    bench.py --no-peers               gdsurgeon and cp only
    bench.py --quick                  small models, for a test of the bench
    bench.py --rows help,rename-big   some rows
    bench.py --before DIR             also the gdsurgeon of a second checkout, in each round
    bench.py --json FILE              also write every measurement

Every command runs as a process of its own, the commands of a row in turn (A B C A B C ...). Each command writes a fresh
file, and its model is in the page cache. Time and peak memory are those of the whole process, as the system reports
them. The table shows the median time, its ratio to cp (or to gdsurgeon if the row has no cp) within each round, and the
highest peak memory. A command that fails is listed below the table, and the other commands run on.

Run the script with the Python that has gdsurgeon and TensorFlow. It exits with 1 if gdsurgeon fails or misses a target.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict

from bench_support.measure import MB, Contender, Failed, Runner, compare, duration, met
from bench_support.rows import COLUMNS, CP, FULL, GDSURGEON, QUICK, Row, Workshop, rows

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADINGS = ("work", *COLUMNS, "target", "met")


def arguments() -> argparse.Namespace:
    names = list(rows(FULL))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", metavar="NAME,...", help="only these rows")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument("--quick", action="store_true", help="models a tenth of the size, no ResNet50")
    parser.add_argument("--no-peers", action="store_true", help="without TensorFlow and its tool")
    parser.add_argument("--json", metavar="FILE", help="write every measurement to FILE")
    parser.add_argument("--keep", metavar="DIR", help="use the models in DIR, and keep new models there")
    parser.add_argument("--before", metavar="DIR", default="", help="also run gdsurgeon of the checkout DIR")
    args = parser.parse_args()
    wanted = args.rows.split(",") if args.rows else [n for n in names if not (args.quick and n == "proof-resnet")]
    if unknown := [name for name in wanted if name not in names]:
        parser.error(f"no row {unknown[0]!r}; the rows are {', '.join(names)}")
    args.rows = [name for name in names if name in wanted]
    args.before = args.before and os.path.abspath(args.before)
    return args


def say(text: str) -> None:
    """Prints the progress on one line of the terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def megabytes(size: int) -> str:
    return f"{size / MB:.0f} MB" if size < 1000 * MB else f"{size / MB / 1000:.1f} GB"


def figures(each: Contender, base: Contender | None, floor: int) -> str:
    """Returns time, ratio and peak memory of one contender: `610 ms, 1.15 x, 21 MB`."""
    if each.failure:
        return "failed"
    if not each.samples:
        return ""
    other = base if base is not each else None
    ratio = each.compared(other) if other is not None else None
    parts = [duration(each.seconds)]
    if ratio is not None:
        parts.append(f"{ratio:.3g} x" if ratio < 100 else f"{ratio:.0f} x")
    parts.append(megabytes(each.rss) if each.rss > 1.02 * floor else f"<= {megabytes(floor)}")
    if other is not None and all("own.json" in contender.line for contender in (each, other)):
        parts.append(f"{each.rss / other.rss:.3g} x the memory")
    return ", ".join(parts)


def cells(row: Row, floor: int) -> list[str]:
    """Returns the cells of a row; `floor` is the smallest measurable peak of memory, in bytes."""
    contenders = row.contenders
    base = next((each for each in contenders if each.label == CP and each.samples), contenders[0])
    columns = []
    for column in COLUMNS:
        texts = [
            (each.note, figures(each, base if base.samples else None, floor))
            for each in contenders
            if each.column == column
        ]
        columns.append("; ".join(f"{note}: {text}" if note else text for note, text in texts if text))
    verdict = {True: "yes", False: "NO", None: "?"}[met(row.target, contenders)] if row.target else ""
    return [row.work, *columns, row.target, verdict]


def run(args: argparse.Namespace, folder: str) -> int:
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    runner = Runner(folder, {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"})
    shop = Workshop(folder, runner, say)
    # An installer also compiles the modules. Without cached bytecode, every run would compile the package.
    for tree in filter(None, (ROOT, args.before)):
        runner.run(f"{sys.executable} -m compileall -qq {tree}/gdsurgeon")
    start, floor = runner.run(f"{sys.executable} -c pass").seconds, runner.run("true").rss
    measured: dict[str, Row] = {}
    failures = []
    for name in args.rows:
        try:
            row = shop.ready(rows(QUICK if args.quick else FULL)[name], args.before)
            contenders = [each for each in row.contenders if not (each.slow and args.no_peers)]
            compare(runner, contenders, args.repeat, lambda text, name=name: say(f"{name}, {text}"))  # type: ignore[misc]
            measured[name] = row._replace(contenders=contenders)
            failures += [f"{name}, {each.label}: {each.failure}" for each in contenders if each.failure]
        except Failed as fault:
            failures.append(f"{name}: {fault}")
    say("")
    for line in (HEADINGS, ("---",) * len(HEADINGS), *(cells(row, floor) for row in measured.values())):
        print(f"| {' | '.join(line)} |")
    memory = megabytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    machine = f"{' '.join(os.uname()[i] for i in (0, 2, 4))}, {os.cpu_count()} CPUs, {memory} of memory"
    summary = (
        f"Python {sys.version.split()[0]}, {machine}; median of {args.repeat} rounds (at most 2 for slow peers). "
        f"Starting Python takes {duration(start)}; no peak below {megabytes(floor)} can be measured."
        + (" The models are small (--quick): targets in seconds or MB mean little." if args.quick else "")
    )
    print("\n".join(["", summary, *(f"Not measured: {text}" for text in failures)]))
    if args.json:
        # samples: by round the seconds, the seconds of the CPU, and the peak of memory
        rows_by_name = {name: [asdict(each) for each in row.contenders] for name, row in measured.items()}
        found = {"quick": args.quick, "machine": machine, "rows": rows_by_name}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    own = [each for row in measured.values() for each in row.contenders if each.column == GDSURGEON]
    missed = [row for row in measured.values() if row.target and met(row.target, row.contenders) is False]
    return int(len(measured) < len(args.rows) or bool(missed) or any(each.failure for each in own))


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the models are deleted
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    kept = nullcontext(os.path.abspath(args.keep)) if args.keep else None
    with kept or tempfile.TemporaryDirectory(prefix="gdsurgeon-bench-") as folder:
        return run(args, folder)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
