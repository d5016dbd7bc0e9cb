"""Inferred shapes, compared with the shapes that TensorFlow infers and with the shapes of the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from support import graphs
from support.aside import RANDOM_GRAPHS, Answers, ShapesTold
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    UINT8,
    add,
    attr,
    const,
    graph,
    graph_bytes,
    identity,
    node,
    placeholder,
    scalar,
)
from support.published import ABSENT, EXECUTABLE, FOLDER

import gdsurgeon as gds
from gdsurgeon.analysis.shapes import inference
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.edits.simplifying.graph_view import BITS, GraphView
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.write import read_chunks

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
    Case("StridedSlice", [A, [0, 1], [0, 7], [1, 2]], {"begin_mask": 1, "end_mask": 1}),
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


def shapes_of(found: Graph, *tensors: str, **options: Any) -> list[Shape]:
    inferred = infer_shapes(found, **options)
    return [inferred.shape(found.tensor(tensor)) for tensor in tensors]


def contradicts(ours: Shape, theirs: list[int] | None) -> bool:
    """Returns whether a known part of `ours` differs from `theirs`."""
    if ours is None or theirs is None:
        return False
    return len(ours) != len(theirs) or any(a >= 0 and b >= 0 and a != b for a, b in zip(ours, theirs, strict=True))


def is_vaguer(ours: Shape, theirs: list[int] | None) -> bool:
    """Whether THEIRS states something that OURS does not."""
    if theirs is None:
        return False
    return ours is None or any(a < 0 <= b for a, b in zip(ours, theirs, strict=False))


class TestRules:
    @pytest.mark.parametrize(
        ("op", "inputs", "attrs", "words"),
        [
            ("AddV2", [(2, 4), (3, 4)], {}, "[2,4] and [3,4] cannot be broadcast"),
            ("MatMul", [(-1, 4), (5, 6)], {}, "[?,4] times [5,6]"),
            ("MatMul", [(-1, 4), (5, 6)], {"transpose_b": True}, "[?,4] times [5,6] transposed"),
            ("MatMul", [(2, 3, 4), (4, 5)], {}, "3 dimensions, but must have 2"),
            ("Reshape", [(2, 4), [3, 3]], {}, "[2,4] reshaped to [3,3]"),
            ("Reshape", [(2, 4), [-1, 3]], {}, "[2,4] reshaped to [-1,3]"),
            ("Reshape", [(-1, 5), [3, 3]], {}, "[?,5] reshaped to [3,3]"),
            ("ConcatV2", [(2, 4), (3, 4), 1], {}, "it joins [2,4], [3,4] along axis 1"),
            ("Squeeze", [(2, 4)], {"squeeze_dims": [0]}, "axes [0] of [2,4] cannot be dropped"),
            ("Split", [1, (2, 5)], {"num_split": 2}, "it splits [2,5] into 2 parts along axis 1"),
            ("Unpack", [(2, 5)], {"num": 3}, "it unpacks [2,5] into 3 tensors"),
            ("Conv2D", [(1, 8, 8, 4), (3, 3, 3, 2)], {"strides": [1, 1, 1, 1], "padding": "SAME"}, "3 channels"),
            ("Conv2D", [(1, 2, 2, 3), (5, 5, 3, 2)], {"strides": [1, 1, 1, 1], "padding": "VALID"}, "does not fit"),
            ("BiasAdd", [(-1, 4), (5,)], {}, "5 biases"),
            ("Slice", [(2, 4), [0, 0], [3, 4]], {}, "its slice of size [3,4]"),
            ("DynamicPartition", [(4, 3), P((5,), INT32)], {"num_partitions": 2}, "[5] and [4] differ"),
            ("DynamicStitch", [P((3,), INT32), (4, 5)], {}, "[3] and [4] differ"),
            ("BroadcastTo", [(2, 4), [3, 4]], {}, "cannot be broadcast to [3,4]"),
            (
                "PlaceholderWithDefault",
                [(2, 4)],
                {"shape": (3, 4)},
                "its default has the shape [2,4], but it accepts [3,4]",
            ),
            (
                "Conv2DBackpropInput",
                [[1, 8, 8, 5], (2, 2, 5, 3), (2, 4, 4, 3)],
                {"strides": [1, 2, 2, 1], "padding": "SAME"},
                "it needs [1,4,4,3], but its input is [2,4,4,3]",
            ),
        ],
    )
    def test_what_contradicts_itself_is_told(self, op: str, inputs: list[Any], attrs: Any, words: str) -> None:
        found = gds.from_bytes(Case(op, inputs, attrs).bytes())
        (conflict,) = infer_shapes(found).conflicts
        assert conflict.node is found["y"]
        assert words in conflict.text

    @pytest.mark.parametrize("case", CASES[::7], ids=Case.name)
    def test_a_node_that_lacks_inputs_or_attrs_is_of_unknown_shape(self, case: Case) -> None:
        data = gds.from_bytes(case.bytes())
        broken = data["y"]
        data.set_inputs(broken, [])
        for key in broken.attr_keys:
            data.set_attr(broken, key, b"")
        infer_shapes(data)
        for key in broken.attr_keys:
            data.set_attr(broken, key, b"\xff")  # cannot be decoded
        infer_shapes(data)


class TestValues:
    @pytest.mark.parametrize(
        ("op", "inputs", "value"),
        [
            ("Add", [[1, 2], 3], (4, 5)),
            ("Sub", [[1, 2], [3, 5]], (-2, -3)),
            ("Div", [[-7, 7], 2], (-3, 3)),
            ("FloorDiv", [[-7, 7], 2], (-4, 3)),
            ("FloorMod", [[-7, 7], 2], (1, 1)),
            ("FloorDiv", [[-7, 7], 0], (None, None)),
            ("Mul", [[1 << 20, 3], 1 << 20], (None, 3 << 20)),  # int32 wraps
            ("Maximum", [[-1, 4], 2], (2, 4)),
            ("Neg", [[1, -2]], (-1, 2)),
            ("GatherV2", [[5, 6, 7], [2, 0, 3], 0], (7, 5, None)),
            ("Slice", [[5, 6, 7], [1], [-1]], (6, 7)),
            ("Range", [1, 7, 2], (1, 3, 5)),
            ("Fill", [[2], 7], (7, 7)),
            ("Sum", [[1, 2], 0], (3,)),
            ("ExpandDims", [7, 0], (7,)),
            ("Pack", [[1, 2], [3, 4]], (1, 2, 3, 4)),
        ],
    )
    def test_one_op(self, op: str, inputs: list[Any], value: Any) -> None:
        found = gds.from_bytes(Case(op, inputs).bytes())
        assert infer_shapes(found).value(found.tensor("y")) == value

    def test_parts_of_a_vector(self) -> None:
        found = gds.from_bytes(Case("SplitV", [[5, 6, 7], [1, 2], 0], {"num_split": 2}).bytes())
        inferred = infer_shapes(found)
        assert [inferred.value(found.tensor(f"y:{i}")) for i in range(2)] == [(5,), (6, 7)]

    def test_the_default_of_a_placeholder_is_not_its_value(self) -> None:
        found = graph(
            const("d", [2, 3], INT32), node("p", "PlaceholderWithDefault", ["d"], dtype=INT32, shape=(2,)),
            scalar("one", 1), node("y", "Fill", ["p", "one"], T=FLOAT, index_type=INT32),
        )  # fmt: skip
        assert infer_shapes(found).value(found.tensor("p")) is None
        assert shapes_of(found, "y") == [(-1, -1)]


class TestGraphs:
    def test_what_comes_round_a_loop_is_unknown_and_what_does_not_is_known(self) -> None:
        records = graphs.loop()
        found = graph(*records, placeholder("x", FLOAT, (2, 3)),
                      node("w/x", "Enter", ["x"], T=FLOAT, frame_name="w", is_constant=True),
                      node("w/y", "Mul", ["w/x", "w/x"], T=FLOAT))  # fmt: skip
        assert shapes_of(found, "w/Merge", "w/Add", "w/Exit", "w/y", "w/one") == [None, None, None, (2, 3), ()]

    def test_an_edited_graph(self) -> None:
        found = graph(placeholder("x", FLOAT, (2, 3)), identity("y", "x"))
        found.rename({found["x"]: "z"})
        found.set_op(found["y"], "Shape")
        added = found.add("w", "Identity", [found["y"].output], attrs={"T": INT32})
        inferred = infer_shapes(found)
        assert (inferred.shape(found["y"].output), inferred.value(added.output)) == ((2,), (2, 3))

    @pytest.mark.parametrize(("producer", "shape"), [(23, None), (24, ())])
    def test_a_scalar_placeholder_of_an_old_producer_may_be_anything(self, producer: int, shape: Shape) -> None:
        found = graph(placeholder("x", FLOAT, ()), identity("y", "x"), trailer=graphs.versions(producer))
        assert shapes_of(found, "y") == [shape]

    def test_stated_shapes_count_for_unknown_ops_alone(self) -> None:
        stated = gds.graph.attrs.attr_value(b"")
        stated.list.shape.add().dim.add(size=7)
        found = graph(
            placeholder("x", FLOAT, (2, 3)), node("y", "MyOp", ["x"], _output_shapes=stated.SerializeToString()),
            identity("z", "x", _output_shapes=stated.SerializeToString()),
        )  # fmt: skip
        assert shapes_of(found, "y", "z") == [(7,), (2, 3)]
        assert shapes_of(found, "y", use_stated=False) == [None]
        given = {found.tensor("x"): (4, 3)}
        assert shapes_of(found, "x", "y", "z", given=given) == [(4, 3), None, (4, 3)]

    def test_a_long_chain_is_walked_without_recursion(self) -> None:
        records = [placeholder("n0", FLOAT, (-1, 3))] + [identity(f"n{i + 1}", f"n{i}") for i in range(5_000)]
        assert shapes_of(graph(*records), "n5000") == [(-1, 3)]


# TensorFlow's own word.


def compared(found: Graph, inferred: Shapes, theirs: dict[str, list[int] | None]) -> tuple[list[str], int, int]:
    """Returns tensors with a wrong shape, the number of known shapes, and the number of shapes that we know as well."""
    wrong, known, ours = [], 0, 0
    for name, shape in theirs.items():
        if found.find(name.split(":")[0]) is None:
            continue
        stated = inferred.shape(found.tensor(name))
        if contradicts(stated, shape):
            wrong.append(f"{name} ({found.tensor(name).node.op}): {stated}, and TensorFlow has {shape}")
        known += shape is not None
        ours += shape is not None and not is_vaguer(stated, shape)
    return wrong, known, ours


@pytest.fixture(scope="module")
def answers(shapes_told: ShapesTold, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """TensorFlow's word on all of them, asked at once: on the cases by their numbers, on the others by their names."""
    folder = tmp_path_factory.mktemp("shapes")
    for i, case in enumerate(CASES):
        (folder / f"{i}.pb").write_bytes(case.bytes())
    for name in EXECUTABLE if FOLDER.is_dir() else ():
        (folder / f"{name}.pb").write_bytes(read_chunks(gds.load(str(FOLDER / name)).chunks()))
    return shapes_told.of(folder)


