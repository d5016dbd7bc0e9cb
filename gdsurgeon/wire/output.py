"""The output: a file that appears whole or not at all, or a stream."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterable, Sequence

from gdsurgeon.errors import InputError, OutputError, printable, unwritable
from gdsurgeon.values import Closing
from gdsurgeon.wire.folder import State, changed_meanwhile, place, state_of
from gdsurgeon.wire.source import FileSource, open_source
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of, write_chunks

EARLY_WRITEBACK = 64 << 20
"""The size in bytes from which a file is flushed to the disk while it is still being written."""

_EXCHANGE, _HERE = 2, -100
"""Arguments of renameat2: the flag that exchanges two names, and the working folder as base of relative paths."""
STANDARD_OUTPUT = frozenset(("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"))


class Output(Closing):
    """A destination of a model: staged, perhaps proven, then published; a file, a folder or a stream.

    Use as a context manager: staged files that were not published are removed, with the folders that were made for
    them.

    Attributes:
        name: the name of the output in messages.
        is_stream: whether the bytes are sent to a stream.
        files: the state of the model's folder when it was opened, if files of it are linked or copied into the output:
            these must still be in that state.
        replaces: the earlier state of the replaced file when it was read; None: any file is replaced.
        replaced: other files that it replaces.
    """

    name: str
    is_stream = False
    files: State | None = None
    replaces: State | None = None
    replaced: tuple[str, ...] = ()

    @property
    def has_appeared(self) -> bool:
        """Whether the staged bytes have their name."""
        return False

    def is_terminal(self) -> bool:
        """Returns whether the written bytes would appear on a terminal."""
        return False

    def stage(self, chunks: Iterable[Chunk]) -> str:
        """Writes `chunks` to a staged file that cannot be confused with the output; returns its path.

        Raises:
            OutputError: it cannot be written (no space, no permission, ...); staged files are removed.
        """
        raise NotImplementedError

    def publish(self) -> None:
        """Makes the staged bytes the output.

        Raises:
            OutputError: the rename or the stream failed, or the target has changed; the target is unchanged.
            BrokenPipeError: the reader of the stream has closed it.
        """
        raise NotImplementedError

    def stream(self, chunks: Iterable[Chunk]) -> None:
        """Writes `chunks` directly to a stream. Raises: see `publish`."""
        raise NotImplementedError


class StagedOutput(Output):
    """A file or a folder that is staged next to its target, with symbolic links resolved, and then takes its name.

    Its staged name is ``.NAME.gdsurgeon-XXXX.tmp``.

    Attributes:
        staged: the path of the staged file or folder; None before it is staged.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self.staged: str | None = None
        self._made: os.stat_result | None = None  # of the staged file, set just before it takes its name
        self._is_noted = False  # whether the rename to the final name was recorded
        self._target = path
        self._absent: list[str] = []

    @property
    def has_appeared(self) -> bool:
        """Whether the staged file has its name, even if a signal came before this was noted."""
        return self._is_noted or is_at(self._target, self._made)

    def publish(self) -> None:
        assert self.staged is not None
        try:
            self._made = os.stat(self.staged)
            if self.replaces is None or not exchange_known(self.staged, self._target, self.replaces):
                self._take_name(self.staged)
            self._is_noted = True
            for folder in (os.path.dirname(self._target), *map(os.path.dirname, self._absent)):
                sync_folder(folder)
        except OSError as error:
            raise unwritable(self.name, error) from error
        self.close()

    def close(self) -> None:
        """Removes the staged file if it was not published; otherwise the earlier file it was exchanged with."""
        if self.staged is not None:
            self._remove(self.staged)
            self.staged = None
            if not self.has_appeared:
                remove_folders(self._absent)

    def _take_name(self, staged: str) -> None:
        raise NotImplementedError

    def _remove(self, staged: str) -> None:
        raise NotImplementedError


