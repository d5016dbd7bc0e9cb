"""The book of rules: each page on a graph that is spelt so, all of them proven in one run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.desk import check_error
from support.graphs import Builder

import gdsurgeon as gds
from gdsurgeon.edits.rewrite import listed, rewrite
from gdsurgeon.patterns.catalog import BOOK, in_book
from gdsurgeon.proof.accounting import check_accounted

pytestmark = pytest.mark.kernels

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


def model() -> tuple[Builder, dict[str, list[str]]]:
    """All spellings side by side, and what each gives."""
    m = Builder()
    m.placeholder("x", "float32", (2, 4, 4, 3))
    m.placeholder("m", "float32", (2, 3))
    m.const("boxes", [[0, 0, 1, 1], [0, 0, 0.9, 1], [2, 2, 3, 3]])
    m.const("scores", [0.5, 0.9, 0.3])
    ends: dict[str, list[str]] = {}
    for name, parts in SPELLINGS.items():
        for at, part in enumerate(parts):
            scope = f"{name}-{at}"
            ends.setdefault(name, []).append(m.node(f"{scope}/end", "Identity", [part(Spelling(m, scope))], **F))
    return m, ends


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


@pytest.mark.parametrize("page", NEARLY)
def test_what_is_only_nearly_so_stays(page: str) -> None:
    for at, part in enumerate(NEARLY[page]):
        m = Builder()
        m.placeholder("x", "float32", (2, 4, 4, 3))
        m.placeholder("m", "float32", (2, 3))
        m.const("boxes", [[0, 0, 1, 1]])
        m.const("scores", [0.5])
        m.node("y", "Identity", [part(Spelling(m, "s"))], **F)
        assert [match.why for match in listed(m.graph(), in_book(page))] == [], at


def test_gaps_that_no_convolution_has_stay() -> None:
    def why(block: list[int], pads: list[list[int]], crops: list[list[int]]) -> str:
        m = Builder()
        m.placeholder("x", "float32", (2, 4, 4, 3))
        s = Spelling(m, "s")
        types = {"Tblock_shape": "int32"}
        space = s("SpaceToBatchND", "x", [2, 2], pads, Tpaddings="int32", **types)
        s("BatchToSpaceND", conv(s, space, s.weights(3, 3, 3, 2)), block, crops, Tcrops="int32", **types)
        (found,) = listed(m.graph(), in_book("atrous"))
        return found.why

    assert why([2, 2], [[2, 2], [2, 2]], [[0, 0], [0, 0]]) == ""
    check_error(why([2, 1], [[2, 2], [2, 2]], [[0, 0], [0, 0]]), "rule-leaves", {})
    check_error(why([2, 2], [[2, 2], [2, 2]], [[0, 0], [3, 0]]), "rule-leaves", {})