@pytest.mark.tensorflow
class TestAgainstTensorFlow:
    LESS_IS_SAID_OF = ("Einsum", "MaxPool")
    """Of equations with an ellipsis, and of pooling over channels."""

    def test_each_op(self, answers: Answers) -> None:
        ran, vaguer = 0, []
        for i, case in enumerate(CASES):
            answer = answers(str(i))
            if "has been removed" in answer.get("error", ""):
                continue
            assert "error" not in answer, (case.name(), answer["error"])
            found = gds.from_bytes(case.bytes())
            inferred = infer_shapes(found)
            assert inferred.conflicts == [], case.name()
            wrong, known, ours = compared(found, inferred, answer["static"])
            assert wrong + compared(found, inferred, answer["actual"])[0] == [], case.name()
            ran += "y:0" in answer["actual"]
            if known > ours and case.op not in self.LESS_IS_SAID_OF:
                vaguer.append((case.name(), answer["static"]))
        assert vaguer == []
        assert ran > len(CASES) * 0.7

    def test_random_graphs(self, random_answers: Answers) -> None:
        known = ours = 0
        for path in random_answers.folder.glob("*.pb"):
            found = gds.load(str(path))
            inferred = infer_shapes(found)
            answer = random_answers(path.stem)
            wrong, more, as_much = compared(found, inferred, answer["static"])
            assert wrong + compared(found, inferred, answer["actual"])[0] == [], path.name
            known, ours = known + more, ours + as_much
        assert known > 100 * RANDOM_GRAPHS
        assert ours > 0.99 * known


