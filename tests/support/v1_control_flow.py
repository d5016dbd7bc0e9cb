"""Loops and conditionals of version 1, as records of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.graph.graph import Graph
from support.graphs import BOOL, FLOAT, INT32, X, add, identity, neg, node, placeholder, scalar, tensor
from support.running import outcome


def while_loop(*body: bytes, result: str, exits: Sequence[str] = ()) -> list[bytes]:
    """For i from 0 while i < n: v = RESULT; BODY computes that from v (`w/v`), i (`w/i`) and 3 (`w/three`)."""

    def enter(name: str, source: str, kind: bytes, constant: bool) -> bytes:
        return node(name, "Enter", [source], T=kind, frame_name="w", is_constant=constant, parallel_iterations=10)

    return [
        placeholder("n", INT32, ()),
        scalar("zero", 0, INT32),
        scalar("start", 1),
        scalar("three", 3),
        enter("w/Enter", "zero", INT32, False),
        enter("w/Enter_v", "start", FLOAT, False),
        enter("w/three", "three", FLOAT, True),
        enter("w/limit", "n", INT32, True),
        node("w/Merge", "Merge", ["w/Enter", "w/NextIteration"], T=INT32, N=2),
        node("w/Merge_v", "Merge", ["w/Enter_v", "w/NextIteration_v"], T=FLOAT, N=2),
        node("w/Less", "Less", ["w/Merge", "w/limit"], T=INT32),
        node("w/LoopCond", "LoopCond", ["w/Less"]),
        node("w/Switch", "Switch", ["w/Merge", "w/LoopCond"], T=INT32),
        node("w/Switch_v", "Switch", ["w/Merge_v", "w/LoopCond"], T=FLOAT),
        identity("w/i", "w/Switch:1", kind=INT32),
        identity("w/v", "w/Switch_v:1"),
        node("w/one", "Const", ["^w/i"], dtype=INT32, value=tensor([1], INT32, ())),
        add("w/Add", "w/i", "w/one", kind=INT32),
        *body,
        node("w/NextIteration", "NextIteration", ["w/Add"], T=INT32),
        node("w/NextIteration_v", "NextIteration", [result], T=FLOAT),
        node("w/Exit", "Exit", ["w/Switch"], T=INT32),
        node("w/Exit_v", "Exit", ["w/Switch_v"], T=FLOAT),
        *(node(f"w/Exit_{i}", "Exit", [name], T=FLOAT) for i, name in enumerate(exits)),
        identity("out", "w/Exit_v"),
    ]


LOOP = while_loop(
    node("w/two", "Const", ["^w/i"], dtype=FLOAT, value=tensor([2], FLOAT, ())),
    node("w/double", "Mul", ["w/v", "w/two"], T=FLOAT),
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
        node("c/Switch", "Switch", ["p", "p"], T=BOOL),
        identity("c/switch_t", "c/Switch:1", kind=BOOL),
        identity("c/switch_f", "c/Switch", kind=BOOL),
        identity("c/pred_id", "p", kind=BOOL),
        node("c/two", "Const", ["^c/switch_t"], dtype=FLOAT, value=tensor([2], FLOAT, ())),
        node("c/x_t", "Switch", ["x", "c/pred_id"], T=FLOAT),
        node("c/mul", "Mul", ["c/x_t:1", "c/two"], T=FLOAT),
        node("c/x_f", "Switch", ["x", "c/pred_id"], T=FLOAT),
        neg("c/neg", "c/x_f"),
        node("c/ten", "Const", ["^c/switch_f"], dtype=FLOAT, value=tensor([10], FLOAT, ())),
        node("c/sub", "Sub", ["c/neg", "c/ten"], T=FLOAT),
        node("c/Merge", "Merge", ["c/sub", "c/mul"], T=FLOAT, N=2),
        identity("y", "c/Merge"),
        *extra,
    ]


def taken_both_ways(what: Graph | bytes, *fetches: str) -> list[list[Any] | str]:
    return [outcome(what, *fetches, p=p, x=[1.0, 2.0]) for p in (True, False)]


BOTH_WAYS = [[[2.0, 4.0]], [[-11.0, -12.0]]]
