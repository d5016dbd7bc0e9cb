"""Graphs made fit for an older release, which must give what they gave, or are refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from gdsurgeon.analysis.queries.compatibility import unknown_to
from gdsurgeon.edits.compat import compat
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.releases import release
from gdsurgeon.proof.accounting import check_accounted
from support import graphs
from support.expecting import refused, sound
from support.graphs import graph
from support.running import outcome


def older(records: Sequence[bytes], target: str) -> Graph:
    """The graph for the release TARGET; it is sound, and all that was changed is accounted for."""
    found = graph(*records)
    result = compat(found, target)
    check_accounted(found, result, found.chunks())
    assert sound(found)
    return found


def same(records: Sequence[bytes], target: str, *fetches: str, feeds: Sequence[dict[str, Any]]) -> Graph:
    """The same, which must give what it gave, bit for bit, whatever it is fed."""
    found = older(records, target)
    for fed in feeds:
        before = outcome(graphs.graph_bytes(*records), *fetches, **fed)
        assert not isinstance(before, str), before
        assert outcome(found, *fetches, **fed) == before, fed
    return found


def check_reason(records: Sequence[bytes], target: str, code: str, **facts: Any) -> Any:
    """The error of records that TARGET cannot take: CODE and FACTS are why one of them has no older form."""
    error = refused(graph(*records), "not-compatible", partial(compat, target=target), target=target)
    reasons = [each["reason"] for each in error.facts["unknown"] if each["reason"]] + error.facts["reasons"]
    assert any({"code": code, **facts}.items() <= reason.items() for reason in reasons), error.facts
    return error


def unknown(found: Graph, target: str) -> list[tuple[str, str, str, str, str]]:
    """Ops and attributes that the release TARGET does not know, as (function, node, op, kind, attr)."""
    wanted = release(target)
    assert wanted is not None
    return [each[:5] for each in unknown_to(found, wanted)]