@pytest.mark.tensorflow
@pytest.mark.models
@pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)
def test_published_graphs(answers: Answers) -> None:
    known = ours = 0
    for name in EXECUTABLE:
        found = gds.load(str(FOLDER / name))
        inferred = infer_shapes(found, use_stated=False)
        answer = answers(name)
        assert "error" not in answer, answer["error"]
        wrong, more, as_much = compared(found, inferred, answer["static"])
        assert wrong + compared(found, inferred, answer["actual"])[0] == [], name
        assert inferred.conflicts == [], name
        known, ours = known + more, ours + as_much
    assert known > 8000
    assert ours > 0.985 * known


X = placeholder("x", FLOAT, (-1, 6))
SHAPE = node("s", "Shape", ["i"], T=FLOAT, out_type=INT32)
RESHAPED = [X, identity("i", "x"), SHAPE, node("r", "Reshape", ["i", "s"], T=FLOAT, Tshape=INT32),
            placeholder("z", FLOAT, (2, 3)), identity("j", "z"), add("y", "r", "x"), add("beside", "x", "x"),
            const("to", [3, -1], INT32), node("q", "Reshape", ["y", "to"], T=FLOAT, Tshape=INT32)]  # fmt: skip


def view_of(found: Graph) -> GraphView:
    return GraphView(found, [], keeps_checks=True)


