"""The form of a node without its name and edges, read once for all equal nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from math import prod
from typing import NamedTuple

from gdsurgeon.graph.attrs import attr_value, functions_in, plain, shape_of
from gdsurgeon.graph.constants import TENSOR, decode_tensor, read_tensor_header
from gdsurgeon.graph.records import Record
from gdsurgeon.ops.dtypes import BOOL, INT32, INT64, STRING
from gdsurgeon.ops.kinds import ASIDE, is_variable
from gdsurgeon.ops.op_defs import OpDef, op_def
from gdsurgeon.wire.fields import LEN, Buffer, WireError, fields
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.node_record import Header, read_header
from gdsurgeon.wire.protos import AttrValue

SAME_BUT_NEWER: Mapping[str, str] = {
    "AddV2": "Add", "BatchMatMulV2": "BatchMatMul", "BatchMatMulV3": "BatchMatMul", "BiasAddV1": "BiasAdd",
    "ConcatV2": "Concat", "DivNoNan": "RealDiv", "FusedBatchNormV2": "FusedBatchNorm",
    "FusedBatchNormV3": "FusedBatchNorm", "GatherV2": "Gather", "MatrixSetDiagV3": "MatrixSetDiag",
    "NonMaxSuppressionV2": "NonMaxSuppression", "NonMaxSuppressionV3": "NonMaxSuppression",
    "NonMaxSuppressionV4": "NonMaxSuppression", "NonMaxSuppressionV5": "NonMaxSuppression", "PadV2": "Pad",
    "PlaceholderV2": "Placeholder", "ReverseV2": "Reverse", "SelectV2": "Select", "TopKV2": "TopK",
}  # fmt: skip
"""Versions of an op that exporters of another age write in each other's place, by the oldest."""

STRUCTURAL = frozenset(
    """
    DstT N SrcT axis begin_mask data_format dtype ellipsis_mask end_mask k ksize method mode new_axis_mask num_split
    out_type padding shrink_axis_mask strides transpose_a transpose_b
    """.split()
)
"""Attrs that say what a layer is: others come and go with versions of TensorFlow."""

MOST_COUNTED = 8
"""Elements up to which whole numbers and texts are structure (axes, sizes, permutations) and no weights."""
_COUNTED = frozenset((BOOL, INT32, INT64, STRING))


class Tensor(NamedTuple):
    """A constant's value without its elements; `shape` is None where the rank is unknown."""

    dtype: int
    shape: tuple[int, ...] | None


class Form(NamedTuple):
    """The form of a node without its name and edges.

    Attributes:
        op: the op.
        device: the device of the node, or ''.
        attrs: serialised AttrValues by key, without `ASIDE`, functions, those that the op has by default, and what
            `tensor` tells and a constant's value.
        functions: the functions that each of the other attrs names.
        tensor: of a constant or a variable; None for other nodes, or if it cannot be read.
        content: equal where two nodes are, attrs and values included.
        structure: equal where two nodes are but for what training changes, and what versions of TensorFlow add.
        kind: equal where their ops are, in whichever version.
        is_trained: whether it is a constant of several elements that are no structure.
        value: of a small constant the serialised AttrValue.
    """

    op: str
    device: str
    attrs: Mapping[str, bytes]
    functions: Mapping[str, tuple[str, ...]]
    tensor: Tensor | None
    content: Hashable
    structure: Hashable
    kind: str
    is_trained: bool = False
    value: bytes = b""

    def frozen(self) -> Form:
        """Returns the form of the constant that replaces a variable in a frozen graph, without its value; others
        unchanged.
        """
        if not is_variable(self.op):
            return self
        return self._replace(structure=("Const", self.tensor, None), kind="Const")


def form_in(data: bytes) -> Form:
    """The form that is serialised as a NodeDef in DATA. Raises WireError."""
    header = read_header(data, 0, len(data))
    return _constant(header, data) if header.op == "Const" else _form(header, data)


def form_of(record: Record) -> Form:
    """Returns the form of the node in `record`; a large value is read in pieces. Raises InputError."""
    header, data = record.header(), record.buffer()
    return _constant(header, data) if header.op == "Const" else _form(header, data)


