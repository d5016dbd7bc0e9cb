"""Shape rules of ops that work element by element, multiply, reduce, draw, or pass a tensor on."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.shapes.call import (
    MOST_OUTPUTS,
    UNKNOWN,
    Call,
    Misfit,
    agreed,
    axis_of,
    broadcast,
    merge,
    merge_all,
    merge_dims,
    ranked,
    rule,
    rules,
)
from gdsurgeon.analysis.shapes.stated import compatible
from gdsurgeon.graph.attrs import Shape, format_shape, shape_of
from gdsurgeon.graph.placeholders import placeholder_shape

# Where tensors come from.


@rule("PlaceholderWithDefault")
def _placeholder_with_default(call: Call) -> Sequence[Shape]:
    stated, default = placeholder_shape(call.node), call.shape(0)
    if not compatible(stated, default):
        raise Misfit(
            f"its default has the shape {format_shape(default)}, but it accepts {format_shape(stated)}", [stated]
        )
    return [stated]


@rule("VariableV2 Variable TemporaryVariable")
def _variable(call: Call) -> Sequence[Shape]:
    value = call.node.attr("shape")
    shape = shape_of(value.shape) if value is not None and value.WhichOneof("value") == "shape" else None
    return [None if shape == () and call.op == "Variable" else shape]  # there a scalar's may mean an unknown one


rules(
    {
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


rules(
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
        "Switch RefSwitch": lambda call: [call.shape(0)] * 2,
        "_SwitchN": lambda call: [call.shape(0)] * min(call.number("num_outs"), MOST_OUTPUTS),
    }
)


@rule("Equal NotEqual")
def _equal(call: Call) -> Sequence[Shape]:
    a, b = call.known(0), call.known(1)
    if call.attr("incompatible_shape_error") is not False:
        return [broadcast(a, b)]
    # Shapes that do not fit are allowed, and give a scalar.
    if UNKNOWN in a or UNKNOWN in b:
        return []
    try:
        return [broadcast(a, b)]
    except Misfit:
        return []


@rule("EnsureShape")
def _ensure_shape(call: Call) -> Sequence[Shape]:
    value = call.node.attr("shape")
    return [merge(call.shape(0), shape_of(value.shape) if value is not None else None)]


@rule("BroadcastTo")
def _broadcast_to(call: Call) -> Sequence[Shape]:
    shape, target = call.shape(0), call.dims(1)
    if shape is None or target is None:
        return [target]
    front = len(target) - len(shape)
    pairs = list(zip(shape, target[max(front, 0) :], strict=False))
    if front < 0 or any(x >= 0 and y >= 0 and x not in (1, y) for x, y in pairs):
        raise Misfit(f"{format_shape(shape)} cannot be broadcast to {format_shape(target)}", [target])
    # A dim other than 1 stays what it is.
    return [(*target[:front], *(y if y >= 0 or x == 1 else x for x, y in pairs))]


# Control flow.


@rule("Merge RefMerge")
def _merge(call: Call) -> Sequence[Shape]:
    """What comes round a loop is not known when the Merge at its head is looked at: nothing is stated there."""
    return [agreed(call.shapes), ()]


# Products.


@rule("BiasAdd BiasAddV1")
def _bias_add(call: Call) -> Sequence[Shape]:
    shape, (channels,) = call.shape(0), call.ranked(1, 1)
    first = call.op == "BiasAdd" and call.text("data_format") == "NCHW"
    if shape is None or (first and len(shape) != 4):
        return [shape]
    at = 1 if first else axis_of(-1, len(shape))
    if shape[at] >= 0 and channels >= 0 and shape[at] != channels:
        raise Misfit(f"its {channels} biases do not fit the channels of {format_shape(shape)}", [shape])
    return [(*shape[:at], merge_dims(shape[at], channels), *shape[at + 1 :])]


@rule("BiasAddGrad")
def _bias_add_grad(call: Call) -> Sequence[Shape]:
    shape = call.shape(0)
    at = 1 if call.text("data_format") == "NCHW" else -1
    return [(shape[at] if shape and (at < 0 or len(shape) == 4) else UNKNOWN,)]


@rule("MatMul SparseMatMul")
def _mat_mul(call: Call) -> Sequence[Shape]:
    a, b = call.ranked(0, 2), call.ranked(1, 2)
    return [_product(a, b, bool(call.attr("transpose_a")), bool(call.attr("transpose_b")), ())]


@rule("BatchMatMul BatchMatMulV2 BatchMatMulV3")
def _batch_mat_mul(call: Call) -> Sequence[Shape]:
    a, b = call.known(0), call.known(1)
    if min(len(a), len(b)) < 2:
        raise Misfit(f"{format_shape(a)} times {format_shape(b)}")
    batch = merge(a[:-2], b[:-2]) if call.op == "BatchMatMul" else broadcast(a[:-2], b[:-2])
    return [_product(a, b, bool(call.attr("adj_x")), bool(call.attr("adj_y")), batch or ())]


def _product(
    a: tuple[int, ...], b: tuple[int, ...], transpose_a: bool, transpose_b: bool, batch: tuple[int, ...]
) -> Shape:
    rows, inner = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
    other, columns = (b[-1], b[-2]) if transpose_b else (b[-2], b[-1])
    out = (*batch, rows, columns)
    if inner >= 0 and other >= 0 and inner != other:
        shown = [format_shape(x) + (" transposed" if t else "") for x, t in ((a, transpose_a), (b, transpose_b))]
        raise Misfit(f"{shown[0]} times {shown[1]}", [out])
    return out


@rule("Einsum")
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


@rule("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx")
def _fused_batch_norm(call: Call) -> Sequence[Shape]:
    form = call.text("data_format")
    if form not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        return []
    shape = call.ranked(0, len(form))
    at = form.index("C")
    channels = shape[at]
    for index in range(1, 3 if call.attr("is_training") else 5):
        (found,) = call.ranked(index, 1)
        if channels >= 0 and found >= 0 and channels != found:
            raise Misfit(f"{found} scales do not fit {channels} channels of {format_shape(shape)}", [shape])
        channels = merge_dims(channels, found)
    return [(*shape[:at], channels, *shape[at + 1 :]), *([(channels,)] * 4)]


@rule("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(call: Call) -> Sequence[Shape]:
    shape = broadcast(call.shape(0), call.shape(1))
    return [None if not shape else shape[:1], shape]


@rule("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_cross_entropy(call: Call) -> Sequence[Shape]:
    batch, classes = call.ranked(0, 2)
    batch = merge_dims(batch, call.ranked(1, 1)[0])
    return [(batch,), (batch, classes)]


# Reductions.


@rule("Sum Mean Prod Max Min All Any EuclideanNorm")
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


@rule("ArgMax ArgMin")
def _arg_max(call: Call) -> Sequence[Shape]:
    shape, axis = call.known(0), call.scalar(1)
    if axis is None:
        return [(UNKNOWN,) * (len(shape) - 1)] if shape else []
    at = axis_of(axis, len(shape))
    return [shape[:at] + shape[at + 1 :]]


rules(
    {
        "Size Rank L2Loss LoopCond TensorArraySize TensorArraySizeV2 TensorArraySizeV3 IsVariableInitialized": (
            lambda _: [()]
        ),
        "Shape ShapeN": lambda call: [(UNKNOWN if shape is None else len(shape),) for shape in call.shapes],
    }
)
