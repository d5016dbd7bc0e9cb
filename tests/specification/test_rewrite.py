"""The specification of rewrite is not slow where many places read one tensor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.graphs import FLOAT, const, graph, identity, node, placeholder

from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.specification.drafts import Draft


def test_what_many_places_read_is_not_looked_through_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    users = Draft.users

    def noted(draft: Draft, name: str) -> Iterator[str]:
        for user in users(draft, name):
            asked.append(user)
            yield user

    monkeypatch.setattr(Draft, "users", noted)
    places = range(100)
    around = (const(f"c{i}", [1.0]) + identity(f"i{i}", f"c{i}") for i in places)
    products = (node(f"y{i}", "Mul", ["hub", f"i{i}"], T=FLOAT) for i in places)
    found = graph(placeholder("x"), identity("hub", "x"), *around, *products)
    result = rewrite(found, "Mul($a, Identity($w)) -> Mul($a, $w)")
    check_accounted(found, result, found.chunks())
    assert 0 < len(asked) < 10 * len(places)
