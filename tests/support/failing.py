"""Edits whose proof fails, edits that declare all their changes, and processes that run edits."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM
from typing import Any

import gdsurgeon as gds
from gdsurgeon.compare.comparison import compare_written
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from support.desk import Desk, Ran, finished
from support.graphs import Builder, define, neg, node, placeholder
from support.paths import ROOT
from support.patience import LONG_ENOUGH


def telling(edit: Callable[[Graph], EditResult]) -> Callable[[Graph], EditResult]:
    """EDIT, with a result that declares everything else that it does to the graph as requested."""

    def told(graph: Graph) -> EditResult:
        result = edit(graph)
        intent = result.intent
        facts = compare_written(graph.pristine(), graph.chunks(), intent.renamed).facts
        intent.added, intent.removed, intent.rewired = facts.added, facts.removed, facts.rewired
        intent.changed, intent.functions = list(facts.altered), facts.functions
        result.asked = None
        return result

    return told


def killed(
    desk: Desk, command: Sequence[str], kills: int, put: Callable[[], object], least: float = 0.0, most: float = 1.0
) -> Iterator[tuple[Ran, dict[str, Any]]]:
    """Runs COMMAND once, and KILLS times with a signal after LEAST to MOST of the time it takes; PUT puts its files.

    Yields each result, and the files without those that have temporary names.
    """
    draw, took = random.Random(7), 0.0
    for number in range(-1, kills):
        put()
        started = time.monotonic()
        process = desk.fork(*command)
        if number >= 0:
            time.sleep(draw.uniform(took * least, took * most))
            process.send_signal(SIGKILL if number % 3 == 0 else draw.choice((SIGTERM, SIGINT, SIGHUP)))
        ran = finished(process)
        if number < 0:
            took = time.monotonic() - started
        assert number >= 0 or ran.code == 0, ran
        yield ran, {name: data for name, data in desk.files().items() if not re.search(r"\.gdsurgeon-\w+\.tmp$", name)}


def children(pid: int | str = "self") -> list[int]:
    """The processes that this one, or PID, has started and that are still there, zombies included."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(pid) for pid in (task / "children").read_text().split()]
        except OSError:
            pass  # the thread has ended since it was listed; its children are another's now
    return found


def simple() -> Builder:
    return Builder(placeholder("x", "float32", (1, 3)), neg("y", "x"))


def renaming(graph: Graph) -> EditResult:
    return gds.rename(graph, [("y", "z")])


@telling
def crashing(graph: Graph) -> EditResult:
    """Adds a call of a function that calls itself: TensorFlow's loader overflows its stack."""
    result = renaming(graph)
    graph.functions.add(define("endless", {}, {}, node("again", "endless")))
    graph.add("call", "endless")
    return result


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gdsurgeon", *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=LONG_ENOUGH,
        check=False,
        **options,
    )
