"""The older forms of ops, as rules: each replaces a node by older ops that compute the same values."""

from __future__ import annotations

import re

from gdsurgeon.analysis.queries.compatibility import groups
from gdsurgeon.edits.downgrade.candidate import ROUNDING, Candidate, Rule
from gdsurgeon.errors import Remark
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.constants import Constant
from gdsurgeon.ops.dtypes import DTYPES, FLOAT32, INT32, dtype_name
from gdsurgeon.ops.kinds import CALLS, CASES, IFS, WHILES

HARMLESS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(IFS | CASES, ("output_shapes",)),
    **dict.fromkeys(WHILES, ("output_shapes", "parallel_iterations")),
    **dict.fromkeys(CALLS, ("config", "config_proto", "executor_type")),
    "VarHandleOp": ("debug_name",),
}
"""Attrs that state shapes, or how something is run, by op: without them the values are the same."""


def _is_known(shape: Shape) -> bool:
    return shape is not None and all(dim >= 0 for dim in shape)


# -- arithmetic -----------------------------------------------------------------------------------------------


def _leaky_relu(site: Candidate) -> str:
    alpha, dtype = site.node.setting("alpha"), site.dtype(0)
    if not isinstance(alpha, float) or not 0 <= alpha <= 1:
        return Remark(f"alpha is {alpha}, and only alpha from 0 to 1 has an older equivalent", "bad-value")
    if dtype != FLOAT32:
        text = f"it is {dtype_name(dtype)}, and only float32 has an older equivalent"
        return Remark(text, "unsupported-dtype", dtype=dtype_name(dtype))
    return f"Maximum(n.0, Mul(n.0, {alpha!r}))"


def _batch_mat_mul_v3(site: Candidate) -> str:
    if len({site.node.setting(key) for key in ("Ta", "Tb", "Tout")}) != 1:
        return Remark("its dtypes differ: add a Cast before it so that they are equal", "dtype-mismatch")
    return "BatchMatMulV2{=n}(n.*)"


def _batch_mat_mul(site: Candidate) -> str:
    """BatchMatMul expects equal batch dims: both inputs are broadcast, which changes nothing if they are equal."""
    a, b = (site.shape(slot) for slot in (0, 1))
    is_flat = a is not None and b is not None and len(a) == len(b) == 2
    if is_flat or (a is not None and b is not None and a[:-2] == b[:-2] and _is_known(a[:-2])):
        return "BatchMatMul{=n}(n.*)"
    batch = "Slice{{Index=int32}}(s{0}=Shape(n.{0}), [0], r{0}=Reshape(Sub(Size(s{0}), 2), [1]))"
    shapes = [
        f"t{slot}=ConcatV2({common}, Slice(s{slot}, r{slot}, [2]), 0)"
        for slot, common in ((0, f"c=BroadcastArgs({batch.format(0)}, {batch.format(1)})"), (1, "c"))
    ]
    both = [_broadcast(f"n.{slot}", shape, f"t{slot}", f"x{slot}") for slot, shape in enumerate(shapes)]
    return f"BatchMatMul{{=n}}({', '.join(both)})"


def _batch_norm(site: Candidate) -> str:
    if any(index > 4 for index in site.used_outputs()):
        text = "its output 5, which exists only for gradients, is used: remove the gradients with extract"
        return Remark(text, "output-read")
    return "FusedBatchNormV2{=n}(n.*)"


def _equal(site: Candidate) -> str:
    """At run time shapes are checked; if the known shapes broadcast, the check is not needed."""
    if site.node.setting("incompatible_shape_error") or _broadcasts(site.shape(0), site.shape(1)):
        return f"{site.node.op}{{=n, incompatible_shape_error=true}}(n.*)"
    text = "it compares tensors whose shapes may not broadcast: set the input shapes with set-shape"
    return Remark(text, "shape-unknown")


def _broadcasts(a: Shape, b: Shape) -> bool:
    """Returns whether two shapes are known to broadcast."""
    if a == () or b == ():
        return True
    if a is None or b is None:
        return False
    return all(x == 1 or y == 1 or x == y >= 0 for x, y in zip(reversed(a), reversed(b), strict=False))


# -- broadcasting: tensors of any dtype are tiled, which copies elements and computes nothing ------------------


