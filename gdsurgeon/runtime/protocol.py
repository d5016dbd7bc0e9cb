"""What the two ends of the worker's socket say to each other, and how a message is framed.

A message is a pickle, followed by the buffers that it refers to (the data of tensors), so that those are
neither copied into the pickle nor out of it. In front: the size of the pickle and the number of buffers,
then the size of each buffer, all as unsigned little-endian integers of 8 bytes.

A message may bring the descriptor of a file, which comes along with its first bytes: the child itself may open none.

Parent to child: `WorkerRequest`. Child to parent, for each request: `Begun` when its work starts, unless it was
refused before that, then `Answer` or `RequestRefused`.
"""

from __future__ import annotations

import pickle
import socket
import struct
import sys
import threading
import time
from typing import NamedTuple

_HEADER = struct.Struct("<QQ")
_DESCRIPTOR = struct.Struct("i")
_STALL = 60.0  # seconds without any progress after which the other end counts as hung
_SO_NOSIGPIPE = 0x1022  # macOS; Python has no name for it


class WorkerRequest(NamedTuple):
    """Asks the child for METHOD with ARGUMENTS; NUMBER names the request in what comes back."""

    number: int
    method: str
    arguments: dict[str, object]


class Begun(NamedTuple):
    """The work on a request has started, in the thread THREAD."""

    number: int
    thread: int


class Answer(NamedTuple):
    """The result of a request."""

    number: int
    value: object


class RequestRefused(NamedTuple):
    """The failure of a request: KIND is 'tensorflow', 'missing', 'unavailable' or 'other'; CODE goes with the first."""

    number: int
    kind: str
    code: str
    message: str


class Result:
    """As the value of a feed: output INDEX of the earlier run RESULT_ID, which never leaves the child."""

    __slots__ = ("index", "result_id")

    def __init__(self, result_id: str, index: int) -> None:
        self.result_id = result_id
        self.index = index

    def __repr__(self) -> str:
        return f"Result({self.result_id!r}, {self.index})"


class OutputInfo(NamedTuple):
    """What a run gave for one fetch: DataType number, shape, bytes."""

    dtype: int
    shape: tuple[int, ...]
    nbytes: int


class RunSummary(NamedTuple):
    """A run whose tensors stayed in the child.

    Attributes:
        outputs: one for each fetch, in their order.
        seconds: wall time of the run alone.
        metadata: the serialised RunMetadata if a trace was asked for.
    """

    outputs: list[OutputInfo]
    seconds: float
    metadata: bytes | None


class Info(NamedTuple):
    """The child: its runtime ('capi' or 'python'), TensorFlow's version, and why it is not locked in, if it is not."""

    runtime: str
    version: str
    not_locked_in: str = ""


class Channel:
    """One end of the socket. Any thread may send; one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()
        self._descriptors: list[int] = []
        # The other end may be dead: that is to be an error here, whatever SIGPIPE is set to.
        self._flags = getattr(socket, "MSG_NOSIGNAL", 0)
        if sys.platform == "darwin":
            end.setsockopt(socket.SOL_SOCKET, _SO_NOSIGPIPE, 1)

    def send(self, message: object, patient: bool = True, descriptor: int | None = None) -> None:
        """Send MESSAGE whole.

        Args:
            message: what pickle can pickle.
            patient: wait as long as it takes, rather than a minute without progress.
            descriptor: of a file that the other end gets a descriptor of, see `take_descriptor`.

        Raises:
            OSError: the other end is gone (BrokenPipeError and the like) or hung (TimeoutError).
        """
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(message, 5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        head = _HEADER.pack(len(body), len(views)) + b"".join(struct.pack("<Q", v.nbytes) for v in views)
        with self._sending:
            if not patient:
                self._end.settimeout(_STALL)
            first = memoryview(head + body)
            if descriptor is not None:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, _DESCRIPTOR.pack(descriptor))
                first = first[self._end.sendmsg([first], [rights], self._flags) :]
            for view in (first, *views):
                while view.nbytes:
                    view = view[self._end.send(view, self._flags) :]

    def receive(self, deadline: float | None = None) -> object:
        """The next message.

        Args:
            deadline: of time.monotonic(); None waits as long as it takes.

        Raises:
            EOFError: the other end is gone.
            TimeoutError: the deadline has passed. If a part of a message had come, it is lost.
        """
        size, count = _HEADER.unpack(self._read(_HEADER.size, deadline))
        sizes = struct.unpack(f"<{count}Q", self._read(8 * count, deadline))
        body = self._read(size, deadline)
        return pickle.loads(body, buffers=[self._read(n, deadline) for n in sizes])

    def take_descriptor(self) -> int | None:
        """A descriptor that has come with what was received last, to be closed by the caller; None if none has."""
        return self._descriptors.pop() if self._descriptors else None

    def close(self) -> None:
        """Close this end."""
        self._end.close()

    def _read(self, size: int, deadline: float | None) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view.nbytes:
            if deadline is None:
                self._end.settimeout(None)
            else:
                # Even with the deadline behind us, what has already come is taken; 0 would not wait at all.
                self._end.settimeout(max(deadline - time.monotonic(), 1e-3))
            try:
                got = self._receive(view)
            except ConnectionError:
                got = 0
            if not got:
                raise EOFError
            view = view[got:]
        return data

    def _receive(self, view: memoryview) -> int:
        got, ancillary, _, _ = self._end.recvmsg_into([view], socket.CMSG_LEN(_DESCRIPTOR.size))
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._descriptors += (fd for (fd,) in _DESCRIPTOR.iter_unpack(data))
        return got
