"""The elements of a TensorProto as they lie in memory, wherever it has them."""

from __future__ import annotations

from array import array

from gdsurgeon.ops.dtypes import AS_IN_MEMORY, CONTENT, ELEMENT_FIELDS, DType
from gdsurgeon.wire.fields import LEN, WireError, fields
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import TensorProto
from gdsurgeon.wire.source import Window
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of


def numbers_in(span: SourceSpan, dtype: DType) -> list[Chunk]:
    """The numbers of DTYPE that the TensorProto SPAN holds: spans of it, where it has them as they lie in memory.

    Raises:
        WireError: it is no TensorProto.
    """
    source, start, _ = span
    buffer = Window(source, start, span.end)
    content: list[Chunk] = []
    single: list[Chunk] = []
    for field in fields(buffer, 0, len(buffer)):
        place = SourceSpan(source, start + field.value, start + field.end)
        if field.number == CONTENT and field.wire_type == LEN:
            content = [place]
        elif field.number == ELEMENT_FIELDS.get(dtype.field):
            single.append(place)
    if size_of(content):
        return content
    return single if dtype.field in AS_IN_MEMORY or not single else [_decoded(span, dtype)]


def _decoded(span: SourceSpan, dtype: DType) -> bytes:
    """The elements that a TensorProto has as varints."""
    try:
        tensor = TensorProto.FromString(span.source.read(span.start, span.end - span.start))
    except decode_error() as error:
        raise WireError("it holds no tensor", span.start) from error
    wide = array("Q" if dtype.field == "uint64_val" else "q", getattr(tensor, dtype.field)).tobytes()
    out = bytearray(len(wide) // 8 * dtype.size)
    for place in range(dtype.size):  # the lower bytes, whatever they stand for
        out[place :: dtype.size] = wide[place::8]
    return bytes(out)
