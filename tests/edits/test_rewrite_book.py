"""The book of rules: each page on a graph that is spelt so, all of them proven in one run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import folding
from support.desk import check_error
from support.graphs import FLOAT, INT32, Builder, const, graph, node, placeholder, scalar, typed
from support.rewriting import binary, rewritten

import gdsurgeon as gds
from gdsurgeon.edits.rewrite import listed, rewrite
from gdsurgeon.operation.library import prove
from gdsurgeon.patterns.catalog import BOOK, in_book, rules_in_text
from gdsurgeon.patterns.parse import rule_of
from gdsurgeon.patterns.terms import Rule
from gdsurgeon.proof.accounting import check_accounted

F = {"T": "float32"}


class Spelling:
    """A part of a graph, from the placeholder ``x`` (of shape [2,4,4,3], or [2,3] as ``m``) to what is read of it."""

    def __init__(self, builder: Builder, scope: str) -> None:
        self.builder, self.scope, self.count = builder, scope, 0

    def __call__(self, op: str, *inputs: str | float | list[int], **attrs: object) -> str:
        """A node; numbers among what it reads are constants. Returns its name."""
        self.count += 1
        name = f"{self.scope}/{op}_{self.count}"
        reads = []
        for at, item in enumerate(inputs):
            if not isinstance(item, str):
                kind = "int32" if isinstance(item, list) else "float32"
                item = self.builder.const(f"{name}/c{at}", item, kind)
            reads.append(item)
        types = {} if "T" in attrs or op in NO_TYPE else F
        return self.builder.node(name, op, reads, **types, **attrs)

    def weights(self, *shape: int) -> str:
        import numpy as np

        self.count += 1
        values = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
        return self.builder.const(f"{self.scope}/w{self.count}", values)


NO_TYPE = frozenset(("NonMaxSuppression", "Cast"))
KEEP = {"keep_dims": True, "Tidx": "int32"}
Part = Callable[[Spelling], str]


def gelu(s: Spelling, inner: str, op: str = "Mul") -> str:
    return s(op, s("Mul", 0.5, "x"), inner)


def norm(s: Spelling, axes: list[int]) -> str:
    mean = s("Mean", "x", axes, **KEEP)
    variance = s("Mean", s("SquaredDifference", "x", s("StopGradient", mean)), axes, **KEEP)
    return s("RealDiv", s("Sub", "x", mean), s("Sqrt", s("AddV2", variance, 1e-3)))


def conv(s: Spelling, x: str, w: str, padding: str = "VALID") -> str:
    return s("Conv2D", x, w, strides=[1, 1, 1, 1], padding=padding)


def atrous(s: Spelling, pads: list[list[int]]) -> str:
    types = {"Tblock_shape": "int32"}
    space = s("SpaceToBatchND", "x", [2, 2], pads, Tpaddings="int32", **types)
    return s("BatchToSpaceND", conv(s, space, s.weights(3, 3, 3, 2)), [2, 2], [[0, 0], [0, 0]], Tcrops="int32", **types)


def two(s: Spelling, name: str) -> str:
    return s("AddV2", name, s("Neg", f"{name}:1"))


def boxes(s: Spelling, op: str, *more: float, **attrs: object) -> str:
    s.builder.const(f"{s.scope}/most", 2, "int32")
    inputs = ["boxes", "scores", f"{s.scope}/most", *more]
    return s("Cast", s(op, *inputs, **attrs), SrcT="int32", DstT="float32")


SPELLINGS: dict[str, list[Part]] = {
    "swish/of-product": [lambda s: s("Mul", s("Sigmoid", s("Mul", 1.0, "x")), "x")],
    "swish/quotient": [lambda s: s("RealDiv", "x", s("AddV2", 1.0, s("Exp", s("Neg", "x"))))],
    "swish/of-identity-n": [lambda s: s("IdentityN", s("Mul", "x", s("Sigmoid", "x")), "x", T=["float32", "float32"])],
    "hard-swish/inner": [lambda s: s("Mul", "x", s("RealDiv", s("Relu6", s("Add", "x", 3.0)), 6.0))],
    "hard-swish/outer": [lambda s: s("RealDiv", s("Mul", s("Relu6", s("AddV2", 3.0, "x")), "x"), 6.0)],
    "hard-swish/product": [lambda s: s("Mul", s("Mul", "x", s("Relu6", s("AddV2", "x", 3.0))), 1 / 6)],
    "gelu/erfc": [lambda s: gelu(s, s("Erfc", s("Mul", s("Neg", "x"), 0.5**0.5)))],
    "gelu/erfc-quotient": [lambda s: gelu(s, s("Erfc", s("RealDiv", s("Neg", "x"), 2**0.5)))],
    "gelu/erf-quotient": [lambda s: gelu(s, s("AddV2", 1.0, s("Erf", s("RealDiv", "x", 2**0.5))))],
    "gelu/tanh": [
        lambda s: s("Tanh", s("Mul", 0.7978845608, s("AddV2", "x", s("Mul", 0.044715, s("Pow", "x", 3.0)))))
    ],
    "layer-norm": [lambda s: norm(s, [3])],
    "instance-norm": [lambda s: norm(s, [1, 2])],
    "rms-norm/square": [
        lambda s: s("RealDiv", "x", s("Sqrt", s("AddV2", s("Mean", s("Square", "x"), [3], **KEEP), 1e-3)))
    ],
    "rms-norm/product": [
        lambda s: s("RealDiv", "x", s("Sqrt", s("Add", s("Mean", s("Mul", "x", "x"), [3], **KEEP), 1e-3)))
    ],
    "rms-norm/power": [
        lambda s: s("RealDiv", "x", s("Sqrt", s("AddV2", s("Mean", s("Pow", "x", 2.0), [3], **KEEP), 1e-3)))
    ],
    "l2-norm/plain": [lambda s: s("RealDiv", "x", s("Sqrt", s("Sum", s("Square", "x"), [3], **KEEP)))],
    "l2-norm/bounded": [
        lambda s: s("RealDiv", "x", s("Sqrt", s("Maximum", s("Sum", s("Square", "x"), [3], **KEEP), 1e-6)))
    ],
    "leaky-relu/maximum": [lambda s: s("Maximum", "x", s("Mul", 0.25, "x"))],
    "leaky-relu/difference": [lambda s: s("Sub", s("Relu", "x"), s("Mul", 0.25, s("Relu", s("Neg", "x"))))],
    "prelu/negated": [
        lambda s: s("AddV2", s("Relu", "x"), s("Mul", s("Neg", s.weights(3)), s("Relu", s("Neg", "x"))))
    ],
    "prelu/negative": [
        lambda s: s("Add", s("Relu", "x"), s("Mul", s.weights(3), s("Neg", s("Relu", s("Neg", "x")))))
    ],
    "prelu/absolute": [
        lambda s: s("Add", s("Relu", "x"), s("Mul", s("Mul", s.weights(3), s("Sub", "x", s("Abs", "x"))), 0.5))
    ],
    "relu6-as-min-max": [lambda s: s("Relu6", "x")],
    "min-max-as-relu6/outer": [lambda s: s("Minimum", s("Maximum", "x", 0.0), 6.0)],
    "min-max-as-relu6/inner": [lambda s: s("Maximum", s("Minimum", 6.0, "x"), 0.0)],
    "min-max-as-relu6/relu": [lambda s: s("Minimum", s("Relu", "x"), 6.0)],
    "atrous": [
        lambda s: atrous(s, [[2, 2], [2, 2]]), lambda s: atrous(s, [[0, 2], [2, 0]]),
    ],
    "conv-as-matmul": [lambda s: conv(s, "x", s.weights(1, 1, 3, 2), "SAME")],
    "matmul-as-conv": [lambda s: s("MatMul", "m", s.weights(3, 5))],
    "nms-v3/first": [lambda s: boxes(s, "NonMaxSuppression", iou_threshold=0.5)],
    "nms-v3/second": [lambda s: boxes(s, "NonMaxSuppressionV2", 0.5)],
    "nms-v5/third": [lambda s: boxes(s, "NonMaxSuppressionV3", 0.5, 0.1)],
    "nms-v5/fourth": [lambda s: boxes(s, "NonMaxSuppressionV4", 0.5, 0.1, pad_to_max_output_size=True)],
    "batch-norm-v3": [
        lambda s: s("FusedBatchNorm", "x", *(s.weights(3) for _ in range(3)), s("Abs", s.weights(3)), is_training=False)
    ],
    "identity-n/one": [lambda s: s("Neg", s("IdentityN", "x", T=["float32"]))],
    "identity-n/of-2": [lambda s: two(s, s("IdentityN", "x", s("Abs", "x"), T=["float32", "float32"]))],
}  # fmt: skip


GIVEN = [
    placeholder("x", "float32", (2, 4, 4, 3)), placeholder("m", "float32", (2, 3)),
    const("boxes", [[0, 0, 1, 1], [0, 0, 0.9, 1], [2, 2, 3, 3]]), const("scores", [0.5, 0.9, 0.3]),
]  # fmt: skip


def model() -> tuple[Builder, dict[str, list[str]]]:
    """All spellings side by side, and what each gives."""
    m = Builder(*GIVEN)
    ends: dict[str, list[str]] = {}
    for name, parts in SPELLINGS.items():
        for at, part in enumerate(parts):
            scope = f"{name}-{at}"
            ends.setdefault(name, []).append(m.node(f"{scope}/end", "Identity", [part(Spelling(m, scope))], **F))
    return m, ends


@pytest.mark.kernels
@pytest.mark.tensorflow
def test_each_page_is_the_same_in_another_spelling() -> None:
    m, _ = model()
    found = m.graph("book.pb")
    order = [name for name in BOOK if name not in ("relu6-as-min-max", "min-max-as-relu6")]
    rules = [rule for name in [*order, "min-max-as-relu6"] for rule in in_book(name)]
    result = rewrite(found, rules)
    done = {each["rule"] for each in result.facts["replaced"]}  # type: ignore[union-attr, index, call-overload]
    assert done >= SPELLINGS.keys() - {"relu6-as-min-max"}
    assert {rule.name for rule in rules} - done == {f"identity-n/of-{count}" for count in range(3, 9)}
    check_accounted(found, result, found.chunks())
    proof = gds.prove(found.pristine(), found, result)
    assert 0 < proof.largest_part < 1e-5
    assert {output.after for output in proof.outputs} >= {f"{name}-0/end" for name in SPELLINGS}
    assert not proof.skipped


def of_other_means(s: Spelling, op: str, axes: list[int], others: list[int], **attrs: object) -> str:
    """A norm whose mean and variance are over different axes, or lose these."""
    kept = {**KEEP, **attrs}
    mean = s("Mean", "x", axes, **kept)
    variance = s("Mean", s("SquaredDifference", "x", mean), others, **kept)
    return s(op, s("Sub", "x", mean), s("Sqrt", s("AddV2", variance, 1e-3)))


LOST = {"keep_dims": False, "Tidx": "int32"}
CONV = {"strides": [1, 1, 1, 1], "padding": "VALID"}
NEARLY: dict[str, list[Part]] = {
    "swish": [
        lambda s: s("Mul", "x", s("Sigmoid", s("Mul", 1.5, "x"))),
        lambda s: s("RealDiv", "x", s("AddV2", 1.001, s("Exp", s("Neg", "x")))),
        lambda s: s("RealDiv", s("Abs", "x"), s("AddV2", 1.0, s("Exp", s("Neg", "x")))),
    ],
    "hard-swish": [
        lambda s: s("RealDiv", s("Mul", s("Abs", "x"), s("Relu6", s("AddV2", "x", 3.0))), 6.0),
        lambda s: s("RealDiv", 6.0, s("Mul", "x", s("Relu6", s("AddV2", "x", 3.0)))),
        lambda s: s("Mul", s("Mul", "x", s("Relu6", s("AddV2", "x", 3.0))), 0.1667),
    ],
    "gelu": [
        lambda s: gelu(s, s("Erfc", s("Mul", s("Neg", "x"), 0.71))),
        lambda s: gelu(s, s("AddV2", 1.0, s("Erf", s("RealDiv", 2**0.5, "x")))),
        lambda s: s("Mul", 0.7978845608, s("AddV2", "x", s("Mul", 0.044715, s("Pow", "x", 2.0)))),
    ],
    "layer-norm": [
        lambda s: of_other_means(s, "RealDiv", [3], [2]), lambda s: of_other_means(s, "Mul", [3], [3]),
        lambda s: of_other_means(s, "RealDiv", [0], [0], **LOST), lambda s: norm(s, [1, 2]),
    ],
    "instance-norm": [lambda s: of_other_means(s, "RealDiv", [1, 2], [2, 1]), lambda s: norm(s, [3])],
    "rms-norm": [
        lambda s: s("RealDiv", "x", s("Sqrt", s("AddV2", s("Mean", s("Square", "x"), [0], **LOST), 1e-3))),
        lambda s: s("RealDiv", s("Abs", "x"), s("Sqrt", s("AddV2", s("Mean", s("Square", "x"), [3], **KEEP), 1e-3))),
        lambda s: s("RealDiv", "x", s("Sqrt", s("AddV2", s("Mean", s("Pow", "x", 3.0), [3], **KEEP), 1e-3))),
    ],
    "l2-norm": [
        lambda s: s("RealDiv", "x", s("Sqrt", s("Sum", s("Square", "x"), [0], **LOST))),
        lambda s: s("RealDiv", "x", s("Sqrt", s("Minimum", s("Sum", s("Square", "x"), [3], **KEEP), 1e-6))),
    ],
    "leaky-relu": [
        lambda s: s("Maximum", "x", s("Mul", 1.25, "x")), lambda s: s("Maximum", "x", s("Mul", -0.25, "x")),
        lambda s: s("Minimum", "x", s("Mul", 0.25, "x")), lambda s: s("Maximum", "x", s("Mul", 0.25, s("Neg", "x"))),
        lambda s: s("Sub", s("Relu", "x"), s("Mul", 0.25, s("Relu", "x"))),
        lambda s: s("Sub", s("Mul", 0.25, s("Relu", s("Neg", "x"))), s("Relu", "x")),
    ],
    "prelu": [
        lambda s: s("AddV2", s("Relu", "x"), s("Mul", s.weights(3), s("Relu", s("Neg", "x")))),
        lambda s: s("AddV2", s("Relu", "x"), s("Mul", s("Mul", s.weights(3), s("Sub", s("Abs", "x"), "x")), 0.5)),
    ],
    "relu6-as-min-max": [lambda s: s("Relu", "x")],
    "min-max-as-relu6": [
        lambda s: s("Minimum", s("Maximum", "x", 1.0), 6.0), lambda s: s("Minimum", s("Relu", "x"), 6.001),
        lambda s: s("Maximum", s("Maximum", "x", 0.0), 6.0),
    ],
    "conv-as-matmul": [
        lambda s: s("Conv2D", "x", s.weights(1, 1, 3, 2), strides=[1, 2, 2, 1], padding="SAME"),
        lambda s: s("Conv2D", "x", s.weights(1, 1, 4, 2), data_format="NCHW", **CONV),
        lambda s: s("Conv2D", "x", s.weights(1, 1, 3, 2), strides=[1, 1, 1, 1], padding="EXPLICIT",
                    explicit_paddings=[0, 0, 1, 1, 1, 1, 0, 0]),
        lambda s: s("Conv2D", "x", s.weights(1, 2, 3, 2), **CONV),
    ],
    "matmul-as-conv": [
        lambda s: s("MatMul", "m", s.weights(5, 3), transpose_b=True),
        lambda s: s("MatMul", "m", s.weights(2, 5), transpose_a=True),
        lambda s: s("MatMul", "m", s("Abs", s.weights(3, 5))),
    ],
    "nms-v3": [lambda s: boxes(s, "NonMaxSuppressionV3", 0.5, 0.1)],
    "nms-v5": [lambda s: boxes(s, "NonMaxSuppressionV2", 0.5)],
}  # fmt: skip


@pytest.mark.kernels
@pytest.mark.parametrize("page", NEARLY)
def test_what_is_only_nearly_so_stays(page: str) -> None:
    for at, part in enumerate(NEARLY[page]):
        m = Builder(*GIVEN)
        m.node("y", "Identity", [part(Spelling(m, "s"))], **F)
        assert [match.why for match in listed(m.graph(), in_book(page))] == [], at


@pytest.mark.kernels
def test_gaps_that_no_convolution_has_stay() -> None:
    def why(block: list[int], pads: list[list[int]], crops: list[list[int]]) -> str:
        m = Builder(*GIVEN)
        s = Spelling(m, "s")
        types = {"Tblock_shape": "int32"}
        space = s("SpaceToBatchND", "x", [2, 2], pads, Tpaddings="int32", **types)
        s("BatchToSpaceND", conv(s, space, s.weights(3, 3, 3, 2)), block, crops, Tcrops="int32", **types)
        (found,) = listed(m.graph(), in_book("atrous"))
        return found.why

    assert why([2, 2], [[2, 2], [2, 2]], [[0, 0], [0, 0]]) == ""
    check_error(why([2, 1], [[2, 2], [2, 2]], [[0, 0], [0, 0]]), "rule-leaves", {})
    check_error(why([2, 2], [[2, 2], [2, 2]], [[0, 0], [3, 0]]), "rule-leaves", {})


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
    nodes = [small, large, binary("y", "AddV2", "s", "l"), typed("Neg", "z", "y")]
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
    shaped = [typed("Reshape", f"y{c}", "x", c, Tshape=INT32) for c in "ab"]
    ends = [typed("Neg", f"z{c}", f"y{c}") for c in "ab"]
    ops, _ = done("Neg(Reshape($x, $to:const)) -> Reshape(Abs($x), $to)", x, *to, *shaped, *ends)
    assert (ops["za"], ops["zb"]) == ("Reshape", "Reshape")
    ops, left = done("Reshape($x, $to:const) -> $x", x, *to, *shaped, *ends)
    assert left == {"ya": other("ya", (3, 2), (2, 3))}
    assert "yb" not in ops


def swish(shape: tuple[int, ...] | None, constant: str) -> list[bytes]:
    """The first spelling of the book, twice: of x times a CONSTANT, and of x times 1."""
    nodes = [placeholder("x", shape=shape), ONE, WIDE]
    for name, factor in (("a", constant), ("b", "one")):
        nodes += [binary(f"{name}m", "Mul", factor, "x"), typed("Sigmoid", f"{name}s", f"{name}m")]
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
    nodes += [typed("Conv2D", n, x, "w", strides=strides, padding="SAME") for n, x in (("a", "x"), ("b", "z"))]
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


@pytest.mark.tensorflow
def test_the_rules_for_fused_padding() -> None:
    page = Path(__file__).parents[2].joinpath("docs/recipes/from-graph-transforms.md").read_text()
    rules = rules_in_text(re.findall(r"^(?:resized|padded): .*$", page, re.MULTILINE), "page")
    resized = node("r", "ResizeBilinear", ["x", "size"], **F, align_corners=True)
    found, result = rewritten(
        rules, placeholder("x", FLOAT, (1, 4, 5, 3)), const("size", [9, 8], INT32), resized,
        *mirrored("a", "r", "REFLECT"),
        *mirrored("b", "a", "SYMMETRIC"),
    )  # fmt: skip
    assert [found[name].op for name in "ab"] == ["FusedResizeAndPadConv2D", "FusedPadConv2D"]
    assert {output.after for output in prove(found.pristine(), found, result).compared} == {"a", "b"}


def mirrored(name: str, source: str, mode: str) -> list[bytes]:
    pads = const(f"{name}/pads", [0, 0, 1, 2, 1, 0, 0, 0], INT32, (4, 2))
    pad = node(f"{name}/pad", "MirrorPad", [source, f"{name}/pads"], **F, Tpaddings="int32", mode=mode)
    return [pads, pad, *folding.conv(name, f"{name}/pad", (3, 3, 3, 3), padding="VALID", strides=(1, 2, 2, 1))]
