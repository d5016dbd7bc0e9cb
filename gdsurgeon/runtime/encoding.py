"""Values as bytes and back: a compact encoding that follows type annotations and carries data only.

Values of one type are written together, column by column: the lengths of all strings, then all strings; the first field
of all records, then the second. The type and the columns read so far determine the size of the next column. The reader
checks that size before it allocates memory. No byte names a type, so bytes cannot select what the reader constructs.

A column of more than `SMALL` bytes is large. Large columns follow the small columns of a message, and are not copied.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain
from math import prod
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from gdsurgeon.ops.dtypes import DTYPES, STRING
from gdsurgeon.runtime.tensor import Tensor

Bytes: TypeAlias = bytes | bytearray | memoryview

SMALL = 1 << 12
_MOST_DIMENSIONS = 254  # of a tensor of TensorFlow


class BadMessage(Exception):
    """The bytes are not a message; the text is the reason."""


class Writer:
    """The columns of a message.

    Attributes:
        small: the small columns, one after the other.
        large: the large columns.
    """

    def __init__(self) -> None:
        self.small = bytearray()
        self.large: list[memoryview] = []

    def add(self, column: Bytes | array[Any]) -> None:
        """Append a column."""
        view = memoryview(column)
        if view.nbytes > SMALL:
            self.large.append(view.cast("B"))
        else:
            self.small += view


class Reader:
    """The columns of a message that was received.

    Args:
        small: the small columns.
        receive: returns a large column of the given size.

    Attributes:
        most: the bytes that large columns may have from here on, together.
    """

    def __init__(self, small: memoryview, receive: Callable[[int], Bytes]) -> None:
        self.most = 0
        self._small = small
        self._receive = receive

    def take(self, size: int) -> Bytes:
        """The next column, which has SIZE bytes. Raises BadMessage if it has not."""
        if size > SMALL:
            self.most -= size
            if self.most < 0:
                raise BadMessage(f"it has {-self.most} bytes more than it may have")
            return self._receive(size)
        column, self._small = self._small[:size], self._small[size:]
        if len(column) < size:
            raise BadMessage("it ends too early")
        return column

    def numbers(self, code: str, count: int) -> list[Any]:
        """A column of COUNT numbers of 8 bytes: of the type code 'q' or 'd'."""
        column = array(code)
        column.frombytes(self.take(8 * count))
        return column.tolist()

    def sizes(self, count: int) -> list[int]:
        """A column of COUNT sizes. Raises BadMessage if one is negative."""
        column = self.numbers("q", count)
        if min(column, default=0) < 0:
            raise BadMessage("a size is negative")
        return column

    def end(self) -> None:
        """Raises BadMessage if small columns are left."""
        if self._small:
            raise BadMessage(f"{len(self._small)} bytes follow its values")


@cache
def _parts(kind: Any) -> tuple[str, Any]:
    """How values of the type KIND are encoded, and the parts that they consist of."""
    origin, members = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        plain = tuple(member for member in members if member not in (bytes, bytearray, memoryview))
        if not plain:
            return "buffer", None
        return "union", (*plain, Bytes) if len(plain) < len(members) - 1 else members
    if origin in (list, Sequence):
        return "list", (list, members[0])
    if origin is tuple and members[-1] is Ellipsis:
        return "list", (tuple, members[0])
    if origin in (dict, Mapping):
        return "dict", members
    if origin is tuple:
        return "record", (lambda *row: row, [(itemgetter(at), member) for at, member in enumerate(members)])
    if kind in (int, float, bool, str, bytes, NoneType, Tensor):
        return kind.__name__, None
    return "record", (kind, [(attrgetter(name), member) for name, member in get_type_hints(kind).items()])


def write(kind: Any, values: Sequence[Any], out: Writer) -> None:
    """Append VALUES, which all have the type KIND, to OUT.

    Raises:
        TypeError, ValueError, OverflowError, AttributeError: a value does not have that type.
    """
    way, parts = _parts(kind)
    if way == "int":
        out.add(array("q", values))
    elif way == "float":
        if any(value != value for value in values):
            raise ValueError("NaN cannot be sent")
        out.add(array("d", values))
    elif way == "bool":
        out.add(bytes(values))
    elif way == "str":
        write(bytes, [value.encode("utf-8", "surrogatepass") for value in values], out)
    elif way in ("bytes", "buffer"):
        out.add(array("q", [memoryview(value).nbytes for value in values]))
        out.add(values[0] if len(values) == 1 else b"".join(values))
    elif way == "list":
        out.add(array("q", map(len, values)))
        write(parts[1], list(chain.from_iterable(values)), out)
    elif way == "dict":
        out.add(array("q", map(len, values)))
        write(parts[0], list(chain.from_iterable(values)), out)
        write(parts[1], [item for value in values for item in value.values()], out)
    elif way == "record":
        for get, member in parts[1]:
            write(member, list(map(get, values)), out)
    elif way == "union":
        tags = bytes(_member_of(value, parts) for value in values)
        out.add(tags)
        for at, member in enumerate(parts):
            write(member, [value for value, tag in zip(values, tags, strict=True) if tag == at], out)
    elif way == "Tensor":
        _write_tensors(values, out)


def _member_of(value: object, members: Sequence[Any]) -> int:
    """The index of the member of a union that VALUE has the type of."""
    if value is None:
        return members.index(NoneType)
    others = [at for at, member in enumerate(members) if member is not NoneType]
    return others[0] if len(others) == 1 else next(at for at in others if isinstance(value, members[at]))


def _write_tensors(values: Sequence[Tensor], out: Writer) -> None:
    out.add(array("q", [value.dtype for value in values]))
    write(tuple[int, ...], [value.shape for value in values], out)
    write(bytes, [text for value in values if isinstance(value.data, list) for text in value.data], out)
    data = [value.data for value in values if not isinstance(value.data, list)]
    out.add(b"".join(view for view in data if view.nbytes <= SMALL))
    for view in data:
        if view.nbytes > SMALL:
            out.add(view)


def read(kind: Any, count: int, source: Reader) -> list[Any]:
    """COUNT values of the type KIND.

    Raises:
        BadMessage: SOURCE does not hold such values.
    """
    way, parts = _parts(kind)
    if way == "int":
        return source.numbers("q", count)
    if way == "float":
        floats = source.numbers("d", count)
        if any(value != value for value in floats):
            raise BadMessage("a number is NaN")
        return floats
    if way == "bool":
        flags = source.take(count)
        if bytes(flags).strip(b"\0\1"):
            raise BadMessage("a truth value is neither 0 nor 1")
        return list(map(bool, flags))
    if way in ("bytes", "buffer", "str"):
        sizes = source.sizes(count)
        data = source.take(sum(sizes))
        if way == "buffer" and count == 1:
            return [data]
        pieces = list(_split(bytes(data), sizes))
        try:
            return [piece.decode("utf-8", "surrogatepass") for piece in pieces] if way == "str" else pieces
        except UnicodeDecodeError as error:
            raise BadMessage("a text is not UTF-8") from error
    if way == "list":
        make, member = parts
        sizes = source.sizes(count)
        return list(map(make, _split(read(member, sum(sizes), source), sizes)))
    if way == "dict":
        sizes = source.sizes(count)
        keys, items = (_split(read(member, sum(sizes), source), sizes) for member in parts)
        found = [dict(zip(*pair, strict=True)) for pair in zip(keys, items, strict=True)]
        if list(map(len, found)) != sizes:
            raise BadMessage("a key occurs twice")
        return found
    if way == "record":
        make, fields = parts
        return list(map(make, *[read(member, count, source) for _, member in fields]))
    if way == "union":
        tags = bytes(source.take(count))
        if max(tags, default=0) >= len(parts):
            raise BadMessage(f"a union of {len(parts)} types has no type {max(tags)}")
        members = [iter(read(member, tags.count(at), source)) for at, member in enumerate(parts)]
        return [next(members[tag]) for tag in tags]
    if way == "Tensor":
        return _read_tensors(count, source)
    return [None] * count


def _split(items: Any, sizes: Sequence[int]) -> Iterable[Any]:
    """ITEMS in pieces of SIZES."""
    return (items[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True))


def elements(dtype: int, shape: tuple[int, ...]) -> int:
    """The number of elements of a tensor. Raises BadMessage if there is no such dtype or shape."""
    if dtype not in DTYPES or not DTYPES[dtype].kind:
        raise BadMessage(f"a tensor has the dtype {dtype}")
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise BadMessage("the shape of a tensor is not valid")
    return prod(shape)


def _read_tensors(count: int, source: Reader) -> list[Tensor]:
    dtypes = source.numbers("q", count)
    shapes = read(tuple[int, ...], count, source)
    lengths = list(map(elements, dtypes, shapes))
    is_text = [dtype == STRING for dtype in dtypes]
    texts = read(bytes, sum(length for length, is_it in zip(lengths, is_text, strict=True) if is_it), source)
    sizes = [length * DTYPES[dtype].size for dtype, length in zip(dtypes, lengths, strict=True)]
    small = source.take(sum(size for size, is_it in zip(sizes, is_text, strict=True) if size <= SMALL and not is_it))
    out, at, text = [], 0, 0
    for dtype, shape, length, size in zip(dtypes, shapes, lengths, sizes, strict=True):
        if dtype == STRING:
            out.append(Tensor(dtype, shape, texts[text : text + length]))
            text += length
        elif size > SMALL:
            out.append(Tensor(dtype, shape, source.take(size)))
        else:
            out.append(Tensor(dtype, shape, small[at : at + size]))
            at += size
    return out
