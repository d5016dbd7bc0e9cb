"""Values as bytes and back: a compact encoding that follows type annotations and carries data only.

Values of one type are written together, column by column: the lengths of all strings, then all strings; the first field
of all records, then the second. The type and the columns read so far determine the size of the next column. The reader
checks that size before it allocates memory. No byte names a type, so bytes cannot select what the reader constructs.

A column of more than `SMALL` bytes is large. Large columns follow the small columns of a message, and are not copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, islice, pairwise
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

    def add(self, column: Bytes) -> None:
        """Append a column."""
        if len(column) > SMALL:
            self.large.append(memoryview(column))
        else:
            self.small += column

    def numbers(self, code: str, values: Sequence[Any]) -> None:
        """Append a column of numbers of 8 bytes, of the type code 'q' or 'd'."""
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
        """The next column, which has SIZE bytes. Raises BadMessage if it has not."""
        if size > SMALL:
            self.most -= size
            if self.most < 0:
                raise BadMessage(f"it has {-self.most} bytes more than it may have")
            return self._receive(size)
        begin, self._at = self._at, self._at + size
        if self._at > len(self._small):
            raise BadMessage("it ends too early")
        return self._small[begin : self._at]

    def numbers(self, code: str, count: int) -> list[Any]:
        """A column of COUNT numbers of 8 bytes, of the type code 'q' or 'd'."""
        return memoryview(self.take(8 * count)).cast(code).tolist()  # type: ignore[call-overload, no-any-return]

    def sizes(self, count: int) -> list[int]:
        """A column of COUNT sizes. Raises BadMessage if one is negative."""
        column = self.numbers("q", count)
        if min(column) < 0:
            raise BadMessage("a size is negative")
        return column

    def end(self) -> None:
        """Raises BadMessage if small columns are left."""
        if self._at < len(self._small):
            raise BadMessage(f"{len(self._small) - self._at} bytes follow its values")


class Form(ABC):
    """How values of a type are encoded. No value at all has no columns."""

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Append VALUES to OUT.

        Raises:
            TypeError, ValueError, OverflowError, AttributeError: a value does not have the type.
        """
        if values:
            self.put(values, out)

    def read(self, count: int, source: Reader) -> list[Any]:
        """The next COUNT values of SOURCE.

        Raises:
            BadMessage: SOURCE does not hold such values.
        """
        return self.get(count, source) if count else []

    @abstractmethod
    def put(self, values: Sequence[Any], out: Writer) -> None:
        """`write` of one value or more."""

    @abstractmethod
    def get(self, count: int, source: Reader) -> list[Any]:
        """`read` of one value or more."""


class _Nothing(Form):
    def put(self, values: Sequence[None], out: Writer) -> None: ...

    def get(self, count: int, source: Reader) -> list[None]:
        return [None] * count


class _Integers(Form):
    def put(self, values: Sequence[int], out: Writer) -> None:
        out.numbers("q", values)

    def get(self, count: int, source: Reader) -> list[int]:
        return source.numbers("q", count)


class _Floats(Form):
    def put(self, values: Sequence[float], out: Writer) -> None:
        if any(value != value for value in values):
            raise ValueError("NaN cannot be sent")
        out.numbers("d", values)

    def get(self, count: int, source: Reader) -> list[float]:
        values = source.numbers("d", count)
        if any(value != value for value in values):
            raise BadMessage("a number is NaN")
        return values


class _Booleans(Form):
    def put(self, values: Sequence[bool], out: Writer) -> None:
        out.add(bytes(values))

    def get(self, count: int, source: Reader) -> list[bool]:
        values = bytes(source.take(count))
        if values.strip(b"\0\1"):
            raise BadMessage("a truth value is neither 0 nor 1")
        return list(map(bool, values))


