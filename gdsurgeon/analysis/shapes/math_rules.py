"""Shape rules of ops that compute elements, products and reductions, and of control flow.

Also convolutions, pooling, and ops on images and sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.analysis.shapes.arithmetic import (
    MOST_OUTPUTS,
    RULES,
    UNKNOWN,
    Call,
    Misfit,
    agreed,
    axis_of,
    broadcast,
    compatible,
    differ,
    known_product,
    merge,
    merge_all,
    merge_dims,
    ranked,
    replaced,
)
from gdsurgeon.graph.attrs import Shape, format_shape
from gdsurgeon.graph.node import placeholder_shape

# Sources of tensors.


@RULES.of("PlaceholderWithDefault")
def _placeholder_with_default(call: Call) -> Sequence[Shape]:
    stated, default = placeholder_shape(call.node), call.shape(0)
    if not compatible(stated, default):
        raise Misfit(
            f"its default has the shape {format_shape(default)}, but it accepts {format_shape(stated)}", [stated]
        )
    return [stated]


RULES.add(
    {
        "VariableV2 TemporaryVariable": lambda call: [call.stated()],
        "Variable": lambda call: [call.stated() or None],  # the shape of a scalar may mean an unknown one
        "Const": lambda call: [call.constant[1]],
        "Placeholder PlaceholderV2": lambda call: [placeholder_shape(call.node)],
        "Assign": lambda call: [merge(call.shape(0), call.shape(1)) if call.attr("validate_shape") else call.shape(1)],
        """
        RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt ParameterizedTruncatedNormal Fill Empty
        StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformInt
        """: lambda call: [call.dims(0)],
        "Multinomial": lambda call: [(call.ranked(0, 2)[0], call.size(1))],
    }
)


# Element by element.


RULES.add(
    {
        """
        Abs Acos Acosh Angle AsString Asin Asinh Atan Atanh BesselI0e BesselI1e Bucketize Cast Ceil CheckNumerics
        CheckNumericsV2 ClipByValue Conj Cos Cosh Cumprod Cumsum DebugGradientIdentity DecodeBase64 DeepCopy Dequantize
        Digamma Elu EncodeBase64 Enter Erf Erfc Erfinv Exit Exp Expm1 FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars
        FakeQuantWithMinMaxVarsPerChannel Floor Identity Imag Inv Invert IsFinite IsInf IsNan LRN LeakyRelu Lgamma Log
        Log1p LogSoftmax LogicalNot MatrixBandPart Ndtri Neg NextIteration OnesLike OptimizedIdentity
        PopulationCount PreventGradient Print QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3
        QuantizeAndDequantizeV4 Real Reciprocal RefEnter RefExit RefIdentity RefNextIteration RegexReplace Relu Relu6
        Reverse ReverseSequence ReverseV2 Rint Roll Round Rsqrt Selu Sigmoid Sign Sin Sinh Snapshot Softmax Softplus
        Softsign Sqrt Square StaticRegexFullMatch StaticRegexReplace StopGradient StringLength StringLower StringStrip
        StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Tan Tanh
        TensorScatterAdd TensorScatterSub TensorScatterUpdate ZerosLike
        InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad
        AdjustContrastv2 AdjustHue AdjustSaturation RGBToHSV HSVToRGB
        """: lambda call: [call.shape(0)],
        """
        Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Complex Div DivNoNan FloorDiv FloorMod Greater GreaterEqual
        Igamma Igammac LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NextAfter
        Polygamma Pow RealDiv RightShift SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta
        """: lambda call: [broadcast(call.shape(0), call.shape(1))],
        """
        AddN AccumulateNV2 ApproximateEqual ReluGrad Relu6Grad EluGrad SeluGrad LeakyReluGrad SoftplusGrad
        SoftsignGrad
        """: lambda call: [merge_all(call.shapes)],
        "Select": lambda call: [merge(call.shape(1), call.shape(2))],
        "SelectV2": lambda call: [broadcast(call.shape(0), broadcast(call.shape(1), call.shape(2)))],
        "EnsureShape": lambda call: [merge(call.shape(0), call.stated())],
        "Merge RefMerge": lambda call: [agreed(call.shapes), ()],  # at the head of a loop, one input is always unknown
        "Switch RefSwitch": lambda call: [call.shape(0)] * 2,
        "_SwitchN": lambda call: [call.shape(0)] * min(call.number("num_outs"), MOST_OUTPUTS),
    }
)


@RULES.of("Equal NotEqual")
def _equal(call: Call) -> Sequence[Shape]:
    a, b = call.known(0), call.known(1)
    if call.attr("incompatible_shape_error") is not False:
        return [broadcast(a, b)]
    # Shapes that do not fit are allowed, and result in a scalar.
    if UNKNOWN in a or UNKNOWN in b:
        return []
    try:
        return [broadcast(a, b)]
    except Misfit:
        return []


@RULES.of("BroadcastTo")
def _broadcast_to(call: Call) -> Sequence[Shape]:
    shape, target = call.shape(0), call.dims(1)
    if shape is None or target is None:
        return [target]
    front = len(target) - len(shape)
    pairs = list(zip(shape, target[max(front, 0) :], strict=False))
    if front < 0 or any(x != 1 and differ(x, y) for x, y in pairs):
        raise Misfit(f"{format_shape(shape)} cannot be broadcast to {format_shape(target)}", [target])
    # A dim other than 1 does not change.
    return [(*target[:front], *(y if y >= 0 or x == 1 else x for x, y in pairs))]


# Products.


@RULES.of("BiasAdd BiasAddV1")
def _bias_add(call: Call) -> Sequence[Shape]:
    shape, (channels,) = call.shape(0), call.ranked(1, 1)
    first = call.op == "BiasAdd" and call.text("data_format") == "NCHW"
    if shape is None or (first and len(shape) != 4):
        return [shape]
    at = 1 if first else axis_of(-1, len(shape))
    if differ(shape[at], channels):
        raise Misfit(f"its {channels} biases do not fit the channels of {format_shape(shape)}", [shape])
    return [replaced(shape, at, merge_dims(shape[at], channels))]


@RULES.of("BiasAddGrad")
def _bias_add_grad(call: Call) -> Sequence[Shape]:
    shape = call.shape(0)
    at = 1 if call.text("data_format") == "NCHW" else -1
    return [(shape[at] if shape and (at < 0 or len(shape) == 4) else UNKNOWN,)]


@RULES.of("MatMul SparseMatMul BatchMatMul BatchMatMulV2 BatchMatMulV3")
def _mat_mul(call: Call) -> Sequence[Shape]:
    is_batch = call.op.startswith("Batch")
    a, b = (call.known(i) if is_batch else call.ranked(i, 2) for i in (0, 1))
    turned = [bool(call.attr(key)) for key in (("adj_x", "adj_y") if is_batch else ("transpose_a", "transpose_b"))]

    def misfit(*shapes: Shape) -> Misfit:
        shown = (format_shape(x) + (" transposed" if t else "") for x, t in zip((a, b), turned, strict=True))
        return Misfit(" times ".join(shown), shapes)

    if min(len(a), len(b)) < 2:
        raise misfit()
    batch = broadcast(a[:-2], b[:-2]) if call.op[-2:-1] == "V" else merge(a[:-2], b[:-2])
    rows, inner = (a[-1], a[-2]) if turned[0] else (a[-2], a[-1])
    other, columns = (b[-1], b[-2]) if turned[1] else (b[-2], b[-1])
    out = (*(batch or ()), rows, columns)
    if differ(inner, other):
        raise misfit(out)
    return [out]


@RULES.of("Einsum")
def _einsum(call: Call) -> Sequence[Shape]:
    equation = call.text("equation").replace(" ", "")
    terms, arrow, result = equation.partition("->")
    if not arrow or "." in equation or terms.count(",") + 1 != len(call.shapes):
        return []
    dims: dict[str, int] = {}
    for labels, shape in zip(terms.split(","), call.shapes, strict=True):
        for label, dim in zip(labels, ranked(shape, len(labels)), strict=True):
            dims[label] = merge_dims(dims.get(label, UNKNOWN), dim)
    return [tuple(dims.get(label, UNKNOWN) for label in result)]


_FORMATS = ("NHWC", "NCHW", "NDHWC", "NCDHW")


@RULES.of("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx")
def _fused_batch_norm(call: Call) -> Sequence[Shape]:
    form = call.text("data_format")
    if form not in _FORMATS:
        return []
    shape = call.ranked(0, len(form))
    at = form.index("C")
    channels = shape[at]
    for index in range(1, 3 if call.attr("is_training") else 5):
        (found,) = call.ranked(index, 1)
        if differ(channels, found):
            raise Misfit(f"{found} scales do not fit {channels} channels of {format_shape(shape)}", [shape])
        channels = merge_dims(channels, found)
    return [replaced(shape, at, channels), *([(channels,)] * 4)]


@RULES.of("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(call: Call) -> Sequence[Shape]:
    shape = broadcast(call.shape(0), call.shape(1))
    return [None if not shape else shape[:1], shape]


@RULES.of("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_cross_entropy(call: Call) -> Sequence[Shape]:
    batch, classes = call.ranked(0, 2)
    batch = merge_dims(batch, call.ranked(1, 1)[0])
    return [(batch,), (batch, classes)]


# Reductions.


@RULES.of("Sum Mean Prod Max Min All Any EuclideanNorm")
def _reduce(call: Call) -> Sequence[Shape]:
    shape, axes = call.known(0), call.value(1)
    keep = bool(call.attr("keep_dims"))
    if axes is None or None in axes:
        if axes == () or call.length(1) == 0:
            return [shape]
        return [(UNKNOWN,) * len(shape) if keep else None]
    gone = {axis_of(axis, len(shape)) for axis in axes if axis is not None}
    if keep:
        return [tuple(1 if i in gone else dim for i, dim in enumerate(shape))]
    return [tuple(dim for i, dim in enumerate(shape) if i not in gone)]


@RULES.of("ArgMax ArgMin")
def _arg_max(call: Call) -> Sequence[Shape]:
    shape, axis = call.known(0), call.scalar(1)
    if axis is None:
        return [(UNKNOWN,) * (len(shape) - 1)] if shape else []
    return [replaced(shape, axis_of(axis, len(shape)))]


RULES.add(
    {
        "Size Rank L2Loss LoopCond TensorArraySize TensorArraySizeV2 TensorArraySizeV3 IsVariableInitialized": (
            lambda _: [()]
        ),
        "Shape ShapeN": lambda call: [(UNKNOWN if shape is None else len(shape),) for shape in call.shapes],
    }
)


class SlidingWindow:
    """How a convolution or pooling moves over a tensor.

    Attributes:
        channel: the axis of the channels.
        spatial: the axes over which it moves.
    """

    def __init__(self, call: Call, strides: Sequence[int] | None = None) -> None:
        form = call.text("data_format")
        if form not in _FORMATS:
            raise ValueError(f"data format {form}")
        self.channel = form.index("C")
        self.spatial = tuple(i for i, letter in enumerate(form) if letter in "DHW")
        self.padding = call.text("padding")
        self.strides = strides if strides is not None else call.ints("strides")
        self.dilations = call.ints("dilations") or [1] * len(form)
        self.pads = call.ints("explicit_paddings")
        self.moves_in_space = all(self.strides[i] == 1 for i in (0, self.channel))

    def size(self, dim: int, extent: int, axis: int) -> int:
        """Returns the output size for a dim of `dim` elements and a window of `extent` elements along `axis`."""
        stride, dilation = self.strides[axis], self.dilations[axis]
        if dim < 0 or stride < 1 or (extent < 0 and self.padding != "SAME"):
            return UNKNOWN
        if self.padding == "SAME":
            return -(-dim // stride)
        if self.padding == "EXPLICIT":
            dim += self.pads[2 * axis] + self.pads[2 * axis + 1]
        elif self.padding != "VALID":
            return UNKNOWN
        covered = (extent - 1) * dilation + 1
        if dim - covered + stride < 0:
            raise Misfit(f"a window of {covered} does not fit into {dim}")
        return (dim - covered) // stride + 1

    def sizes(self, shape: Sequence[int], extents: Iterable[int]) -> list[int]:
        """Returns the output size for each spatial dim of `shape`, and a window with these `extents`."""
        return [self.size(shape[axis], extent, axis) for axis, extent in zip(self.spatial, extents, strict=True)]

    def placed(self, batch: int, channels: int, space: Sequence[int]) -> tuple[int, ...]:
        """Returns a shape with these dims in the order of the data format."""
        sizes = iter(space)
        return tuple(batch if i == 0 else channels if i == self.channel else next(sizes) for i in range(len(space) + 2))


@RULES.of("Conv2D Conv3D _FusedConv2D")
def _convolution(call: Call) -> Sequence[Shape]:
    if call.text("filter_format") not in ("", "HWIO"):
        return []
    window = SlidingWindow(call)
    rank = len(window.spatial) + 2
    shape, taps = call.ranked(0, rank), call.ranked(1, rank)
    inside, outside = taps[-2:]
    channels = shape[window.channel]
    out = window.placed(shape[0], outside, window.sizes(shape, taps[:-2]))
    if channels >= 0 and inside >= 0 and not _fit(channels, inside, outside):
        raise Misfit(_wrong_channels(taps, inside, shape), [out])
    return [out]


def _fit(channels: int, inside: int, outside: int) -> bool:
    """Returns whether a filter for `inside` channels fits `channels`: in groups with equally many outputs."""
    if not inside or channels % inside:
        return channels == inside
    groups = channels // inside
    return groups < 2 or outside < 0 or not outside % groups


def _wrong_channels(taps: Shape, inside: int, shape: Shape) -> str:
    return f"its filter {format_shape(taps)} expects {inside} channels, but its input is {format_shape(shape)}"


@RULES.of("DepthwiseConv2dNative _FusedDepthwiseConv2dNative")
def _depthwise(call: Call) -> Sequence[Shape]:
    window = SlidingWindow(call)
    shape, taps = call.ranked(0, 4), call.ranked(1, 4)
    channels, inside = shape[window.channel], taps[2]
    if differ(channels, inside):
        raise Misfit(_wrong_channels(taps, inside, shape))
    channels = merge_dims(channels, inside)
    outside = channels * taps[3] if channels >= 0 and taps[3] >= 0 else UNKNOWN
    return [window.placed(shape[0], outside, window.sizes(shape, taps[:2]))]


@RULES.of("Conv2DBackpropInput Conv3DBackpropInputV2")
def _transposed_convolution(call: Call) -> Sequence[Shape]:
    window = SlidingWindow(call)
    rank = len(window.spatial) + 2
    taps, grad = call.ranked(1, rank), call.ranked(2, rank)
    length = call.length(0)
    if length == rank - 2:  # only the spatial dims
        return [window.placed(grad[0], taps[-2], call.dims(0) or ())]
    out = call.dims(0) if length is not None else (UNKNOWN,) * rank
    if out is None or len(out) != rank:
        raise Misfit(f"its output must have {length} dimensions")
    if out[0] < 0:
        out = (grad[0], *out[1:])
    wanted = window.placed(out[0], taps[-1], window.sizes(out, taps[:-2]))
    if not compatible(wanted, grad):
        text = (
            f"for the output {format_shape(out)} it needs {format_shape(wanted)}, but its input is {format_shape(grad)}"
        )
        raise Misfit(text, [out])
    return [out]


@RULES.of("MaxPool AvgPool MaxPool3D AvgPool3D MaxPoolV2")
def _pool(call: Call) -> Sequence[Shape]:
    if call.op == "MaxPoolV2":
        sizes, steps = call.value(1), call.value(2)
        if sizes is None or steps is None:
            return [(UNKNOWN,) * 4]
        extents, window = [size or 0 for size in sizes], SlidingWindow(call, [step or 0 for step in steps])
    else:
        extents, window = call.ints("ksize"), SlidingWindow(call)
    rank = len(window.spatial) + 2
    shape = call.ranked(0, rank)
    if not window.moves_in_space or extents[0] != 1 or extents[window.channel] != 1:
        return [(UNKNOWN,) * rank]
    space = window.sizes(shape, [extents[axis] or UNKNOWN for axis in window.spatial])
    return [window.placed(shape[0], shape[window.channel], space)]


# Space and batch, space and depth.


@RULES.of("SpaceToBatchND BatchToSpaceND")
def _space_and_batch(call: Call) -> Sequence[Shape]:
    shape, blocks, pads = call.known(0), call.value(1), call.value(2)
    if blocks is None or pads is None or None in blocks:
        changed = 1 + (length if (length := call.length(1)) is not None else len(shape))
        return [(UNKNOWN,) * len(shape[:changed]) + shape[changed:]]
    sizes = [block or 0 for block in blocks]
    if len(shape) <= len(sizes) or min(sizes) < 1 or len(pads) != 2 * len(sizes):
        raise Misfit(f"blocks {sizes} of {format_shape(shape)}")
    to_batch = call.op == "SpaceToBatchND"
    area = known_product(sizes)
    batch = shape[0]
    if batch >= 0:
        if not to_batch and batch % area:
            raise Misfit(f"a batch of {batch} cannot be divided into blocks {sizes}")
        batch = batch * area if to_batch else batch // area
    space: list[int] = []
    for i, size in enumerate(sizes):
        dim, before, after = shape[1 + i], pads[2 * i], pads[2 * i + 1]
        if dim < 0 or before is None or after is None:
            space.append(UNKNOWN)
        elif to_batch:
            if (dim + before + after) % size:
                raise Misfit(f"{dim}, padded with {before} and {after}, cannot be divided into blocks of {size}")
            space.append((dim + before + after) // size)
        else:
            space.append(dim * size - before - after)
    return [(batch, *space, *shape[1 + len(sizes) :])]


@RULES.of("SpaceToDepth DepthToSpace")
def _space_and_depth(call: Call) -> Sequence[Shape]:
    form, size = call.text("data_format"), call.number("block_size")
    if form not in ("NHWC", "NCHW") or size < 1:
        return []
    shape = call.ranked(0, 4)
    at = form.index("C")
    to_depth = call.op == "SpaceToDepth"
    out: list[int] = []
    for axis, dim in enumerate(shape):
        block = 1 if axis == 0 else size * size if axis == at else size
        grows = (axis == at) == to_depth
        if dim >= 0 and not grows and dim % block:
            raise Misfit(f"{format_shape(shape)} cannot be divided into blocks of {size}")
        out.append(UNKNOWN if dim < 0 else dim * block if grows else dim // block)
    return [tuple(out)]


# Images.


def _height_and_width(call: Call, index: int) -> tuple[int, ...]:
    sizes = call.dims(index)
    return sizes if sizes is not None and len(sizes) == 2 else (UNKNOWN, UNKNOWN)


@RULES.of("DecodeJpeg DecodePng DecodeBmp DecodeAndCropJpeg")
def _decode_image(call: Call) -> Sequence[Shape]:
    channels = call.number("channels") or UNKNOWN
    window = call.value(1) if call.op == "DecodeAndCropJpeg" else None
    height, width = (window[2], window[3]) if window is not None and len(window) == 4 else (None, None)
    return [(UNKNOWN if height is None else height, UNKNOWN if width is None else width, channels)]


RULES.add(
    {
        "ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea": lambda call: [
            (call.ranked(0, 4)[0], *_height_and_width(call, 1), call.ranked(0, 4)[3])
        ],
        "CropAndResize": lambda call: [
            (merge_dims(call.ranked(1, 2)[0], call.ranked(2, 1)[0]), *_height_and_width(call, 3), call.ranked(0, 4)[3])
        ],
        "DecodeGif": lambda _: [(UNKNOWN, UNKNOWN, UNKNOWN, 3)],
        "DecodeRaw": lambda call: [(*call.known(0), UNKNOWN)],
        "EncodeJpeg EncodeWav ReadFile": lambda _: [()],
        "Mfcc": lambda call: [(*call.ranked(0, 3)[:2], call.number("dct_coefficient_count") or UNKNOWN)],
    }
)


@RULES.of("ExtractImagePatches")
def _patches(call: Call) -> Sequence[Shape]:
    sizes, strides, rates = call.ints("ksizes"), call.ints("strides"), call.ints("rates")
    shape, padding = call.ranked(0, 4), call.text("padding")
    out: list[int] = []
    for axis in (1, 2):
        covered = (sizes[axis] - 1) * rates[axis] + 1
        room = shape[axis] if padding == "SAME" else shape[axis] - covered + 1
        out.append(max(-(-room // strides[axis]), 0) if shape[axis] >= 0 and padding in ("SAME", "VALID") else UNKNOWN)
    depth = shape[3] * sizes[1] * sizes[2] if shape[3] >= 0 else UNKNOWN
    return [(shape[0], *out, depth)]


# Audio.


@RULES.of("DecodeWav")
def _decode_wav(call: Call) -> Sequence[Shape]:
    samples, channels = (call.number(key) for key in ("desired_samples", "desired_channels"))
    return [(samples if samples > 0 else UNKNOWN, channels if channels > 0 else UNKNOWN), ()]


@RULES.of("AudioSpectrogram")
def _spectrogram(call: Call) -> Sequence[Shape]:
    samples, channels = call.ranked(0, 2)
    size, stride = call.number("window_size"), call.number("stride")
    if size < 2 or stride < 1:
        return []
    length = UNKNOWN if samples < 0 else 0 if samples < size else 1 + (samples - size) // stride
    # The FFT has the next power of two as its length; the output has half as many bins, plus the constant term.
    return [(channels, length, 1 + (1 << (size - 1).bit_length()) // 2)]
