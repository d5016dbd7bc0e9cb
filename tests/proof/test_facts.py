"""The facts about a graph, made once for each version; and the statement of a proof."""

from __future__ import annotations

import pytest

from gdsurgeon.proof.proof import equations_of

SAME, GIVEN = "edited(x) == original(x)", "edited(x) == original(x, a := b)"


@pytest.mark.parametrize(
    ("equations", "parts", "wanted"),
    [
        ([], [], ""),
        (["", SAME, SAME], [], SAME),
        ([SAME, f"{SAME} under the new names"], [], f"{SAME}, {SAME} under the new names"),
        ([SAME, GIVEN], [], GIVEN),
        ([GIVEN, f"{SAME} under the new names", "copy(x) == net(x)"], [], f"{GIVEN}, copy(x) == net(x)"),
        (["edited(x, b := a) == original(x)", SAME], [], f"edited(x, b := a) == original(x), {SAME}"),
        ([SAME], ["a.pb"], f"{SAME}, a.pb in place == a.pb in isolation"),
        ([""], ["the steps", "the steps"], "the steps in place == the steps in isolation"),
        ([], ["a.pb", "the steps"], "a.pb and the steps in place == each in isolation"),
        ([], ["a", "b", "c", "d"], "a, b, c and d in place == each in isolation"),
        ([], ["a", "b", "c", "d", "e", "f"], "a, b, c, d and 2 more in place == each in isolation"),
    ],
)
def test_each_is_said_once(equations: list[str], parts: list[str], wanted: str) -> None:
    assert ", ".join(equations_of(equations, parts)) == wanted
