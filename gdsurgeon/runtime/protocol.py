"""The messages between the command and its worker, and the socket that carries them.

A message has a number, a kind and a value. The command sends a request: the kind is the name of a method of
`gdsurgeon.runtime.worker.Child`, the value its arguments. The worker answers each request by its number: `BEGUN` when
its work starts, then `ANSWER` or `REFUSED`.

The worker trusts the command: a request is a pickle. The command trusts no answer, because a graph may take over the
worker. An answer is JSON, a record as the list of its fields; the annotated type of the method decides how it is read,
so a message cannot select what the command constructs. Bytes, and the elements of tensors, are buffers: they are sent
after the JSON, which has their sizes, and are not copied. The command checks a size before it allocates memory.

A request may bring the descriptor of a file, with its first bytes: the worker itself may open none. The command accepts
no descriptors.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from math import prod
from operator import index
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeAlias, get_args, get_origin, get_type_hints

from gdsurgeon.ops.dtypes import DTYPES, STRING
from gdsurgeon.runtime.tensor import Tensor

if TYPE_CHECKING:
    import mmap

BEGUN, ANSWER, REFUSED = "begun", "answer", "refused"
MOST_REASON = 1 << 18
"""Characters of a reason; TensorFlow may quote a graph."""

_HEAD = struct.Struct("=IQ20s")  # size of the pickle or JSON, number, kind
_DESCRIPTOR = struct.Struct("i")
_MAPPED = 1 << 20  # bytes from which on the memory of a buffer is mapped: it is not touched before data arrives
_COPIED = 1 << 12  # bytes up to which a buffer is copied to what is sent before it, which saves a system call
_STALL = 60.0  # seconds without any progress after which the other end counts as hung
_SO_NOSIGPIPE = 0x1022  # macOS; Python has no name for it
_MOST_DIMENSIONS = 254  # of a tensor of TensorFlow
_WRONG = (TypeError, ValueError, OverflowError, AttributeError, LookupError, RecursionError)
"""Exceptions for values that do not have their type."""

Bytes: TypeAlias = bytes | bytearray | memoryview
Take: TypeAlias = Callable[[int], memoryview]
"""Returns the next bytes of a message. Raises BadMessage if their number is negative or not allowed."""


class BadMessage(Exception):
    """The bytes are not a message, or not an expected one; the text is the reason."""


class Result(NamedTuple):
    """The value of a feed: output `index` of the earlier run `result_id`. The tensor never leaves the child."""

    result_id: str
    index: int  # type: ignore[assignment]  # replaces index() of tuples


class OutputInfo(NamedTuple):
    """The result of a run for one fetch: DataType number, shape, bytes."""

    dtype: int
    shape: tuple[int, ...]
    nbytes: int


class RunSummary(NamedTuple):
    """A run. Its tensors stay in the child.

    Attributes:
        outputs: one for each fetch, in their order.
        seconds: wall time of the run only.
        metadata: the serialised RunMetadata if the request asks for a trace.
    """

    outputs: list[OutputInfo]
    seconds: float
    metadata: bytes | None


class Info(NamedTuple):
    """The child: its runtime ('capi' or 'python'), TensorFlow's version, and why it is not locked in, if it is not."""

    runtime: str
    version: str
    not_locked_in: str = ""


# -- the bytes of messages --------------------------------------------------------------------------------------------


def pack_request(number: int, name: str, arguments: Mapping[str, object]) -> list[memoryview]:
    """Returns a request as bytes."""
    import pickle

    data = pickle.dumps(dict(arguments), 5)
    return [memoryview(_HEAD.pack(len(data), number, name.encode())), memoryview(data)]


def pack(number: int, kind: str, value: object) -> list[memoryview]:
    """Returns an answer as bytes. Its records have fields of JSON, bytes, tensors and further records."""
    buffers: list[memoryview] = []

    def write(value: Bytes | Tensor) -> object:
        if not isinstance(value, Tensor):
            buffers.append(memoryview(value))
            return buffers[-1].nbytes
        if not isinstance(value.data, list):
            buffers.append(value.data)
            return value.dtype, value.shape, None
        buffers.append(memoryview(b"".join(value.data)))
        return value.dtype, value.shape, list(map(len, value.data))

    text = json.dumps(value, separators=(",", ":"), default=write).encode()
    out: list[Bytes] = [bytearray(_HEAD.pack(len(text), number, kind.encode()) + text)]
    for buffer in buffers:
        if buffer.nbytes <= _COPIED and isinstance(out[-1], bytearray):
            out[-1] += buffer
        else:
            out.append(buffer)
    return [memoryview(piece) for piece in out]


def unpack(kind: Any, size: int, take: Take, most: int) -> Any:
    """Returns the value of an answer, of the annotated type `kind`.

    Args:
        kind: the type.
        size: bytes of the JSON.
        take: returns the next bytes of the message.
        most: bytes that the message may have.

    Raises:
        BadMessage: the value does not have the type, or the message is larger than `most`.
    """

    def allowed(size: int) -> memoryview:
        nonlocal most
        most -= size
        if size < 0 or most < 0:
            raise BadMessage(f"it has {size} bytes where {most + size} are allowed")
        return take(size)

    try:
        return reader(kind)(json.loads(str(allowed(size), "utf-8")), allowed)
    except _WRONG as error:
        raise BadMessage(f"a value does not have its type: {error}") from error