def _form(header: Header, data: Buffer) -> Form:
    definition = op_def(header.op)
    attrs: dict[str, bytes] = {}
    functions: dict[str, tuple[str, ...]] = {}
    structure: list[Hashable] = [kind := SAME_BUT_NEWER.get(header.op, header.op)]
    given: set[str] = set()
    for key, (start, end) in sorted(header.attrs.items()):
        raw = bytes(data[start:end])
        try:
            value = attr_value(raw)
        except decode_error():
            attrs[key] = raw
            continue
        named = tuple(func.name for func in functions_in(value))
        if named:
            functions[key] = named
        elif key not in ASIDE and not _is_default(definition, key, value):
            attrs[key] = raw
            if key in STRUCTURAL:
                given.add(key)
                structure.append((key, raw))
    if is_variable(header.op):
        return _variable(header, data, attrs)
    content = (header.op, tuple(attrs.items()), tuple(functions))
    return Form(header.op, header.device, attrs, functions, None, content, tuple(structure), kind)


def _is_default(definition: OpDef | None, key: str, value: AttrValue) -> bool:
    if definition is None or key not in definition.attrs or not definition.attrs[key].has_default:
        return False
    default, given = definition.attrs[key].default, plain(value)
    if isinstance(default, str) and isinstance(given, bytes):
        return default.encode() == given
    return default is not None and given is not None and given == default


def _variable(header: Header, data: Buffer, attrs: dict[str, bytes]) -> Form:
    """Returns the form of a variable; `Form.frozen` converts it to the constant of a frozen graph."""
    spans = {key: header.attrs.get(key, (0, 0)) for key in ("dtype", "shape")}
    try:
        values = {key: attr_value(bytes(data[start:end])) for key, (start, end) in spans.items()}
    except decode_error():
        spans, tensor = {}, None
    else:
        tensor = Tensor(values["dtype"].type, shape_of(values["shape"].shape))
    attrs = {key: raw for key, raw in attrs.items() if key not in spans}
    content = (header.op, tensor)
    return Form(header.op, header.device, attrs, {}, tensor, content, content, header.op)


def _constant(header: Header, data: Buffer) -> Form:
    attrs = {
        k: bytes(data[s:e]) for k, (s, e) in header.attrs.items() if k not in ASIDE and k not in ("value", "dtype")
    }
    start, end = header.attrs.get("value", (0, 0))
    tensor = _tensor(data, start, end)
    is_counted = tensor is not None and tensor.dtype in _COUNTED and prod(tensor.shape or ()) <= MOST_COUNTED
    small = bytes(data[start:end]) if end - start <= _SMALL else b""
    counted = _counted(small) if is_counted and small else None
    value = counted if counted is not None else _digest(data, start, end)
    content = ("Const", tuple(sorted(attrs.items())), tensor, value)
    is_trained = counted is None and tensor is not None and prod(tensor.shape or ()) > 1
    structure = ("Const", tensor, counted)
    return Form("Const", header.device, attrs, {}, tensor, content, structure, "Const", is_trained, small)


def _counted(data: bytes) -> Hashable:
    """The elements of a small constant, however they are stored; None where they cannot be read."""
    constant = decode_tensor(attr_value(data).tensor)
    return None if constant is None else tuple(constant.values)


_SMALL, _PIECE = 1 << 10, 1 << 22


def _tensor(data: Buffer, start: int, end: int) -> Tensor | None:
    """Of the AttrValue from START to END of DATA the tensor's dtype and shape."""
    if end - start <= _SMALL:
        try:
            value = attr_value(bytes(data[start:end]))
        except decode_error():
            return None
        proto = value.tensor
        shape = None if proto.tensor_shape.unknown_rank else tuple(dim.size for dim in proto.tensor_shape.dim)
        return Tensor(proto.dtype, shape) if value.HasField("tensor") else None
    try:
        for field in fields(data, start, end):
            if field.number == TENSOR and field.wire_type == LEN:
                header = read_tensor_header(data, field.value, field.end)
                return Tensor(header.dtype, header.dims)
    except WireError:
        pass  # it is compared as bytes
    return None


def _digest(data: Buffer, start: int, end: int) -> bytes:
    """What is equal where bytes are: the bytes themselves, or their hash where they are many."""
    if end - start <= 32:
        return bytes(data[start:end])
    digest = hashlib.blake2b(digest_size=16)
    for at in range(start, end, _PIECE):
        digest.update(data[at : min(at + _PIECE, end)])
    return digest.digest()
