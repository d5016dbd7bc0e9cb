"""Where rules come from: a text, a file of lines, or the catalog of built-in rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from gdsurgeon.errors import InputError, UsageError, printable, quoted, reason
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.patterns.parse import rule_of
from gdsurgeon.patterns.terms import Dim, Maker, Match, Rule, constant_node
from gdsurgeon.text import nearest, suggestion

_NAMED = re.compile(r"\s*([A-Za-z][\w-]*)\s*:(?!\d)")


def rules_in_text(lines: Sequence[str], called: str, *, only_patterns: bool = False) -> list[Rule]:
    """Returns the rules in `lines`: one rule per line, with an optional name and colon before it; comments begin with
    ``#``.

    Raises:
        UsageError: a line is not a rule, or the text has no rule; the message gives a line as ``FILE:LINE:COLUMN``.
    """
    out: list[Rule] = []
    names: set[str] = set()
    for number, line in enumerate(lines, 1):
        text = _without_comment(line)
        if not text.strip():
            continue
        place = f"{printable(called)}:{number}:"
        found = _NAMED.match(text)
        name = found[1] if found is not None else f"rule {number}"
        if name in names:
            raise UsageError(f"{place}1: a rule {quoted(name)} exists already", code="bad-rule")
        names.add(name)
        body = text if found is None else " " * found.end() + text[found.end() :]
        out.append(rule_of(body, name=name, place=place, only_pattern=only_patterns))
    if not out:
        raise UsageError(f"{printable(called)} has no rule", code="bad-rule")
    return out


def _without_comment(line: str) -> str:
    """Returns a line up to a ``#`` outside of quotes."""
    at, is_text = 0, False
    for at, character in enumerate(line):
        if character == '"':
            is_text = not is_text
        elif character == "#" and not is_text:
            return line[:at]
    return line


class Page(NamedTuple):
    """Rules of the catalog.

    Attributes:
        summary: a line that describes the rules.
        lines: the rules, as in a file.
        makers: functions that return the replacement, by the name of their rule.
        alike: dims that must be known and equal.
    """

    summary: str
    lines: str
    makers: Mapping[str, Maker] = {}
    alike: tuple[tuple[Dim, Dim], ...] = ()


def in_book(name: str) -> list[Rule]:
    """Returns the rules of a page. Raises UsageError if there is no such page."""
    page = BOOK.get(name)
    if page is None:
        near = nearest(name, BOOK)
        what = f"the built-in rule {quoted(name)} does not exist; choose one of {', '.join(BOOK)}.{suggestion(near)}"
        raise UsageError(what, code="no-such-rule", name=name, near=near)
    rules = rules_in_text(page.lines.strip().splitlines(), f"builtin:{name}", only_patterns=True)
    known = partial(replace, keeps_shapes=True, alike=page.alike)
    found = [known(rule, make=page.makers.get(rule.name)) for rule in rules]
    return [replace(found[0], name=name)] if len(found) == 1 else [replace(r, name=f"{name}/{r.name}") for r in found]


# -- rules that need to compute ---------------------------------------------------------------------------------


def _dilated(match: Match) -> str | None:
    """Returns a convolution with dilations instead of SpaceToBatchND; padding that is not cropped stays."""
    block, other, pads, crops = (match.value(name) for name in ("block", "other", "pads", "crops"))
    if block is None or other is None or pads is None or crops is None:
        return None
    if block.values != other.values or len(block.values) != 2 or len(pads.values) != 4 or len(crops.values) != 4:
        return None
    numbers = [int(value) for value in (*block.values, *pads.values, *crops.values)]
    rates, padded, cropped = numbers[:2], numbers[2:6], numbers[6:]
    left = [pad - crop for pad, crop in zip(padded, cropped, strict=True)]
    if min(left) < 0:
        return None
    dilations = f"dilations=[1,{rates[0]},{rates[1]},1]"
    if not any(left):
        return f'c{{padding="VALID", {dilations}}}($x, $w)'
    if left == _of_same(match, rates):
        return f'c{{padding="SAME", {dilations}}}($x, $w)'
    pads_text = f"[[0,0],[{left[0]},{left[1]}],[{left[2]},{left[3]}],[0,0]]"
    return f'c{{padding="VALID", {dilations}}}(Pad($x, {pads_text}), $w)'


