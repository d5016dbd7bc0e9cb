"""Constant tensors: dtype, shape and size without the content; values of small constants; literals."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import NamedTuple, TypeAlias

from gdsurgeon.errors import Remark
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.node import Node
from gdsurgeon.ops import dtypes
from gdsurgeon.wire.fields import FIXED32, FIXED64, LEN, VARINT, Buffer, WireError, fields, read_varint
from gdsurgeon.wire.protos import AttrValue, NodeDef, TensorProto, TensorShapeProto, decode_error
from gdsurgeon.wire.source import BytesSource
from gdsurgeon.wire.write import SourceSpan

TENSOR = 8
"""Field number of a TensorProto in an AttrValue."""

MOST_ELEMENTS = 1 << 63
SMALL = 1 << 20
"""Largest size in bytes of a constant whose values are decoded."""

# Fields of TensorProto that hold values one by one: bytes of each value, 0 for varints, None if length-delimited.
_VALUE_FIELDS: dict[int, int | None] = {
    5: 4, 6: 8, 7: 0, 8: None, 9: 4, 10: 0, 11: 0, 12: 8, 13: 0, 14: None, 15: None, 16: 0, 17: 0,
}  # fmt: skip
_PER_ELEMENT = {9: 2, 12: 2}  # complex numbers are two floats


class TensorHeader(NamedTuple):
    """A TensorProto without its values.

    Attributes:
        dtype: the DataType.
        dims: the shape in the proto; None for an unknown rank.
        content_bytes: the size of `tensor_content` in bytes.
        values: the number of elements in the fields that hold elements one by one.
        has_texts: for a tensor of strings with content, whether the content holds as many strings as the shape says.
    """

    dtype: int
    dims: tuple[int, ...] | None
    content_bytes: int
    values: int
    has_texts: bool = True

    @property
    def elements(self) -> int:
        """The number of elements of the shape; 0 if the rank is unknown."""
        return prod(self.dims) if self.dims is not None else 0


def read_tensor_header(buf: Buffer, start: int, end: int) -> TensorHeader:
    """Returns the header of the TensorProto in `buf` from `start` to `end`; its values are not decoded.

    Raises:
        WireError: the bytes are not a TensorProto.
    """
    dtype = content = content_end = values = 0
    dims: tuple[int, ...] | None = ()
    for field in fields(buf, start, end):
        if field.number == 1 and field.wire_type == VARINT:
            dtype = read_varint(buf, field.value, field.end)[0]
        elif field.number == 2 and field.wire_type == LEN:
            try:
                shape = TensorShapeProto.FromString(buf[field.value : field.end])
            except decode_error():
                raise WireError("a shape that cannot be decoded", field.value) from None
            dims = None if shape.unknown_rank else tuple(dim.size for dim in shape.dim)
        elif field.number == 4 and field.wire_type == LEN:
            content, content_end = field.end - field.value, field.end
        elif field.number in _VALUE_FIELDS:
            count = _count(buf, field.number, field.wire_type, field.value, field.end)
            values += count // _PER_ELEMENT.get(field.number, 1) if field.wire_type == LEN else count
        elif field.number == 18 and field.wire_type == LEN:
            values += field.end - field.value
    header = TensorHeader(dtype, dims, content, values)
    if dtype == dtypes.STRING and content:
        return header._replace(has_texts=_has_texts(buf, content_end - content, content_end, header.elements))
    return header


def _has_texts(buf: Buffer, start: int, end: int, count: int) -> bool:
    """Returns whether `buf` holds, from `start` to `end`, `count` lengths and then strings with such lengths.

    For more than `SMALL` strings only the first `SMALL` lengths are read.
    """
    if not 0 <= count <= end - start:
        return False
    looked_at = min(count, SMALL)
    data = buf[start : min(end, start + 5 * looked_at)]
    lengths = pos = 0
    try:
        for _ in range(looked_at):
            size, pos = read_varint(data, pos, len(data))
            lengths += size
    except WireError:
        return False
    return count > SMALL or start + pos + lengths == end


def packed_strings(data: bytes, count: int) -> list[bytes]:
    """Returns the `count` strings of a tensor's content, which begins with their lengths.

    Raises WireError: wrong count.
    """
    lengths: list[int] = []
    pos = 0
    while len(lengths) < count:
        size, pos = read_varint(data, pos, len(data))
        lengths.append(size)
    out = []
    for size in lengths:
        out.append(data[pos : pos + size])
        pos += size
    if pos != len(data):
        raise WireError("the lengths of the strings do not fit their bytes", pos)
    return out


def _count(buf: Buffer, number: int, wire_type: int, start: int, end: int) -> int:
    """Returns the number of values in a field of `_VALUE_FIELDS`."""
    size = _VALUE_FIELDS[number]
    if size is None or wire_type in (VARINT, FIXED32, FIXED64):
        return 1
    if size:
        return (end - start) // size
    count = 0
    for pos in range(start, end, SMALL):
        data = buf[pos : min(pos + SMALL, end)]
        count += len(data.translate(None, _CONTINUED))
    return count


_CONTINUED = bytes(range(128, 256))


def constant_header(node: Node) -> TensorHeader | None:
    """Returns the header of a Const's value, whatever its size; None if it is missing or corrupt."""
    if node.record is None or "value" not in node.header.attrs or "value" in node._attrs:
        data = node.attr_bytes("value")
        return None if data is None else header_of(data)
    start, end = node.header.attrs["value"]
    return header_in_attr(node.record.buffer(), start, end)


