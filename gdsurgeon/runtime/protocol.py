"""The messages between the command and its worker, and the socket that carries them.

A message has a number, a kind and values. The command sends a request: the kind is the name of a method of
`gdsurgeon.runtime.worker.Child`, the values are its arguments. The worker answers each request by its number: `BEGUN`
when its work starts, then `ANSWER` or `REFUSED`. The annotations of the method are the types of its arguments and of
its answer; `gdsurgeon.runtime.encoding` has the bytes.

On the wire: the size of the JSON, the number and the kind; the JSON; the buffers.

A request may bring the descriptor of a file, with its first bytes: the worker itself may open none. The command accepts
no descriptors.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args, get_type_hints

from gdsurgeon.runtime.encoding import BadMessage, Bytes, Types, decode, encode
from gdsurgeon.runtime.failures import Stage

if TYPE_CHECKING:
    import mmap

BEGUN, ANSWER, REFUSED = "begun", "answer", "refused"
BEGUN_TYPES = (int,)
"""The thread that works on the request."""
REFUSED_TYPES = (str, str, str)
"""The first fields of a `Failure`."""
MOST_REASON = 1 << 18
"""Characters of a reason; TensorFlow may quote a graph."""

_HEAD = struct.Struct("=IQ20s")
_DESCRIPTOR = struct.Struct("i")
_MAPPED = 1 << 20  # bytes from which on the memory of a buffer is mapped: it is not touched before data arrives
_COPIED = 1 << 12  # bytes up to which a buffer is copied to what is sent before it, which saves a system call
_STALL = 60.0  # seconds without any progress after which the other end counts as hung
_SO_NOSIGPIPE = 0x1022  # macOS; Python has no name for it

Message: TypeAlias = "tuple[int, str, list[Any]]"
"""The number, the kind, the values."""


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


class Request(NamedTuple):
    """A request to the worker, and the limits of its answer.

    Attributes:
        method: of `Child`; its annotations are the types of the arguments and of the answer.
        stage: the work of the child; the key is the name of the argument that names the graph.
        items: the argument that has as many items as the answer, or ''.
        result: the argument that names an earlier result, or ''. Without `items` the answer has as many items.
        is_large: whether the answer may be as large as the memory of the child.
    """

    method: Callable[..., Any]
    stage: Stage
    items: str = ""
    result: str = ""
    is_large: bool = False


@cache
def request_types(method: Callable[..., Any]) -> tuple[Mapping[str, Any], Any]:
    """Returns the types of the arguments of a request, by name, and of its answer; `method` is that of `Child`."""
    hints = get_type_hints(method)
    (answer,) = get_args(hints.pop("return"))  # of a Job
    return hints, answer


def packed(number: int, kind: str, types: Types, values: Sequence[object]) -> list[memoryview]:
    """Returns a message as bytes.

    Raises:
        TypeError, ValueError, OverflowError, AttributeError: `values` do not have the `types`.
    """
    text, buffers = encode(types, values)
    out: list[Bytes] = [bytearray(_HEAD.pack(len(text), number, kind.encode()) + text)]
    for buffer in buffers:
        if buffer.nbytes <= _COPIED and isinstance(out[-1], bytearray):
            out[-1] += buffer
        else:
            out.append(buffer)
    return [memoryview(piece) for piece in out]


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
            message: see `packed`.
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

    def receive(self, expected: Callable[[int, str], tuple[Types, int]], deadline: float | None = None) -> Message:
        """Returns the next message.

        Args:
            expected: returns the types of the values of a message with this number and kind, and the most bytes that
                it may have. It raises BadMessage if no such message is expected.
            deadline: of time.monotonic(); None waits as long as it takes.

        Raises:
            BadMessage: the data is not a message, or not an expected message. Nothing can be read after it.
            EOFError: the other end is closed.
            TimeoutError: the deadline has passed. If a part of a message had come, it is lost.
        """
        size, number, name = _HEAD.unpack(self._read(_HEAD.size, deadline))
        kind = name.rstrip(b"\0").decode("ascii", "replace")
        types, most = expected(number, kind)

        def take(size: int) -> memoryview:
            nonlocal most
            most -= size
            if size < 0 or most < 0:
                raise BadMessage(f"it has {size} bytes where {most + size} are allowed")
            return self._read(size, deadline)

        return number, kind, decode(types, take(size), take)

    def take_descriptor(self) -> int | None:
        """Returns a descriptor that came with the last received data, or None. The caller must close it."""
        return self._descriptors.pop() if self._descriptors else None

    def close(self) -> None:
        """Closes this end."""
        self._end.close()

    def _read(self, size: int, deadline: float | None) -> memoryview:
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


def _memory(size: int) -> mmap.mmap:
    """Returns `size` bytes of memory, which the system provides when they are written. Raises MemoryError."""
    import mmap

    try:
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError from error
