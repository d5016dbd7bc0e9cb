"""The NumPy types of dtypes, and the elements of a TensorProto in their memory layout."""

from __future__ import annotations

from array import array
from functools import cache
from typing import TYPE_CHECKING

from gdsurgeon.errors import NotValidatedError
from gdsurgeon.ops.dtypes import AS_IN_MEMORY, CONTENT, DTYPES, ELEMENT_FIELDS, NUMBERS, DType
from gdsurgeon.wire.fields import LEN, WireError, fields
from gdsurgeon.wire.protos import TensorProto, decode_error
from gdsurgeon.wire.source import Window
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of

if TYPE_CHECKING:
    import numpy as np


@cache
def has_numpy() -> bool:
    """Returns whether NumPy is installed: TensorFlow depends on it, gdsurgeon does not."""
    from importlib.util import find_spec

    return find_spec("numpy") is not None


def require_numpy(what: str) -> None:
    """Checks that NumPy is installed. `what` names the work that needs NumPy, for the error message.

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
    """Returns whether elements of `dtype` can be read as numbers.

    bfloat16 and other small types need ml_dtypes; complex types need NumPy.
    """
    if not has_numpy():
        return bool(NUMBERS[dtype.numpy].code)
    return not dtype.is_float or numpy_dtype(dtype).kind != "u"


def numpy_dtype(number: int) -> np.dtype[np.generic]:
    """Returns the numpy dtype of DataType `number`, which must have a memory layout; strings are objects.

    bfloat16 and other small types use ml_dtypes if it is installed, else unsigned integers with the raw bits.
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
    """Returns the elements of the TensorProto at `span`, in memory layout; `dtype` is their dtype.

    The result is spans of the file if the file has the memory layout, else decoded bytes.

    Raises:
        WireError: the bytes are not a TensorProto.
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
    """Returns the elements that a TensorProto stores as varints, in memory layout."""
    try:
        tensor = TensorProto.FromString(span.source.read(span.start, span.end - span.start))
    except decode_error() as error:
        raise WireError("it holds no tensor", span.start) from error
    wide = array("Q" if dtype.field == "uint64_val" else "q", getattr(tensor, dtype.field)).tobytes()
    out = bytearray(len(wide) // 8 * dtype.size)
    for place in range(dtype.size):  # the low-order bytes of each 8-byte word, for any dtype
        out[place :: dtype.size] = wide[place::8]
    return bytes(out)
