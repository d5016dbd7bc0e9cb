"""What is printed in the child: by TensorFlow, by Python, and by a graph, which may print what it likes."""

from __future__ import annotations

import os
import threading

from gdsurgeon.errors import printable
from gdsurgeon.runtime.process import unnamed_file

_PAUSE = 0.2  # seconds between two looks
_PIECE = 1 << 16  # bytes that are shown at a time, whatever the child makes of the file


class Log:
    """A file without a name that the child prints to.

    Args:
        shown: pass on what is printed to standard error as it comes, line by line: as data, and marked as TensorFlow's.

    Attributes:
        descriptor: of the file.

    Raises:
        OSError: there is no such file to be had.
    """

    def __init__(self, shown: bool) -> None:
        self.descriptor = unnamed_file()
        self._passed_on = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if shown:
            self._thread = threading.Thread(target=self._follow, name="log of TensorFlow", daemon=True)
            self._thread.start()

    def tail(self, most: int) -> str:
        """The last of what was printed, MOST bytes of it."""
        size = os.fstat(self.descriptor).st_size
        return os.pread(self.descriptor, min(size, most), max(0, size - most)).decode("utf-8", "replace")

    def close(self) -> None:
        """Passes on what is left, and gives the file up."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        os.close(self.descriptor)

    def _follow(self) -> None:
        while not self._ended.wait(_PAUSE):
            self._pass_on(whole_lines=True)
        self._pass_on(whole_lines=False)

    def _pass_on(self, *, whole_lines: bool) -> None:
        """Shows what has come since the last time; of an unfinished line only if not WHOLE_LINES, or if it is long."""
        while data := os.pread(self.descriptor, _PIECE, self._passed_on):  # none where the child has cut the file
            if whole_lines and len(data) < _PIECE:
                data = data[: data.rfind(b"\n") + 1]
                if not data:
                    return
            self._passed_on += len(data)
            lines = data.decode("utf-8", "replace").splitlines()
            text = "".join(f"tensorflow: {printable(line)}\n" for line in lines)
            try:
                os.write(2, text.encode("utf-8", "backslashreplace"))
            except OSError:
                self._ended.set()  # standard error is closed
                return


def crashed_thread(log: str) -> int | None:
    """The identity of the thread in which the child says it crashed, if it does."""
    _, mark, rest = log.rpartition("\nCurrent thread 0x")
    try:
        return int(rest.split(" ", 1)[0], 16) if mark else None
    except ValueError:
        return None
