#!/usr/bin/env python3
"""Measures how well `gdsurgeon diff` finds which node became which, on models that are changed in known ways.

    python scripts/measure_diff.py MODEL...             a line for each kind of change
    python scripts/measure_diff.py --each MODEL...      and one for each model

Precision is how many of the pairs that were found are right; recall, how many of the nodes that are in both were
paired rightly. Of two nodes that nothing tells apart, weights and all that is around them included, the one is as right
as the other.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.re_exports import CHANGES, LAYERS, NEEDS_LAYER, exported  # noqa: E402

from gdsurgeon.container.load import load  # noqa: E402
from gdsurgeon.difference.match import match  # noqa: E402
from gdsurgeon.difference.matching import Matching  # noqa: E402
from gdsurgeon.graph.graph import Graph  # noqa: E402


class Measured(NamedTuple):
    """How one pair of graphs was matched; `wrong_by` counts the wrong pairs by what spoke for them."""

    precision: float
    recall: float
    seconds: float
    wrong_by: dict[str, int]


def measured(graph: Graph, kind: str) -> Measured:
    """GRAPH against itself with a change of KIND."""
    other, truth = exported(graph, kind)
    started = time.process_time()
    matching = match(graph, other)
    seconds = time.process_time() - started
    names, places = matching.a.names, {name: j for j, name in enumerate(matching.b.names)}
    colour = _colours(matching)
    wrong: Counter[str] = Counter()
    for i, j in matching.pairs():
        partner = places.get(truth.get(names[i], ""))
        if partner is None or (partner != j and colour[partner] != colour[j]):
            wrong[matching.evidence[i]] += 1
    count = len(matching.evidence)
    right = count - sum(wrong.values())
    precision = right / count if count else 1.0
    return Measured(precision, right / len(truth) if truth else 1.0, seconds, dict(wrong.most_common(4)))


def _colours(matching: Matching) -> list[int]:
    """A number for each node of B, which two have that not even the constants around them tell apart."""
    side, numbers = matching.b, matching.numbers
    colours = list(side.detailed)
    for _ in range(12):
        colours = [
            numbers[
                "told apart",
                colours[node],
                tuple((colours[u], port) for u, port in side.inputs[node] or side.written[node]),
                tuple(sorted((colours[v], slot, port) for v, slot, port in side.users[node])),
                tuple(sorted(colours[v] for v in side.controls[node])),
                tuple(sorted(colours[v] for v in side.waiting[node])),
            ]
            for node in range(side.size)
        ]
    return colours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--kind", action="append", choices=list(CHANGES))
    arguments = parser.parse_args()
    found: dict[str, list[Measured]] = defaultdict(list)
    for path in arguments.models:
        graph = load(path)
        has_layer = any(node.op in LAYERS for node in graph.nodes())
        for kind in arguments.kind or CHANGES:
            if kind in NEEDS_LAYER and not has_layer:
                continue
            one = measured(graph, kind)
            found[kind].append(one)
            if arguments.each or one.precision < 0.995:
                print(
                    f"{Path(path).name} ({graph.node_count}): {kind}: {one.precision:.4f} {one.recall:.4f}",
                    one.wrong_by,
                )
    print(f"{'kind of change':58}{'models':>7}{'precision':>10}{'least':>8}{'recall':>8}{'least':>8}{'CPU s':>7}")
    for kind, all_of in found.items():
        precision, recall = [one.precision for one in all_of], [one.recall for one in all_of]
        print(
            f"{kind:58}{len(all_of):7}{sum(precision) / len(all_of):10.4f}{min(precision):8.4f}"
            f"{sum(recall) / len(all_of):8.4f}{min(recall):8.4f}{sum(one.seconds for one in all_of):7.2f}"
        )


if __name__ == "__main__":
    main()
