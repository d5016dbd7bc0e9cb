"""Sources of the bytes of a graph: a file that is read in small windows, or memory."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from itertools import islice
from typing import overload

from gdsurgeon.errors import InputError, UsageError, printable, unreadable, unwritable
from gdsurgeon.values import Closing
from gdsurgeon.wire.fields import Field, WireError, fields

SPOOL_IN_MEMORY = 64 << 20
"""A graph from a pipe is held in memory up to this many bytes, beyond it in an unlinked temporary file."""

WINDOW = 1 << 12
_PIECE = 1 << 20

_SMALL, _AHEAD = 1 << 9, 1 << 14
"""Reads of up to `_SMALL` bytes that follow each other closely read `_AHEAD` bytes at once."""

STANDARD_INPUT = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
STANDARD_INPUT_NAME = "<stdin>"
"""The name of standard input in messages."""


class Source(Closing):
    """Random access to the bytes of one graph.

    Attributes:
        name: how messages call it.
        size: bytes.
    """

    name: str
    size: int

    def read(self, offset: int, size: int) -> bytes:
        """Returns the `size` bytes at `offset`. Raises InputError: the source has become shorter."""
        raise NotImplementedError

    def fileno(self) -> int | None:
        """Returns a descriptor of a file with exactly these bytes, or None; spans and other processes can use it."""
        return None

    def check_unchanged(self) -> None:
        """Raises InputError if the bytes have changed since they were scanned."""

    def close(self) -> None:
        """Closes the file; the sources that this source consists of are closed by the code that opened them."""


class BytesSource(Source):
    """A graph in memory."""

    def __init__(self, data: bytes, name: str = "<bytes>") -> None:
        self.data = data
        self.name = name
        self.size = len(data)

    def read(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


class SourceSlice(Source):
    """The bytes of another source from `start` to `end`, counted from 0."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.name = source.name
        self.size = end - start

    def read(self, offset: int, size: int) -> bytes:
        return self.source.read(self.start + offset, min(size, self.size - offset))

    def check_unchanged(self) -> None:
        self.source.check_unchanged()


class FileSource(Source):
    """A graph in a seekable file, read by `pread`: a mapped file that shrinks would kill the process.

    Attributes:
        found: the stat result of the file when it was opened.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self.name = name
        self.found = os.fstat(fd)
        self.size = self.found.st_size
        self._held = 0, b""  # the offset of the last small read, and the bytes from there that were read ahead

    def read(self, offset: int, size: int) -> bytes:
        if size > _SMALL:
            return self._read(offset, size)
        base, held = self._held
        if offset < base or offset + size > base + len(held):
            ahead = min(_AHEAD, self.size - offset) if base <= offset < base + 2 * _AHEAD else 0
            base, held = self._held = offset, self._read(offset, max(size, ahead))
        return held[offset - base : offset - base + size]

    def _read(self, offset: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, offset)
            while len(data) < size:
                more = os.pread(self._fd, size - len(data), offset + len(data))
                if not more:
                    raise changed(self.name, "was cut short")
                data += more
        except OSError as error:
            raise unreadable(self.name, error) from error
        return data

    def fileno(self) -> int | None:
        return self._fd

    def check_unchanged(self) -> None:
        now = os.fstat(self._fd)
        if (now.st_size, now.st_mtime_ns) != (self.found.st_size, self.found.st_mtime_ns):
            raise changed(self.name)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Window:
    """A `Buffer` on the bytes of a source from `start` to `end`, counted from 0; it holds one small part at a time."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self._source = source
        self._start = start
        self._size = end - start
        self._base = 0
        self._held = b""

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __getitem__(self, key: int | slice, /) -> int | bytes:
        if isinstance(key, slice):
            return self._source.read(self._start + key.start, key.stop - key.start)
        at = key - self._base
        if not 0 <= at < len(self._held):
            self._base, at = key, 0
            self._held = self._source.read(self._start + key, min(WINDOW, self._size - key))
        return self._held[at]


LONGEST_STREAM = 4 << 30
"""The maximum number of bytes read from a stream: twice the size of a GraphDef that TensorFlow can load."""


MOST_FIELDS = 100_000
"""The maximum number of fields in a message that is split into fields; each needs much more memory than two bytes."""


def fields_of(source: Source, start: int, end: int) -> list[Field]:
    """Returns the fields of the message in `source` from `start` to `end`; offsets are relative to `start`.

    Raises:
        InputError: it is no message, or has more than `MOST_FIELDS`.
    """
    try:
        found = list(islice(fields(Window(source, start, end), 0, end - start), MOST_FIELDS + 1))
    except WireError as error:
        raise corrupt(source, error, start) from None
    if len(found) > MOST_FIELDS:
        line = f"{printable(source.name)} has a message of more than {MOST_FIELDS:,} fields"
        raise InputError(line, code="too-large", file=source.name, reason="fields")
    return found


def corrupt(source: Source, error: WireError, start: int = 0) -> InputError:
    """Returns the error that the bytes of `source` from `start` on are not a valid message; `error` is the cause."""
    what = "truncated or corrupt" if "cut short" in error.reason else "corrupt"
    return InputError(
        f"{printable(source.name)} is {what}: {error.reason} (at byte {start + error.offset:,} of {source.size:,})",
        code="corrupt",
        facts={"file": source.name, "reason": error.reason, "at": start + error.offset},
        hint="was the transfer complete, and in binary mode?",
    )


