"""The NumPy types of dtypes, and the elements of a TensorProto as they lie in memory."""

from __future__ import annotations

from array import array
from functools import cache
from typing import TYPE_CHECKING

from gdsurgeon.errors import NotValidatedError
from gdsurgeon.ops.dtypes import AS_IN_MEMORY, CONTENT, DTYPES, ELEMENT_FIELDS, NUMBERS, DType
from gdsurgeon.wire.fields import LEN, WireError, fields
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import TensorProto
from gdsurgeon.wire.source import Window
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of

if TYPE_CHECKING:
    import numpy as np


@cache
def has_numpy() -> bool:
    """Returns whether NumPy is installed: TensorFlow brings it, gdsurgeon does not."""
    from importlib.util import find_spec

    return find_spec("numpy") is not None


def require_numpy(what: str) -> None:
    """Does nothing if NumPy is installed. WHAT is the work that needs it.

    Raises:
        NotValidatedError: NumPy is not installed.
    """
    if not has_numpy():
        raise NotValidatedError(
            f"NumPy is not installed, but {what} needs it",
            code="no-engine",
            package="numpy",
            advice="install-tensorflow",
        )


def is_readable(dtype: DType) -> bool:
    """Returns whether elements of DTYPE are numbers here: bfloat16 and its like need ml_dtypes, complex ones NumPy."""
    if not has_numpy():
        return bool(NUMBERS[dtype.numpy].code)
    return not dtype.is_float or numpy_dtype(dtype).kind != "u"


def numpy_dtype(number: int) -> np.dtype[np.generic]:
    """The numpy dtype of DataType NUMBER, which has elements outside TensorFlow; strings are objects.

    bfloat16 and other small types are ml_dtypes' where that is installed, raw unsigned words otherwise.
    """
    import numpy as np

    dtype = DTYPES[number]
    if dtype.kind in ("f", "i", "u") and not NUMBERS[dtype.numpy].code:
        try:
            import ml_dtypes

            small: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, dtype.numpy))
            return small
        except (ImportError, AttributeError):
            return np.dtype(f"u{dtype.size}")
    return np.dtype(dtype.numpy)


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