def _broadcast(read: str, shape: str, label: str, scope: str) -> str:
    """The text of a tensor that is tiled to a shape; `shape` is its text, `label` its name, `scope` for more names."""
    ones = f"Fill{{T=int32}}(Reshape(Sub(Size({shape}), Size({scope}s=Shape({read}))), [1]), 1)"
    wide = f"Reshape({read}, {scope}p=ConcatV2({ones}, {scope}s, 0))"
    return f"Tile({wide}, FloorDiv({label}, Maximum({scope}p, 1)))"  # at least 1: a dim may be 0


def _select(site: Candidate) -> str:
    condition, one, other = (site.shape(slot) for slot in range(3))
    if one == other and _is_known(one) and condition in (one, ()):
        return "Select{=n}(n.*)"
    common = "c=BroadcastArgs(BroadcastArgs(Shape(n.0), Shape(n.1)), Shape(n.2))"
    inputs = [_broadcast(f"n.{slot}", "c" if slot else common, "c", f"x{slot}") for slot in range(3)]
    return f"Select({', '.join(inputs)})"


def _broadcast_to(site: Candidate) -> str:
    if site.dtype(1) == INT32:
        return _broadcast("n.0", "n.1", "n.1", "x")
    return _broadcast("n.0", "c=Cast{DstT=int32}(n.1)", "c", "x")


# -- arrays ---------------------------------------------------------------------------------------------------


def _ensure_shape(site: Candidate) -> str:
    site.analysis.note("EnsureShape is replaced by Identity: tensors of a wrong shape are no longer refused")
    return "Identity{=n}(n.0)"


def _gather(site: Candidate) -> str | None:
    """Gathers of the rows of a batch as one gather: all rows in a sequence, and indices with offsets."""
    count, axis = site.node.setting("batch_dims"), site.value(2)
    if not isinstance(count, int) or count == 0:
        return None
    if axis is None or axis.values != [count]:
        return Remark("it has an older equivalent only if its axis is a constant that equals batch_dims", "other-axis")
    batch = f"Prod(b=Slice{{Index=int32}}(s=Shape(n.0), [0], [{count}]), 0)"
    width = f"Squeeze(Slice{{Index=int32}}(s, [{count}], [1]))"
    rank = f"Sub(Reshape(Size(Shape(n.1)), [1]), [{count}])"
    rows = f"Reshape(n.0, ConcatV2([-1], Slice{{Index=int32}}(s=Shape(n.0), [{count + 1}], [-1]), 0))"
    offsets = f"Reshape(Mul(Range(0, {batch}, 1), {width}), ConcatV2(b, Fill{{T=int32}}({rank}, 1), 0))"
    offsets = offsets.replace("s=Shape(n.0)", "s")
    offsets = offsets if site.dtype(1) == INT32 else f"Cast{{DstT=n.Tindices}}({offsets})"
    return f"GatherV2{{Taxis=int32}}({rows}, Add(n.1, {offsets}), 0)"


def _band(site: Candidate) -> str:
    """The older op has the numbers of diagonals in int64."""
    wide = ("Cast{DstT=int64}(n.1)", "Cast{DstT=int64}(n.2)")
    return f"MatrixBandPart{{=n}}(n.0, {', '.join(wide)})"


def _tensor_array(site: Candidate) -> str:
    """With identical_element_shapes the shape of elements is known even if none was written."""
    site.analysis.note("in this release a TensorArray without any written element cannot be read as a whole")
    return "TensorArrayV3{=n, identical_element_shapes=false}(n.*)"


# -- diagonals: older ops have the main diagonal only -----------------------------------------------------------


_DIAGONALS: dict[str, tuple[str, tuple[tuple[int, int, str], ...]]] = {
    "MatrixDiag": (
        "n.0",
        ((1, 0, "diagonals"), (2, -1, "rows"), (3, -1, "columns"), (4, 0, "the values off the diagonal")),
    ),
    "MatrixDiagPart": ("n.0", ((1, 0, "diagonals"),)),
    "MatrixSetDiag": ("n.0, n.1", ((2, 0, "diagonals"),)),
}
"""By op, the inputs of the older form, and the other inputs: their index, the only number in them, and their names."""