def changed(name: str, how: str = "changed") -> InputError:
    """Returns the error that the file `name` has changed while it was read; `how` is the verb phrase of the message."""
    line = f"{printable(name)} {how} while it was being read"
    return InputError(line, code="file-changed", file=name)


def endless(name: str, hint: str) -> InputError:
    """Returns the error that the stream `name` is longer than a model can be."""
    line = f"{printable(name)} is longer than {LONGEST_STREAM >> 30} GiB, more than a model can have"
    return InputError(line, code="too-large", file=name, hint=hint)


def corrupt_file(name: str, what: str, **facts: str | int) -> InputError:
    """Returns the error that the file `name` is corrupt; `what` is the reason, `facts` are added to the error."""
    return InputError(f"{printable(name)} is corrupt: {what}", code="corrupt", facts={"file": name, **facts})


def open_source(path: str) -> Source:
    """Returns the bytes of the file `path` as a source; ``-`` is standard input.

    Raises:
        InputError: it is missing, a directory, or not readable.
        UsageError: standard input is a terminal.
    """
    if path in STANDARD_INPUT:
        return _standard_input()
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise unreadable(path, error, "opened") from error
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        os.close(fd)
        line = f"{printable(path)} is a directory, not a GraphDef"
        raise InputError(line, code="is-a-folder", file=path)
    if stat.S_ISREG(mode):
        return FileSource(fd, path)
    try:
        return _spooled(lambda size: _read(fd, path, size), path)
    finally:
        os.close(fd)


class _Ahead:
    """The bytes of a standard input that were read to detect the format, and are read again."""

    def __init__(self) -> None:
        self.stream: object = sys.stdin
        self.data = b""


_ahead = _Ahead()


def head_of_standard_input(size: int) -> bytes:
    """Returns the first `size` bytes of standard input, or all if it is shorter; the next reader reads them again.

    Raises:
        InputError: it cannot be read.
    """
    if sys.stdin is None or os.isatty(fd := sys.stdin.fileno()):
        return b""  # the reader reports it
    if _ahead.stream is not sys.stdin:
        _ahead.__init__()  # type: ignore[misc]
    while len(_ahead.data) < size and (more := _read(fd, STANDARD_INPUT_NAME, size - len(_ahead.data))):
        _ahead.data += more
    return _ahead.data[:size]


def read_standard_input(size: int) -> bytes:
    """Returns the next bytes of standard input, at most `size`; empty at its end. Raises InputError."""
    if _ahead.stream is sys.stdin and _ahead.data:
        data, _ahead.data = _ahead.data[:size], _ahead.data[size:]
        return data
    return _read(sys.stdin.fileno(), STANDARD_INPUT_NAME, size)


def _standard_input() -> Source:
    name = STANDARD_INPUT_NAME
    if sys.stdin is None:
        raise InputError("standard input is closed", code="unreadable", file=name)
    fd = sys.stdin.fileno()
    if os.isatty(fd):
        line = "MODEL is '-', but standard input is a terminal"
        hint = "pipe a GraphDef into the command, or name a file"
        raise UsageError(line, code="is-a-terminal", file=name, hint=hint)
    held = len(_ahead.data) if _ahead.stream is sys.stdin else 0
    if stat.S_ISREG(os.fstat(fd).st_mode) and os.lseek(fd, 0, os.SEEK_CUR) == held:
        return FileSource(os.dup(fd), name)
    return _spooled(read_standard_input, name)


def _spooled(read: Callable[[int], bytes], name: str) -> Source:
    """Returns a source of all bytes that `read` returns in pieces, in memory or, if large, in a temporary file."""
    held = bytearray()
    spill = -1
    try:
        taken = 0
        while chunk := read(_PIECE):
            if not taken and not chunk[0]:
                return BytesSource(chunk, name)  # no graph begins with a zero: the parser reports it
            taken += len(chunk)
            if taken > LONGEST_STREAM:
                raise endless(name, "name a file instead")
            held += chunk
            if len(held) > SPOOL_IN_MEMORY or spill >= 0:
                spill = spill if spill >= 0 else _temporary()
                _write_all(spill, held)
                held.clear()
    except BaseException:
        if spill >= 0:
            os.close(spill)
        raise
    return BytesSource(bytes(held), name) if spill < 0 else FileSource(spill, name)


def _read(fd: int, name: str, size: int) -> bytes:
    try:
        return os.read(fd, size)
    except OSError as error:
        raise unreadable(name, error) from error


def _temporary() -> int:
    """Creates an unnamed file in the folder for temporary files, and returns its descriptor."""
    import tempfile

    try:
        with tempfile.TemporaryFile(prefix="gdsurgeon-", buffering=0) as file:
            return os.dup(file.fileno())
    except OSError as error:
        raise unwritable(STANDARD_INPUT_NAME, error, "stored in a temporary file") from error


def _write_all(fd: int, data: bytearray) -> None:
    import tempfile

    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        failed = unwritable(STANDARD_INPUT_NAME, error, f"stored in the temporary folder {tempfile.gettempdir()}")
        failed.hint = "set TMPDIR to a different folder"
        raise failed from error
    finally:
        view.release()