class OutputFile(StagedOutput):
    """The file of a graph. Targets that cannot be replaced by a rename (a pipe, a device, standard output) are
    streamed; if the result must be read first, it is staged in the folder for temporary files.

    Args:
        path: the output; ``-`` is standard output.

    Raises:
        OutputError: `path` is a directory, a loop of links, read-only, in something that is not a folder, or a link
            into a folder that does not exist.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._mode: int | None = None
        self._group: int | None = None
        if path in STANDARD_OUTPUT:
            self.name = "<stdout>"
        self.is_stream = path in STANDARD_OUTPUT or self._resolve(path)

    def is_terminal(self) -> bool:
        if not self.is_stream:
            return False
        if self._target in STANDARD_OUTPUT:
            return os.isatty(1)
        try:
            if not stat.S_ISCHR(os.stat(self._target).st_mode):
                return False  # opening a pipe only to examine it would be visible to its reader
            fd = os.open(self._target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return False  # it is reported when it is written to
        try:
            return os.isatty(fd)
        finally:
            os.close(fd)

    def _resolve(self, path: str) -> bool:
        """Finds the target and its present state; returns True if it can only be streamed to."""

        def refused(why: str, code: str, advice: str | tuple[str, ...] = (), **facts: str) -> OutputError:
            line = f"{printable(path)} cannot be written: {why}"
            return OutputError(line, code=code, advice=advice, facts={"file": path, **facts})

        if path.endswith("/"):
            raise refused("it names a folder, not a file", "is-a-folder")
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
            raise refused("it is a directory", "is-a-folder")
        if not stat.S_ISREG(found.st_mode):
            return True
        if not found.st_mode & 0o222 or not os.access(target, os.W_OK):
            raise refused("the file is read-only", "unwritable", "make-writable", reason="read-only")
        self._mode, self._group = stat.S_IMODE(found.st_mode), found.st_gid
        return False

    def stage(self, chunks: Iterable[Chunk]) -> str:
        try:
            fd, self.staged = self._create()
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
        return self.staged

    def stage_file(self, path: str) -> str:
        """Stages the file `path`: by a hard link if possible, else a copy of it.

        Raises:
            OutputError: it cannot be written; staged files are removed.
            InputError: `path` cannot be read.
        """
        self.staged = temporary_name(self._target)
        try:
            make_folders(self._absent)
            with open_source(path) as source:
                if not isinstance(source, FileSource):
                    return self.stage([SourceSpan(source, 0, source.size)])
                place(source, path, self.staged)
        except OSError as error:
            self.close()
            raise unwritable(self.name, error) from error
        return self.staged

    def _create(self) -> tuple[int, str]:
        if self.is_stream:
            import tempfile

            return tempfile.mkstemp(prefix="gdsurgeon-", suffix=".tmp")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self.staged = temporary_name(self._target)  # before it exists: a signal must not leave it behind
        make_folders(self._absent)
        # The file gets the mode of the target at the end: until then, only its owner may read it.
        return os.open(self.staged, flags, 0o666 if self._mode is None else 0o600), self.staged

    def _keep_mode(self, fd: int) -> None:
        if self._mode is None:
            return  # a new file has the mode of the umask
        if self._group is not None and self._group != os.fstat(fd).st_gid:
            try:
                os.fchown(fd, -1, self._group)
            except OSError:
                pass  # the group cannot be changed
        os.fchmod(fd, self._mode)

    def publish(self) -> None:
        if not self.is_stream:
            super().publish()
            return
        assert self.staged is not None
        try:
            with FileSource(os.open(self.staged, os.O_RDONLY), self.name) as source:
                self.stream([SourceSpan(source, 0, source.size)])
        finally:
            self.close()

    def stream(self, chunks: Iterable[Chunk]) -> None:
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

    def _take_name(self, staged: str) -> None:
        os.replace(staged, self._target)

    def _remove(self, staged: str) -> None:
        try:
            os.unlink(staged)
        except OSError:
            pass  # never created

    def withdraw(self) -> None:
        """Removes the file that was published, with the folders that were made for it. Raises OSError."""
        os.unlink(self._target)
        remove_folders(self._absent)


class Earlier:
    """Keeps the earlier file at a path until an output has appeared together with the new file.

    Use it as a context manager, and call `keep` inside. If an exception leaves it before the output has appeared, the
    earlier file is restored, or removed if there was none. Entering does nothing, so a signal at that moment leaves no
    trace.

    Args:
        path: a regular file, or a path without a file; None: there is no file to keep.
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
        """Keeps the earlier file. Raises OutputError: it cannot be kept."""
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
                self._restore()
            os.unlink(self._kept)
        except OSError:
            pass  # it does not exist: it was put back, or nothing was kept

    def _restore(self) -> None:
        if not os.path.lexists(self._kept):
            os.unlink(self._path)  # there was none
            remove_folders(self._absent)
        elif not same_file(self._kept, self._path):
            try:
                os.replace(self._kept, self._path)
            except OSError:
                os.unlink(self._path)  # it is not overwritten, because it may be a link to the model
                link_or_copy(self._kept, self._path)


