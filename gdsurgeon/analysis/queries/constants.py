"""The values of constants and of variables in a checkpoint, and the sizes of constants.

A value is read when it is requested, and only the necessary part: the first elements of a large value are a few bytes,
and statistics are computed block by block. Elements that are filled with one value are not expanded to be counted.
"""

from __future__ import annotations

import heapq
import io
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import fsum, inf, isfinite, prod, sqrt
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gdsurgeon.analysis.queries.attr_text import format_float
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import public
from gdsurgeon.errors import EditError, InputError, printable, quoted
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.constants import MOST_ELEMENTS, constant_header, constant_span, packed_strings
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.writing import encoded
from gdsurgeon.ops.dtypes import CONTENT, DTYPES, ELEMENT_FIELDS, NUMBERS, STRING, DType, dtype_name, element_size
from gdsurgeon.ops.elements import has_numpy, is_readable, numbers_in, numpy_dtype
from gdsurgeon.ops.kinds import is_variable
from gdsurgeon.text import counted
from gdsurgeon.wire.fields import LEN, WireError, fields
from gdsurgeon.wire.protos import NodeDef
from gdsurgeon.wire.source import Source, Window
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, size_of


class ConstantSize(NamedTuple):
    """A constant.

    Attributes:
        name: the name of the node.
        function: the function that it is in, or ''.
        bytes: the size of the node in the file, including its name and other attrs.
        dtype: the DataType; 0 if it cannot be read.
        shape: the dims; None if they cannot be read.
        loaded_bytes: the size of the tensor in memory; 0 if the dtype has no fixed size. It is larger than `bytes` if
            one stored value stands for many elements.
    """

    name: str
    function: str
    bytes: int
    dtype: int
    shape: Shape
    loaded_bytes: int


@dataclass(frozen=True)
class ConstantSizes:
    """The constants of a graph: their number, their bytes in the file, and the largest ones, in descending order."""

    count: int
    bytes: int
    largest: tuple[ConstantSize, ...]


def constant_sizes(graph: Graph, most: int = 10) -> ConstantSizes:
    """Returns the constants of `graph` in its present state, including those in functions; `most` are described.

    Only the headers of the described constants are read.
    """
    topology = topology_of(graph)
    sizes = list(_sizes(graph, topology))
    largest = heapq.nlargest(most, sizes, key=itemgetter(0))  # among equal sizes, the first
    found = tuple(_described(topology, *each) for each in largest)
    return ConstantSizes(len(sizes), sum(size for size, *_ in sizes), found)


def _sizes(graph: Graph, topology: Topology) -> Iterator[tuple[int, int | NodeDef, str]]:
    """(bytes, number of the node or a NodeDef of a function, that function or '') of each constant."""
    touched = {topology.id_of(node) for node in graph.touched()}
    table = topology.table
    for number in topology.with_ops(("Const",)):
        if number in touched:
            yield size_of(encoded(topology.node(number))), number, ""
        else:
            yield table.ends[number] - table.starts[number], number, ""
    for function in graph.functions:
        for node in function.node_def:
            if node.op == "Const":
                yield node.ByteSize(), node, function.signature.name


def _described(topology: Topology, size: int, what: int | NodeDef, function: str) -> ConstantSize:
    if not isinstance(what, int):
        tensor = what.attr["value"].tensor if "value" in what.attr else None
        dtype = tensor.dtype if tensor is not None else 0
        shape = shape_of(tensor.tensor_shape) if tensor is not None else None
        return ConstantSize(what.name, function, size, dtype, shape, _loaded(dtype, shape))
    node = topology.node(what)
    header = constant_header(node)
    if header is None:
        return ConstantSize(node.name, "", size, 0, None, 0)
    return ConstantSize(node.name, "", size, header.dtype, header.dims, _loaded(header.dtype, header.dims))


def _loaded(dtype: int, shape: Shape) -> int:
    return element_size(dtype) * prod(max(dim, 0) for dim in shape) if shape is not None else 0


