"""Loops and conditionals of version 1, as records of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.graph.graph import Graph
from support.graphs import BOOL, FLOAT, INT32, X, add, identity, neg, node, placeholder, scalar, tensor, typed
from support.running import outcome


def while_loop(*body: bytes, result: str, exits: Sequence[str] = ()) -> list[bytes]:
    """For i from 0 while i < n: v = RESULT; BODY computes that from v (`w/v`), i (`w/i`) and 3 (`w/three`)."""

    def enter(name: str, source: str, kind: bytes, constant: bool) -> bytes:
        return typed("Enter", name, source, kind=kind, frame_name="w", is_constant=constant, parallel_iterations=10)

    return [
        placeholder("n", INT32, ()),
        scalar("zero", 0, INT32),
        scalar("start", 1),
        scalar("three", 3),
        enter("w/Enter", "zero", INT32, False),
        enter("w/Enter_v", "start", FLOAT, False),
        enter("w/three", "three", FLOAT, True),
        enter("w/limit", "n", INT32, True),
        typed("Merge", "w/Merge", "w/Enter", "w/NextIteration", kind=INT32, N=2),
        typed("Merge", "w/Merge_v", "w/Enter_v", "w/NextIteration_v", N=2),
        typed("Less", "w/Less", "w/Merge", "w/limit", kind=INT32),
        node("w/LoopCond", "LoopCond", ["w/Less"]),
        typed("Switch", "w/Switch", "w/Merge", "w/LoopCond", kind=INT32),
        typed("Switch", "w/Switch_v", "w/Merge_v", "w/LoopCond"),
        identity("w/i", "w/Switch:1", kind=INT32),
        identity("w/v", "w/Switch_v:1"),
        node("w/one", "Const", ["^w/i"], dtype=INT32, value=tensor([1], INT32, ())),
        add("w/Add", "w/i", "w/one", kind=INT32),
        *body,
        typed("NextIteration", "w/NextIteration", "w/Add", kind=INT32),
        typed("NextIteration", "w/NextIteration_v", result),
        typed("Exit", "w/Exit", "w/Switch", kind=INT32),
        typed("Exit", "w/Exit_v", "w/Switch_v"),
        *(typed("Exit", f"w/Exit_{i}", name) for i, name in enumerate(exits)),
        identity("out", "w/Exit_v"),
    ]


LOOP = while_loop(
    node("w/two", "Const", ["^w/i"], dtype=FLOAT, value=tensor([2], FLOAT, ())),
    typed("Mul", "w/double", "w/v", "w/two"),
    add("w/plus", "w/double", "w/three"),
    result="w/plus",
)


def cond(*extra: bytes) -> list[bytes]:
    """A conditional as TensorFlow makes it: the pivots hang on the predicate, the data on a copy of it.

    y = 2 x where p, else -x - 10.
    """
    return [
        placeholder("p", BOOL, ()),
        X,
        typed("Switch", "c/Switch", "p", "p", kind=BOOL),
        identity("c/switch_t", "c/Switch:1", kind=BOOL),
        identity("c/switch_f", "c/Switch", kind=BOOL),
        identity("c/pred_id", "p", kind=BOOL),
        node("c/two", "Const", ["^c/switch_t"], dtype=FLOAT, value=tensor([2], FLOAT, ())),
        typed("Switch", "c/x_t", "x", "c/pred_id"),
        typed("Mul", "c/mul", "c/x_t:1", "c/two"),
        typed("Switch", "c/x_f", "x", "c/pred_id"),
        neg("c/neg", "c/x_f"),
        node("c/ten", "Const", ["^c/switch_f"], dtype=FLOAT, value=tensor([10], FLOAT, ())),
        typed("Sub", "c/sub", "c/neg", "c/ten"),
        typed("Merge", "c/Merge", "c/sub", "c/mul", N=2),
        identity("y", "c/Merge"),
        *extra,
    ]


def taken_both_ways(what: Graph | bytes, *fetches: str) -> list[list[Any] | str]:
    return [outcome(what, *fetches, p=p, x=[1.0, 2.0]) for p in (True, False)]


BOTH_WAYS = [[[2.0, 4.0]], [[-11.0, -12.0]]]
