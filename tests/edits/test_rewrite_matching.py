"""rewrite: what is one with what a pattern asks for, and what only nearly so."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.graphs import FLOAT, INT32, STRING, graph, identity, node, placeholder, scalar
from support.mutants import account

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph

X = placeholder("x")


def done(rule: str, *nodes: bytes) -> dict[str, list[str]]:
    """What RULE makes of a graph, as lists of an op and what is read."""
    found = graph(*nodes)

    def edited() -> tuple[Graph, EditResult]:
        return found, rewrite(found, rule)

    account(edited)
    return {n.name: [n.op, *(r.name for r in n.inputs)] for n in found.nodes()}


def stays(rule: str, *nodes: bytes, said: str = "nothing in") -> None:
    """That RULE leaves a graph."""
    found = graph(*nodes)
    with pytest.raises(EditError) as raised:
        rewrite(found, rule)
    assert said in " ".join([raised.value.message, *raised.value.details])
    assert not found.is_changed


def whole(value: int) -> list[bytes]:
    return [placeholder("x", INT32), scalar("c", value, INT32), node("y", "AddV2", ["x", "c"], T=INT32)]


def test_whole_numbers_are_just_these() -> None:
    assert done("AddV2($x, 100001) -> $x", *whole(100001))["y"] == ["Identity", "x"]
    stays("AddV2($x, 100001) -> $x", *whole(100000))
    hashed = [placeholder("x", STRING), node("y", "StringToHashBucketFast", ["x"], num_buckets=1000005)]
    rule = "StringToHashBucketFast{num_buckets=%d}($x) -> StringToHashBucket{num_buckets=7}($x)"
    stays(rule % 1000000, *hashed)
    assert done(rule % 1000005, *hashed)["y"] == ["StringToHashBucket", "x"]


def test_texts_are_joined_in_their_order() -> None:
    text = node("c", "Const", dtype=STRING, value=graphs.encode_len(8, b"\x08\x07\x12\x00\x42\x01v"))
    nodes = [placeholder("x", STRING), text, identity("i", "x", kind=STRING), node("y", "Add", ["i", "c"], T=STRING)]
    stays("Add($c:const, Identity($x)) -> Add($c, $x)", *nodes)
    assert done("Add(Identity($x), $c:const) -> Add($x, $c)", *nodes)["y"] == ["Add", "x", "c"]


HUGE = "1" + "0" * 400


def test_numbers_that_no_type_holds() -> None:
    sums = [X, scalar("c", 2.0), node("y", "Mul", ["x", "c"], T=FLOAT)]
    leaks = [X, node("y", "LeakyRelu", ["x"], T=FLOAT, alpha=0.5)]
    for number in (HUGE, "inf", "-inf", "1e999"):
        stays(f"Mul($x, {number}) -> $x", *sums)
    stays(f"LeakyRelu{{alpha={HUGE}}}($x) -> $x", *leaks)
    said = "column 28: at 'alpha=1e39}($x)': alpha is of kind float"
    stays("LeakyRelu($x) -> LeakyRelu{alpha=1e39}($x)", *leaks, said=said)


def test_a_search_that_finds_no_end_is_given_up(monkeypatch: Any) -> None:
    monkeypatch.setattr("gdsurgeon.edits.rewriting.searching.MOST_TRIED", 10_000)
    sums, last = [X, placeholder("z")], ("x", "z")
    for i in range(40):
        sums.append(node(f"n{i}", "AddV2", [last[1], last[0]], T=FLOAT))
        last = (last[1], f"n{i}")
    pattern = "$x"
    for i in range(30):
        pattern = f"AddV2({pattern}, $v{i})"
    rule = f"Relu(AddV2({pattern}, $x)) -> $x"
    stays(rule, *sums, node("y", "Relu", ["n39"], T=FLOAT), said="'y' may match in too many ways")
