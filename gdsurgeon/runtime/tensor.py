"""Tensors as dtype, shape and bytes, without numpy unless a caller asks for an array."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from gdsurgeon.ops.dtypes import DTYPES, NUMBERS, STRING, dtype_name
from gdsurgeon.ops.elements import numpy_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


class Tensor:
    """A value in the memory of this process.

    Attributes:
        dtype: TensorFlow's DataType number.
        shape: the dimensions; () for a scalar.
        data: the elements in C order, native byte order, as a flat memoryview of bytes; for strings a list of bytes.

    Raises:
        TypeError: the dtype is unknown or opaque, or the kind of data does not suit it.
        ValueError: the amount of data does not suit the shape.
    """

    __slots__ = ("data", "dtype", "shape")

    data: memoryview | list[bytes]

    def __init__(self, dtype: int, shape: Sequence[int], data: bytes | bytearray | memoryview | list[bytes]) -> None:
        kind = DTYPES.get(dtype)
        if kind is None or not kind.kind:
            raise TypeError(f"a tensor of {dtype_name(dtype)} has no value outside TensorFlow")
        self.dtype = dtype
        self.shape = tuple(shape)
        count = math.prod(self.shape)
        if min(self.shape, default=0) < 0:
            raise ValueError(f"the shape {list(self.shape)} has a negative dimension")
        if isinstance(data, list):
            if dtype != STRING:
                raise TypeError(f"a tensor of {kind.name} is made from bytes, not from a list")
            if len(data) != count:
                raise ValueError(f"{len(data)} strings do not match the shape {list(self.shape)}")
            self.data = data
            return
        if dtype == STRING:
            raise TypeError("a tensor of strings is made from a list of bytes")
        view = memoryview(data)
        if view.nbytes != count * kind.size:
            raise ValueError(f"{view.nbytes} bytes do not match {kind.name} of shape {list(self.shape)}")
        # cast() refuses views without elements.
        self.data = view.cast("B") if view.nbytes else memoryview(b"")

    def __reduce__(self) -> tuple[object, ...]:
        from pickle import PickleBuffer

        data = self.data if isinstance(self.data, list) else PickleBuffer(self.data)
        return Tensor, (self.dtype, self.shape, data)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements; for strings the sum of their lengths."""
        if isinstance(self.data, list):
            return sum(map(len, self.data))
        return self.data.nbytes

    def tobytes(self) -> bytes:
        """Returns the elements in canonical form: the bytes are equal if and only if the elements are equal.

        Strings are each preceded by their length (8 bytes, little-endian).
        """
        if isinstance(self.data, list):
            return b"".join(struct.pack("<Q", len(text)) + text for text in self.data)
        return self.data.tobytes()

    def numpy(self) -> Array:
        """Returns the value as a numpy array, which may share this tensor's memory and may be read-only.

        Strings become an object array of bytes. bfloat16 and other small types are ml_dtypes' if that is installed, raw
        unsigned words otherwise.
        """
        import numpy as np

        if isinstance(self.data, list):
            strings = np.empty(len(self.data), object)
            strings[:] = self.data
            return strings.reshape(self.shape)
        return np.frombuffer(self.data, numpy_dtype(self.dtype)).reshape(self.shape)

    def __repr__(self) -> str:
        return f"Tensor({dtype_name(self.dtype)}, {list(self.shape)}, {self.nbytes} bytes)"


def from_numpy(array: object, dtype: int | None = None) -> Tensor:
    """Returns a tensor for a numpy array, or for a value that numpy can convert; shares memory if possible.

    Args:
        array: str elements become UTF-8 bytes.
        dtype: DataType number to give the same words another meaning, of the same size (int8 as qint8).

    Raises:
        TypeError: TensorFlow has no such element type, or `dtype` has a different size.
    """
    import numpy as np

    array = np.asarray(array, order="C")
    if array.dtype.kind in "USO":
        return Tensor(STRING, array.shape, [_as_bytes(item) for item in array.reshape(-1).tolist()])
    array = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    number = NUMBERS.get(array.dtype.name) if dtype is None else dtype
    if number is None or number not in DTYPES:
        raise TypeError(f"TensorFlow has no element type {array.dtype.name}")
    if DTYPES[number].size != array.dtype.itemsize:
        raise TypeError(f"{array.dtype.name} elements cannot be stored as {dtype_name(number)}")
    words = array.reshape(-1).view(np.uint8).data if array.size else b""
    return Tensor(number, array.shape, words)


def _as_bytes(item: object) -> bytes:
    if isinstance(item, str):
        return item.encode("utf-8", "surrogateescape")
    if isinstance(item, (bytes, bytearray, memoryview)):
        return bytes(item)
    raise TypeError(f"an array of objects must hold strings, not {type(item).__name__}")


def joined_tensors(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenates `tensors`, at least one, along `axis`; their other dimensions must be equal."""
    import numpy as np

    dtype = tensors[0].dtype
    return from_numpy(np.concatenate([each.numpy() for each in tensors], axis), None if dtype == STRING else dtype)


def reversed_elements(tensor: Tensor) -> Tensor:
    """Returns `tensor` with its elements in reverse order."""
    if isinstance(tensor.data, list):
        return Tensor(tensor.dtype, tensor.shape, tensor.data[::-1])
    size = DTYPES[tensor.dtype].size
    turned = bytearray(tensor.data.nbytes)
    for byte in range(size):  # of each element: a step through all of them is quick
        turned[byte::size] = tensor.data[byte::size][::-1]
    return Tensor(tensor.dtype, tensor.shape, turned)
