"""Values as JSON and buffers, and back; type annotations decide which values are possible.

Numbers, texts and records become JSON, a record as the list of its fields. Bytes, and the elements of tensors, become
buffers: they are sent after the JSON, which has their sizes, and are not copied. The reader knows the type of each
value, so a message cannot select what the reader constructs. It checks a size before it allocates memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from math import prod
from operator import attrgetter, index, itemgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from gdsurgeon.ops.dtypes import DTYPES, STRING
from gdsurgeon.runtime.tensor import Tensor

Bytes: TypeAlias = bytes | bytearray | memoryview
Types: TypeAlias = Sequence[Any]
Take: TypeAlias = Callable[[int], memoryview]
"""Returns the next buffer, which has the given size. Raises BadMessage if the size is negative or not allowed."""

_MOST_DIMENSIONS = 254  # of a tensor of TensorFlow
_WRONG = (TypeError, ValueError, OverflowError, AttributeError, LookupError, RecursionError)
"""Exceptions for values that do not have their type."""


class BadMessage(Exception):
    """The bytes are not a message; the text is the reason."""


def encode(types: Types, values: Sequence[object]) -> tuple[bytes, list[memoryview]]:
    """Returns the JSON of `values`, and their buffers.

    Raises:
        TypeError, ValueError, OverflowError, AttributeError: `values` do not have the `types`.
    """
    buffers: list[memoryview] = []
    plain = [form(kind).write(value, buffers) for kind, value in zip(types, values, strict=True)]
    return json.dumps(plain, separators=(",", ":")).encode(), buffers


def decode(types: Types, text: memoryview, take: Take) -> list[Any]:
    """Returns the values of a message. Raises BadMessage if they do not have the `types`."""
    try:
        plain = json.loads(str(text, "utf-8"))
        return [form(kind).read(value, take) for kind, value in zip(types, plain, strict=True)]
    except _WRONG as error:
        raise BadMessage(f"a value does not have its type: {error}") from error


class Form(NamedTuple):
    """The encoding of the values of a type.

    Attributes:
        write: returns the JSON of a value, and appends its buffers to a list.
        read: returns the value of some JSON, whose buffers a function returns.
    """

    write: Callable[[Any, list[memoryview]], Any]
    read: Callable[[Any, Take], Any]


@cache
def form(kind: Any) -> Form:
    """Returns the encoding for values of the annotated type `kind`."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, members = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union(members)
    if origin in (list, Sequence):
        return _list(list, form(members[0]))
    if origin in (dict, Mapping):
        pairs = _record(lambda *pair: pair, [(itemgetter(at), form(each)) for at, each in enumerate(members)])
        return Form(lambda value, buffers: [pairs.write(item, buffers) for item in value.items()],
                    lambda plain, take: _mapping([pairs.read(item, take) for item in plain]))  # fmt: skip
    if origin is tuple and members[-1] is Ellipsis:
        return _list(tuple, form(members[0]))
    if origin is tuple:
        return _record(lambda *row: row, [(itemgetter(at), form(each)) for at, each in enumerate(members)])
    return _record(kind, [(attrgetter(name), form(each)) for name, each in get_type_hints(kind).items()])


def _list(make: Callable[[Sequence[Any]], object], item: Form) -> Form:
    """Returns the form of a collection, which `make` builds from the list of its items."""
    return Form(
        lambda value, buffers: [item.write(each, buffers) for each in value],
        lambda plain, take: make([item.read(each, take) for each in plain]),
    )


def _mapping(items: Sequence[tuple[object, object]]) -> dict[object, object]:
    found = dict(items)
    if len(found) < len(items):
        raise ValueError("a key occurs twice")
    return found


def _record(make: Callable[..., object], fields: Sequence[tuple[Callable[[Any], object], Form]]) -> Form:
    """Returns the form of a NamedTuple, or of a tuple of a fixed length."""
    return Form(
        lambda value, buffers: [part.write(get(value), buffers) for get, part in fields],
        lambda plain, take: make(*[part.read(each, take) for (_, part), each in zip(fields, plain, strict=True)]),
    )


def _union(members: Sequence[Any]) -> Form:
    """Returns the form of a union: None is null, and of several other types the number is written before the value."""
    others = [memoryview] if memoryview in members else [each for each in members if each is not NoneType]

    def write(value: object, buffers: list[memoryview]) -> object:
        if value is None and NoneType in members:
            return None
        if len(others) == 1:
            return form(others[0]).write(value, buffers)
        at = next(at for at, each in enumerate(others) if isinstance(value, each))
        return [at, form(others[at]).write(value, buffers)]

    def read(plain: Any, take: Take) -> object:
        if plain is None and NoneType in members:
            return None
        if len(others) == 1:
            return form(others[0]).read(plain, take)
        at, value = plain
        if at not in range(len(others)):
            raise ValueError(f"a union of {len(others)} types has no type {at}")
        return form(others[at]).read(value, take)

    return Form(write, read)


def _as_json(kind: type) -> Form:
    """Returns the form of values that are the same in JSON."""

    def checked(value: object, _: object) -> object:
        if not isinstance(value, kind):
            raise TypeError(f"{kind.__name__} expected, got {type(value).__name__}")
        return value

    return Form(checked, checked)


def _whole(value: Any, _: object = None) -> int:
    number = index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("a whole number does not fit 64 bits")
    return number


def _float(value: Any, _: object) -> float:
    if not isinstance(value, (int, float)) or value != value:
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _write_bytes(value: Bytes, buffers: list[memoryview]) -> int:
    buffers.append(memoryview(value).cast("B"))
    return buffers[-1].nbytes


def _write_tensor(value: Tensor, buffers: list[memoryview]) -> list[object]:
    sizes = [len(text) for text in value.data] if isinstance(value.data, list) else None
    _write_bytes(b"".join(value.data) if isinstance(value.data, list) else value.data, buffers)
    return [value.dtype, value.shape, sizes]


def _read_tensor(plain: Any, take: Take) -> Tensor:
    dtype, shape, sizes = _whole(plain[0]), tuple(map(_whole, plain[1])), plain[2]
    count = elements(dtype, shape)
    if dtype != STRING:
        return Tensor(dtype, shape, take(count * DTYPES[dtype].size))
    if len(sizes) != count or min(map(_whole, sizes), default=0) < 0:
        raise ValueError(f"{len(sizes)} sizes for a tensor of {count} texts")
    data = bytes(take(sum(sizes)))
    return Tensor(dtype, shape, [data[begin:end] for begin, end in pairwise(accumulate(sizes, initial=0))])


def elements(dtype: int, shape: tuple[int, ...]) -> int:
    """Returns the number of elements of a tensor. Raises BadMessage if the dtype or shape is not valid."""
    if dtype not in DTYPES or not DTYPES[dtype].kind:
        raise BadMessage(f"a tensor has the dtype {dtype}")
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise BadMessage("the shape of a tensor is not valid")
    return prod(shape)


_PLAIN = {
    NoneType: _as_json(NoneType),
    bool: _as_json(bool),
    str: _as_json(str),
    int: Form(_whole, _whole),
    float: Form(_float, _float),
    bytes: Form(_write_bytes, lambda plain, take: bytes(take(_whole(plain)))),
    memoryview: Form(_write_bytes, lambda plain, take: take(_whole(plain))),
    Tensor: Form(_write_tensor, _read_tensor),
}
