"""remove: placeholders and control edges where something was taken away."""

from __future__ import annotations

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
    const,
    graph,
    identity,
    node,
    placeholder,
    versions,
)  # fmt: skip
from support.removing import chain, named

from gdsurgeon.edits.remove import remove

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


@pytest.mark.parametrize("shape", [(), (3,)])
def test_dangling_placeholder_of_an_old_producer(shape: tuple[int, ...]) -> None:
    """Where a scalar's shape means an unknown one, an unknown one must not be written in another way."""
    trailer = versions(20)
    records = [placeholder("x", FLOAT, shape), identity("a", "x"), identity("y", "a")]
    found = graph(*records, trailer=trailer)
    remove(found, named("a"), dangling="placeholder")
    stated = graphs.attrs(found, "a").get("shape")
    if shape:
        assert stated == graphs.attrs(found, "x")["shape"]
    else:
        assert stated is None or (not stated.shape.dim and not stated.shape.unknown_rank)


def test_dangling_placeholder_of_an_unknown_dtype_is_refused() -> None:
    found = graph(placeholder("x"), node("u", "MyOp", ["x"]), identity("y", "u"))
    for names in (["u"], ["x", "u"]):
        edit = partial(remove, selection=named(*names), dangling="placeholder")
        refused(found, "unknown-dtype", edit, tensor="u", op="MyOp")


X = placeholder("x")

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
