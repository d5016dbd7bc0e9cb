"""The output: a file that appears whole or not at all, or a stream."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Protocol

from gdsurgeon.errors import InputError, OutputError, printable, unwritable
from gdsurgeon.values import Closing
from gdsurgeon.wire.folder import State, place, state_of
from gdsurgeon.wire.lock import changed_meanwhile
from gdsurgeon.wire.source import FileSource, open_source
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of, write_chunks

EARLY_WRITEBACK = 64 << 20
"""Bytes from which on a file is written back while it is still being written."""

_EXCHANGE, _HERE = 2, -100
"""Of renameat2: the flag that exchanges two names, and the folder that relative paths begin in."""
STANDARD_OUTPUT = frozenset(("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"))


class Output(Protocol):
    """Where a model is written: staged, perhaps proven, then published; a file, a folder or a stream.

    Attributes:
        files: the state of the model's folder when it was opened, if files of it are linked or copied into the output:
            these must still be in that state.
        replaces: the state that what is replaced was in when it was read; None: whatever is there is replaced.
    """

    name: str
    is_stream: bool
    files: State | None
    replaces: State | None

    @property
    def replaced(self) -> tuple[str, ...]:
        """Other files that it replaces."""

    @property
    def has_appeared(self) -> bool:
        """Whether what was staged has its name by now."""

    def is_terminal(self) -> bool:
        """Whether what is written would appear on a terminal."""

    def stage(self, chunks: Iterable[Chunk]) -> str:
        """Writes `chunks` to a staged file that cannot be confused with the output; returns its path. Raises
        OutputError.
        """

    def publish(self) -> None:
        """Makes what is staged the output. Raises OutputError."""

    def stream(self, chunks: Iterable[Chunk]) -> None:
        """Writes CHUNKS straight to a stream. Raises OutputError."""

    def close(self) -> None:
        """Removes staged files that have not been published. Idempotent."""

    def __enter__(self) -> Output: ...
    def __exit__(self, *_: object) -> None: ...


class OutputFile(Closing):
    """Where a graph is written: staged, perhaps proven, then published.

    A regular file is staged next to its target, with symbolic links resolved, under its own name
    (``.NAME.gdsurgeon-XXXX.tmp``), and renamed over it. Targets that cannot be replaced by a rename (a pipe, a device,
    standard output) are streamed; if the result must be read first, it is staged in the folder for temporary files.

    Use as a context manager: whatever was staged and not published is removed, with the folders that were made for it.

    Args:
        path: the output; ``-`` is standard output.

    Raises:
        OutputError: PATH is a directory, a loop of links, read-only, in something that is not a folder, or a link into
            a folder that does not exist.
    """

    replaced = ()
    files: State | None = None
    replaces: State | None = None

    def __init__(self, path: str) -> None:
        self.name = "<stdout>" if path in STANDARD_OUTPUT else path
        self.staged: str | None = None
        self._made: os.stat_result | None = None  # of what is staged, from the moment at which it is to take its name
        self._is_noted = False  # that it has its name
        self._target = path
        self._absent: list[str] = []
        self._mode: int | None = None
        self._group: int | None = None
        self.is_stream = path in STANDARD_OUTPUT or self._resolve(path)

    def is_terminal(self) -> bool:
        """Whether what is written would appear on a terminal."""
        if not self.is_stream:
            return False
        if self._target in STANDARD_OUTPUT:
            return os.isatty(1)
        try:
            if not stat.S_ISCHR(os.stat(self._target).st_mode):
                return False  # to open a pipe, only to look at it, would be seen at its other end
            fd = os.open(self._target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return False  # it is reported when it is written to
        try:
            return os.isatty(fd)
        finally:
            os.close(fd)

    def _resolve(self, path: str) -> bool:
        """Finds the target and what it is now; True where it can only be streamed to."""
        if path.endswith("/"):
            raise _no_place(path, "it names a folder, not a file", "is-a-folder")
        target = resolved(path)
        try:
            found = os.stat(target)
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise unwritable(path, error) from error
        self._target = target
        if found is None:
            if os.path.islink(target):
                raise unwritable(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
            self._absent = absent_folders(path, target)
            return False
        if stat.S_ISDIR(found.st_mode):
            raise _no_place(path, "it is a directory", "is-a-folder")
        if not stat.S_ISREG(found.st_mode):
            return True
        if not found.st_mode & 0o222 or not os.access(target, os.W_OK):
            raise _no_place(path, "the file is read-only", "unwritable", "make-writable", reason="read-only")
        self._mode, self._group = stat.S_IMODE(found.st_mode), found.st_gid
        return False

    def stage(self, chunks: Iterable[Chunk]) -> str:
        """Writes CHUNKS to a temporary file, down to the disk, and returns its path.

        Raises:
            OutputError: it cannot be written (no space, no permission, ...); nothing is left behind.
        """
        try:
            fd = self._create()
            try:
                if self.is_stream:
                    write_chunks(fd, chunks)
                else:
                    _write_to_disk(fd, chunks)
                    self._keep_mode(fd)
                    os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            self.close()
            raise unwritable(self.name, error) from error
        assert self.staged is not None
        return self.staged

    def stage_file(self, path: str) -> str:
        """Has the file PATH be what is published: by a further name if links are possible, else a copy of it.

        Raises:
            OutputError: it cannot be written; nothing is left behind.
            InputError: PATH cannot be read.
        """
        self.staged = temporary_name(self._target)
        try:
            make_folders(self._absent)
            with closing(open_source(path)) as source:
                if not isinstance(source, FileSource):
                    return self.stage([SourceSpan(source, 0, source.size)])
                place(source, path, self.staged)
        except OSError as error:
            self.close()
            raise unwritable(self.name, error) from error
        return self.staged

    def _create(self) -> int:
        if self.is_stream:
            import tempfile

            fd, self.staged = tempfile.mkstemp(prefix="gdsurgeon-", suffix=".tmp")
            return fd
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self.staged = temporary_name(self._target)  # before it exists: a signal must not leave it behind
        make_folders(self._absent)
        # What only some may read is at no time there for others; it gets the mode of the target in the end.
        return os.open(self.staged, flags, 0o666 if self._mode is None else 0o600)

    def _keep_mode(self, fd: int) -> None:
        if self._mode is None:
            return  # a new file: the umask has spoken
        if self._group is not None and self._group != os.fstat(fd).st_gid:
            try:
                os.fchown(fd, -1, self._group)
            except OSError:
                pass  # not ours to give
        os.fchmod(fd, self._mode)

    def publish(self) -> None:
        """Makes the staged bytes the output.

        Raises:
            OutputError: the rename or the stream failed, or the target has changed; the target is left as it was.
            BrokenPipeError: the reader of the stream has closed it.
        """
        assert self.staged is not None
        if self.is_stream:
            fd = os.open(self.staged, os.O_RDONLY)
            source = FileSource(fd, self.name)
            try:
                self.stream([SourceSpan(source, 0, source.size)])
            finally:
                source.close()
                self.close()
            return
        try:
            self._made = os.stat(self.staged)
            if self.replaces is None or not exchange_known(self.staged, self._target, self.replaces):
                os.replace(self.staged, self._target)
            self._is_noted = True
            for folder in (os.path.dirname(self._target), *map(os.path.dirname, self._absent)):
                sync_folder(folder)
        except OSError as error:
            raise unwritable(self.name, error) from error
        self.close()  # what was exchanged for it

    def stream(self, chunks: Iterable[Chunk]) -> None:
        """Writes CHUNKS straight to the stream.

        Raises:
            OutputError: it cannot be written.
            BrokenPipeError: the reader has closed it.
        """
        try:
            if self._target in STANDARD_OUTPUT:
                if sys.stdout is None:
                    raise OSError(errno.EBADF, "standard output is closed")
                sys.stdout.flush()
                write_chunks(sys.stdout.fileno(), chunks)
                return
            fd = os.open(self._target, os.O_WRONLY)
            try:
                write_chunks(fd, chunks)
            finally:
                os.close(fd)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(self.name, error) from error

    @property
    def has_appeared(self) -> bool:
        """Whether the staged file has its name by now, though a signal may have come before anybody could note it."""
        return self._is_noted or is_at(self._target, self._made)

    def close(self) -> None:
        """Removes what was staged and not published, or what the published file was exchanged for."""
        if self.staged is not None:
            try:
                os.unlink(self.staged)
            except OSError:
                pass  # never created
            self.staged = None
            if not self.has_appeared:
                remove_folders(self._absent)

    def withdraw(self) -> None:
        """Removes the file that was published, with the folders that were made for it. Raises OSError."""
        os.unlink(self._target)
        remove_folders(self._absent)


class Earlier:
    """What there is at PATH, kept until OUTPUT has appeared, with which what replaces it is to appear.

    Use it as a context manager, and call `keep` inside. If an exception leaves it before OUTPUT has appeared, the
    earlier file is restored, or removed if there was none. Entering does nothing, so a signal at that moment leaves no
    trace.

    Args:
        path: a regular file, or what will be one; None: there is nothing to keep.
        output: the output.
    """

    def __init__(self, path: str | None, output: Output) -> None:
        self._output = output
        self._path = resolved(path) if path is not None and path not in STANDARD_OUTPUT else ""
        self._kept = temporary_name(self._path)
        self._is_known = False  # the earlier content
        self._absent: list[str] = []

    def __enter__(self) -> Earlier:
        return self

    def keep(self) -> None:
        """Keeps what there is. Raises OutputError: it cannot be kept."""
        try:
            if self._path and stat.S_ISREG(os.stat(self._path).st_mode):
                link_or_copy(self._path, self._kept)
            elif self._path:
                self._path = ""  # a stream: written bytes cannot be taken back
        except FileNotFoundError:
            self._absent = absent_folders(self._path, self._path)
        except OSError as error:
            raise unwritable(self._path, error, "replaced") from error
        self._is_known = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._path:
            return
        try:
            if kind is not None and self._is_known and not self._output.has_appeared:
                self._put_back()
            os.unlink(self._kept)
        except OSError:
            pass  # it does not exist: it was put back, or nothing was kept

    def _put_back(self) -> None:
        if not os.path.lexists(self._kept):
            os.unlink(self._path)  # there was none
            remove_folders(self._absent)
        elif not same_file(self._kept, self._path):
            try:
                os.replace(self._kept, self._path)
            except OSError:
                os.unlink(self._path)  # and not written over: it may be a link to the model
                link_or_copy(self._kept, self._path)


def _no_place(path: str, why: str, code: str, advice: str | tuple[str, ...] = (), **facts: str) -> OutputError:
    line = f"{printable(path)} cannot be written: {why}"
    return OutputError(line, code=code, advice=advice, facts={"file": path, **facts})


def resolved(path: str) -> str:
    """Returns PATH without links. Raises OutputError if the working folder, in which PATH is, no longer exists."""
    try:
        return os.path.realpath(path)
    except OSError as error:
        raise unwritable(path, error) from error


def absent_folders(path: str, target: str) -> list[str]:
    """The folders that TARGET needs and that do not exist, the deepest first; PATH is what the user calls it.

    Raises:
        OutputError: a parent of the path is not a folder; or `path` is a link into a folder that does not exist.
    """
    out: list[str] = []
    folder = os.path.dirname(target)
    while not os.path.isdir(folder):
        if os.path.lexists(folder):
            raise unwritable(path, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
        out.append(folder)
        folder = os.path.dirname(folder)
    if out and os.path.islink(path):
        line = (
            f"{printable(path)} cannot be written: it is a link into the folder {printable(out[0])}, which "
            "does not exist"
        )
        raise OutputError(line, code="file-missing", facts={"file": path, "name": out[0]})
    return out


def make_folders(absent: Sequence[str]) -> None:
    """Makes the folders that `absent_folders` has found. Raises OSError."""
    if absent:
        os.makedirs(absent[0], exist_ok=True)


def remove_folders(made: Iterable[str]) -> None:
    """Removes those of the folders MADE, the deepest first, in which nothing is."""
    for folder in made:
        try:
            os.rmdir(folder)
        except OSError:
            pass  # it was not made, or something else is in it


def exchange_known(staged: str, target: str, before: State) -> bool:
    """Exchanges the names of STAGED and TARGET, if TARGET is in the state BEFORE when it loses its own.

    A file that has changed by now, or changes just before the exchange, gets its name back.

    Returns:
        Whether that was done; False: the system cannot exchange names in one step, and TARGET is in that state.

    Raises:
        OSError: the names cannot be exchanged.
        OutputError: TARGET is in another state.
    """
    check_state(target, before)
    try:
        is_done = exchange_names(staged, target)
    except OSError:
        check_state(target, before)
        raise
    if is_done:
        try:
            check_state(staged, before, target)
        except OutputError:
            exchange_names(staged, target)
            raise
    return is_done


def check_state(path: str, before: State, name: str = "") -> None:
    """Raises OutputError if PATH, which is called NAME in the message, is not in the state BEFORE."""
    try:
        is_same = state_of(path) == before
    except (OSError, InputError):
        is_same = False
    if not is_same:
        raise changed_meanwhile(name or path)


def exchange_names(path: str, other: str) -> bool:
    """Exchanges two names in one step; returns False if the system cannot. Raises OSError."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None and rename(_HERE, os.fsencode(path), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno() if rename is not None else errno.ENOSYS
    if number not in (errno.ENOSYS, errno.EINVAL):
        raise OSError(number, os.strerror(number))
    return False


