"""Folders that are opened once, without following links; locks on files and folders that are replaced in place."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from gdsurgeon.errors import InputError, OutputError, printable, unreadable
from gdsurgeon.values import Closing
from gdsurgeon.wire.source import FileSource, changed
from gdsurgeon.wire.write import SourceSpan, write_chunks

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_KINDS = {stat.S_IFLNK: "link", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket"}


_BUSY = (errno.EAGAIN, errno.EACCES)


class Identity(NamedTuple):
    """The identity of a file, which changes when the file is written to; a folder has only device and inode."""

    device: int
    inode: int
    size: int = 0
    modified: int = 0


def identity(found: os.stat_result) -> Identity:
    """Returns the identity of the file or folder with the stat result `found`."""
    if stat.S_ISDIR(found.st_mode):
        return Identity(found.st_dev, found.st_ino)
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


State = Mapping[str, Identity]
"""Identities by path: all files and folders below a folder, and the folder itself as ''. A file has only ''."""


def state_of(path: str) -> State:
    """Returns the state of the file or folder `path`. Raises OSError; InputError: see `Folder.entries`."""
    found = os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        return {"": identity(found)}
    with Folder(path) as folder:
        return folder.state()


class Entry(NamedTuple):
    """A file or a folder below a folder."""

    path: str
    is_folder: bool
    identity: Identity


class Folder(Closing):
    """The folder `path`, which may be a link itself. Use as a context manager.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, _FLAGS | os.O_DIRECTORY)

    def close(self) -> None:
        os.close(self._fd)

    def entries(self) -> Iterator[Entry]:
        """Yields all files and folders below this folder, each folder before its content.

        Raises:
            InputError: the folder contains a link, a pipe, a socket or a device.
            OSError: a folder cannot be read.
        """
        pending = [""]
        while pending:
            inner = pending.pop()
            fd = self._folder(inner)
            try:
                for name in sorted(os.listdir(fd)):
                    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    path = os.path.join(inner, name)
                    is_folder = stat.S_ISDIR(found.st_mode)
                    if is_folder:
                        pending.append(path)
                    elif not stat.S_ISREG(found.st_mode):
                        raise self._irregular(path, found)
                    yield Entry(path, is_folder, identity(found))
            finally:
                os.close(fd)

    def state(self) -> State:
        """Returns the state of this folder. Raises: see `entries`."""
        return {"": identity(os.fstat(self._fd)), **{entry.path: entry.identity for entry in self.entries()}}

    def source(self, path: str, before: State | None = None) -> FileSource:
        """Returns the bytes of the file `path` in this folder; `before` is a known state, which the file must match.

        Raises:
            InputError: it is not a regular file, or differs from `before`.
            OSError: it cannot be opened.
        """
        with self._within(path) as fd:
            return self._source(fd, path, before)

    def place(self, path: str, target: str, before: State | None = None) -> None:
        """Creates `target` as a hard link to the file `path` in this folder, or as a copy if links are not possible.

        Raises:
            InputError: see `source`; or it was replaced meanwhile.
            OSError: it cannot be read or written.
        """
        with self._within(path) as fd, self._source(fd, path, before) as source:
            place(source, os.path.basename(path), target, folder=fd)

    def copy_to(self, other: str, left_out: Iterable[str] = (), before: State | None = None) -> None:
        """Links (or copies) all files into the folder `other`, except the top-level names in `left_out`.

        Raises:
            InputError: something is no file; or the folder was replaced, or is not in the state from `before`.
            OSError: it cannot be read or written.
        """
        leaving = set(left_out)
        state = {"": identity(os.fstat(self._fd))}
        for entry in self.entries():
            state[entry.path] = entry.identity
            if entry.path in leaving:
                continue
            target = os.path.join(other, entry.path)
            if entry.is_folder:
                os.mkdir(target)
            else:
                self.place(entry.path, target, before)
        if not os.path.samestat(os.fstat(self._fd), os.stat(self.path)) or (before is not None and before != state):
            raise changed(self.path, "was replaced")

    def _folder(self, path: str) -> int:
        """Opens the folder `path` in this folder and returns its descriptor."""
        fd = os.open(".", _FLAGS | os.O_DIRECTORY, dir_fd=self._fd)
        try:
            for part in path.split(os.sep) if path else ():
                before, fd = fd, self._open(fd, part, path, os.O_DIRECTORY)
                os.close(before)
        except BaseException:
            os.close(fd)
            raise
        return fd

    @contextmanager
    def _within(self, path: str) -> Iterator[int]:
        """Opens the folder that holds `path`."""
        fd = self._folder(os.path.dirname(path))
        try:
            yield fd
        finally:
            os.close(fd)

    def _source(self, fd: int, path: str, before: State | None) -> FileSource:
        file = self._open(fd, os.path.basename(path), path, 0)
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or (before is not None and before.get(path) != identity(found)):
            os.close(file)
            raise self._irregular(path, found) if not stat.S_ISREG(found.st_mode) else changed(self._named(path))
        return FileSource(file, self._named(path))

    def _open(self, fd: int, name: str, path: str, flags: int) -> int:
        try:
            return os.open(name, _FLAGS | os.O_NOFOLLOW | flags, dir_fd=fd)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
                raise
            raise self._irregular(path, os.stat(name, dir_fd=fd, follow_symlinks=False)) from error

    def _named(self, path: str) -> str:
        return os.path.join(self.path, path)

    def _irregular(self, path: str, found: os.stat_result) -> InputError:
        what, name = _KINDS.get(stat.S_IFMT(found.st_mode), "device"), self._named(path)
        facts = {"file": name, "found": what}
        if what != "link":
            line = f"{printable(name)} is a {what}; a model folder may hold only files and folders"
            return InputError(line, code="wrong-format", facts=facts)
        line = f"{printable(name)} is a link, and links inside a model folder are not followed"
        import shlex

        hint = f"make a copy with files instead of links: cp -rL {shlex.quote(self.path)} COPY"
        return InputError(line, code="link-in-savedmodel", facts=facts, hint=hint)