def _diagonal(site: Candidate) -> str:
    op = site.node.op[: -len("V2")]
    inputs, others = _DIAGONALS[op]
    for slot, number, what in others:
        value = site.value(slot)
        if value is None or {*value.values} != {number}:
            text = f"{what}: only the main diagonal of square matrices, with zeros elsewhere, has an older equivalent"
            return Remark(text, "other-diagonal", what=what)
    return f"{op}{{=n}}({inputs})"


# -- products -------------------------------------------------------------------------------------------------


def _einsum(site: Candidate) -> str:
    """Einsum as Transpose and BatchMatMul, as TensorFlow's kernel computes it: one label is summed, and each operand
    has one label of its own.
    """
    equation = site.node.text_attr("equation")
    operands, arrow, result = equation.partition("->")
    a, comma, b = operands.partition(",")
    batch = "".join(label for label in result if label in a and label in b)
    left, right = ("".join(x for x in one if x not in other) for one, other in ((a, b), (b, a)))
    summed = "".join(label for label in a if label in b and label not in result)
    is_valid = bool(arrow and comma) and "," not in b and (a + b + result).isalpha() and {*result} <= {*a, *b}
    is_valid &= all(len({*labels}) == len(labels) for labels in (a, b, result))
    if not is_valid or not len(left) == len(right) == len(summed) == 1 or not {*left, *right} <= {*result}:
        text = f"{equation} is not a matrix product: use Transpose, Reshape and BatchMatMul instead"
        return Remark(text, "not-a-product", equation=equation)
    first, second = _transposed("n.0", a, batch + left + summed), _transposed("n.1", b, batch + summed + right)
    return f"Transpose(BatchMatMul({first}, {second}), {_order(batch + left + right, result)})"


def _transposed(read: str, labels: str, wanted: str) -> str:
    return read if labels == wanted else f"Transpose({read}, {_order(labels, wanted)})"


def _order(labels: str, wanted: str) -> list[int]:
    return [labels.index(label) for label in wanted]


# -- images and detection -------------------------------------------------------------------------------------


def _nms(site: Candidate) -> str:
    """NonMaxSuppressionV4 and V5 if they compute the result of V3."""
    if site.node.setting("pad_to_max_output_size"):
        return Remark("it pads its output: remove pad_to_max_output_size and add a Pad after it", "pads-output")
    if site.dtype(3) != FLOAT32:
        found = dtype_name(site.dtype(3))
        text = f"its thresholds are {found}, but NonMaxSuppressionV3 expects float32"
        return Remark(text, "dtype-mismatch", found=found)
    sigma = site.value(5) if len(site.node.inputs) > 5 else None
    if len(site.node.inputs) > 5 and (sigma is None or sigma.values != [0.0]):
        return Remark("it changes scores (soft_nms_sigma is not a constant 0)", "lowers-scores")
    if (site.used_outputs() | site.analysis.returned(site.node)) - {0}:
        text = "not only its first output is used: compute the scores with GatherV2 and the count with Size"
        return Remark(text, "output-read")
    return "NonMaxSuppressionV3{=n}(n.0, n.1, n.2, n.3, n.4)"


def _nms_v3(site: Candidate) -> str:
    """The boxes of V2 without those whose score is not above the threshold: these (and NaN) are made the last ones."""
    site.analysis.note(
        "NonMaxSuppressionV2 treats boxes with infinite or NaN coordinates differently; for finite boxes it "
        "selects the same boxes"
    )
    scores = f"Select(a=Greater(n.1, n.4), n.1, Fill{{T={dtype_name(site.dtype(1))}}}(Shape(n.1), -inf))"
    chosen = f"c=NonMaxSuppressionV2{{=n}}(n.0, {scores}, n.2, n.3)"
    return f"GatherV2{{Taxis=int32}}({chosen}, Reshape(Where(GatherV2{{Taxis=int32}}(a, c, 0)), [-1]), 0)"


def _softmax(site: Candidate) -> str | None:
    """A softmax of the rows of a matrix: the tensor is reshaped to a matrix, and back."""
    shape = site.shape(0)
    if shape is not None and len(shape) == 2:
        return None
    if shape and shape[-1] >= 0:
        rows = f"[-1, {shape[-1]}]"
    else:
        last = "Slice{Index=int32}(Shape(n.0), Reshape(Sub(Rank(n.0), 1), [1]), [1])"
        rows = f"ConcatV2([-1], {last}, 0)"
    return f"Reshape({site.node.op}(Reshape(n.0, {rows})), Shape(n.0))"