def is_at(path: str, made: os.stat_result | None) -> bool:
    """Whether what was MADE is called PATH by now: read off the disk, as a signal may hinder any note."""
    try:
        return made is not None and os.path.samestat(os.stat(path), made)
    except OSError:
        return False


def temporary_name(path: str) -> str:
    """Returns an unused name next to `path`; only a part of a long name is used."""
    folder, name = os.path.split(path)
    short = os.fsdecode(os.fsencode(name)[:200])
    return os.path.join(folder, f".{short}.gdsurgeon-{os.urandom(4).hex()}.tmp")


def link_or_copy(path: str, other: str) -> None:
    """Has OTHER be the file PATH: the file itself where links are possible, else a copy. Raises OSError."""
    try:
        os.link(path, other)
    except FileNotFoundError:
        raise
    except OSError:
        import shutil

        shutil.copy2(path, other)


def same_file(path: str, other: str) -> bool:
    """Whether both paths lead to one existing file (links of both kinds included)."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _write_to_disk(fd: int, chunks: Iterable[Chunk]) -> None:
    """Writes CHUNKS; a big file goes to the disk while it is being written, so that the fsync finds little to do."""
    held = list(chunks)
    size = size_of(held)
    if size < EARLY_WRITEBACK:
        write_chunks(fd, held)
        return
    import threading

    _allocate(fd, size)

    done = threading.Event()
    sync = getattr(os, "fdatasync", os.fsync)

    def flush() -> None:
        while not done.wait(0.01):
            try:
                sync(fd)
            except OSError:
                return  # the fsync at the end reports it

    flusher = threading.Thread(target=flush, daemon=True)
    flusher.start()
    try:
        write_chunks(fd, held)
    finally:
        done.set()
        flusher.join()


def _allocate(fd: int, size: int) -> None:
    """Has the file system set SIZE bytes aside, where it can: writing back is quicker, and a full disk shows at once.

    Raises:
        OSError: there is no room.
    """
    # Not `os.posix_fallocate`: where the file system cannot do it, that writes to every block instead.
    fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if fallocate is None:
        return
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if fallocate(fd, 0, 0, size) != 0 and ctypes.get_errno() in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def sync_folder(folder: str) -> None:
    """Has the names in FOLDER reach the disk, where that can be done."""
    try:
        fd = os.open(folder or ".", os.O_RDONLY)
    except OSError:
        return  # a folder that cannot be opened: the rename is done all the same
    for settle in (os.fsync, os.close):
        try:
            settle(fd)
        except OSError:
            pass  # some file systems cannot sync a folder, and the rename is done