def header_of(data: bytes) -> TensorHeader | None:
    """Returns the header of the tensor in the serialised AttrValue `data`; None if it is missing or corrupt."""
    return header_in_attr(data, 0, len(data))


def header_in_attr(buf: Buffer, start: int, end: int) -> TensorHeader | None:
    """Returns the header of the tensor in the AttrValue from `start` to `end`; None if it is missing or corrupt."""
    try:
        place = _tensor_in_attr(buf, start, end)
        return None if place is None else read_tensor_header(buf, *place)
    except WireError:
        return None


def _tensor_in_attr(buf: Buffer, start: int, end: int) -> tuple[int, int] | None:
    """Returns the start and end of the TensorProto in an AttrValue, or None. Raises WireError: it is corrupt."""
    for field in fields(buf, start, end):
        if field.number == TENSOR and field.wire_type == LEN:
            return field.value, field.end
    return None


def constant_span(node: Node) -> SourceSpan | None:
    """Returns the bytes of the TensorProto in a Const's value; None if it is missing or corrupt."""
    record = node.record
    try:
        if record is None or "value" not in node.header.attrs or "value" in node.changed_attrs:
            data = node.attr_bytes("value")
            place = None if data is None else _tensor_in_attr(data, 0, len(data))
            return None if data is None or place is None else SourceSpan(BytesSource(data), *place)
        place = _tensor_in_attr(record.buffer(), *node.header.attrs["value"])
    except WireError:
        return None
    return None if place is None else SourceSpan(record.source, record.body + place[0], record.body + place[1])


Element: TypeAlias = int | float | bytes


class Constant(NamedTuple):
    """A small constant: its shape, and its elements in row-major order (numbers, or bytes for strings)."""

    dtype: int
    shape: tuple[int, ...]
    values: list[Element]


def _readable(number: int) -> dtypes.DType | None:
    """Returns the dtype with the DataType `number` if Python can represent its elements (see `_TYPES`); else None."""
    dtype = dtypes.DTYPES.get(number)
    return dtype if dtype is not None and (dtype.code or dtype == dtypes.STRING) else None


_TYPES: dict[str, tuple[type, ...]] = {"f": (int, float), "i": (int,), "u": (int,), "b": (bool,), "O": (bytes,)}


def constant(node: Node, *, only_scalar: bool = False) -> Constant | None:
    """Returns the value of a Const node; None for other nodes, large or corrupt values, and unsupported dtypes.

    With `only_scalar`, a value that is not a scalar may also be None, which saves time.
    """
    record = node.record
    if record is not None and record.data is not None and not node.changed_attrs and node.op_override is None:
        with suppress(decode_error()):
            message = NodeDef.FromString(record.data)
            tensor = message.attr["value"].tensor
            is_wanted = message.op == "Const" and not (only_scalar and tensor.tensor_shape.dim)
            return _constant_of(tensor) if is_wanted else None
    if node.op != "Const":
        return None
    if node.attr_size("value") > SMALL and (only_scalar or not _is_small(constant_header(node))):
        return None
    return constant_in(node.attr_bytes("value") or b"")


def constant_in(data: bytes) -> Constant | None:
    """Returns the value in the serialised AttrValue of a Const; None: see `constant`."""
    try:
        return _constant_of(attr_value(data).tensor)
    except decode_error():
        return None


def _constant_of(tensor: TensorProto) -> Constant | None:
    shape = None if tensor.tensor_shape.unknown_rank else tuple(dim.size for dim in tensor.tensor_shape.dim)
    header = TensorHeader(tensor.dtype, shape, len(tensor.tensor_content), 0)
    return decode_tensor(tensor) if _is_small(header) else None


def _is_small(header: TensorHeader | None) -> bool:
    """Returns whether there is a tensor, its shape is fully known, and it is small enough to be decoded."""
    if header is None or header.dims is None or min(header.dims, default=0) < 0:
        return False
    size = dtypes.element_size(header.dtype) or 8
    return header.elements * size <= SMALL and header.content_bytes <= SMALL


