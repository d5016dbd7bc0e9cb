"""remove with orphans: what only removed nodes read or waited for goes with them."""

from __future__ import annotations

import pytest
from support.expecting import expect
from support.graphs import FLOAT, INT32, const, dtypes, identity, node, placeholder

from gdsurgeon.edits.remove import remove
from gdsurgeon.select import Selection

X, LIMIT, AXIS = placeholder("x", FLOAT, (-1, 2)), const("limit", [1.0], shape=[]), const("axis", [0], INT32)
LESS = node("less", "Less", ["x", "limit"], T=FLOAT)
ALL = node("all", "All", ["less", "axis"], Tidx=INT32)
ONLY = placeholder("only", FLOAT, ())
FIRST = identity("first", "limit")
CHECK = node("check", "Assert", ["all", "only", "^first"], T=dtypes(FLOAT))
ASSERTED = (X, LIMIT, AXIS, LESS, ALL, ONLY, FIRST, CHECK)
CHECKS = Selection(ops=("Assert",))


@pytest.mark.tensorflow
def test_what_only_the_removed_nodes_read_or_waited_for_goes() -> None:
    after = X, ONLY, identity("y", "x")
    expect(
        [*ASSERTED, identity("y", "x")],
        lambda graph: remove(graph, CHECKS, orphans=True),
        after,
        command="remove --op Assert --orphans --validate structure",
        same=["y"],
        fed={"x": [[1.0, 2.0]]},
    )


def test_who_waits_for_what_was_waited_for_keeps_it() -> None:
    after = X, LIMIT, ONLY, FIRST, identity("y", "x", "^first")
    expect([*ASSERTED, identity("y", "x", "^check")], lambda graph: remove(graph, CHECKS, orphans=True), after)


def test_what_others_read_or_stand_beside_stays() -> None:
    beside = identity("y", "x", _class=["loc:@axis"])
    after = X, LIMIT, AXIS, ONLY, beside, identity("z", "limit")
    expect([*ASSERTED, beside, identity("z", "limit")], lambda graph: remove(graph, CHECKS, orphans=True), after)


def test_without_it_they_stay_and_are_outputs() -> None:
    result = expect(
        [*ASSERTED, identity("y", "x")], lambda graph: remove(graph, CHECKS), [*ASSERTED[:-1], identity("y", "x")]
    )
    assert result.intent.removed == ["check"]
