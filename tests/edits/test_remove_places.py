"""remove: what read a removed node reads what that has read, or a placeholder; who waited for it waits for others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from support import graphs
from support.expecting import expect, refused
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    add,
    const,
    graph,
    identity,
    node,
    placeholder,
    scalar,
)  # fmt: skip  # fmt: skip
from support.removing import chain, named
from support.running import run
from support.system import is_linear

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.compare.intent import Rewired
from gdsurgeon.edits.remove import remove
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection


@pytest.mark.tensorflow
def test_bypass_of_one_node_and_of_a_chain() -> None:
    expected = [*chain()[:2], identity("c", "a"), chain()[4], node("z", "Abs", ["a"], T=FLOAT)]
    found = graph(*chain())
    result = expect(found, lambda g: remove(g, named("b"), bypass=True), expected)
    assert sorted(result.intent.rewired) == [Rewired("c", 0, "b", "a"), Rewired("z", 0, "b", "a")]
    assert run(found, "y", "z", x=[-1.0, 2.0]) == [[1, -2], [1, 2]]
    expected = [chain()[0], node("y", "Neg", ["x"], T=FLOAT), node("z", "Abs", ["x"], T=FLOAT)]
    result = expect(chain(), lambda g: remove(g, named("a", "b", "c"), bypass=True), expected)
    assert sorted(result.intent.rewired) == [Rewired("y", 0, "c", "x"), Rewired("z", 0, "b", "x")]


@pytest.mark.parametrize("first", [(), ("^guard",)], ids=["plain", "waiting"])
def test_bypass_takes_linear_time_where_each_of_the_removed_is_read(first: tuple[str, ...]) -> None:
    """A chain of removed nodes, each read by a node that stays: the way to the end is not walked for each.

    Nor are the control inputs of the removed nodes gathered anew for each.
    """

    def removal(count: int) -> Callable[[], object]:
        found = read_chain(count, *first)
        return lambda: remove(found, Selection(ops=("Identity",)), bypass=True)

    assert is_linear(removal, 100, 800)
    found = read_chain(50, *first)
    remove(found, Selection(ops=("Identity",)), bypass=True)
    assert graphs.inputs(found)["r49"] == ["x", *first]


def read_chain(count: int, *first: str) -> Graph:
    """Identities one after another, each read by a node of its own; the first waits for FIRST."""
    records = [placeholder("x", FLOAT, (1,)), node("guard", "NoOp")]
    for i in range(count):
        records += [identity(f"n{i}", f"n{i - 1}" if i else "x", *(() if i else first)),
                    node(f"r{i}", "Neg", [f"n{i}"], T=FLOAT)]  # fmt: skip
    return graph(*records)


X, A, B = placeholder("x"), placeholder("a"), placeholder("b")
W = scalar("w", 0.5)
SUM = [add("s", "a", "b"), identity("y", "s")]
INT_X = placeholder("x", INT32)
AXIS = const("axis", [0], INT32, ())
LONG = [identity(f"n{i}", f"n{i - 1}" if i else "x") for i in range(10_000)]
DROPOUT = [
    node("drop/Shape", "Shape", ["x"], T=FLOAT), scalar("drop/keep", 0.5),
    node("drop/uniform", "RandomUniform", ["drop/Shape"], T=INT32, dtype=FLOAT),
    add("drop/add", "drop/keep", "drop/uniform"), node("drop/Floor", "Floor", ["drop/add"], T=FLOAT),
    node("drop/div", "RealDiv", ["x", "drop/keep"], T=FLOAT),
    node("drop/mul", "Mul", ["drop/div", "drop/Floor"], T=FLOAT),
]  # fmt: skip
IDENTITIES, SCOPE = Selection(ops=("Identity",)), Selection(scopes=("drop",))
Y = identity("y", "x")
Y_NEG = node("y", "Neg", ["x"], T=FLOAT)


def split(kind: bytes = FLOAT) -> bytes:
    return node("s", "Split", ["axis", "x"], T=kind, num_split=2)


BYPASSED: dict[str, tuple[list[bytes], list[bytes], Selection, dict[str, int], list[bytes]]] = {
    "a long chain": ([X], [*LONG, node("y", "Neg", ["n9999"], T=FLOAT)], IDENTITIES, {}, [Y_NEG]),
    "a constant is ignored": ([X, W], [node("m", "Mul", ["x", "w"], T=FLOAT), identity("y", "m")], named("m"), {}, [Y]),
    "a weight of a frozen variable": (
        [X, W, identity("r", "w")], [node("m", "Mul", ["x", "r"], T=FLOAT), identity("y", "m")], named("m"), {}, [Y]
    ),
    "the identity of a weight": (
        [X, W], [identity("r", "w"), node("y", "Mul", ["x", "r"], T=FLOAT)], named("r"), {},
        [node("y", "Mul", ["x", "w"], T=FLOAT)],
    ),
    "dropout": ([X], [*DROPOUT, node("y", "Neg", ["drop/mul"], T=FLOAT)], SCOPE, {}, [Y_NEG]),
    "dropout by 0": ([X], [*DROPOUT, node("y", "Neg", ["drop/mul"], T=FLOAT)], SCOPE, {"bypass_input": 0}, [Y_NEG]),
    "input 0": ([A, B], SUM, named("s"), {"bypass_input": 0}, [identity("y", "a")]),
    "the same output": (
        [AXIS, X, split()], [identity("a", "s:1"), node("y", "Neg", ["a"], T=FLOAT)], named("a"), {},
        [node("y", "Neg", ["s:1"], T=FLOAT)],
    ),
    "counterparts": (
        [A, placeholder("b", INT32)],
        [node("n", "IdentityN", ["a", "b"], T=graphs.dtypes(FLOAT, INT32)), identity("p", "n"),
         identity("q", "n:1", kind=INT32)],
        named("n"), {}, [identity("p", "a"), identity("q", "b", kind=INT32)],
    ),
    "a split has as many inputs as outputs": ([AXIS, X], [split(), identity("y", "s")], named("s"), {}, [Y]),
    "casts that undo each other": (
        [INT_X], [node("c", "Cast", ["x"], SrcT=INT32, DstT=FLOAT), node("d", "Cast", ["c"], SrcT=FLOAT, DstT=INT32),
                  identity("y", "d", kind=INT32)], named("c", "d"), {}, [identity("y", "x", kind=INT32)],
    ),
    "an output that has a counterpart": (
        [X], [node("u", "Unique", ["x"], T=FLOAT, out_idx=INT32), identity("y", "u")], named("u"), {}, [Y]
    ),
    "an unknown op": ([X], [node("u", "MyOp", ["x"]), identity("y", "u")], named("u"), {}, [Y]),
    "every slot": ([X], [identity("a", "x"), add("y", "a", "a")], named("a"), {}, [add("y", "x", "x")]),
    "a node that reads both": (
        [X], [identity("a", "x"), identity("b", "a"), node("s", "Sub", ["b", "x"], T=FLOAT)], named("a", "b"), {},
        [node("s", "Sub", ["x", "x"], T=FLOAT)],
    ),
}  # fmt: skip
"""Nodes that stay, nodes that do not all, what is removed and how, what is left."""


@pytest.mark.parametrize("what", BYPASSED)
def test_bypass(what: str) -> None:
    stay, records, selection, options, left = BYPASSED[what]
    result = expect([*stay, *records], lambda g: remove(g, selection, bypass=True, **options), [*stay, *left])
    if what == "every slot":
        assert result.intent.rewired == [Rewired("y", 0, "a", "x"), Rewired("y", 1, "a", "x")]


RESHAPED = graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto([6])))


@pytest.mark.parametrize(
    ("records", "which", "code", "facts"),
    [
        ([scalar("r", 1)], None, "no-such-input", {"count": 0}),
        ([A, B, add("r", "a", "b")], None, "ambiguous-input", {"inputs": ["a", "b"]}),
        ([A, B, add("r", "a", "b")], 7, "no-such-input", {"value": 7, "count": 2}),
        ([placeholder("x", FLOAT, (2, 3)), const("shape", [6], INT32),
          node("r", "Reshape", ["x", "shape"], T=FLOAT, Tshape=INT32, _output_shapes=RESHAPED)], None,
         "shape-mismatch", {"tensor": "r", "expected": "float32 [6]", "input": "x", "found": "float32 [2,3]"}),
    ],
)  # fmt: skip
def test_what_is_not_bypassed(records: list[bytes], which: int | None, code: str, facts: dict[str, object]) -> None:
    found = graph(*records, identity("y", "r"))
    error = refused(found, code, lambda g: remove(g, named("r"), bypass=True, bypass_input=which), **facts)
    assert ("--bypass-input" in (hint_of(error) or "")) == (code == "ambiguous-input")


def test_bypass_of_top_k_never_reads_k() -> None:
    top = node("t", "TopKV2", ["x", "k"], T=INT32)
    found = graph(INT_X, placeholder("k", INT32, ()), top, identity("places", "t:1", kind=INT32))
    refused(found, "no-such-input", lambda g: remove(g, named("t"), bypass=True), node="t", output=1)


# -- dangling placeholder --------------------------------------------------------------------------------------


def passed_on(kind: bytes, shape: tuple[int, ...] | None) -> tuple[list[bytes], list[str], list[bytes]]:
    """Nodes, those that are removed, and what is left, of a placeholder behind two identities."""
    x, y = placeholder("x", kind, shape), identity("y", "a", kind=kind)
    return [x, identity("a", "x", kind=kind), y], ["a"], [x, placeholder("a", kind, shape), y]


X_3, WEIGHTS = placeholder("x", FLOAT, (-1, 3)), const("w", [1] * 12, FLOAT, (3, 4))
MATMUL = node("m", "MatMul", ["x", "w"], T=FLOAT, transpose_a=False, transpose_b=False)
S = placeholder("s", FLOAT, (2,))
S_1, S_1_1 = (placeholder(name, FLOAT, (2,)) for name in ("s_1", "s_1_1"))
SPLIT = [
    const("axis", [0], INT32, ()), placeholder("x", FLOAT, (4,)),
    node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2), identity("p", "s"), identity("q", "s:1"),
]  # fmt: skip
TAKEN = placeholder("s_1", INT32)
READ_2 = [chain()[0], chain()[1], placeholder("b", FLOAT, (2,)), placeholder("c", FLOAT, (2,)), *chain()[4:]]


@pytest.mark.parametrize(
    ("records", "removed", "after"),
    [
        *(passed_on(kind, (5,)) for kind in (FLOAT, DOUBLE, INT32, INT64, BOOL, graphs.STRING, graphs.UINT8)),
        passed_on(FLOAT, ()),
        passed_on(FLOAT, None),
        ([X_3, WEIGHTS, MATMUL, node("y", "Neg", ["m"], T=FLOAT)], ["m"],
         [X_3, WEIGHTS, placeholder("m", FLOAT, (-1, 4)), node("y", "Neg", ["m"], T=FLOAT)]),
        ([node("v", "VariableV2", dtype=FLOAT, shape=(2,)), identity("y", "v")], ["v"],
         [placeholder("v", FLOAT, (2,)), identity("y", "v")]),
        (chain(), ["b"], [*chain()[:2], placeholder("b", FLOAT, (2,)), *chain()[3:]]),
        (chain(), ["b", "c"], READ_2),
        (chain(), ["x", "a", "b"], [placeholder("b", FLOAT, (2,)), *chain()[3:]]),
        (SPLIT, ["s"], [*SPLIT[:2], S, S_1, SPLIT[3], identity("q", "s_1")]),
        ([*SPLIT[:3], SPLIT[4]], ["s"], [*SPLIT[:2], S_1, identity("q", "s_1")]),
        ([*SPLIT, TAKEN], ["s"], [*SPLIT[:2], S, S_1_1, SPLIT[3], identity("q", "s_1_1"), TAKEN]),
    ],
)  # fmt: skip
def test_dangling_placeholder_of_any_dtype_and_shape_stands_where_the_node_stood(
    records: list[bytes], removed: list[str], after: list[bytes]
) -> None:
    expect(records, lambda g: remove(g, named(*removed), dangling="placeholder"), after)


def test_dangling_placeholder_of_an_unknown_dtype_is_refused() -> None:
    found = graph(placeholder("x"), node("u", "MyOp", ["x"]), identity("y", "u"))
    for names in (["u"], ["x", "u"]):
        edit = partial(remove, nodes=named(*names), dangling="placeholder")
        refused(found, "unknown-dtype", edit, tensor="u", op="MyOp")


# -- control edges -------------------------------------------------------------------------------------------


K, N = const("k", [1]), node("n", "NoOp")
FIRST, MID = node("first", "NoOp", ["^k"]), node("mid", "NoOp", ["^first"])
SEVERAL = [X, N, node("b", "NoOp"), node("p", "NoOp", ["^n", "^b"]), node("q", "NoOp", ["^b", "^p"])]


@pytest.mark.parametrize(
    ("records", "removed", "bypass", "after"),
    [
        ([X, K, FIRST, MID, identity("y", "x", "^mid")], ["mid"], False, [X, K, FIRST, identity("y", "x", "^first")]),
        ([*SEVERAL, identity("y", "x", "^q", "^n")], ["p", "q"], False, [*SEVERAL[:3], identity("y", "x", "^b", "^n")]),
        ([X, N, identity("y", "x", "^n")], ["n"], False, [X, identity("y", "x")]),
        ([X, identity("a", "x"), identity("y", "x", "^a"), node("z", "Neg", ["a"], T=FLOAT)], ["a"], True,
         [X, identity("y", "x", "^x"), node("z", "Neg", ["x"], T=FLOAT)]),
        ([X, N, identity("a", "x", "^n"), identity("y", "a", "^a")], ["a"], True,
         [X, N, identity("y", "x", "^n", "^x")]),
        ([X, N, identity("a", "x", "^n"), node("y", "Neg", ["a"], T=FLOAT)], ["a"], True,
         [X, N, node("y", "Neg", ["x", "^n"], T=FLOAT)]),
    ],
    ids=["through one", "through several", "to none", "to what was read", "read and waited for", "still waited for"],
)  # fmt: skip
def test_control_edges_lead_to_what_the_removed_waited_for(
    records: list[bytes], removed: list[str], bypass: bool, after: list[bytes]
) -> None:
    """Who read a bypassed node ran after what it waited for: an Assert, or a write to an array that it reads."""
    result = expect(records, lambda g: remove(g, named(*removed), bypass=bypass), after)
    assert result.intent.changed == ["y"]
