"""Shows what was measured: a table for people, plain or Markdown, and JSON with every figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_support.measure import Measured
from bench_support.rows import COLUMNS, CP, GDSURGEON, Row
from bench_support.targets import MB, Growth, duration

HEADINGS = ("work", *COLUMNS, "target", "met")


@dataclass
class Outcome:
    """A row and its results; without results, `failure` has the reason."""

    name: str
    row: Row | None = None
    results: list[Measured] = field(default_factory=list)
    failure: str | None = None


def megabytes(size: int) -> str:
    return f"{size / MB:.0f} MB" if size < 1000 * MB else f"{size / MB / 1000:.1f} GB"


def met(verdict: bool | None) -> str:
    return {True: "yes", False: "NO", None: "?"}[verdict]


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
    if base is not None and base is not result and result.contender.figures and base.contender.figures:
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


def verdict(outcome: Outcome) -> str:
    row = outcome.row
    if row is None or row.target is None:
        return "" if row else "?"
    text = met(row.target.met(outcome.results))
    if isinstance(row.target, Growth):
        return f"{text}: {row.target.detail(outcome.results)}"
    return text


def line(outcome: Outcome, floor: int) -> list[str]:
    row = outcome.row
    if row is None:
        return [outcome.name, *("" for _ in COLUMNS), "", "?"]
    cells = (cell(outcome, column, floor) for column in COLUMNS)
    return [row.work, *cells, str(row.target or ""), verdict(outcome)]


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


def contender_json(result: Measured, results: Sequence[Measured]) -> dict[str, Any]:
    contender = result.contender
    subject = results[0]
    return {
        "tool": contender.column,
        "note": contender.note,
        "command": list(contender.command),
        "median_seconds": result.seconds if result.samples else None,
        "peak_rss_bytes": result.rss if result.samples else None,
        "times_first_contender": result.ratio(subject),
        "failure": result.failure,
        "samples": [{"round": turn, **sample._asdict()} for turn, sample in result.samples.items()],
    }


def row_json(outcome: Outcome) -> dict[str, Any]:
    row, results = outcome.row, outcome.results
    if row is None:
        return {"name": outcome.name, "failure": outcome.failure}
    return {
        "name": outcome.name,
        "work": row.work,
        "target": str(row.target) if row.target else None,
        "met": row.target.met(results) if row.target else None,
        "growth": row.target.slope(results[:3]) if isinstance(row.target, Growth) else None,
        "contenders": [contender_json(result, results) for result in results],
    }


def any_missed(outcomes: Sequence[Outcome]) -> bool:
    """Whether a target was missed or a gdsurgeon command failed."""
    for outcome in outcomes:
        if outcome.row is None:
            return True
        if any(result.failure for result in outcome.results if result.contender.column == GDSURGEON):
            return True
        if outcome.row.target and outcome.row.target.met(outcome.results) is False:
            return True
    return False
