"""Paddings that an op says itself, for releases in which it says none but SAME and VALID: a Pad in front of it."""

from __future__ import annotations

from gdsurgeon.edits.older.kernels import grouped
from gdsurgeon.edits.older.site import ROUNDING, Rule, Site, typed
from gdsurgeon.errors import Remark
from gdsurgeon.graph.attrs import string_value
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import DTYPES, INT32, dtype_name

_KEY = "explicit_paddings"


def _convolution(site: Site) -> str | None:
    """Around the input there are zeros, as there are when a convolution pads."""
    definition = site.release.op_def(site.node.op)
    is_known = definition is not None and _KEY in definition.attrs
    if is_known or site.node.text_attr("padding") != "EXPLICIT":
        done = grouped(site) if site.node.op == "Conv2D" else None
        return _dilated(site) if done is None else done
    amounts = _amounts(site)
    padded = site.add("padded", "Pad", [site.node.inputs[0], amounts], **typed(T=site.dtype(0), Tpaddings=INT32))
    return _valid(site, padded)


def _dilated(site: Site) -> str | None:
    """Why a convolution with holes between its weights has no older form where these are not said."""
    definition = site.release.op_def(site.node.op)
    is_said = definition is not None and "dilations" in definition.attrs
    if is_said or set(site.node.ints_attr("dilations")) <= {1}:
        return None
    return Remark("it has dilations: use SpaceToBatchND before it and BatchToSpaceND after it instead", "has-dilations")


def _largest(site: Site) -> str | None:
    """Around the input there is the least number, which is larger than none."""
    if site.node.text_attr("padding") != "EXPLICIT":
        return None
    dtype = DTYPES.get(site.dtype(0))
    if dtype is None or not dtype.code:
        return Remark(
            f"it is {dtype_name(site.dtype(0))}, whose smallest value is unknown: add a Cast before it",
            "unsupported-dtype",
            dtype=dtype_name(site.dtype(0)),
        )
    amounts = _amounts(site)
    least = site.const("least", dtype, float("-inf") if dtype.is_float else dtype.bounds[0])
    dtypes = typed(T=dtype, Tpaddings=INT32)
    return _valid(site, site.add("padded", "PadV2", [site.node.inputs[0], amounts, least], **dtypes))


def _amounts(site: Site) -> Output:
    """What is added in front of and behind each dim."""
    amounts = site.node.ints_attr(_KEY)
    return site.const("paddings", INT32, amounts, (len(amounts) // 2, 2))


def _valid(site: Site, padded: Output) -> str:
    """Makes the node one that pads nothing, and reads what is PADDED."""
    inputs = [padded, *site.node.inputs[1:]]
    return site.become(site.node.op, inputs, drop=(_KEY,), attrs={"padding": string_value("VALID")})


RULES = (
    Rule("Conv2D", "Pad and Conv2D, one for each group", "", _convolution, ROUNDING),
    Rule(
        "DepthwiseConv2dNative",
        "Pad and DepthwiseConv2dNative",
        "",
        _convolution,
        ROUNDING,
    ),
    Rule("MaxPool", "PadV2 and MaxPool", "no NaN", _largest),
)
