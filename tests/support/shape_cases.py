"""Graphs of one op each, with the shapes and values of its inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

from gdsurgeon.ops.op_defs import op_def
from support.graphs import BOOL, FLOAT, INT32, STRING, UINT8, attr, const, graph_bytes, node, placeholder

Shape = tuple[int, ...] | None
A = (-1, 8, 6, 3)
"""Images, their number unknown."""


class P(NamedTuple):
    """A placeholder; one of float32 can be written as its shape alone."""

    shape: Shape
    kind: bytes = FLOAT


class C(NamedTuple):
    """A constant of int32 with several dims; a scalar can be written as a number, a vector as a list."""

    values: list[int]
    shape: tuple[int, ...]


Input = P | C | list[int] | int | tuple[int, ...] | None


class Case(NamedTuple):
    """An op, its inputs, and the attrs that do not follow from these."""

    op: str
    inputs: list[Any]
    attrs: dict[str, Any] = {}  # noqa: RUF012

    def name(self) -> str:
        return f"{self.op} {self.inputs} {self.attrs}"

    def bytes(self) -> bytes:
        """A GraphDef: nodes in0, in1, ... and y."""
        given = [each if isinstance(each, P | C | list | int) else P(each) for each in self.inputs]
        records = [
            placeholder(f"in{i}", each.kind, each.shape) if isinstance(each, P)
            else const(f"in{i}", each.values, INT32, each.shape) if isinstance(each, C)
            else const(f"in{i}", each, INT32)
            for i, each in enumerate(given)
        ]  # fmt: skip
        kinds = [each.kind if isinstance(each, P) else INT32 for each in given]
        attrs = {key: attr(value) for key, value in self.attrs.items()}
        reads = [f"in{i}" for i in range(len(kinds))]
        return graph_bytes(*records, node("y", self.op, reads, **_typed(self.op, kinds, attrs)))


def _typed(op: str, kinds: list[bytes], attrs: dict[str, bytes]) -> dict[str, bytes]:
    """ATTRS with the types and numbers that follow from the inputs' types KINDS."""
    definition = op_def(op)
    assert definition is not None, op
    out = dict(attrs)
    left = list(kinds)
    for arg in definition.inputs:
        count = 1
        if arg.number_attr:
            same = [other for other in definition.inputs if other.number_attr == arg.number_attr]
            count = (len(kinds) - (len(definition.inputs) - len(same))) // len(same)
            out.setdefault(arg.number_attr, b"\x18" + bytes([count]))
        if arg.type_attr and left:
            out.setdefault(arg.type_attr, left[0])
        left = left[count:]
    for name, known in definition.attrs.items():
        if known.kind == "type" and not known.has_default:
            out.setdefault(name, FLOAT)
    return out


SAME = {"strides": [1, 2, 2, 1], "padding": "SAME"}
VALID = {"strides": [1, 2, 2, 1], "padding": "VALID"}
NCHW = {"strides": [1, 1, 2, 2], "padding": "VALID", "data_format": "NCHW"}
POOL = {"ksize": [1, 3, 2, 1]}
STRIPES = {"begin_mask": 1, "end_mask": 1}