def resolved(path: str) -> str:
    """Returns `path` without links. Raises OutputError if the working folder of a relative path no longer exists."""
    try:
        return os.path.realpath(path)
    except OSError as error:
        raise unwritable(path, error) from error


def absent_folders(path: str, target: str) -> list[str]:
    """Returns the missing parent folders of `target`, deepest first; `path` is the name of `target` in messages.

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
        raise OutputError(line, code="file-missing", file=path, name=out[0])
    return out


def make_folders(absent: Sequence[str]) -> None:
    """Makes the folders that `absent_folders` has found. Raises OSError."""
    if absent:
        os.makedirs(absent[0], exist_ok=True)


def remove_folders(made: Iterable[str]) -> None:
    """Removes the empty ones of the folders `made`, the deepest first."""
    for folder in made:
        try:
            os.rmdir(folder)
        except OSError:
            pass  # it was not made, or is not empty


def exchange_known(staged: str, target: str, before: State) -> bool:
    """Exchanges the names of `staged` and `target`, if `target` is still in the state `before`.

    If the file has changed, also just before the exchange, it gets its name back.

    Returns:
        Whether the names were exchanged; False: the system cannot exchange names in one step, and `target` is in the
        state `before`.

    Raises:
        OSError: the names cannot be exchanged.
        OutputError: `target` is in a different state.
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
    """Raises OutputError if `path` is not in the state `before`; the message calls it `name`."""
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
    """Returns whether the file at `path` is the one with the stat result `made`.

    The disk is checked, because a signal can prevent any note in memory.
    """
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
    """Makes `other` a hard link to the file `path`, or a copy if links are not possible. Raises OSError."""
    try:
        os.link(path, other)
    except FileNotFoundError:
        raise
    except OSError:
        import shutil

        shutil.copy2(path, other)


def same_file(path: str, other: str) -> bool:
    """Returns whether both paths lead to the same existing file, also through symbolic or hard links."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _write_to_disk(fd: int, chunks: Iterable[Chunk]) -> None:
    """Writes `chunks`; a large file is written back during the writing, so that the last fsync is short."""
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
    """Reserves `size` bytes of the file system if possible: writing back is faster, and a full disk is found early.

    Raises:
        OSError: the disk is full.
    """
    # Not `os.posix_fallocate`: it writes to every block if the file system does not support the call.
    fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if fallocate is None:
        return
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if fallocate(fd, 0, 0, size) != 0 and ctypes.get_errno() in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def sync_folder(folder: str) -> None:
    """Writes the names in `folder` to the disk if possible."""
    try:
        fd = os.open(folder or ".", os.O_RDONLY)
    except OSError:
        return  # the folder cannot be opened; the rename is done
    for settle in (os.fsync, os.close):
        try:
            settle(fd)
        except OSError:
            pass  # some file systems cannot sync a folder, and the rename is done
