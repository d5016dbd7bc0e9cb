"""Resizing about the middle of pixels, for releases that know their corners alone: the arithmetic of the kernels.

Which pixels are read, and with which weights, is computed as resize_bilinear_op.cc and image_resizer_state.h do it
(HalfPixelScaler, compute_interpolation_weights, compute_lerp), operation by operation, in float32.
"""

from __future__ import annotations

from typing import NamedTuple

from gdsurgeon.edits.older.broadcasting import shape_of
from gdsurgeon.edits.older.site import Rule, Site, typed
from gdsurgeon.errors import Remark
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT32, INT32

_KEYS = ("align_corners", "half_pixel_centers")
_HEIGHT, _WIDTH = 1, 2


class _Axis(NamedTuple):
    """One of both axes of images.

    Attributes:
        at: which it is.
        scope: for names.
        size: how many pixels there are, a scalar of int32.
        middles: where the middle of each new pixel is among those that there are: a vector of float32, in pixels
            behind the outer edge of the first.
    """

    at: int
    scope: str
    size: Output
    middles: Output


def _bilinear(site: Site) -> str | None:
    """Four pixels, weighted by how near they are: first along rows, then along columns."""
    if not site.node.setting("half_pixel_centers"):
        return None
    images = site.node.inputs[0]
    if site.dtype(0) != FLOAT32:
        images = site.add("as_float", "Cast", [images], **typed(SrcT=site.dtype(0), DstT=FLOAT32))
    rows, columns = _axes(site)
    left, apart = _neighbours(site, images, columns)
    along = site.add("width/mixed", "Add", [left, apart], **typed(T=FLOAT32))
    above, apart = _neighbours(site, along, rows)
    return site.become("Add", [above, apart], drop=_KEYS, attrs=typed(T=FLOAT32))


def _neighbours(site: Site, images: Output, axis: _Axis) -> tuple[Output, Output]:
    """Along an axis, for each new pixel: the one before it, and what is to be added to that."""

    def add(name: str, op: str, *inputs: Output) -> Output:
        return site.add(f"{axis.scope}/{name}", op, inputs, **typed(T=FLOAT32))

    centres = add("centres", "Sub", axis.middles, site.const(f"{axis.scope}/half_again", FLOAT32, 0.5))
    floors = add("floors", "Floor", centres)
    first = site.ints(f"{axis.scope}/first", 0)
    whole = _whole(site, axis, "floors_whole", floors)
    before = site.add(f"{axis.scope}/before", "Maximum", [whole, first], **typed(T=INT32))
    ceilings = _whole(site, axis, "ceilings_whole", add("ceilings", "Ceil", centres))
    behind = site.add(f"{axis.scope}/behind", "Minimum", [ceilings, _last(site, axis)], **typed(T=INT32))
    one, other = (_gathered(site, axis, name, images, places)
                  for name, places in (("one", before), ("other", behind)))  # fmt: skip
    weights = site.add(
        f"{axis.scope}/weights",
        "Reshape",
        [add("parts", "Sub", centres, floors), site.ints(f"{axis.scope}/dims", [-1] + [1] * (3 - axis.at))],
        **typed(T=FLOAT32, Tshape=INT32),
    )
    return one, add("weighted", "Mul", add("apart", "Sub", other, one), weights)


def _nearest(site: Site) -> str | None:
    """The pixel in which the middle of the new one lies."""
    if not site.node.setting("half_pixel_centers"):
        return None
    rows, columns = _axes(site)
    chosen = []
    for axis in (rows, columns):
        floors = site.add(f"{axis.scope}/floors", "Floor", [axis.middles], **typed(T=FLOAT32))
        inputs = [_whole(site, axis, "floors_whole", floors), _last(site, axis)]
        chosen.append(site.add(f"{axis.scope}/in", "Minimum", inputs, **typed(T=INT32)))
    images = _gathered(site, rows, "chosen", site.node.inputs[0], chosen[0])
    dtypes = typed(Tparams=site.dtype(0), Tindices=INT32, Taxis=INT32)
    inputs = [images, chosen[1], site.ints("width/axis", _WIDTH)]
    return site.become("GatherV2", inputs, drop=(*_KEYS, "T"), attrs=dtypes)


def _axes(site: Site) -> list[_Axis]:
    shape = shape_of(site, site.node.inputs[0], "shape")
    return [_axis(site, shape, at, scope) for at, scope in ((_HEIGHT, "height"), (_WIDTH, "width"))]


def _axis(site: Site, shape: Output, at: int, scope: str) -> _Axis:
    def scalar(name: str, source: Output, place: int) -> Output:
        bounds = [site.ints(f"{scope}/{name}/begin", [place]), site.ints(f"{scope}/{name}/count", [1])]
        part = site.add(f"{scope}/{name}/part", "Slice", [source, *bounds], **typed(T=INT32, Index=INT32))
        return site.add(f"{scope}/{name}", "Squeeze", [part], **typed(T=INT32))

    def as_float(name: str, given: Output) -> Output:
        return site.add(f"{scope}/{name}", "Cast", [given], **typed(SrcT=INT32, DstT=FLOAT32))

    there, wanted = scalar("there", shape, at), scalar("wanted", site.node.inputs[1], at - _HEIGHT)
    sizes = [as_float("there_float", there), as_float("wanted_float", wanted)]
    scale = site.add(f"{scope}/scale", "RealDiv", sizes, **typed(T=FLOAT32))
    ends = [site.ints(f"{scope}/from", 0), wanted, site.ints(f"{scope}/by", 1)]
    places = as_float("places_float", site.add(f"{scope}/places", "Range", ends, **typed(Tidx=INT32)))
    half = site.const(f"{scope}/half", FLOAT32, 0.5)
    own = site.add(f"{scope}/own_middles", "Add", [places, half], **typed(T=FLOAT32))
    return _Axis(at, scope, there, site.add(f"{scope}/middles", "Mul", [own, scale], **typed(T=FLOAT32)))


def _whole(site: Site, axis: _Axis, name: str, floats: Output) -> Output:
    return site.add(f"{axis.scope}/{name}", "Cast", [floats], **typed(SrcT=FLOAT32, DstT=INT32))


def _last(site: Site, axis: _Axis) -> Output:
    inputs = [axis.size, site.ints(f"{axis.scope}/one", 1)]
    return site.add(f"{axis.scope}/last", "Sub", inputs, **typed(T=INT32))


def _gathered(site: Site, axis: _Axis, name: str, images: Output, places: Output) -> Output:
    inputs = [images, places, site.ints(f"{axis.scope}/{name}/axis", axis.at)]
    dtypes = typed(Tparams=images.dtype, Tindices=INT32, Taxis=INT32)
    return site.add(f"{axis.scope}/{name}", "GatherV2", inputs, **dtypes)


def _bicubic(site: Site) -> str | None:
    if not site.node.setting("half_pixel_centers"):
        return None
    return Remark(
        "half_pixel_centers uses different weights (A is -0.5): use ResizeBilinear, which has an older equivalent",
        "half-pixel-centers",
    )


_HALF = "without half_pixel_centers"
RULES = (
    Rule("ResizeBilinear", "the sum of four pixels", "finite pixels", _bilinear, finite=0),
    Rule("ResizeNearestNeighbor", "GatherV2 of rows and columns", "", _nearest),
    Rule("ResizeBicubic", _HALF, "half_pixel_centers is false", _bicubic),
)
