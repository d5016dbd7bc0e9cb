"""A lock on a file or a folder that is replaced in place: one run of gdsurgeon at a time, each on what it has read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from gdsurgeon.errors import OutputError, printable, unreadable
from gdsurgeon.values import Closing
from gdsurgeon.wire.folder import state_of

_BUSY = (errno.EAGAIN, errno.EACCES)


class Lock(Closing):
    """A lock on PATH until it is closed, or the process ends; it leaves nothing behind.

    The file or folder itself is locked, so no lock file must be removed. Replacing it moves the name to a new file: a
    process that waited for the lock finds a different file under the name, and does not replace that.

    Use as a context manager.

    Attributes:
        state: of PATH, now that it is locked.

    Args:
        path: a regular file or a folder, or a link to one.
        waiting: called if another run has it locked, before that is waited for.

    Raises:
        InputError: PATH cannot be read, or is a folder that holds links.
        OutputError: PATH was changed while the other run was waited for.
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
                    self.close()  # another file has the name by now: that is the one to lock
            self.state = state_of(path)
        except OSError as error:
            self.close()
            if isinstance(error, FileNotFoundError) and os.path.exists(path):  # another folder has the name by now
                raise changed_meanwhile(path) from error
            raise unreadable(path, error, "opened") from error
        except BaseException:
            self.close()
            raise
        if self.state != before:
            self.close()
            raise changed_meanwhile(path)

    def _is_locked(self, *, wait: bool) -> bool:
        """Locks it; False: another process has done so, and is not waited for."""
        try:
            import fcntl

            fcntl.flock(self._fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except ImportError:
            pass  # a file system without such locks: a replacement in the meantime is noticed
        except OSError as error:
            return error.errno not in _BUSY
        return True

    def close(self) -> None:
        """Unlocks it."""
        if self._fd >= 0:
            try:
                os.close(self._fd)
            except OSError:
                pass  # it was only read; the descriptor is closed anyway
            self._fd = -1


def changed_meanwhile(path: str) -> OutputError:
    """The error that `path`, which should be replaced, has changed since it was read."""
    line = f"{printable(path)} was changed by a different process during this run, and is not replaced"
    return OutputError(line, code="file-changed", file=path, hint="run the command again")
