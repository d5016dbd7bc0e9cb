"""Values as bytes and back: a compact encoding that follows type annotations and carries data only.

Values of one type are written together, column by column: the lengths of all strings, then all strings; the first field
of all records, then the second. The type and the columns read so far determine the size of the next column. The reader
checks that size before it allocates memory. No byte names a type, so bytes cannot select what the reader constructs.

A column of more than `SMALL` bytes is large, and so is one for which the small columns have no more room. Large columns
follow the small columns of a message, and are not copied.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, pairwise
from math import prod
from operator import attrgetter, itemgetter
from types import GenericAlias, NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from gdsurgeon.ops.dtypes import DTYPES, STRING
from gdsurgeon.runtime.tensor import Tensor

Bytes: TypeAlias = bytes | bytearray | memoryview

SMALL = 1 << 12
MOST_SMALL = 1 << 20
"""Bytes of all small columns of a message."""
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

    def add(self, column: Bytes) -> None:
        """Appends a column."""
        size = len(column)
        if size > SMALL or len(self.small) + size > MOST_SMALL:
            self.large.append(memoryview(column))
        else:
            self.small += column

    def numbers(self, code: str, values: Sequence[Any]) -> None:
        """Appends a column of 8-byte numbers with the type code 'q' or 'd'."""
        self.add(array(code, values).tobytes())


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
        self._at = 0
        self._receive = receive

    def take(self, size: int) -> Bytes:
        """Returns the next column, of `size` bytes. Raises BadMessage if it is shorter or larger than allowed."""
        begin, end = self._at, self._at + size
        if size > SMALL or end > MOST_SMALL:
            self.most -= size
            if self.most < 0:
                raise BadMessage(f"it has {-self.most} bytes more than it may have")
            return self._receive(size)
        if end > len(self._small):
            raise BadMessage("it ends too early")
        self._at = end
        return self._small[begin:end]

    def numbers(self, code: str, count: int) -> list[Any]:
        """Returns a column of `count` 8-byte numbers with the type code 'q' or 'd'."""
        return memoryview(self.take(8 * count)).cast(code).tolist()  # type: ignore[call-overload, no-any-return]

    def pieces(self, count: int, get: Callable[[int], Any]) -> list[Any]:
        """Returns `count` pieces, whose sizes are the next column; `get` returns all of them for the total size."""
        sizes = self.numbers("q", count)
        if min(sizes, default=0) < 0:
            raise BadMessage("a size is negative")
        whole = get(sum(sizes))
        return [whole] if count == 1 else [whole[begin:end] for begin, end in pairwise(accumulate(sizes, initial=0))]

    def end(self) -> None:
        """Raises BadMessage if small columns are left."""
        if self._at < len(self._small):
            raise BadMessage(f"{len(self._small) - self._at} bytes follow its values")


class Form(NamedTuple):
    """The encoding of the values of a type.

    Attributes:
        write: appends values. It raises TypeError, ValueError, OverflowError or AttributeError if a value has a
            different type.
        read: returns the given number of values. It raises BadMessage if the reader does not hold them.
    """

    write: Callable[[Sequence[Any], Writer], None]
    read: Callable[[int, Reader], list[Any]]


def _write_floats(values: Sequence[float], out: Writer) -> None:
    if any(value != value for value in values):
        raise ValueError("NaN cannot be sent")
    out.numbers("d", values)


def _read_floats(count: int, source: Reader) -> list[float]:
    values = source.numbers("d", count)
    if any(value != value for value in values):
        raise BadMessage("a number is NaN")
    return values


def _read_booleans(count: int, source: Reader) -> list[bool]:
    values = bytes(source.take(count))
    if values.strip(b"\0\1"):
        raise BadMessage("a truth value is neither 0 nor 1")
    return list(map(bool, values))


def _write_bytes(values: Sequence[Bytes], out: Writer) -> None:
    out.numbers("q", list(map(len, values)))
    out.add(values[0] if len(values) == 1 else b"".join(values))


def _read_bytes(count: int, source: Reader) -> list[bytes]:
    return source.pieces(count, lambda size: bytes(source.take(size)))


def _write_texts(values: Sequence[str], out: Writer) -> None:
    _write_bytes([value.encode("utf-8", "surrogatepass") for value in values], out)


def _read_texts(count: int, source: Reader) -> list[str]:
    try:
        return [piece.decode("utf-8", "surrogatepass") for piece in _read_bytes(count, source)]
    except UnicodeDecodeError as error:
        raise BadMessage("a text is not UTF-8") from error


def _write_tensors(values: Sequence[Tensor], out: Writer) -> None:
    out.numbers("q", [value.dtype for value in values])
    form(tuple[int, ...]).write([value.shape for value in values], out)
    for value in values:
        _write_bytes(value.data, out) if isinstance(value.data, list) else out.add(value.data)


def _read_tensors(count: int, source: Reader) -> list[Tensor]:
    out = []
    for dtype, shape in zip(source.numbers("q", count), form(tuple[int, ...]).read(count, source), strict=True):
        length = elements(dtype, shape)
        is_text = dtype == STRING
        data = _read_bytes(length, source) if is_text else source.take(length * DTYPES[dtype].size)
        out.append(Tensor(dtype, shape, data))
    return out


def elements(dtype: int, shape: tuple[int, ...]) -> int:
    """Returns the number of elements of a tensor. Raises BadMessage if the dtype or shape is not valid."""
    if dtype not in DTYPES or not DTYPES[dtype].kind:
        raise BadMessage(f"a tensor has the dtype {dtype}")
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise BadMessage("the shape of a tensor is not valid")
    return prod(shape)


_PLAIN = {
    NoneType: Form(lambda values, out: None, lambda count, source: [None] * count),
    bool: Form(lambda values, out: out.add(bytes(values)), _read_booleans),
    bytes: Form(_write_bytes, _read_bytes),
    float: Form(_write_floats, _read_floats),
    int: Form(lambda values, out: out.numbers("q", values), lambda count, source: source.numbers("q", count)),
    memoryview: Form(
        lambda values, out: _write_bytes([memoryview(value).cast("B") for value in values], out),
        lambda count, source: source.pieces(count, source.take),
    ),
    str: Form(_write_texts, _read_texts),
    Tensor: Form(_write_tensors, _read_tensors),
}


def _lists(
    make: Callable[[Sequence[Any]], object], item: Form, items: Callable[[Any], Any] = lambda value: value
) -> Form:
    """Returns the form of a collection. `items` returns its items, and `make` builds the collection from them."""

    def write(values: Sequence[Any], out: Writer) -> None:
        out.numbers("q", list(map(len, values)))
        item.write(list(chain.from_iterable(map(items, values))), out)

    def read(count: int, source: Reader) -> list[object]:
        return list(map(make, source.pieces(count, lambda total: item.read(total, source) if total else [])))

    return Form(write, read)


def _mapping(items: Sequence[tuple[object, object]]) -> dict[object, object]:
    found = dict(items)
    if len(found) < len(items):
        raise BadMessage("a key occurs twice")
    return found


def _records(make: Callable[..., object], fields: Sequence[tuple[Callable[[Any], object], Form]]) -> Form:
    """Returns the form of NamedTuples, classes with annotated fields, or tuples of a fixed length."""

    def write(values: Sequence[object], out: Writer) -> None:
        for get, part in fields:
            part.write(list(map(get, values)), out)

    def read(count: int, source: Reader) -> list[object]:
        return list(map(make, *[part.read(count, source) for _, part in fields]))

    return Form(write, read)


def _unions(kinds: Sequence[Any]) -> Form:
    forms = list(map(form, kinds))
    others = [at for at, kind in enumerate(kinds) if kind is not NoneType]

    def tag(value: object) -> int:
        if value is None:
            return kinds.index(NoneType)
        return others[0] if len(others) == 1 else next(at for at in others if isinstance(value, kinds[at]))

    def write(values: Sequence[object], out: Writer) -> None:
        tags = bytes(map(tag, values))
        out.add(tags)
        for at, member in enumerate(forms):
            member.write([value for value, tag in zip(values, tags, strict=True) if tag == at], out)

    def read(count: int, source: Reader) -> list[object]:
        tags = bytes(source.take(count))
        if max(tags, default=0) >= len(forms):
            raise BadMessage(f"a union of {len(forms)} types has no type {max(tags)}")
        members = [iter(member.read(tags.count(at), source)) for at, member in enumerate(forms)]
        return [next(members[tag]) for tag in tags]

    return Form(write, read)


@cache
def form(kind: Any) -> Form:
    """Returns the encoding for values of the annotated type `kind`."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, members = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if memoryview in members:  # `Bytes`
            members = tuple(each for each in members if each not in (bytes, bytearray))
        return _unions(members) if len(members) > 1 else form(memoryview)
    if origin in (list, Sequence):
        return _lists(list, form(members[0]))
    if origin in (dict, Mapping):
        return _lists(_mapping, form(GenericAlias(tuple, members)), lambda value: value.items())
    if origin is tuple and members[-1] is Ellipsis:
        return _lists(tuple, form(members[0]))
    if origin is tuple:
        return _records(lambda *row: row, [(itemgetter(at), form(each)) for at, each in enumerate(members)])
    return _records(kind, [(attrgetter(name), form(each)) for name, each in get_type_hints(kind).items()])
