"""Every edit is decorated and has a specification that takes what the edit takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature, unwrap
from pathlib import Path

import pytest
from support.graphs import (
    const,
    graph,
    identity,
    placeholder,
    typed,
)

from gdsurgeon import edits, specification
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.registry import COMMANDS, HOMES
from gdsurgeon.specification.specify import specification_of

EDITS = {entry.function for entry in COMMANDS.values() if HOMES.get(entry.function, "").startswith("edits.")}

STAGES = {
    "fold_batch_norms",
    "decide_calls",
    "fold_constants",
    "same_shape",
    "simplify_bodies",
    "spelt_constants",
    "lower_control_flow",
}
"""The stages of edits that have a specification of their own."""


def test_every_edit_says_what_was_asked_of_it() -> None:
    texts = [path.read_text() for path in Path(edits.__path__[0]).glob("*.py")]
    assert {name for text in texts for name in re.findall(r"\n@edit\(.*\)\ndef (\w+)\(", text)} == EDITS
    assert {name for name in EDITS if unwrap(edit_function(name)) is not edit_function(name)} == EDITS


def test_every_edit_has_a_specification() -> None:
    names = {path.stem for path in Path(specification.__path__[0]).glob("[a-z]*.py")}
    stated = EDITS | STAGES | {"simplify_stages"}
    assert {name for name in names | stated if specification_of(name)} == stated
    assert specification_of("edit_of_a_plugin") is None


def edit_function(name: str) -> Callable[..., object]:
    found: Callable[..., object] = getattr(import_module(f"gdsurgeon.{HOMES[name]}"), name)
    return found


@pytest.mark.parametrize("name", sorted(EDITS))
def test_a_specification_takes_what_its_edit_takes(name: str) -> None:
    """Keyword-only parameters receive the decisions of the edit."""
    asked = {item.name: item.default for item in parameters(edit_function(name))}
    stated = specification_of(name)
    assert stated is not None
    found = parameters(stated)
    decided = (Parameter.VAR_KEYWORD, Parameter.KEYWORD_ONLY)
    taken = {item.name: item.default for item in found if item.kind not in decided}
    takes_more = any(item.kind is Parameter.VAR_KEYWORD for item in found)
    assert taken.items() <= asked.items() and (takes_more or taken == asked)


def parameters(item: Callable[..., object]) -> list[Parameter]:
    """Returns the parameters of an edit except the graph, or of a specification except the comparison."""
    return list(signature(item).parameters.values())[1:]


def test_what_many_places_read_is_not_looked_through_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Node] = []
    users = Graph.users

    def noted(owner: Graph, node: Node) -> list[Node]:
        found = users(owner, node)
        asked.extend(found)
        return found

    places = range(100)
    around = (const(f"c{i}", [1.0]) + identity(f"i{i}", f"c{i}") for i in places)
    products = (typed("Mul", f"y{i}", "hub", f"i{i}") for i in places)
    found = graph(placeholder("x"), identity("hub", "x"), *around, *products)
    result = rewrite(found, "Mul($a, Identity($w)) -> Mul($a, $w)")
    monkeypatch.setattr(Graph, "users", noted)
    check_accounted(found, result, found.chunks())
    assert 0 < len(asked) < 20 * len(places)