def tensor_value(dtype: int, shape: tuple[int, ...], values: Sequence[object]) -> AttrValue:
    """Returns an AttrValue with a tensor of `shape` and `values` in row-major order (numbers, or bytes for strings).

    Raises:
        ValueError: a value is not of `dtype`, or `dtype` is not supported.
    """
    kind = _readable(dtype)
    if kind is None:
        raise ValueError(Remark(f"a constant of {dtypes.dtype_name(dtype)} cannot be made", "unsupported-dtype"))
    types = _TYPES[kind.kind]
    low, high = kind.bounds
    for item in values:
        fits = isinstance(item, types) and (kind == dtypes.BOOL or not isinstance(item, bool))
        if not fits or (kind.is_integer and isinstance(item, int) and not low <= item <= high):
            raise ValueError(f"is not {kind.name}")
    value = raw_value(dtype, shape)
    items = list(values)
    try:
        if dtype in (dtypes.FLOAT32, dtypes.FLOAT64):
            struct.pack(f"<{len(items)}{kind.code}", *items)  # protobuf would make overflows infinite
        if dtype == dtypes.FLOAT16:
            items = [struct.unpack("<H", struct.pack("<e", item))[0] for item in items]
        getattr(value.tensor, kind.field).extend(items)
    except (ValueError, OverflowError, struct.error):
        raise ValueError(f"is not {kind.name}") from None
    return value


def raw_value(dtype: int, shape: Sequence[int], content: bytes = b"") -> AttrValue:
    """Returns an AttrValue with a tensor whose elements are the bytes `content`, in their layout in memory."""
    dims = {"dim": [{"size": size} for size in shape]}
    return AttrValue(tensor={"dtype": dtype, "tensor_shape": dims, "tensor_content": content})


def decode_tensor(tensor: TensorProto) -> Constant | None:
    """Returns the value in a TensorProto; None if the dtype is not supported or the sizes do not match."""
    shape = tuple(int(dim.size) for dim in tensor.tensor_shape.dim)
    count = prod(shape)
    kind = _readable(tensor.dtype)
    if kind is None:
        return None
    if tensor.tensor_content:
        if not kind.code or len(tensor.tensor_content) != count * kind.size:
            return None
        return Constant(tensor.dtype, shape, list(struct.unpack(f"<{count}{kind.code}", tensor.tensor_content)))
    values = list(getattr(tensor, kind.field))
    if tensor.dtype == dtypes.FLOAT16:  # stored as integers with the same bits
        values = [struct.unpack("<e", struct.pack("<H", value & 0xFFFF))[0] for value in values]
    if len(values) > count:
        return None
    # Fewer values than elements: the last value fills the rest, as in TensorFlow.
    filler = values[-1] if values else (b"" if tensor.dtype == dtypes.STRING else 0)
    return Constant(tensor.dtype, shape, values + [filler] * (count - len(values)))


_SPELLINGS = (
    (r"\b[nN][aA][nN]\b", "NaN"),
    (r"\b[iI][nN][fF]([iI][nN][iI][tT][yY])?\b", "Infinity"),
    (r"(?<![\w.])\.(?=\d)", "0."),
    (r"\b[tT][rR][uU][eE]\b", "true"),
    (r"\b[fF][aA][lL][sS][eE]\b", "false"),
)


class Literal(NamedTuple):
    """A value: its shape, and its elements in row-major order; `is_scalar` if the text was not a list."""

    shape: tuple[int, ...]
    values: list[object]
    is_scalar: bool


def parse_literal(text: str, dtype: int) -> Literal:
    """Returns the value that `text` spells for a tensor of `dtype`; checks only the form of its elements.

    Numbers with commas between them are a list. For strings, a text that does not begin with ``[`` is one string.

    Raises:
        ValueError: `text` is not a value; the argument is a `Remark` that describes the expected form.
    """
    is_text = dtype == dtypes.STRING
    if is_text and not text.startswith("["):
        return Literal((), [text.encode("utf-8", "surrogateescape")], True)
    import json

    try:
        value = json.loads(text if is_text else _normal(text), parse_float=_finite)
    except OverflowError:
        raise ValueError(Remark(f"is not {dtypes.dtype_name(dtype)}", "bad-value")) from None
    except (ValueError, RecursionError):
        form = 'a text, or a list such as ["a", "b"]' if is_text else "a number, or a list such as [0.6, 0.7]"
        raise ValueError(Remark(f"is not {form}", "not-a-literal")) from None
    flat: list[object] = []
    shape = _flatten(value, flat)
    if shape is None:
        raise ValueError(Remark("is a ragged list", "ragged-list"))
    return Literal(shape, flat, not isinstance(value, list))


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):  # the text is a number, but too large for a float
        raise OverflowError
    return value


def _normal(text: str) -> str:
    """Returns `text` as JSON: comma-separated numbers become a list; NaN, Infinity, true and false are respelt."""
    if "," in text and not text.startswith("["):
        text = f"[{text}]"
    for pattern, spelling in _SPELLINGS:
        text = re.sub(pattern, spelling, text)
    return text


def _flatten(value: object, out: list[object]) -> tuple[int, ...] | None:
    """Appends the elements of nested lists to `out`; returns the shape, or None for a ragged list."""
    if not isinstance(value, list):
        out.append(value)
        return ()
    shapes = {_flatten(item, out) for item in value}
    if len(shapes) > 1 or None in shapes:
        return None
    inner = shapes.pop() if shapes else ()
    return (len(value), *inner) if inner is not None else None