def reads(view: GraphView, name: str, *inputs: str) -> None:
    """Has a node read others, in a view and in its graph."""
    found, id_of = view.graph, view.topology.id_of
    view.set_inputs(id_of(found[name]), [id_of(found[text]) << BITS for text in inputs])
    found.set_inputs(found[name], [found[text].output for text in inputs])


def check(view: GraphView) -> None:
    """The stored shapes equal the shapes inferred from scratch."""
    shapes, anew = view.shapes(), infer_shapes(view.graph, use_stated=False)
    for each in view.graph.nodes():
        for output in each.outputs:
            assert (shapes.shape(output), shapes.value(output)) == (anew.shape(output), anew.value(output)), output


EDITS: dict[str, Callable[[GraphView], Any]] = {
    "another input": lambda view: reads(view, "i", "z"),
    "the same shape": lambda view: reads(view, "s", "x"),
    "what was not asked for": lambda view: reads(view, "y", "j", "j"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_an_edit_changes_is_inferred_again(edit: Callable[[GraphView], Any]) -> None:
    view = view_of(graph(*RESHAPED))
    check(view)
    edit(view)
    view.renew()
    check(view)


def test_what_is_behind_a_cycle_stays_unknown() -> None:
    cycle = [node("a", "Shape", ["b"], T=INT32, out_type=INT32), identity("b", "a", kind=INT32)]
    check(view_of(graph(X, *cycle, identity("c", "b", kind=INT32))))


def test_nothing_is_inferred_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = graph(*RESHAPED)
    view = view_of(found)
    inferred = []
    infer = inference.Shapes.infer

    def noting(self: inference.Shapes, number: int) -> None:
        inferred.append(self.topology.name(number))
        infer(self, number)

    monkeypatch.setattr(inference.Shapes, "infer", noting)
    assert view.shapes().shape(found["r"].output) == (-1, 6)
    assert sorted(inferred) == ["i", "r", "s", "x"]
    inferred.clear()
    reads(view, "s", "x")
    view.renew()
    assert view.shapes().shape(found["r"].output) == (-1, 6)
    assert inferred == ["s"]  # what reads it reads the same as before