class _Texts(Form):
    def put(self, values: Sequence[str], out: Writer) -> None:
        text = "".join(values)
        data = text.encode("utf-8", "surrogatepass")
        out.numbers("q", [len(value if text.isascii() else value.encode("utf-8", "surrogatepass")) for value in values])
        out.add(data)

    def get(self, count: int, source: Reader) -> list[str]:
        sizes = source.sizes(count)
        data = bytes(source.take(sum(sizes)))
        if data.isascii():
            return _split(data.decode("ascii"), sizes)
        try:
            return [piece.decode("utf-8", "surrogatepass") for piece in _split(data, sizes)]
        except UnicodeDecodeError as error:
            raise BadMessage("a text is not UTF-8") from error


class _Blobs(Form):
    def put(self, values: Sequence[bytes], out: Writer) -> None:
        out.numbers("q", list(map(len, values)))
        out.add(b"".join(values) if len(values) > 1 else values[0])

    def get(self, count: int, source: Reader) -> list[bytes]:
        sizes = source.sizes(count)
        return _split(bytes(source.take(sum(sizes))), sizes)


class _Buffers(Form):
    """Bytes of any kind. A large one is not copied."""

    def put(self, values: Sequence[Bytes], out: Writer) -> None:
        views = [memoryview(value).cast("B") for value in values]
        out.numbers("q", list(map(len, views)))
        for view in views:
            out.add(view)

    def get(self, count: int, source: Reader) -> list[Bytes]:
        return list(map(source.take, source.sizes(count)))


class _Lists(Form):
    def __init__(self, make: Callable[[list[Any]], Any], item: Form) -> None:
        self._make = make
        self._item = item

    def put(self, values: Sequence[Sequence[Any]], out: Writer) -> None:
        out.numbers("q", list(map(len, values)))
        self._item.write(list(chain.from_iterable(values)), out)

    def get(self, count: int, source: Reader) -> list[Any]:
        sizes = source.sizes(count)
        items = self._item.read(sum(sizes), source)
        return [self._make(items)] if count == 1 else list(map(self._make, _split(items, sizes)))


class _Mappings(Form):
    def __init__(self, key: Form, value: Form) -> None:
        self._parts = key, value

    def put(self, values: Sequence[Mapping[Any, Any]], out: Writer) -> None:
        out.numbers("q", list(map(len, values)))
        self._parts[0].write(list(chain.from_iterable(values)), out)
        self._parts[1].write([item for value in values for item in value.values()], out)

    def get(self, count: int, source: Reader) -> list[dict[Any, Any]]:
        sizes = source.sizes(count)
        keys, items = (_split(part.read(sum(sizes), source), sizes) for part in self._parts)
        found = [dict(zip(*pair, strict=True)) for pair in zip(keys, items, strict=True)]
        if list(map(len, found)) != sizes:
            raise BadMessage("a key occurs twice")
        return found


class _Records(Form):
    """NamedTuples, classes with annotated fields, tuples of a fixed length."""

    def __init__(self, make: Callable[..., Any], fields: Sequence[tuple[Callable[[Any], Any], Form]]) -> None:
        self._make = make
        self._fields = fields

    def put(self, values: Sequence[Any], out: Writer) -> None:
        for get, form in self._fields:
            form.put(list(map(get, values)), out)

    def get(self, count: int, source: Reader) -> list[Any]:
        return list(map(self._make, *[form.get(count, source) for _, form in self._fields]))


class _Unions(Form):
    def __init__(self, members: Sequence[tuple[Any, Form]]) -> None:
        self._kinds = [kind for kind, _ in members]
        self._forms = [form for _, form in members]

    def _tag(self, value: object) -> int:
        if value is None:
            return self._kinds.index(NoneType)
        others = [at for at, kind in enumerate(self._kinds) if kind is not NoneType]
        return others[0] if len(others) == 1 else next(at for at in others if isinstance(value, self._kinds[at]))

    def put(self, values: Sequence[Any], out: Writer) -> None:
        tags = bytes(map(self._tag, values))
        out.add(tags)
        for at, form in enumerate(self._forms):
            form.write([value for value, tag in zip(values, tags, strict=True) if tag == at], out)

    def get(self, count: int, source: Reader) -> list[Any]:
        tags = bytes(source.take(count))
        if max(tags) >= len(self._forms):
            raise BadMessage(f"a union of {len(self._forms)} types has no type {max(tags)}")
        members = [iter(form.read(tags.count(at), source)) for at, form in enumerate(self._forms)]
        return [next(members[tag]) for tag in tags]