if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

Scalar: TypeAlias = Any
"""An element or its type, as represented by NumPy or struct."""
Element: TypeAlias = int | float | complex | bool | bytes

BLOCK = 1 << 20
"""The number of elements that are processed at once, so that their copies need less memory than the value."""
MOST_PADDING = 1 << 20
"""The bytes by which an array of padded strings may exceed four times the size of the strings."""


class ValueStatistics(NamedTuple):
    """Statistics of the elements of a value.

    Attributes:
        count: the number of elements.
        zeros: the number of elements that are 0, False or empty.
        nan, infinite: the number of elements that are NaN (for complex ones, in any part), or infinite and not NaN.
        minimum, maximum: of the finite elements; None without finite elements, and for complex numbers and strings.
        mean, std: of the finite elements, in 64 bits, `std` of the population; None without finite elements.
    """

    count: int  # type: ignore[assignment]  # replaces the count() of tuples
    zeros: int
    nan: int = 0
    infinite: int = 0
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    std: float | None = None

    def lines(self, zero: str = "zero") -> Iterator[tuple[str, str]]:
        """Yields the known statistics as text, each with its label; `zero` is the word for elements without value."""
        if self.minimum is not None and self.maximum is not None:
            yield "range", f"{_number(self.minimum)} to {_number(self.maximum)}"
        if self.mean is not None and self.std is not None:
            yield "mean", f"{self.mean:.6g}, standard deviation {self.std:.6g}"
        found = ((self.zeros, zero), (self.nan, "NaN"), (self.infinite, "infinite"))
        if counts := ", ".join(f"{count:,} {what}" for count, what in found if count):
            yield "of them", counts


def _number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:.6g}"


