"""The result of `check-ops`, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING

from gdsurgeon.analysis.queries.compatibility import LackingOp, Place
from gdsurgeon.errors import LONGEST_NAME, EditError, Json, middle_cut, printable, quoted
from gdsurgeon.operation.check_ops import CheckedOps
from gdsurgeon.text import counted, listed
from gdsurgeon.view.report import findings, to_json

if TYPE_CHECKING:
    from gdsurgeon.proof.elsewhere import EngineOutput, EngineRun

MOST_LINES = 12
LONGEST_PLACE = 60
"""Characters of a node's name; the middle of a longer one is left out."""
LONGEST_REASON = 300
"""The same of the reason why an engine refuses a model."""


def _lacking(lacking: LackingOp, helps: str, *, whole: bool) -> str:
    """Returns an unsupported op, its number of nodes, the names of the first ones, and the advice `helps`."""
    places = [_place(place, LONGEST_NAME if whole else LONGEST_PLACE) for place in lacking.first[: 3 if whole else 1]]
    more = f" and {lacking.nodes - len(places):,} more" if lacking.nodes > len(places) else ""
    text = f"{printable(lacking.op)}: {counted(lacking.nodes, 'node')}, {listed(places, 3)}{more}"
    return f"{text}; {helps}" if helps else text


def _place(place: Place, most: int) -> str:
    function = f" in function {quoted(middle_cut(place.function, most))}" if place.function else ""
    return quoted(middle_cut(place.node, most)) + function


def lines(checked: CheckedOps, helps: Mapping[str, str], *, whole: bool = False) -> list[str]:
    """Returns the result as lines; `helps`: advice by op; `whole`: with full names of three nodes of each op."""
    found, entries = checked.found, [*_list(checked, helps, whole=whole)]
    if checked.run is not None:
        entries += _run(checked.run)
    if checked.refusal is not None:
        message = checked.refusal.message
        entries.append(("refused", message if whole else middle_cut(message, LONGEST_REASON)))
    return findings(checked.graph.source_name, found.nodes, found.ops, entries)


def _list(checked: CheckedOps, helps: Mapping[str, str], *, whole: bool) -> Iterator[tuple[str, str]]:
    """Yields the ops that are missing from the engine's list."""
    lacking, called = checked.found.lacking, checked.engine.called
    yield "ops", f"{called} lacks {counted(len(lacking), 'op')}" if lacking else f"{called} has all of them"
    for each in lacking:
        yield "lacks", _lacking(each, helps.get(each.op, ""), whole=whole)


def _run(run: EngineRun) -> Iterator[tuple[str, str]]:
    from gdsurgeon.proof.elsewhere import agreement, described, told

    for name, text in list(run.feeds.items())[:MOST_LINES]:
        yield "fed", f"{printable(name)}  {text}"
    for output in list(run.outputs.values())[:MOST_LINES]:
        yield ("compared" if output.agrees else "differs"), f"{described(output)}: {told(output)}{_form(output)}"
    if len(run.outputs) > MOST_LINES:
        yield "", f"and {counted(len(run.outputs) - MOST_LINES, 'output')} more"
    for note in run.notes:
        yield "note", note
    if not run.wrong:
        yield "agrees", f"{run.called} returns the same as TensorFlow: {agreement(run)}"


def _form(output: EngineOutput) -> str:
    from gdsurgeon.runtime.compare import AS_IT_IS, CHANNELS_FIRST

    if output.form == AS_IT_IS:
        return ""
    dims = ",".join(map(str, output.given_shape))
    return f"; its shape is [{dims}]" + (", channels first" if output.form == CHANNELS_FIRST else "")


def as_json(checked: CheckedOps, helps: Mapping[str, str], error: Mapping[str, Json] | None) -> dict[str, Json]:
    """Returns the whole result as JSON; `helps`: advice by op; `error`: the error of the run, if any."""
    return {
        **to_json(checked, model="graph.source_name", engine="engine.name", list_version="engine.version"),
        **to_json(checked.found, "nodes", op_types="ops"),
        "lacking": [
            to_json(each, "op", "nodes", select="is_select")
            | {"first": [place._asdict() for place in each.first[:10]], "help": helps.get(each.op)}
            for each in checked.found.lacking
        ],
        "run": _run_json(checked.run, checked.refusal),
        "error": error,
        "exit_code": error["exit"] if error is not None else 0,
    }


def _run_json(run: EngineRun | None, refusal: EditError | None) -> dict[str, Json] | None:
    if run is None:
        facts = {"engine": refusal.facts["engine"], "refused": refusal.facts["why"]} if refusal is not None else {}
        return (facts and facts | {"samples": 0, "feeds": {}, "notes": [], "outputs": []}) or None
    outputs = [
        to_json(
            output, "name", "dtype", "shape", "given_shape", "agrees", "reason",
            max_abs_difference="max_abs", max_relative_difference="relative",
        ) | {"finite": output.max_abs is not None and isfinite(output.max_abs)}
        for output in run.outputs.values()
    ]  # fmt: skip
    return {"refused": None, **to_json(run, "samples", "feeds", "notes", engine="called"), "outputs": outputs}
