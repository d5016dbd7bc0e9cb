"""Einsum as a product of matrices: what TensorFlow's kernel makes of it, too."""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.edits.older.site import Rule, Site, typed
from gdsurgeon.errors import Remark
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import INT32

_HELP = "use Transpose, Reshape and BatchMatMul instead"


class _Labels(NamedTuple):
    """The labels of an equation: of both operands and the result; those that all have, and one for each of the rest."""

    a: str
    b: str
    result: str
    batch: str
    left: str
    right: str
    summed: str


def _labels(equation: str) -> _Labels | None:
    """What EQUATION says, where it is a product of matrices; else None."""
    operands, arrow, result = equation.partition("->")
    a, comma, b = operands.partition(",")
    whole = a + b + result
    if not arrow or not comma or "," in b or not whole.isalpha():
        return None
    if any(len(set(labels)) < len(labels) for labels in (a, b, result)) or set(result) - {*a, *b}:
        return None
    batch = "".join(label for label in result if label in a and label in b)
    left, right = ("".join(x for x in one if x not in other) for one, other in ((a, b), (b, a)))
    summed = "".join(label for label in a if label in b and label not in result)
    is_product = len(left) == len(right) == len(summed) == 1 and {*left, *right} <= {*result}
    return _Labels(a, b, result, batch, left, right, summed) if is_product else None


def _einsum(site: Site) -> str:
    equation = site.node.text_attr("equation")
    labels = _labels(equation)
    if labels is None:
        return Remark(f"{equation} is not a matrix product: {_HELP}", "not-a-product", equation=equation)
    dtype = site.dtype(0)
    a = _transposed(site, "a", site.node.inputs[0], labels.a, labels.batch + labels.left + labels.summed)
    b = _transposed(site, "b", site.node.inputs[1], labels.b, labels.batch + labels.summed + labels.right)
    product = site.add("product", "BatchMatMul", [a, b], **typed(T=dtype))
    order = _order(labels.batch + labels.left + labels.right, labels.result)
    inputs = [product, site.ints("order", order)]
    return site.become("Transpose", inputs, drop=("equation", "N"), attrs=typed(T=dtype, Tperm=INT32))


def _transposed(site: Site, name: str, read: Output, labels: str, wanted: str) -> Output:
    """A tensor with dims LABELS, with these in the order WANTED."""
    if labels == wanted:
        return read
    order = site.ints(f"{name}/order", _order(labels, wanted))
    return site.add(f"{name}/transposed", "Transpose", [read, order], **typed(T=site.dtype(0), Tperm=INT32))


def _order(labels: str, wanted: str) -> list[int]:
    return [labels.index(label) for label in wanted]


RULES = (
    Rule(
        "Einsum", "Transpose and BatchMatMul", "one label is summed, and each operand has one label of its own", _einsum
    ),
)
