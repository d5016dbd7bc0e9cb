"""Edits whose proof fails, edits that declare all their changes, and processes that run edits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gdsurgeon as gds
from gdsurgeon.compare.comparison import compare_written
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.graph.graph import Graph
from support.graphs import Builder, body_node
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
    m = Builder()
    m.placeholder("x", "float32", (1, 3))
    m.typed("Neg", "y", "x")
    return m


def renaming(graph: Graph) -> EditResult:
    return gds.rename(graph, [("y", "z")])


@telling
def crashing(graph: Graph) -> EditResult:
    """Adds a call of a function that calls itself: TensorFlow's loader overflows its stack."""
    result = renaming(graph)
    library = Builder()
    function = library.function("endless", {}, {})
    body_node(function, "again", "endless")
    graph.functions.add(function)
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