class _Tensors(Form):
    """The dtypes, the shapes, all strings, the data of small tensors in one column, and of each large tensor in one."""

    def put(self, values: Sequence[Tensor], out: Writer) -> None:
        out.numbers("q", [value.dtype for value in values])
        form(tuple[int, ...]).put([value.shape for value in values], out)
        form(bytes).write([text for value in values if isinstance(value.data, list) for text in value.data], out)
        data = [value.data for value in values if not isinstance(value.data, list)]
        out.add(b"".join(view for view in data if len(view) <= SMALL))
        for view in data:
            if len(view) > SMALL:
                out.add(view)

    def get(self, count: int, source: Reader) -> list[Tensor]:
        dtypes = source.numbers("q", count)
        shapes = form(tuple[int, ...]).get(count, source)
        lengths = list(map(elements, dtypes, shapes))
        texts, small = 0, 0
        for dtype, length in zip(dtypes, lengths, strict=True):
            size = length * DTYPES[dtype].size
            texts += length * (dtype == STRING)
            small += size * (size <= SMALL)
        strings, data = iter(form(bytes).read(texts, source)), source.take(small)
        out = []
        for dtype, shape, length in zip(dtypes, shapes, lengths, strict=True):
            size = length * DTYPES[dtype].size
            if dtype == STRING:
                out.append(Tensor(dtype, shape, list(islice(strings, length))))
            elif size > SMALL:
                out.append(Tensor(dtype, shape, source.take(size)))
            else:
                out.append(Tensor(dtype, shape, data[:size]))
                data = data[size:]
        return out


def elements(dtype: int, shape: tuple[int, ...]) -> int:
    """The number of elements of a tensor. Raises BadMessage if there is no such dtype or shape."""
    if dtype not in DTYPES or not DTYPES[dtype].kind:
        raise BadMessage(f"a tensor has the dtype {dtype}")
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise BadMessage("the shape of a tensor is not valid")
    return prod(shape)


def _split(items: Any, sizes: Sequence[int]) -> list[Any]:
    """ITEMS in pieces of SIZES."""
    return [items[begin:end] for begin, end in pairwise(accumulate(sizes, initial=0))]


_PLAIN: dict[Any, Callable[[], Form]] = {
    NoneType: _Nothing,
    bool: _Booleans,
    bytes: _Blobs,
    float: _Floats,
    int: _Integers,
    str: _Texts,
    Tensor: _Tensors,
}


@cache
def form(kind: Any) -> Form:
    """How values of the type KIND, an annotation, are encoded."""
    if kind in _PLAIN:
        return _PLAIN[kind]()
    origin, members = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        others = [member for member in members if member not in get_args(Bytes)]
        if not others:
            return _Buffers()
        kinds = [*others, Bytes] if len(others) < len(members) - 1 else members
        return _Unions([(each, form(each)) for each in kinds])
    if origin in (list, Sequence):
        return _Lists(list, form(members[0]))
    if origin in (dict, Mapping):
        return _Mappings(*map(form, members))
    if origin is tuple and members[-1] is Ellipsis:
        return _Lists(tuple, form(members[0]))
    if origin is tuple:
        return _Records(lambda *row: row, [(itemgetter(at), form(each)) for at, each in enumerate(members)])
    return _Records(kind, [(attrgetter(name), form(each)) for name, each in get_type_hints(kind).items()])