# -- convolutions and poolings --------------------------------------------------------------------------------


def _convolution(site: Candidate) -> str | None:
    """A Pad before the convolution, which adds the zeros that explicit_paddings add; or one for each group."""
    definition = site.analysis.release.op_def(site.node.op)
    has_paddings = definition is not None and "explicit_paddings" in definition.attrs
    if not has_paddings and site.node.text_attr("padding") == "EXPLICIT":
        return f"{site.node.op}{{=n, {_UNPADDED}}}(Pad(n.0, {_amounts(site)}), n.1)"
    done = _grouped(site) if site.node.op == "Conv2D" else None
    has_dilations = definition is not None and "dilations" in definition.attrs
    if done is not None or has_dilations or set(site.node.ints_attr("dilations")) <= {1}:
        return done
    return Remark("it has dilations: use SpaceToBatchND before it and BatchToSpaceND after it instead", "has-dilations")


def _grouped(site: Candidate) -> str | None:
    """A convolution of several groups: a depthwise one if each group has one channel, or one for each group."""
    read, filters = site.node.inputs[0], site.shape(1)
    unpadded = read.node.inputs[0] if read.node.op == "Pad" else read  # the Pad may be new
    count = groups(site.node, [site.analysis.shape(read) or site.analysis.shape(unpadded), filters])
    if count == 1 or filters is None:
        return None
    across = 1 if site.node.text_attr("data_format") == "NCHW" else 3
    strides = {each for axis, each in enumerate(site.node.ints_attr("strides")) if axis not in (0, across)}
    has_paddings = site.node.text_attr("padding") == "EXPLICIT"  # which DepthwiseConv2dNative may lack
    if filters[2] == 1 and len(strides) == 1 and _is_known(filters) and not has_paddings:
        shape = [*filters[:2], count, filters[3] // count]
        return f"DepthwiseConv2dNative{{=n}}(n.0, Reshape(n.1, {shape}))"
    split = f"Split{{num_split={count}}}"
    first = f"Conv2D{{=n}}(i={split}({across}, n.0), f={split}(3, n.1))"
    return f"ConcatV2({', '.join([first, *(f'Conv2D{{=n}}(i:{at}, f:{at})' for at in range(1, count))])}, {across})"


def _max_pool(site: Candidate) -> str | None:
    """A PadV2 before the pooling, which adds the smallest value of the dtype."""
    if site.node.text_attr("padding") != "EXPLICIT":
        return None
    dtype = DTYPES.get(site.dtype(0))
    if dtype is None or not dtype.code:
        name = dtype_name(site.dtype(0))
        text = f"it is {name}, whose smallest value is unknown: add a Cast before it"
        return Remark(text, "unsupported-dtype", dtype=name)
    least = "-inf" if dtype.is_float else dtype.bounds[0]
    return f"MaxPool{{=n, {_UNPADDED}}}(PadV2(n.0, {_amounts(site)}, {least}))"


_UNPADDED = 'padding="VALID", explicit_paddings=[]'


def _amounts(site: Candidate) -> list[list[int]]:
    """Returns the paddings before and after each dim."""
    amounts = site.node.ints_attr("explicit_paddings")
    return [amounts[at : at + 2] for at in range(0, len(amounts), 2)]


# -- resizing: half pixel centers by the arithmetic of the kernels ------------------------------------------------
#
# resize_bilinear_op.cc and image_resizer_state.h (HalfPixelScaler, compute_interpolation_weights, compute_lerp),
# operation by operation, in float32.


def _bilinear(site: Candidate) -> str | None:
    """Four pixels, weighted by their distance: first along rows, then along columns."""
    if not site.node.setting("half_pixel_centers"):
        return None
    images = "n.0" if site.dtype(0) == FLOAT32 else "x=Cast{DstT=float32}(n.0)"
    along = _interpolated(images, "n.0" if images == "n.0" else "x", 2, "w", "s=Shape(n.0)")
    return _interpolated(f"r={along}", "r", 1, "h", "s")


def _interpolated(images: str, label: str, axis: int, scope: str, shape: str) -> str:
    """The text of images that are interpolated along an axis."""
    floor = f"{scope}f=Floor({scope}c=Sub({_centers(axis, scope, shape)}, 0.5))"
    gather = "GatherV2{{Taxis=int32}}({}, {}, {})"
    before = gather.format(images, f"Maximum(Cast{{DstT=int32}}({floor}), 0)", axis)
    after = gather.format(label, f"Minimum(Cast{{DstT=int32}}(Ceil({scope}c)), Sub({scope}n, 1))", axis)
    weights = f"Reshape(Sub({scope}c, {scope}f), {[-1] + [1] * (3 - axis)})"
    return f"Add({scope}b={before}, Mul(Sub({after}, {scope}b), {weights}))"


def _centers(axis: int, scope: str, shape: str) -> str:
    """The text of the centers of the new pixels, in old pixels; names the old size ``{scope}n``."""
    wanted = f"{scope}w=Squeeze(Slice{{Index=int32}}(n.1, [{axis - 1}], [1]))"
    size = f"{scope}n=Squeeze(Slice{{Index=int32}}({shape}, [{axis}], [1]))"
    places = f"Add(Cast{{DstT=float32}}(Range(0, {wanted}, 1)), 0.5)"
    return f"Mul({places}, RealDiv(Cast{{DstT=float32}}({size}), Cast{{DstT=float32}}({scope}w)))"


def _nearest(site: Candidate) -> str | None:
    """The pixel that contains the center of the new one."""
    if not site.node.setting("half_pixel_centers"):
        return None
    images = "n.0"
    for axis, scope, shape in ((1, "h", "s=Shape(n.0)"), (2, "w", "s")):
        index = f"Minimum(Cast{{DstT=int32}}(Floor({_centers(axis, scope, shape)})), Sub({scope}n, 1))"
        images = f"GatherV2{{Taxis=int32}}({images}, {index}, {axis})"
    return images


def _bicubic(site: Candidate) -> str | None:
    if not site.node.setting("half_pixel_centers"):
        return None
    text = "half_pixel_centers uses different weights (A is -0.5): use ResizeBilinear, which has an older equivalent"
    return Remark(text, "half-pixel-centers")


# -- strings --------------------------------------------------------------------------------------------------

_PREFIX = re.compile(r"\^?([\w/:@ -]+)\.\*\$?", re.ASCII)
"""A pattern that matches each text of one line with a fixed prefix."""


def _static(site: Candidate) -> str:
    """The older op has the texts as inputs."""
    keys = [key for key in ("pattern", "rewrite") if site.node.has_attr(key)]
    texts = [repr(site.node.text_attr(key).encode("utf-8", "surrogateescape")) for key in keys]
    return f"{site.node.op.removeprefix('Static')}{{=n}}(n.0, {', '.join(texts)})"


def _match(site: Candidate) -> str:
    """Compares the prefix of a text; the text has one line if it is unchanged by a split at line ends and a join."""
    value = site.value(1)
    pattern = value.values[0] if value is not None and len(value.values) == 1 else b""
    found = _PREFIX.fullmatch(pattern.decode("utf-8", "replace")) if isinstance(pattern, bytes) else None
    if found is None:
        text = "its pattern is not a fixed prefix followed by .*, and no other pattern has an older equivalent"
        return Remark(text, "not-a-prefix")
    if site.shape(0) != ():
        return Remark("its input is not known to be a scalar: set the input shapes with set-shape", "shape-unknown")
    prefix, end = found[1].encode(), b"\n"
    begins = f"Equal(Substr{{T=int32}}(n.0, 0, {len(prefix)}), {prefix!r})"
    is_line = f"Equal(ReduceJoin(StringSplit(Reshape(n.0, [1]), {end!r}):1, [0]), n.0)"
    return f"LogicalAnd({begins}, {is_line})"


def _parse(site: Candidate) -> str:
    """ParseExample has the keys as single inputs, not as vectors."""
    node = site.node
    if node.plain_attr("ragged_value_types") not in (None, []):
        return Remark("it returns ragged tensors: parse them as sparse tensors instead", "ragged-output")
    shape = site.shape(0)
    if shape is None or len(shape) != 1:
        what = "is of unknown rank" if shape is None else "is a scalar"
        text = f"its input {what}, but must be a vector of records: set the input shape with set-shape"
        return Remark(text, "wrong-shape", shape=shape)
    known = [site.value(slot) for slot in (2, 3)]
    if None in known:
        return Remark("the names of its features are not constants", "not-a-constant")
    sparse, dense = (_texts(value) for value in known)
    inputs = ", ".join(["n.0", "n.1", *map(repr, (*sparse, *dense)), "n.5*"])
    return f"ParseExample{{=n, Nsparse={len(sparse)}, Ndense={len(dense)}}}({inputs})"


def _texts(value: Constant | None) -> list[bytes]:
    return [item for item in value.values if isinstance(item, bytes)] if value is not None else []


_DIAGONAL = "the main diagonal, zeros elsewhere"
_BROADCASTS = "shapes that are known to broadcast"
_BOXES = "no padding, only output 0 is used, thresholds are float32"

RULES: dict[str, Rule] = {
    rule.op: rule
    for rule in (
        Rule("AddV2", "Add", "", "Add{=n}(n.*)"),  # AddV2 has no strings, for which the order matters
        Rule("LeakyRelu", "Maximum(x, alpha * x)", "alpha from 0 to 1, float32", _leaky_relu),
        Rule("BatchMatMulV3", "BatchMatMulV2", "one type", _batch_mat_mul_v3),
        Rule("BatchMatMulV2", "BatchMatMul, batches broadcast before it", "", _batch_mat_mul),
        Rule("FusedBatchNormV3", "FusedBatchNormV2", "output 5 is not read", _batch_norm),
        Rule("Equal", "Equal without incompatible_shape_error", _BROADCASTS, _equal),
        Rule("NotEqual", "NotEqual without incompatible_shape_error", _BROADCASTS, _equal),
        Rule("SelectV2", "Select, its inputs broadcast before it", "", _select),
        Rule("BroadcastTo", "Tile", "", _broadcast_to),
        Rule("EnsureShape", "Identity", "", _ensure_shape),
        Rule("GatherV2", "GatherV2 of all rows", "batch_dims is the axis, a constant; places are in range", _gather),
        Rule("MatrixBandPart", "MatrixBandPart by int64", "", _band),
        Rule("StatelessCase", "Case", "", "Case{=n}(n.*)"),
        Rule("DisableCopyOnRead", "NoOp", "", "NoOp()"),
        Rule("TensorArrayV3", "TensorArrayV3 without identical_element_shapes", "", _tensor_array),
        *(Rule(f"{op}V{version}", op, _DIAGONAL, _diagonal) for op in _DIAGONALS for version in (2, 3)),
        Rule(
            "Einsum",
            "Transpose and BatchMatMul",
            "one label is summed, and each operand has one label of its own",
            _einsum,
        ),
        Rule("NonMaxSuppressionV5", "NonMaxSuppressionV3", f"soft_nms_sigma 0, {_BOXES}", _nms),
        Rule("NonMaxSuppressionV4", "NonMaxSuppressionV3", _BOXES, _nms),
        Rule(
            "NonMaxSuppressionV3",
            "NonMaxSuppressionV2, then those above the threshold",
            "finite boxes",
            _nms_v3,
            finite=0,
        ),
        Rule("Softmax", "Softmax of a matrix, and Reshape", "", _softmax),
        Rule("LogSoftmax", "LogSoftmax of a matrix, and Reshape", "", _softmax),
        Rule("Conv2D", "Pad and Conv2D, one for each group", "", _convolution, ROUNDING),
        Rule("DepthwiseConv2dNative", "Pad and DepthwiseConv2dNative", "", _convolution, ROUNDING),
        Rule("MaxPool", "PadV2 and MaxPool", "no NaN", _max_pool),
        Rule("ResizeBilinear", "the sum of four pixels", "finite pixels", _bilinear, finite=0),
        Rule("ResizeNearestNeighbor", "GatherV2 of rows and columns", "", _nearest),
        Rule("ResizeBicubic", "without half_pixel_centers", "half_pixel_centers is false", _bicubic),
        Rule("ParseExampleV2", "ParseExample", "a vector of records, constant keys, no ragged tensors", _parse),
        Rule("StaticRegexFullMatch", "RegexFullMatch", "", _static),
        Rule("StaticRegexReplace", "RegexReplace", "", _static),
        Rule(
            "RegexFullMatch", "Equal of the beginning", "a single text, a pattern that is its beginning and .*", _match
        ),
    )
}
"""The rules, by op."""