CASES = [
    Case("Relu", [A]),
    Case("Relu", [None]),
    Case("Softmax", [(-1, 5)]),
    Case("Cast", [(2, -1)], {"DstT": INT32}),
    Case("PlaceholderWithDefault", [(2, 3)], {"shape": (-1, 3)}),
    # Broadcast.
    Case("AddV2", [(2, 1, 4), (3, 1)]),
    Case("AddV2", [(-1, 4), (2, 4)]),
    Case("AddV2", [(-1, 4), (1, 4)]),
    Case("AddV2", [(-1, 4), (-1, 1)]),
    Case("AddV2", [(2, 4), ()]),
    Case("AddV2", [None, (2, 4)]),
    Case("AddV2", [(-1,), (0,)]),
    Case("Equal", [(-1, 4), (2, 4)], {"incompatible_shape_error": False}),
    Case("Equal", [(1, 4), (2, 4)], {"incompatible_shape_error": False}),
    Case("Select", [P(None, BOOL), (-1, 3), (2, -1)]),
    Case("SelectV2", [P((2, 1), BOOL), (3,), ()]),
    Case("AddN", [(-1, 3), (2, -1), None]),
    Case("BroadcastTo", [(-1, 3), [2, 5, 3]]),
    Case("BroadcastTo", [(1, 3), P((2,), INT32)]),
    # Convolutions.
    Case("Conv2D", [A, (3, 3, 3, 7)], SAME),
    Case("Conv2D", [A, (3, 3, 3, 7)], VALID),
    Case("Conv2D", [(4, 3, 8, 6), (3, 2, 3, 7)], {**NCHW}),
    Case("Conv2D", [A, (3, 3, 3, 7)], {"strides": [1, 1, 1, 1], "padding": "VALID",
                                                         "dilations": [1, 2, 2, 1]}),
    Case("Conv2D", [A, (3, 3, 3, 7)], {"strides": [1, 2, 2, 1], "padding": "EXPLICIT",
                                                         "explicit_paddings": [0, 0, 2, 1, 0, 1, 0, 0]}),
    Case("Conv2D", [(4, 8, 6, 6), (3, 3, 3, 4)], SAME),  # in two groups
    Case("Conv2D", [(-1, -1, 6, 3), (3, 3, 3, 7)], SAME),
    Case("Conv2D", [None, (3, 3, 3, 7)], SAME),
    Case("Conv2D", [A, None], SAME),
    Case("DepthwiseConv2dNative", [A, (3, 3, 3, 2)], SAME),
    Case("DepthwiseConv2dNative", [(-1, 8, 6, -1), (3, 3, 3, 2)], VALID),
    Case("Conv2DBackpropInput", [[4, 8, 6, 5], (2, 2, 5, 3), (4, 4, 3, 3)], SAME),
    Case("Conv2DBackpropInput", [P((4,), INT32), (2, 2, 5, 3), (4, 4, 3, 3)], SAME),
    Case("Conv3D", [(-1, 5, 8, 6, 3), (2, 3, 3, 3, 4)],
         {"strides": [1, 1, 2, 2, 1], "padding": "VALID"}),
    Case("MaxPool", [A], {**VALID, **POOL}),
    Case("AvgPool", [A], {**SAME, **POOL}),
    Case("MaxPool", [(-1, 3, 8, 6)], {**NCHW, "ksize": [1, 1, 2, 2]}),
    Case("MaxPool", [A], {**POOL, "strides": [1, 2, 2, 1], "padding": "EXPLICIT",
                                           "explicit_paddings": [0, 0, 1, 2, 0, 0, 0, 0]}),
    Case("MaxPool", [(-1, 8, 6, 4)], {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2],
                                                          "padding": "SAME"}),
    Case("MaxPoolV2", [A, [1, 3, 2, 1], [1, 2, 2, 1]], {"padding": "VALID"}),
    Case("BiasAdd", [(-1, -1), (5,)]),
    Case("BiasAdd", [(2, -1, 8, 6), (5,)], {"data_format": "NCHW"}),
    Case("FusedBatchNormV3", [A, (3,), (3,), (3,), (3,)], {"is_training": False}),
    Case("FusedBatchNorm", [(-1, -1, 2, 2), (3,), (3,), (0,), (0,)],
         {"data_format": "NCHW"}),
    # Products.
    Case("MatMul", [(-1, 4), (4, 5)]),
    Case("MatMul", [(4, -1), (5, 4)], {"transpose_a": True, "transpose_b": True}),
    Case("MatMul", [None, (4, 5)]),
    Case("BatchMatMul", [(-1, 2, 3, 4), (4, 2, 4, 5)]),
    Case("BatchMatMulV2", [(-1, 1, 3, 4), (2, 5, 4)], {"adj_y": True}),
    Case("Einsum", [(-1, 7, 3), (3, 2, 5)], {"equation": "abc,cde->abde"}),
    Case("Einsum", [(2, 3), (3, 5)], {"equation": "...c,cd->...d"}),
    # Reductions.
    Case("Mean", [A, [1, 2]]),
    Case("Mean", [A, [-1, 1]], {"keep_dims": True}),
    Case("Sum", [A, 3]),
    Case("Max", [A, []]),
    Case("Max", [A, P((1,), INT32)]),
    Case("Max", [A, P((1,), INT32)], {"keep_dims": True}),
    Case("ArgMax", [A, 1]),
    Case("ArgMax", [(2, 3), P((), INT32)]),
    # The same elements in another shape.
    Case("Reshape", [A, [-1, 144]]),
    Case("Reshape", [(4, 6, 3), [-1, 9]]),
    Case("Reshape", [(4, 6), [2, 12]]),
    Case("Reshape", [(-1, 6), [2, 12]]),
    Case("Reshape", [(4, 0), [-1, 3]]),
    Case("Reshape", [None, [-1, 3]]),
    Case("Reshape", [A, P((2,), INT32)]),
    Case("Reshape", [A, P(None, INT32)]),
    Case("Reshape", [(1, 1), []]),
    Case("Squeeze", [(-1, 1, 1, 3)], {"squeeze_dims": [1, -2]}),
    Case("Squeeze", [(4, 1, 3)]),
    Case("Squeeze", [(-1, 1, 3)]),
    Case("Squeeze", [(-1, -1, 3)], {"squeeze_dims": [0]}),
    Case("ExpandDims", [(-1, 3), -1]),
    Case("ExpandDims", [(-1, 3), 1]),
    Case("ExpandDims", [(4, 3), P((), INT32)]),
    Case("Transpose", [A, [0, 3, 1, 2]]),
    Case("Transpose", [A, P((4,), INT32)]),
    Case("Transpose", [None, P((3,), INT32)]),
    Case("Bitcast", [(2, 3)], {"type": UINT8}),
    # Joined and taken apart.
    Case("ConcatV2", [A, (-1, 8, 6, 2), -1]),
    Case("ConcatV2", [(-1, 3), (2, 3), 0]),
    Case("ConcatV2", [(-1, 3), (2, 3), None, 1]),
    Case("ConcatV2", [(1, 3), (2, 3), P((), INT32)]),
    Case("Concat", [1, (4, 3), (4, -1)]),
    Case("Pack", [(-1, 3), (2, -1)], {"axis": -1}),
    Case("Unpack", [(-1, 3)], {"axis": 1, "num": 3}),
    Case("Split", [1, (-1, 6)], {"num_split": 2}),
    Case("Split", [0, (-1, 6)], {"num_split": 2}),
    Case("Split", [P((), INT32), (4, 6)], {"num_split": 2}),
    Case("SplitV", [(-1, 6), [1, -1, 3], 1], {"num_split": 3}),
    Case("SplitV", [(4, 6), P((2,), INT32), 1], {"num_split": 2}),
    Case("Tile", [(-1, 3), [2, 2]]),
    Case("Tile", [(4, 3), P((2,), INT32)]),
    Case("Pad", [A, C([0, 0, 1, 1, 2, 0, 0, 0], (4, 2))]),
    Case("MirrorPad", [(4, 3), C([1, 0, 0, 1], (2, 2))], {"mode": "REFLECT"}),
    Case("Pad", [(4, 3), P((2, 2), INT32)]),
    # Cut.
    Case("Slice", [A, [0, 1, 0, 0], [-1, 2, -1, 3]]),
    Case("Slice", [(4, 8), [1, 1], [-1, -1]]),
    Case("Slice", [(4, 8), P((2,), INT32), [2, -1]]),
    Case("StridedSlice", [A, [0, 1], [0, 7], [1, 2]], STRIPES),
    Case("StridedSlice", [A, [0], [1], [1]], {"shrink_axis_mask": 1}),
    Case("StridedSlice", [A, [0, 0], [0, 1], [1, 1]], {"ellipsis_mask": 1, "shrink_axis_mask": 2}),
    Case("StridedSlice", [(4, 8), [0, 0], [0, 0], [1, 1]], {
        "new_axis_mask": 1, "begin_mask": 2, "end_mask": 2}),
    Case("StridedSlice", [(4, 8), [-3], [-1], [1]]),
    Case("StridedSlice", [(4, 8), [9], [0], [-2]], {"end_mask": 1}),
    Case("StridedSlice", [(-1, 8), [0], [2], [1]]),  # there may be but one
    Case("StridedSlice", [(4, 8), P((1,), INT32), P((1,), INT32), [1]]),
    Case("StridedSlice", [(4, 8), P(None, INT32), P(None, INT32), P(None, INT32)]),
    # Looked up.
    Case("Gather", [(5, 3), P((-1, 2), INT32)]),
    Case("GatherV2", [(5, 3), P((-1, 2), INT32), 1]),
    Case("GatherV2", [(-1, 5, 3), P((4, 2), INT32), 1], {"batch_dims": 1}),
    Case("GatherNd", [(5, 3, 2), P((7, 2), INT32)]),
    Case("ScatterNd", [P((7, 1), INT32), (7, 3), [9, 3]]),
    Case("OneHot", [P((-1, 3), INT32), 5, (), ()]),
    Case("OneHot", [P((-1, 3), INT32), 5, (), ()], {"axis": 1}),
    Case("TopKV2", [(-1, 9), 4]),
    Case("TopK", [(-1, 9)], {"k": 4}),
    Case("Range", [2, 9, 3]),
    Case("Range", [9, 2, -3]),
    Case("Range", [P((), INT32), 9, 1]),
    Case("Fill", [[2, 3], ()]),
    Case("Where", [P((-1, 3), BOOL)], {"T": BOOL}),
    Case("NonMaxSuppressionV3", [(-1, 4), (-1,), 7, (), ()]),
    Case("CombinedNonMaxSuppression", [(-1, 9, 1, 4), (2, 9, 3), 5, 7, (), ()]),
    Case("CombinedNonMaxSuppression", [(-1, 9, 1, 4), (-1, 9, 3), 5, 7, (), ()]),
    Case("NonMaxSuppressionV4", [(-1, 4), (-1,), 7, (), ()], {"pad_to_max_output_size": True}),
    Case("DynamicPartition", [(-1, 3), P((-1,), INT32)], {"num_partitions": 2}),
    Case("DynamicStitch", [P((3,), INT32), P((2, 2), INT32), (3, 5), (2, -1, -1)]),
    Case("UnsortedSegmentSum", [(-1, 3), P((-1,), INT32), 5]),
    Case("Unique", [(-1,)]),
    # Space, depth, images, sound.
    Case("SpaceToBatchND", [A, [2, 2], C([0, 0, 0, 2], (2, 2))]),
    Case("SpaceToBatchND", [(4, 8, 6), [2], C([0, 0], (1, 2))]),
    Case("BatchToSpaceND", [(8, 4, 3, 3), [2, 2], C([1, 0, 0, 0], (2, 2))]),
    Case("SpaceToBatchND", [(4, 8, 6), P((1,), INT32), C([0, 0], (1, 2))]),
    Case("SpaceToDepth", [A], {"block_size": 2}),
    Case("DepthToSpace", [(-1, 12, 4, 3)], {"block_size": 2, "data_format": "NCHW"}),
    Case("ResizeBilinear", [A, [5, 4]]),
    Case("ResizeNearestNeighbor", [A, P((2,), INT32)]),
    Case("CropAndResize", [A, (-1, 4), P((5,), INT32), [2, 3]]),
    Case("DecodeJpeg", [P((), STRING)], {"channels": 3}),
    Case("DecodePng", [P((), STRING)]),
    Case("DecodeWav", [P((), STRING)], {"desired_channels": 1, "desired_samples": 16000}),
    Case("AudioSpectrogram", [(16000, 1)], {"window_size": 480, "stride": 320}),
    Case("Mfcc", [(1, 49, 257), P((), INT32)]),
    Case("ExtractImagePatches", [A], {
        "ksizes": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}),
    # Shapes as tensors, control flow, chance.
    Case("Shape", [A]),
    Case("Shape", [None]),
    Case("ShapeN", [A, None]),
    Case("Size", [A]),
    Case("Switch", [A, P((), BOOL)]),
    Case("Merge", [(4, 3, 2), (4, -1, 3)]),
    Case("Merge", [(4, 3), None]),
    Case("TruncatedNormal", [[2, 3]], {"dtype": FLOAT}),
    Case("Multinomial", [(-1, 3), 2]),
    Case("SparseSoftmaxCrossEntropyWithLogits", [(-1, 5), P((4,), INT32)]),
    Case("VariableV2", [], {"shape": (2, 3), "dtype": FLOAT}),
]  # fmt: skip
