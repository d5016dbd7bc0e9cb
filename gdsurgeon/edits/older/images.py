"""Ops of images and of detection."""

from __future__ import annotations

from gdsurgeon.edits.older.broadcasting import shape_of
from gdsurgeon.edits.older.site import Rule, Site, typed
from gdsurgeon.errors import Remark
from gdsurgeon.ops.dtypes import BOOL, FLOAT32, INT32, INT64, base_dtype, dtype_name

_MORE = ("pad_to_max_output_size",)


def _nms(site: Site) -> str:
    """NonMaxSuppressionV4 and V5 where they do what V3 does."""
    if site.node.setting("pad_to_max_output_size"):
        return Remark("it pads its output: remove pad_to_max_output_size and add a Pad after it", "pads-output")
    inputs = site.node.inputs
    if site.dtype(3) != FLOAT32:
        found = dtype_name(site.dtype(3))
        return Remark(
            f"its thresholds are {found}, but NonMaxSuppressionV3 expects float32", "dtype-mismatch", found=found
        )
    if len(inputs) > 5:
        sigma = site.value(5)
        if sigma is None or sigma.values != [0.0]:
            return Remark("it changes scores (soft_nms_sigma is not a constant 0)", "lowers-scores")
    if (site.reads() | site.returns()) - {0}:
        return Remark(
            "not only its first output is used: compute the scores with GatherV2 and the count with Size",
            "output-read",
        )
    return site.become("NonMaxSuppressionV3", inputs[:5], drop=_MORE)


def _nms_v3(site: Site) -> str:
    """The boxes of V2, without those whose score is not above the threshold: they are made the last, NaN ones, too."""
    site.note(
        "NonMaxSuppressionV2 treats boxes with infinite or NaN coordinates differently; for finite boxes it "
        "selects the same boxes"
    )
    boxes, scores, most, overlap, threshold = site.node.inputs
    dtype = base_dtype(scores.dtype)
    kept = {key: value for key, value in site.node.attrs() if key in ("T", "T_threshold")}
    above = site.add("above", "Greater", [scores, threshold], **typed(T=dtype))
    lowest = [shape_of(site, scores, "shape"), site.const("lowest", dtype, float("-inf"))]
    masked = [above, scores, site.add("low", "Fill", lowest, **typed(T=dtype))]
    rated = site.add("scores", "Select", masked, **typed(T=dtype))
    chosen = site.add("chosen", "NonMaxSuppressionV2", [boxes, rated, most, overlap], **kept)
    axis = site.ints("axis", 0)
    dtypes = typed(Tparams=BOOL, Tindices=INT32, Taxis=INT32)
    meant = site.add("meant", "GatherV2", [above, chosen, axis], **dtypes)
    rows = site.add("rows", "Where", [meant], **typed(T=BOOL))
    flat = site.add("flat", "Reshape", [rows, site.ints("vector", [-1])], **typed(T=INT64, Tshape=INT32))
    dtypes = typed(Tparams=INT32, Tindices=INT64, Taxis=INT32)
    return site.become("GatherV2", [chosen, flat, axis], drop=("T", "T_threshold"), attrs=dtypes)


RULES = (
    Rule(
        "NonMaxSuppressionV5",
        "NonMaxSuppressionV3",
        "soft_nms_sigma 0, no padding, only output 0 is used, thresholds are float32",
        _nms,
    ),
    Rule(
        "NonMaxSuppressionV4", "NonMaxSuppressionV3", "no padding, only output 0 is used, thresholds are float32", _nms
    ),
    Rule(
        "NonMaxSuppressionV3", "NonMaxSuppressionV2, then those above the threshold", "finite boxes", _nms_v3, finite=0
    ),
)
