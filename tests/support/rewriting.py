"""Carries rules out in small graphs, and says why they leave others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.graph.graph import Graph
from gdsurgeon.patterns.terms import Rule
from support.expecting import account, refused
from support.graphs import graph, placeholder, typed

X = placeholder("x")
REFUSALS = ("bad-rule", "nothing-matched", "nothing-to-do")
"""Codes of errors; others are reasons why a match is left."""


def binary(name: str, op: str, a: str, b: str, *controls: str) -> bytes:
    return typed(op, name, a, b, *controls)


def rewritten(rules: str | Sequence[Rule], *nodes: bytes, **arguments: Any) -> tuple[Graph, EditResult]:
    """A graph of NODES in which RULES are carried out; all checks that take no TensorFlow."""
    found = graph(*nodes)
    result = rewrite(found, rules, **arguments)
    account(found, result)
    return found, result


def done(rules: str | Sequence[Rule], *nodes: bytes, **arguments: Any) -> dict[str, list[str]]:
    """Applies RULES to a graph of NODES: returns the op and the inputs by name."""
    found, _ = rewritten(rules, *nodes, **arguments)
    return {n.name: [n.op, *(r.name for r in n.inputs), *(f"^{c.name}" for c in n.controls)] for n in found.nodes()}


def stays(rule: str, *nodes: bytes, code: str = "nothing-matched", **facts: Any) -> None:
    """RULE leaves a graph of NODES: the error has CODE and FACTS, or the reason why the first match is left has."""
    found = graph(*nodes)
    if code in REFUSALS:
        refused(found, code, lambda g: rewrite(g, rule), **facts)
        return
    left = refused(found, "nothing-replaced", lambda g: rewrite(g, rule)).facts["left"][0]
    assert (left["code"], {key: left["facts"].get(key) for key in facts}) == (code, facts), left