def _of_same(match: Match, rates: list[int]) -> list[int] | None:
    """Returns the padding of ``SAME`` for the filter: top, bottom, left, right; None if its shape is unknown."""
    node = constant_node(match.tensors["w"])
    header = None if node is None else constant_header(node)
    if header is None or header.dims is None or len(header.dims) != 4:
        return None
    totals = [rate * (size - 1) for rate, size in zip(rates, header.dims, strict=False)]
    return [part for total in totals for part in (total // 2, total - total // 2)]


def _nms_of_attr(match: Match) -> str:
    """Returns the replacement for the first version of the op, which has the IoU threshold as an attr."""
    threshold = attr_value(match.attrs["iou"]).f
    return f"NonMaxSuppressionV3($boxes, $scores, $most, {threshold!r}, -inf)"


def _identities() -> str:
    """Returns a rule for each number of inputs."""
    lines = ["one: IdentityN($a) -> Identity($a)"]
    for count in range(2, 9):
        inputs = [f"${letter}" for letter in "abcdefgh"[:count]]
        results = ", ".join(["n=IdentityN(" + ", ".join(inputs) + ")", *(f"n:{i}" for i in range(1, count))])
        lines.append(f"of-{count}: ({results}) -> ({', '.join(inputs)})")
    return "\n".join(lines)


_MEAN = "Mean{keep_dims=true}"
_VARIANCE = f"{_MEAN}(SquaredDifference($x, StopGradient?(m)), AXES)"
_NORM = f"Sub($x, m={_MEAN}($x, AXES)), Sqrt(Add|AddV2({_VARIANCE}, $eps:scalar))"
_NORMED = f"Mul(Sub($x, m), Rsqrt(AddV2({_MEAN}(SquaredDifference($x, m), $axes), $eps)))"
_GELU = "Mul(Mul(0.5, $x), AddV2(1, Erf(Mul($x, 0.7071067811865476))))"
_HARD = "Mul($x, Mul(Relu6(AddV2($x, 3)), 0.16666666666666666))"
_BN = "$x, $scale, $offset, $mean, $variance"

BOOK: dict[str, Page] = {
    "swish": Page(
        "x * Sigmoid(x) in one standard form",
        """
        of-product: Mul($x, Sigmoid(Mul(1, $x))) -> Mul($x, Sigmoid($x))
        quotient: RealDiv($x, Add|AddV2(1, Exp(Neg($x)))) -> Mul($x, Sigmoid($x))
        of-identity-n: IdentityN(Mul($x, Sigmoid($x)), $x) -> Mul($x, Sigmoid($x))
        """,
    ),
    "hard-swish": Page(
        "x * Relu6(x + 3) / 6 with a product instead of the quotient",
        f"""
        inner: Mul($x, RealDiv(Relu6(Add|AddV2($x, 3)), 6)) -> {_HARD}
        outer: RealDiv(Mul($x, Relu6(Add|AddV2($x, 3))), 6) -> {_HARD}
        product: Mul(Mul($x, Relu6(Add|AddV2($x, 3))), 0.16666667) -> {_HARD}
        """,
    ),
    "gelu": Page(
        "GELU by Erf instead of Erfc or a quotient; GELU by Tanh with the cube as products",
        f"""
        erfc: Mul(Mul(0.5, $x), Erfc(Mul(Neg($x), 0.70710678))) -> {_GELU}
        erfc-quotient: Mul(Mul(0.5, $x), Erfc(RealDiv(Neg($x), 1.41421356))) -> {_GELU}
        erf-quotient: Mul(Mul(0.5, $x), Add|AddV2(1, Erf(RealDiv($x, 1.41421356)))) -> {_GELU}
        tanh: Mul(0.79788456, Add|AddV2($x, Mul(0.044715, Pow($x, 3)))) -> \
Mul(0.7978845608028654, AddV2($x, Mul(0.044715, Mul($x, Mul($x, $x)))))
        """,
    ),
    "layer-norm": Page(
        "layer normalization with Rsqrt, as converters expect it",
        f"RealDiv({_NORM.replace('AXES', '$axes:scalar')}) -> {_NORMED}",
    ),
    "instance-norm": Page(
        "instance normalization over height and width with Rsqrt",
        f"RealDiv({_NORM.replace('AXES', '$axes:[2]')}) -> {_NORMED}",
    ),
    "rms-norm": Page(
        "x / Sqrt(mean of squares + epsilon) with Rsqrt",
        f"""
        square: RealDiv($x, Sqrt(Add|AddV2({_MEAN}(Square($x), $axes:const), $eps:scalar))) -> \
Mul($x, Rsqrt(AddV2({_MEAN}(Square($x), $axes), $eps)))
        product: RealDiv($x, Sqrt(Add|AddV2({_MEAN}(Mul($x, $x), $axes:const), $eps:scalar))) -> \
Mul($x, Rsqrt(AddV2({_MEAN}(Square($x), $axes), $eps)))
        power: RealDiv($x, Sqrt(Add|AddV2({_MEAN}(Pow($x, 2), $axes:const), $eps:scalar))) -> \
Mul($x, Rsqrt(AddV2({_MEAN}(Square($x), $axes), $eps)))
        """,
    ),
    "l2-norm": Page(
        "x / Sqrt(sum of squares) with Rsqrt",
        """
        plain: RealDiv($x, Sqrt(Sum{keep_dims=true}(Square($x), $axes:const))) -> \
Mul($x, Rsqrt(Sum{keep_dims=true}(Square($x), $axes)))
        bounded: RealDiv($x, Sqrt(Maximum(Sum{keep_dims=true}(Square($x), $axes:const), $eps:scalar))) -> \
Mul($x, Rsqrt(Maximum(Sum{keep_dims=true}(Square($x), $axes), $eps)))
        """,
    ),
    "leaky-relu": Page(
        "LeakyRelu instead of Maximum or of two Relus",
        """
        maximum: Maximum($x, Mul($alpha:0..1, $x)) -> LeakyRelu{alpha=$alpha}($x)
        difference: Sub(Relu($x), Mul($alpha:scalar, Relu(Neg($x)))) -> LeakyRelu{alpha=$alpha}($x)
        """,
    ),
    "prelu": Page(
        "PRelu by Relu and Minimum, without negations and absolute values",
        """
        negated: Add|AddV2(Relu($x), Mul(Neg($alpha:const), Relu(Neg($x)))) -> \
AddV2(Relu($x), Mul($alpha, Minimum($x, 0)))
        negative: Add|AddV2(Relu($x), Mul($alpha:const, Neg(Relu(Neg($x))))) -> \
AddV2(Relu($x), Mul($alpha, Minimum($x, 0)))
        absolute: Add|AddV2(Relu($x), Mul(Mul($alpha:const, Sub($x, Abs($x))), 0.5)) -> \
AddV2(Relu($x), Mul($alpha, Minimum($x, 0)))
        """,
    ),
    "relu6-as-min-max": Page("Relu6 by Minimum and Maximum", "Relu6($x) -> Minimum(Maximum($x, 0), 6)"),
    "min-max-as-relu6": Page(
        "Relu6 instead of Minimum and Maximum",
        """
        outer: Minimum(Maximum($x, 0), 6) -> Relu6($x)
        inner: Maximum(Minimum($x, 6), 0) -> Relu6($x)
        relu: Minimum(Relu($x), 6) -> Relu6($x)
        """,
    ),
    "atrous": Page(
        "dilations instead of SpaceToBatchND and BatchToSpaceND around a convolution",
        """
        BatchToSpaceND(c=Conv2D{padding="VALID", strides=[1,1,1,1], data_format="NHWC", dilations=[1,1,1,1]}\
(SpaceToBatchND($x, $block:const, $pads:const), $w), $other:const, $crops:const)
        """,
        {"rule 1": _dilated},
    ),
    "conv-as-matmul": Page(
        "1x1 convolutions as matrix products",
        'Conv2D{strides=[1,1,1,1], data_format="NHWC", padding!="EXPLICIT"}($x, $w:[1,1,?,?]) -> BatchMatMulV2($x, $w)',
        alike=((("x", 3), ("w", 2)),),  # else it may be one of groups
    ),
    "matmul-as-conv": Page(
        "products with a constant matrix as 1x1 convolutions",
        """
        MatMul{transpose_a=false, transpose_b=false}($x, $w:[?,?]) -> \
Squeeze{squeeze_dims=[1,2]}(Conv2D{strides=[1,1,1,1], padding="VALID"}(\
ExpandDims(ExpandDims($x, 1), 1), ExpandDims(ExpandDims($w, 0), 0)))
        """,
    ),
    "nms-v3": Page(
        "NonMaxSuppression and V2 as V3",
        """
        first: NonMaxSuppression{iou_threshold=$iou}($boxes, $scores, $most)
        second: NonMaxSuppressionV2($boxes, $scores, $most, $iou) -> \
NonMaxSuppressionV3($boxes, $scores, $most, $iou, -inf)
        """,
        {"first": _nms_of_attr},
    ),
    "nms-v5": Page(
        "NonMaxSuppressionV3 and V4 as V5",
        """
        third: NonMaxSuppressionV3($boxes, $scores, $most, $iou, $least) -> \
NonMaxSuppressionV5($boxes, $scores, $most, $iou, $least, 0)
        fourth: (n=NonMaxSuppressionV4($boxes, $scores, $most, $iou, $least), n:1) -> \
(m=NonMaxSuppressionV5{=n}($boxes, $scores, $most, $iou, $least, 0), m:2)
        """,
    ),
    "batch-norm-v3": Page(
        "FusedBatchNorm and V2 as V3",
        f"""
        (n=FusedBatchNorm|FusedBatchNormV2({_BN}), n:1, n:2, n:3, n:4) -> \
(b=FusedBatchNormV3{{=n}}({_BN}), b:1, b:2, b:3, b:4)
        """,
    ),
    "identity-n": Page("Identity instead of IdentityN", _identities()),
}
"""The pages by name."""


BUILTIN = "builtin:"
_LINE_END = re.compile(r"\r\n|\r|\n")
"""The line ends of editors; str.splitlines also splits at characters that quotes and comments may contain."""
LARGEST_FILE = 1 << 20
"""The largest size of a file of rules in bytes."""


def rules_in(source: str, *, only_patterns: bool = False) -> list[Rule]:
    """Returns the rules of a source: ``builtin:NAME``, or the path of a file with one rule per line.

    Args:
        source: the source.
        only_patterns: whether patterns without replacement are allowed.

    Raises:
        InputError: the file does not exist, or is not text.
        UsageError: the catalog has no such rule, a line is not a rule, or the text has no rule; the message gives a
            line as ``FILE:LINE:COLUMN``.
    """
    if source.startswith(BUILTIN):
        return in_book(source.removeprefix(BUILTIN))
    try:
        with open(source, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(
            f"{printable(source)} cannot be opened: {reason(error)}", code="unreadable", file=source
        ) from error
    if len(data) > LARGEST_FILE:
        what = f"is too long for a file of rules; the limit is {LARGEST_FILE:,} bytes"
        raise InputError(f"{printable(source)} {what}", code="too-large", file=source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{printable(source)} is not text", code="not-text", file=source) from None
    return rules_in_text(_LINE_END.split(text), source, only_patterns=only_patterns)
