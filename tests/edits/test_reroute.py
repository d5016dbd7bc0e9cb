"""reroute; the numbers are those of the sections on rerouting and control inputs of the specification."""

from __future__ import annotations

from typing import Any

import pytest
from support.desk import check_error
from support.expecting import refused, sound
from support.graphs import FLOAT, INT32, add, const, g8, graph, identity, inputs, loop, node, placeholder, r3

from gdsurgeon.edits.reroute import reroute
from gdsurgeon.proof.accounting import check_accounted


def test_unknown_types_fit_everything_and_are_warned_about() -> None:
    found = graph(*r3(), node("u", "MyOp"))
    result = reroute(found, [("a0", "u")])
    assert inputs(found)["c0"] == ["u", "b0"]
    (warning,) = result.warnings
    check_error(warning, "unknown-dtype", {"tensor": "u", "op": "MyOp"})


PQ = [const("p", [1]), const("q", [2])]
PQR = [*PQ, const("r", [1]), add("s", "p", "q"), identity("t", "r")]
OUT = [*r3(), identity("o0", "c0"), identity("o1", "c1")]
X = const("x", [1])
CONE = [identity("a", "x"), add("b", "a", "x"), node("w", "NoOp", ["^a"]), identity("new", "b"), identity("y", "x")]


@pytest.mark.parametrize(
    ("records", "pairs", "options", "reads"),
    [
        ([*PQ, add("s", "p", "q")], [("p", "q")], {"swap": True}, {"s": ["q", "p"]}),
        ([*PQ, identity("s", "p")], [("p", "q")], {"swap": True}, {"s": ["q"]}),
        (PQR, [("p", "q"), ("q", "r"), ("r", "p")], {}, {"s": ["q", "r"], "t": ["p"]}),
        (PQR, [("p", "q"), ("q", "p")], {}, {"s": ["q", "p"]}),
        (OUT, [("c0", "c1")], {"swap": True}, {"o0": ["c1"], "o1": ["c0"]}),
        (OUT, [("c1", "c0")], {}, {"o1": ["c0"]}),
        (
            [*r3(), placeholder("p", FLOAT, (-1,))],
            [("a2", "p"), ("a0", "p")],
            {},
            {"c2": ["p", "b2"], "c0": ["p", "b0"]},
        ),
        ([*r3(), placeholder("p", FLOAT)], [("a2", "p"), ("a0", "p")], {}, {"c2": ["p", "b2"], "c0": ["p", "b0"]}),
        ([*r3(), node("v", "VariableV2", dtype=FLOAT, shape=(2,))], [("a0", "v")], {}, {"c0": ["v", "b0"]}),
        ([X, *CONE], [("x", "new")], {}, {"y": ["new"]}),
        (loop(), [("w/Merge", "w/Enter")], {"only": "Less"}, {"w/Less": ["w/Enter", "w/Limit"]}),
        (loop(), [("w/Identity", "w/Switch:1")], {}, {"w/Add": ["w/Switch:1", "w/one"]}),
        (g8(), [("foo/c", "foo/d")], {"only": "bar/[ef]$"}, {"foo/bar/e": ["foo/d"] * 2, "foo/bar/f": ["foo/d"] * 2}),
        (g8(), [("foo/c", "foo/d")], {"exclude": "bar/[ef]$"}, {"foo/bar/g": ["foo/d", "a"]}),
        (g8(), [("foo/c", "foo/d")], {"only": "bar", "exclude": "/[eg]$"}, {"foo/bar/f": ["foo/d", "foo/d"]}),
    ],
)
def test_who_reads_what(records: list[bytes], pairs: Any, options: Any, reads: dict[str, list[str]]) -> None:
    """All slots are decided from the state before, pairs do not see each other's changes, and nothing else changes."""
    found = graph(*records)
    before = inputs(found)
    result = reroute(found, pairs, **options)
    assert inputs(found) == before | reads
    changed = [old != new for name in reads for old, new in zip(before[name], reads[name], strict=True)]
    assert len(result.intent.rewired) == sum(changed)
    assert sound(found)


@pytest.mark.parametrize(
    ("pairs", "code", "facts"),
    [
        ([("nope", "a0")], "no-such-node", {"node": "nope", "near": None}),
        ([("a0", "b00")], "no-such-node", {"node": "b00", "near": "b0"}),
        ([("a0:1", "b0")], "no-such-tensor", {"tensor": "a0:1", "op": "Const", "count": 1}),
        ([("a0", "b0:7")], "no-such-tensor", {"tensor": "b0:7", "op": "Const", "count": 1}),
        ([("a0", "n")], "no-such-tensor", {"tensor": "n", "op": "NoOp", "count": 0}),
        ([("^a0", "b0")], "bad-tensor-name", {"tensor": "^a0"}),
        ([("a0", "b0:0:1")], "bad-tensor-name", {"tensor": "b0:0:1"}),
        ([("c0", "c1")], "no-consumers", {"tensors": ["c0"]}),
        ([("x", "pre")], "would-cycle", {"node": "pre", "tensor": "x"}),
        ([("a0", "a0")], "same-tensor", {}),
        ([("a0", "a0:0")], "same-tensor", {}),
        ([("a0", "a1"), ("a0", "b1")], "given-twice", {"tensors": ["a0"]}),
        ([("a2", "a0"), ("b2", "b0")], "shape-mismatch", {"expected": "float32 [3]", "found": "float32 [2]"}),
        ([("a0", "p")], "shape-mismatch", {"tensor": "a0", "replacement": "p", "found": "float32 [?,2]"}),
        ([("a0", "i")], "dtype-mismatch", {"tensor": "a0", "replacement": "i", "found": "int32 [2]"}),
    ],
)
def test_what_is_refused(pairs: list[tuple[str, str]], code: str, facts: dict[str, Any]) -> None:
    """Alone, and where it comes after a pair that is in order."""
    more = [placeholder("p", FLOAT, (-1, 2)), const("i", [1, 2], INT32), node("n", "NoOp", ["^c0"])]
    found = graph(*r3(), *more, const("x", [1]), identity("pre", "x"))
    refused(found, code, lambda g: reroute(g, pairs), **facts)
    if code not in ("no-consumers", "would-cycle", "same-tensor"):
        refused(found, code, lambda g: reroute(g, [("b1", "b0"), *pairs]), **facts)


def test_one_tensor_to_two_others_is_refused_in_a_swap() -> None:
    pairs = [("a0", "a1"), ("a1", "b1")]
    refused(graph(*r3()), "given-twice", lambda g: reroute(g, pairs, swap=True), tensors=["a1"])


def test_what_comes_round_a_loop_is_not_above_what_it_comes_to() -> None:
    found = graph(*loop())
    merge = next(n for n in found.nodes() if n.op == "Merge")
    again = next(read.node for read in merge.inputs if read.node.op == "NextIteration")
    result = reroute(found, [(again.inputs[0].name, merge.name)])
    assert (again.name, 0) in {(slot.node, slot.slot) for slot in result.intent.rewired}
    check_accounted(found, result, found.chunks())
