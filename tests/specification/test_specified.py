"""Every edit has a specification with its arguments; the specification of compat."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature, unwrap
from pathlib import Path
from typing import Any

import pytest
from support.desk import check_error
from support.graphs import (
    BOOL,
    FLOAT,
    add,
    const,
    define,
    dtype,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    typed,
    versions,
)

from gdsurgeon import edits, specification
from gdsurgeon.compare.comparison import compare_files
from gdsurgeon.edits.compat import compat
from gdsurgeon.edits.downgrade.control_flow import _Lowering
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.errors import ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.registry import COMMANDS, HOMES
from gdsurgeon.specification.specify import Asked, specification_of, violations

EDITS = {entry.function for entry in COMMANDS.values() if HOMES.get(entry.function, "").startswith("edits.")}

STAGES = {
    "fold_batch_norms",
    "decide_calls",
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


X = placeholder("x")
LEFT = {
    "an op": [X, add("y", "x", "x")],
    "an unknown op": [X, node("y", "Foo", ["x"])],
    "an attr": [X, node("y", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT, Truncate=False)],
    "a type": [X, typed("Bitcast", "y", "x", type=dtype(22))],
    "an attr of another kind": [X, node("y", "Neg", ["x"], T=3)],
    "a missing attr": [X, node("y", "Neg", ["x"])],
    "a missing input": [X, typed("Add", "y", "x")],
    "a value of an attr": [X, typed("Conv2D", "y", "x", "x", strides=[1, 1, 1, 1], padding="NO")],
    "a number below the least": [X, node("y", "AddN", T=FLOAT, N=0)],
    "versions": [X],
    "a function": [X, node("c", "F", ["x"])],
}


@pytest.mark.parametrize("fault", LEFT)
def test_what_the_release_does_not_take_is_found_wherever_it_is(fault: str) -> None:
    producer = 25 if fault == "versions" else 24
    functions = library(function("F", add("y", "x", "x"))) if fault == "a function" else b""
    found = graph(*LEFT[fault], trailer=functions + versions(producer))
    asked = Asked("compat", {"target": "1.4"})
    assert len(list(violations(compare_files(found, found), asked))) == 1


def test_what_the_release_takes_is_no_fault() -> None:
    found = graph(X, neg("y", "x"), trailer=versions(24))
    assert list(violations(compare_files(found, found), Asked("compat", {"target": "1.4"}))) == []


@pytest.mark.parametrize("mistake", ["", "_add", "_branches"])
def test_effects_of_branches_are_waited_for(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowered conditional, or what says that a branch was run, waits for nothing."""
    held = node("t", "Assert", ["no:output:0", "a"], T=dtypes(FLOAT), summarize=3)
    body = define("checks", {"a": FLOAT}, {}, const("no", False, BOOL), held, effects=["t"], stateful=True)
    sides = {"then_branch": func("checks"), "else_branch": func("checks")}
    branch = node("if", "If", ["p", "x"], Tcond=BOOL, Tin=dtypes(FLOAT), Tout=dtypes(), **sides)
    records = [placeholder("p", BOOL, ()), X, branch, identity("y", "x", "^if")]
    add, branches = _Lowering._add, _Lowering._branches

    def without_call(self: Any, op: str, inputs: Any, controls: Any = (), name: str = "", /, **attrs: Any) -> Any:
        return add(self, op, inputs, () if name.endswith("/done") else controls, name, **attrs)

    mistakes = {
        "_add": without_call,
        "_branches": lambda self, *args: (branches(self, *args)[0], []),
    }
    if mistake:
        monkeypatch.setattr(_Lowering, mistake, mistakes[mistake])
    found = graph(*records, trailer=library(body) + versions(24))
    result = compat(found, "1.4")
    if not mistake:
        check_accounted(found, result, found.chunks())
        return
    with pytest.raises(ValidationError) as caught:
        check_accounted(found, result, found.chunks())
    check_error(caught.value, "unrequested-change", {})
    assert len(caught.value.details) == 1