class ConstantValues:
    """The value of a constant or a variable.

    Attributes:
        dtype: the dtype of its elements.
        shape: its dims.
        stored: the number of stored elements; all others equal the last one, or 0.
    """

    def __init__(self, dtype: DType, shape: tuple[int, ...], data: ChunkSource | list[bytes]) -> None:
        self.dtype, self.shape, self._data = dtype, shape, data
        self.stored = len(data) if isinstance(data, list) else data.size // dtype.size

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements in memory; for strings, the sum of their lengths."""
        if isinstance(self._data, list):
            return sum(map(len, self._data)) + len(self._filler) * (self.count - self.stored)
        return self.count * self.dtype.size

    def __repr__(self) -> str:
        shown = ", ".join(str(item) for item in self.first(4)) + (", ..." if self.count > 4 else "")
        return f"<ConstantValues {self.dtype.name} {list(self.shape)}: {shown}>"

    def numpy(self) -> Array:
        """Returns all elements as a NumPy array; strings as bytes, in an array of objects."""
        import numpy as np

        if isinstance(self._data, list):
            return np.array([*self.first(self.count), None], object)[:-1].reshape(self.shape)
        return self.numbers(0, self.count).reshape(self.shape)

    def __array__(self, dtype: Scalar = None, copy: bool | None = None) -> Array:
        """Returns all elements as a NumPy array; `numpy.asarray` calls this."""
        found = self.numpy()
        found = found if dtype is None else found.astype(dtype)
        return found.copy() if copy else found

    def first(self, most: int) -> list[Element]:
        """Returns the first elements in row-major order, at most `most`: numbers, bools, strings as bytes.

        A float is the decimal number that NumPy prints for the element: 0.1 for the float32 nearest to it.
        """
        most = min(most, self.count)
        if isinstance(self._data, list):
            return [*self._data[:most], *[self._filler] * (most - self.stored)]
        return self._elements(self._bytes(0, most))

    def numbers(self, start: int, count: int) -> Array:
        """Returns `count` elements from `start` on, in row-major order, as an array; not for strings."""
        return self._array(self._bytes(start, count))

    def plain_numbers(self, start: int, count: int) -> list[float]:
        """Returns the same as a list, without NumPy; not past the last element. The dtype must be `is_readable`."""
        return unpacked(self.dtype, self._bytes(start, min(count, self.count - start)))

    def _bytes(self, start: int, count: int) -> bytes:
        """Returns `count` elements from `start` on in their memory layout; not for strings."""
        assert not isinstance(self._data, list)
        size = self.dtype.size
        data = self._data.read(start * size, min(count, max(0, self.stored - start)) * size)
        missing = count - len(data) // size
        return data + self._filler * missing if missing else data

    def chunks(self) -> list[Chunk]:
        """Returns all elements in their memory layout, as spans of the file if it has that layout; not for strings."""
        assert not isinstance(self._data, list)
        filled = self.count - self.stored
        rest = [SourceSpan(_Repeated(self._filler, filled), 0, filled * self.dtype.size)] if filled else []
        return [*self._data.pieces, *rest]

    @cached_property
    def _filler(self) -> bytes:
        """The value of the elements that are not stored; for numbers, in their memory layout."""
        if isinstance(self._data, list):
            return self._data[-1] if self._data else b""
        size = self.dtype.size
        return self._data.read(self._data.size - size, size) if self._data.size else bytes(size)

    def _elements(self, data: bytes) -> list[Element]:
        if not has_numpy():
            return [shortest(item, self.dtype) for item in unpacked(self.dtype, data)]
        import numpy as np

        array = np.frombuffer(data, numpy_dtype(self.dtype))
        if self.dtype.is_float and array.dtype.itemsize < 8:
            return [float(str(item)) for item in array]  # as NumPy prints it
        if array.dtype.kind not in "fiubc":  # NumPy does not treat int4 and similar types as integers
            array = array.astype(np.int64)
        elements: list[Element] = array.tolist()
        return elements

    @cached_property
    def statistics(self) -> ValueStatistics:
        """Returns statistics of the elements; linear in the stored ones, with one block in memory at a time.

        Means and sums of squared deviations are combined pairwise (Chan, Golub and LeVeque, 1979). This stays accurate
        where a plain sum of squares would not.
        """
        if isinstance(self._data, list):
            return ValueStatistics(self.count, self._data.count(b"") + (self.count - self.stored) * (not self._filler))
        counts, finite, mean, squares = [0, 0, 0], 0, 0.0, 0.0
        bounds: list[float] = []
        for part, times in self._summed() if is_readable(self.dtype) else ():
            counts = [count + times * more for count, more in zip(counts, part[:3], strict=True)]
            if part.bounds:
                bounds += part.bounds
                count = part.finite * times
                share, gap = count / (finite + count), part.mean - mean
                mean += gap * share
                squares += part.squares * times + gap * gap * finite * share
                finite += count
        found = ValueStatistics(self.count, *counts)
        if not bounds:
            return found
        variance = squares / finite
        return found._replace(
            minimum=self._spelt(min(bounds)),
            maximum=self._spelt(max(bounds)),
            mean=mean if -inf < mean < inf else None,
            std=sqrt(variance) if 0 <= variance < inf else None,
        )

    def _summed(self) -> Iterator[tuple[_Summed, int]]:
        """Yields the sums of each block, and how often its elements occur."""
        if not has_numpy():
            yield from ((_summed(self.plain_numbers(start, BLOCK)), 1) for start in range(0, self.count, BLOCK))
            return
        assert not isinstance(self._data, list)
        step = BLOCK * self.dtype.size
        for start in range(0, self._data.size, step):
            yield _summed_array(self._array(self._data.read(start, step)), self.dtype), 1
        if self.count > self.stored:
            yield _summed_array(self._array(self._filler), self.dtype), self.count - self.stored

    def _spelt(self, number: float) -> float:
        """Returns `number` as the decimal number that `first` returns."""
        if not self.dtype.is_float or self.dtype.size == 8:
            return number
        if not has_numpy():
            return float(shortest(number, self.dtype))
        return float(str(numpy_dtype(self.dtype).type(number)))

    def _array(self, data: bytes) -> Array:
        import numpy as np

        return np.frombuffer(data, numpy_dtype(self.dtype))

    def npy(self) -> list[Chunk]:
        """Returns the value as a .npy file; numbers that the file stores in their memory layout are a span of it.

        Types that NumPy lacks are written as words of their size, as NumPy itself writes them, and quantized integers
        as plain integers.

        Raises:
            EditError: no array can hold it: a string ends in zero bytes, or is far longer than the others.
        """
        if isinstance(self._data, list):
            return self._npy_of_strings(self._data)
        own = numpy_dtype(self.dtype)
        descr = f"|V{own.itemsize}" if own.isbuiltin != 1 else own.newbyteorder("<").str
        return [_npy_header(descr, self.shape), *self.chunks()]

    def _npy_of_strings(self, texts: list[bytes]) -> list[Chunk]:
        width = max(map(len, [*texts, self._filler]), default=0) or 1
        if any(text.endswith(b"\0") for text in texts):
            raise EditError("a NumPy array would lose the zeros at the end of its strings")
        if width * self.count > 4 * self.nbytes + MOST_PADDING:
            raise EditError(f"a NumPy array would need {width:,} bytes for each of {self.count:,} strings")
        return [_npy_header(f"|S{width}", self.shape), self.numpy().astype(f"S{width}").tobytes()]


class _Repeated(Source):
    """A source that repeats the same bytes."""

    name = "a value"

    def __init__(self, piece: bytes, count: int) -> None:
        self._piece = piece
        self.size = len(piece) * count

    def read(self, offset: int, size: int) -> bytes:
        at = offset % len(self._piece)
        size = min(size, self.size - offset)
        return (self._piece * ((at + size) // len(self._piece) + 1))[at : at + size]


def _npy_header(descr: str, shape: tuple[int, ...]) -> bytes:
    from numpy.lib import format as npy

    out = io.BytesIO()
    npy.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
    return out.getvalue()


class _Summed(NamedTuple):
    """The sums of a block of numbers.

    Attributes:
        zeros, nan, infinite, finite: the numbers of such elements.
        bounds: the smallest and the largest finite element; empty without finite elements, and for complex numbers.
        mean, squares: the mean of the finite elements, and the sum of their squared deviations.
    """

    zeros: int
    nan: int
    infinite: int
    finite: int
    bounds: tuple[float, ...] = ()
    mean: float = 0.0
    squares: float = 0.0


def _summed(block: list[float]) -> _Summed:
    """Returns the sums of a block without NumPy."""
    finite = [number for number in block if isfinite(number)]
    missing = sum(number != number for number in block)
    found = _Summed(block.count(0), missing, len(block) - len(finite) - missing, len(finite))
    if not finite:
        return found
    mean = _total(finite) / len(finite)
    squares = _total((number - mean) * (number - mean) for number in finite)
    return found._replace(bounds=(min(finite), max(finite)), mean=mean, squares=squares)


def _total(numbers: Iterable[float]) -> float:
    """Returns the exact sum of numbers; infinity if it exceeds the range of a float."""
    try:
        return fsum(numbers)
    except OverflowError:
        return inf


def _summed_array(block: Array, dtype: DType) -> _Summed:
    """Returns the sums of a block of elements of `dtype`."""
    import numpy as np

    with np.errstate(all="ignore"):  # a signaling NaN counts as NaN; sums may overflow
        if dtype.is_float or block.dtype.kind not in "iubc":
            block = block.astype(np.float64 if dtype.is_float else np.int64)
        zeros = block.size - int(np.count_nonzero(block))
        nan = int(np.count_nonzero(np.isnan(block))) if dtype.is_inexact else 0
        finite = block[np.isfinite(block)] if dtype.is_inexact else block
        found = _Summed(zeros, nan, block.size - finite.size - nan, finite.size)
        if not finite.size or dtype.is_complex:
            return found
        numbers = finite.astype(np.float64)
        mean = float(numbers.mean())
        squares = float(np.square(numbers - mean).sum())
        return found._replace(bounds=(finite.min().item(), finite.max().item()), mean=mean, squares=squares)


def unpacked(dtype: DType, data: bytes) -> list[Scalar]:
    """Returns the elements in `data` without NumPy; unsigned words for types that Python does not have."""
    if dtype.is_complex:
        parts = struct.unpack(f"<{2 * len(data) // dtype.size}{'f' if dtype.size == 8 else 'd'}", data)
        return list(map(complex, parts[::2], parts[1::2]))
    code = NUMBERS[dtype.numpy].code or {1: "B", 2: "H"}[dtype.size]
    return list(struct.unpack(f"<{len(data) // dtype.size}{code}", data))


def shortest(number: Scalar, dtype: DType) -> Scalar:
    """Returns the decimal number with the fewest digits that `dtype`, a float of under 64 bits, stores as `number`.

    Numbers of other dtypes, and infinite or NaN ones, are returned unchanged.
    """
    is_short = dtype.is_float and dtype.code and dtype.size < 8
    return float(format_float(number, dtype.code)) if is_short and isfinite(number) else number


@public
def value_of(node: Node) -> ConstantValues | None:
    """Returns the value of a constant or of a variable in a checkpoint; None if the files have no value for the node.

    Raises:
        InputError: the value cannot be read; the message says why.
    """
    if node.op == "Const":
        return values_of(node)
    graph = node.graph
    serving = graph.serving if isinstance(graph, Graph) else None
    name = node.base_name or node.name
    if serving is None or serving.weights is None or not is_variable(node.op) or name not in serving.keys:
        return None
    dtype = node.plain_attr("dtype")
    try:
        made = serving.weights({name: (dtype if isinstance(dtype, int) else 0, "")})
    except EditError as error:
        raise InputError(error.message) from error
    return values_of(Graph(made)[name])


def values_of(node: Node) -> ConstantValues:
    """Returns the value of `node`, a Const.

    Raises:
        InputError: the value is missing or cannot be read; the message says why.
    """
    header, span = constant_header(node), constant_span(node)
    if header is None or span is None:
        raise _unreadable(node, "its attr 'value' is missing or corrupt")
    dtype, shape = DTYPES.get(header.dtype), header.dims
    if dtype is None or not dtype.kind:
        raise _unreadable(node, f"elements of {dtype_name(header.dtype)} exist only inside TensorFlow")
    if shape is None or min(shape, default=0) < 0 or prod(shape) >= MOST_ELEMENTS:
        raise _unreadable(node, "its shape is not valid")
    count = prod(shape)
    try:
        data = _strings(span, count) if dtype == STRING else ChunkSource(numbers_in(span, dtype), "a value")
    except WireError:
        raise _unreadable(node, "it is corrupt") from None
    has_content = header.content_bytes > 0
    stored = len(data) if isinstance(data, list) else data.size / dtype.size
    if stored > count or (has_content and stored != count) or stored != int(stored):
        held = f"{stored:,.0f} elements" if stored == int(stored) else f"{stored:,.2f} elements"
        raise _unreadable(node, f"it has {held} for {counted(count, 'position')}")
    return ConstantValues(dtype, shape, data)


def _unreadable(node: Node, why: str) -> InputError:
    return InputError(f"the value of {quoted(node.name)} cannot be read: {printable(why)}")


def _strings(span: SourceSpan, count: int) -> list[bytes]:
    """Returns the stored strings of a TensorProto."""
    buffer = Window(span.source, span.start, span.end)
    out: list[bytes] = []
    for field in fields(buffer, 0, len(buffer)):
        if field.number == ELEMENT_FIELDS["string_val"] and field.wire_type == LEN:
            out.append(buffer[field.value : field.end])
        elif field.number == CONTENT and field.wire_type == LEN and field.end > field.value:
            return packed_strings(buffer[field.value : field.end], count)
    return out