def place(source: FileSource, name: str, target: str, *, folder: int | None = None) -> None:
    """Creates `target` as a hard link to the file `source`, which is called `name` (in `folder`).

    If links are not possible, or `name` is a link itself, `target` is a copy with the mode and times of the file.

    Raises:
        InputError: a different file has the name now.
        OSError: it cannot be written.
    """
    found = source.found
    try:
        os.link(name, target, src_dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        pass  # links are not possible
    else:
        linked = os.lstat(target)
        if os.path.samestat(linked, found):
            return
        os.unlink(target)
        if not stat.S_ISLNK(linked.st_mode) or folder is not None:
            raise changed(source.name, "was replaced")
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_chunks(fd, [SourceSpan(source, 0, source.size)])
        os.fchmod(fd, stat.S_IMODE(found.st_mode) & 0o777)
        os.utime(fd, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        os.close(fd)


class Lock(Closing):
    """A lock on `path` until it is closed, or the process ends; it leaves nothing behind.

    The file or folder itself is locked, so no lock file must be removed. Replacing it moves the name to a new file: a
    process that waited for the lock finds a different file under the name, and does not replace that.

    Use as a context manager.

    Attributes:
        state: of `path`, now that it is locked.

    Args:
        path: a regular file or a folder, or a link to one.
        waiting: called before waiting for another run that holds the lock.

    Raises:
        InputError: `path` cannot be read, or is a folder that holds links.
        OutputError: `path` was changed while this run waited for the lock.
    """

    def __init__(self, path: str, waiting: Callable[[], None]) -> None:
        self._fd = -1
        try:
            before = state_of(path)
            while self._fd < 0:
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                if not self._is_locked(wait=False):
                    waiting()
                    self._is_locked(wait=True)
                if not os.path.samestat(os.fstat(self._fd), os.stat(path)):
                    self.close()  # a different file has the name now, and must be locked instead
            self.state = state_of(path)
        except OSError as error:
            self.close()
            if isinstance(error, FileNotFoundError) and os.path.exists(path):  # a different folder has the name now
                raise changed_meanwhile(path) from error
            raise unreadable(path, error, "opened") from error
        except BaseException:
            self.close()
            raise
        if self.state != before:
            self.close()
            raise changed_meanwhile(path)

    def _is_locked(self, *, wait: bool) -> bool:
        """Locks the file; returns False if another process holds the lock and `wait` is false."""
        try:
            import fcntl

            fcntl.flock(self._fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except ImportError:
            pass  # a system without such locks; a replacement in the meantime is detected
        except OSError as error:
            return error.errno not in _BUSY
        return True

    def close(self) -> None:
        """Unlocks the file."""
        if self._fd >= 0:
            try:
                os.close(self._fd)
            except OSError:
                pass  # the file was only read, and the descriptor is closed even after an error
            self._fd = -1


def changed_meanwhile(path: str) -> OutputError:
    """Returns the error that `path`, the file or folder to replace, has changed since it was read."""
    line = f"{printable(path)} was changed by a different process during this run, and is not replaced"
    return OutputError(line, code="file-changed", file=path, hint="run the command again")