@cache
def reader(kind: Any) -> Callable[[Any, Take], Any]:
    """Returns the function that reads values of the annotated type `kind` from JSON and buffers."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in (bool, str, NoneType):
        return lambda plain, _: _checked(kind, plain)
    members = get_args(kind)
    readers = [reader(each) for each in members if each not in (NoneType, Ellipsis)]
    if NoneType in members:
        return lambda plain, take: None if plain is None else readers[0](plain, take)
    origin = get_origin(kind)
    if origin is dict:
        return lambda plain, take: {_checked(str, key): readers[1](each, take) for key, each in plain.items()}
    if origin in (list, tuple):
        return lambda plain, take: origin(readers[0](each, take) for each in plain)
    fields = [reader(each) for each in get_type_hints(kind).values()]
    return lambda plain, take: kind(*[read(each, take) for read, each in zip(fields, plain, strict=True)])


def _checked(kind: type, value: object) -> object:
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} expected, got {type(value).__name__}")
    return value


def _whole(value: SupportsIndex, _: object = None) -> int:
    number = index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("a whole number does not fit 64 bits")
    return number


def _float(value: object, _: object) -> float:
    if not isinstance(value, (int, float)) or value != value:
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _tensor(plain: Any, take: Take) -> Tensor:
    dtype, shape, sizes = _whole(plain[0]), tuple(map(_whole, plain[1])), plain[2]
    count = elements(dtype, shape)
    if dtype != STRING:
        return Tensor(dtype, shape, take(count * DTYPES[dtype].size))
    if len(sizes) != count or min(map(_whole, sizes), default=0) < 0:
        raise ValueError(f"{len(sizes)} sizes for a tensor of {count} texts")
    data = bytes(take(sum(sizes)))
    return Tensor(dtype, shape, [data[begin:end] for begin, end in pairwise(accumulate(sizes, initial=0))])


_PLAIN: dict[object, Callable[[Any, Take], object]] = {
    int: _whole,
    float: _float,
    bytes: lambda plain, take: bytes(take(_whole(plain))),
    Tensor: _tensor,
}


def elements(dtype: int, shape: tuple[int, ...]) -> int:
    """Returns the number of elements of a tensor. Raises BadMessage if the dtype or shape is not valid."""
    if dtype not in DTYPES or not DTYPES[dtype].kind:
        raise BadMessage(f"a tensor has the dtype {dtype}")
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise BadMessage("the shape of a tensor is not valid")
    return prod(shape)


# -- the socket -------------------------------------------------------------------------------------------------------


class Channel:
    """One end of the socket. Any thread may send; one receives.

    Args:
        end: the socket.
        most_descriptors: how many descriptors of files may come with a message: 0 or 1.
    """

    def __init__(self, end: socket.socket, most_descriptors: int = 0) -> None:
        self._end = end
        self._sending = threading.Lock()
        self._space = socket.CMSG_LEN(_DESCRIPTOR.size) if most_descriptors else 0
        self._descriptors: list[int] = []
        # If the other end is dead, sending must raise an error here, whatever SIGPIPE is set to.
        self._flags = getattr(socket, "MSG_NOSIGNAL", 0)
        if sys.platform == "darwin":
            end.setsockopt(socket.SOL_SOCKET, _SO_NOSIGPIPE, 1)

    def send(self, message: Sequence[memoryview], patient: bool = True, descriptor: int | None = None) -> None:
        """Sends a complete message.

        Args:
            message: see `pack`.
            patient: wait as long as it takes, rather than a minute without progress.
            descriptor: of a file that the other end gets a descriptor of, see `take_descriptor`.

        Raises:
            OSError: the other end is closed (BrokenPipeError and the like) or hangs (TimeoutError).
        """
        first, *large = message
        with self._sending:
            if not patient:
                self._end.settimeout(_STALL)
            if descriptor is not None:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, _DESCRIPTOR.pack(descriptor))
                first = first[self._end.sendmsg([first], [rights], self._flags) :]
            for view in (first, *large):
                while view.nbytes:
                    view = view[self._end.send(view, self._flags) :]

    def receive(self, deadline: float | None = None) -> tuple[int, str, int]:
        """Returns the head of the next message: its number, its kind, and the size of its JSON or pickle.

        Args:
            deadline: of time.monotonic(); None waits as long as it takes.

        Raises:
            BadMessage, EOFError, TimeoutError: see `take`.
        """
        size, number, name = _HEAD.unpack(self.take(_HEAD.size, deadline))
        return number, name.rstrip(b"\0").decode("ascii", "replace"), size

    def take(self, size: int, deadline: float | None = None) -> memoryview:
        """Returns the next `size` bytes.

        Raises:
            BadMessage: descriptors came with them that are not accepted. Nothing can be read after that.
            EOFError: the other end is closed.
            TimeoutError: the deadline has passed. If a part of the bytes had come, it is lost.
        """
        data = memoryview(bytearray(size) if size < _MAPPED else _memory(size))
        view = data
        while view.nbytes:
            if deadline is None:
                self._end.settimeout(None)
            else:
                # Data that has arrived is read even after the deadline; 0 would not wait at all.
                self._end.settimeout(max(deadline - time.monotonic(), 1e-3))
            try:
                got, ancillary, flags, _ = self._end.recvmsg_into([view], self._space)
            except ConnectionError:
                got = 0
            if not got:
                raise EOFError
            if flags & socket.MSG_CTRUNC:  # the kernel has closed them
                raise BadMessage("descriptors that are not accepted came with it")
            for level, kind, rights in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    self._descriptors += (fd for (fd,) in _DESCRIPTOR.iter_unpack(rights))
            view = view[got:]
        return data

    def take_descriptor(self) -> int | None:
        """Returns a descriptor that came with the last received data, or None. The caller must close it."""
        return self._descriptors.pop() if self._descriptors else None

    def close(self) -> None:
        """Closes this end."""
        self._end.close()


def _memory(size: int) -> mmap.mmap:
    """Returns `size` bytes of memory, which the system provides when they are written. Raises MemoryError."""
    import mmap

    try:
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError from error
