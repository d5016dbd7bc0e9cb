"""What diff prints of two graphs, for machines: all of it."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.compare.changes import Change, Detail
from gdsurgeon.compare.difference import Difference, ValueChange
from gdsurgeon.compare.hunks import Hunk
from gdsurgeon.compare.interface import EndChange
from gdsurgeon.errors import Json
from gdsurgeon.view.difference import counts


def as_json(difference: Difference) -> dict[str, Json]:
    """DIFFERENCE, functions included; of a node that has a partner both names are given."""
    out: dict[str, Json] = {
        "same": difference.is_empty,
        "before": _graph(difference.a.source_name, difference.a.node_count),
        "after": _graph(difference.b.source_name, difference.b.node_count),
    }
    return out | _found(difference)


def _graph(name: str, nodes: int) -> dict[str, Json]:
    return {"model": name, "nodes": nodes}


def _found(difference: Difference) -> dict[str, Json]:
    pairs = [difference.names(i, j) for i, j in difference.renamed]
    return {
        "counts": counts(difference)._asdict(),
        "inputs": [_end(end) for end in difference.ends if end.side == "input"],
        "outputs": [_end(end) for end in difference.ends if end.side == "output"],
        "signatures": [change._asdict() for change in difference.signatures],
        "around": [item.as_json() for item in difference.around],
        "renamed": [{"before": old, "after": new} for old, new in pairs],
        "removed": _names(difference, difference.removed, after=False),
        "added": _names(difference, difference.added, after=True),
        "hunks": [
            {
                "removed": dict(found.removed),
                "added": dict(found.added),
                "places": [_hunk(difference, place) for place in found.places],
            }
            for found in difference.hunks
        ],
        "changed": [_change(difference, change) for change in difference.changes],
        "values": [_value(difference, change) for change in difference.values],
        "weights_compared": difference.weights,
        "variables_not_compared": difference.unread,
        "functions": {
            "removed": difference.functions_removed,
            "added": difference.functions_added,
            "renamed": [{"before": old, "after": new} for old, new in difference.functions_renamed],
            "changed": [
                {"before": old, "after": new, "opaque": body.is_opaque, **({} if body.is_opaque else _found(body))}
                for (old, new), body in difference.functions.items()
            ],
        },
    }


def _end(end: EndChange) -> dict[str, Json]:
    return {
        side: info.as_json() if info is not None else None
        for side, info in (("before", end.before), ("after", end.after))
    }


def _names(difference: Difference, nodes: Iterable[int], *, after: bool) -> list[dict[str, Json]]:
    matching = difference.matching
    if matching is None:
        return []
    side = matching.b if after else matching.a
    return [{"name": side.names[node], "op": side.forms[node].op} for node in nodes]


def _hunk(difference: Difference, hunk: Hunk) -> dict[str, Json]:
    matching = difference.matching
    assert matching is not None
    return {
        "removed": [matching.a.names[i] for i in hunk.removed],
        "added": [matching.b.names[j] for j in hunk.added],
    }


def _change(difference: Difference, change: Change) -> dict[str, Json]:
    before, after = difference.names(change.i, change.j)
    return {"before": before, "after": after, "details": [_detail(detail) for detail in change.details]}


def _detail(detail: Detail) -> dict[str, Json]:
    """Returns a detail; `now` only if the name before belongs to a different node after."""
    out: dict[str, Json] = detail._asdict()
    return out if detail.now else {key: value for key, value in out.items() if key != "now"}


def _value(difference: Difference, change: ValueChange) -> dict[str, Json]:
    before, after = difference.names(change.i, change.j)
    out: dict[str, Json] = {"before": before, "after": after, "weight": change.is_weight}
    if change.distance is not None:
        found = change.distance
        out |= {
            "relative": _finite(found.relative),
            "largest": _finite(found.largest),
            "differing": found.differing,
            "count": found.count,
        }
    return out


def _finite(number: float | None) -> Json:
    """NUMBER as JSON can have it."""
    return None if number is None else number if abs(number) < float("inf") else "infinity"
