"""rewrite: a match that would have another shape stays, and the rest is replaced; the book asks for known shapes."""

from __future__ import annotations

from typing import Any

import pytest
from support.desk import check_error
from support.graphs import FLOAT, INT32, const, graph, node, placeholder, scalar, unary
from support.rewriting import binary, rewritten

from gdsurgeon.edits.rewrite import listed, rewrite
from gdsurgeon.patterns.catalog import in_book
from gdsurgeon.patterns.check import rule_of
from gdsurgeon.patterns.terms import Rule

ONE, WIDE = scalar("one", 1.0), const("wide", [1.0], FLOAT, (1, 1, 1, 1))


def done(rules: str | list[Rule], *nodes: bytes) -> tuple[dict[str, str], dict[str, Any]]:
    """The ops by name that RULES make of a graph; by the node of their first result, the reasons why matches stay."""
    found, result = rewritten(rules, *nodes)
    left: Any = result.facts["left"]
    return {n.name: n.op for n in found.nodes()}, {each["node"]: (each["code"], each["facts"]) for each in left}


def other(tensor: str, expected: tuple[int, ...], found: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
    return "shape-mismatch", {"tensor": tensor, "expected": expected, "found": found}


def of(shape: tuple[int, ...] | None, constant: str = "wide") -> list[bytes]:
    """Two products with 1, the first of them with a CONSTANT."""
    products = [binary("a", "Mul", "x", constant), binary("b", "Mul", "x", "one")]
    return [placeholder("x", shape=shape), ONE, WIDE, *products, binary("y", "Sub", "a", "b")]


def test_what_would_have_fewer_dims_stays_and_the_rest_is_replaced() -> None:
    ops, left = done("Mul($x, 1) -> $x", *of((3,)))
    assert left == {"a": other("a", (1, 1, 1, 3), (3,))}
    assert "a" in ops and "b" not in ops
    ops, left = done("Mul($x, 1) -> $x", *of((3, 1, 2, 2)))
    assert not left and not {"a", "b"} & ops.keys()


def test_a_rule_of_the_user_is_carried_out_where_shapes_are_not_known() -> None:
    ops, left = done("Mul($x, 1) -> $x", *of(None))
    assert not left and "a" not in ops


def test_the_way_that_keeps_the_shape_is_taken() -> None:
    small, large = placeholder("s", shape=(1, 3)), placeholder("l", shape=(2, 3))
    nodes = [small, large, binary("y", "AddV2", "s", "l"), unary("Neg", "z", "y")]
    found = graph(*nodes)
    rewrite(found, "AddV2($a, $b) -> $a")
    assert [read.name for read in found["z"].inputs] == ["l"]
    done("AddV2($a, $b) -> $a", *nodes)


def test_what_would_not_run_stays() -> None:
    nodes = [placeholder("x", shape=(2, 3)), placeholder("z", shape=(2, 3)), placeholder("w", shape=(3, 3)),
             binary("y", "Mul", "x", "z"), binary("v", "Mul", "w", "w"), node("r", "NoOp", ["^y", "^v"])]  # fmt: skip
    ops, left = done("Mul($a, $b) -> MatMul($a, $b)", *nodes)
    assert left == {"y": ("shape-mismatch", {"op": "MatMul", "shapes": [(2, 3), (2, 3)]})}
    assert ops["v"] == "MatMul"


def test_what_a_shape_is_computed_from_is_known() -> None:
    x, to = placeholder("x", shape=(2, 3)), [const("a", [3, 2], INT32), const("b", [2, 3], INT32)]
    shaped = [node(f"y{c}", "Reshape", ["x", c], T=FLOAT, Tshape=INT32) for c in "ab"]
    ends = [unary("Neg", f"z{c}", f"y{c}") for c in "ab"]
    ops, _ = done("Neg(Reshape($x, $to:const)) -> Reshape(Abs($x), $to)", x, *to, *shaped, *ends)
    assert (ops["za"], ops["zb"]) == ("Reshape", "Reshape")
    ops, left = done("Reshape($x, $to:const) -> $x", x, *to, *shaped, *ends)
    assert left == {"ya": other("ya", (3, 2), (2, 3))}
    assert "yb" not in ops


def swish(shape: tuple[int, ...] | None, constant: str) -> list[bytes]:
    """The first spelling of the book, twice: of x times a CONSTANT, and of x times 1."""
    nodes = [placeholder("x", shape=shape), ONE, WIDE]
    for name, factor in (("a", constant), ("b", "one")):
        nodes += [binary(f"{name}m", "Mul", factor, "x"), unary("Sigmoid", f"{name}s", f"{name}m")]
        nodes.append(binary(name, "Mul", "x", f"{name}s"))
    return [*nodes, binary("y", "Sub", "a", "b")]


def test_the_book_leaves_what_may_have_had_more_dims() -> None:
    unknown = {"tensor": "a", "constant": "wide", "shape": (1, 1, 1, 1)}
    for shape, why in (
        ((3,), other("a", (1, 1, 1, 3), (3,))),
        (None, ("shape-unknown", unknown)),
        ((-1, -1, -1, 3), None),
    ):
        ops, left = done(in_book("swish"), *swish(shape, "wide"))
        assert left.get("a") == why
        assert ("am" in ops, "bm" in ops) == (bool(why), False)


@pytest.mark.parametrize("channels", [6, -1, 3])
def test_a_convolution_in_groups_is_no_product(channels: int) -> None:
    strides = b"\x0a\x06\x1a\x04\x01\x01\x01\x01"
    nodes = [placeholder("x", shape=(-1, 8, 8, channels)), placeholder("z", shape=(-1, 8, 8, 3))]
    nodes += [const("w", [1.0] * 12, FLOAT, (1, 1, 3, 4))]
    nodes += [
        node(n, "Conv2D", [x, "w"], T=FLOAT, strides=strides, padding="SAME") for n, x in (("a", "x"), ("b", "z"))
    ]
    ops, left = done(in_book("conv-as-matmul"), *nodes, node("r", "NoOp", ["^a", "^b"]))
    assert ops["b"] == "BatchMatMulV2"
    assert ops["a"] == ("BatchMatMulV2" if channels == 3 else "Conv2D")
    shapes = [(-1, 8, 8, channels), (1, 1, 3, 4)]
    why = "size-unknown", {"tensors": ["x", "w"], "shapes": shapes, "axes": [3, 2]}
    assert left == ({} if channels == 3 else {"a": why})


def test_a_list_says_so_too() -> None:
    done, left = listed(graph(*of((3,))), [rule_of("Mul($x, 1) -> $x")])
    assert (done.nodes, done.why, left.nodes) == (("b",), "", ("a",))
    check_error(left.why, *other("a", (1, 1, 1, 3), (3,)))
