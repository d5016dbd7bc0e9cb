"""The environment of the worker process, the file of its output, and its end."""

from __future__ import annotations

import os
import sys
import threading

from gdsurgeon.errors import printable
from gdsurgeon.resources import is_memory_limited, memory_budget

_ALLOCATION = "glibc.malloc." + ":glibc.malloc.".join(
    (f"mmap_threshold={1 << 25}", f"trim_threshold={1 << 32}", f"top_pad={1 << 26}", "arena_max=8")
)
"""Makes the C library allocate large blocks and keep them: TensorFlow copies a graph about ten times to run it.

It does not request huge pages (``hugetlb=1``), for which a virtual machine may need three times as long.
"""
_ROOMY = 4 << 30
"""Bytes of memory that allow the child to reserve large blocks."""

PRELOADED = "preloaded.so"
"""A library in the folder of a release. It is loaded before the release."""

PASSED = (
    "PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV",
    "GLIBC_TUNABLES",
)  # fmt: skip
PASSED_PREFIXES = (
    "LC_", "TF_", "ONEDNN_", "DNNL_", "XLA_", "OMP_", "MKL_", "KMP_", "CUDA_", "NVIDIA_", "ROCM_", "HIP_", "GDSURGEON_",
)  # fmt: skip
"""The variables of the environment that the child gets, and prefixes of their names. Others may hold passwords."""

_PAUSE = 0.2  # seconds between two reads of the output
_PIECE = 1 << 16  # bytes that are shown at a time, for any content of the file


def module_path() -> list[str]:
    """Returns the module path of the child: that of this process, and the folder of this package."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = [os.path.abspath(place) for place in sys.path if isinstance(place, str)]
    return path if package in path else [*path, package]


def environment(verbose: bool, cpu_only: bool, runtime: str | None = None, *, onednn: bool = True) -> dict[str, str]:
    """Returns the environment of the child: the variables of `PASSED`, and those for the arguments.

    Args:
        verbose: show TensorFlow's log.
        cpu_only: hide the GPUs.
        runtime: may be the folder of a release.
        onednn: use the kernels of oneDNN.
    """
    out = {name: value for name, value in os.environ.items() if name in PASSED or name.startswith(PASSED_PREFIXES)}
    # The working folder is not on the module path: if it was removed, Python 3.13.0 could not import NumPy.
    out["PYTHONSAFEPATH"] = "1"
    if memory_budget() >= _ROOMY and not is_memory_limited():
        out.setdefault("GLIBC_TUNABLES", _ALLOCATION)
    if not verbose:
        out["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if cpu_only:
        out["CUDA_VISIBLE_DEVICES"] = "-1"
    else:
        out.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # not all of it for a short check
    if not onednn:
        out["TF_ENABLE_ONEDNN_OPTS"] = "0"
    library = os.path.join(runtime or "", PRELOADED)
    if runtime and os.path.exists(library):
        out["LD_PRELOAD"] = library
    return out


def who_runs(runtime: str | None) -> str:
    """Returns the name of the program in the child for messages."""
    from gdsurgeon.ops.releases import TITLES

    return TITLES.get((runtime or "").partition(":")[0], "TensorFlow")


def unnamed_file() -> int:
    """Returns a descriptor of a new file without a name, which is removed with its last descriptor."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("tensorflow-log")
        try:
            return above_standard(file)
        finally:
            os.close(file)
    import tempfile

    with tempfile.TemporaryFile() as named:
        return above_standard(named.fileno())


def above_standard(descriptor: int) -> int:
    """Returns a duplicate of `descriptor` above 2. If standard input was closed, `descriptor` itself may be 0."""
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


class Log:
    """A file without a name, which contains the output of the child: of TensorFlow, of Python, and of a graph.

    Args:
        shown: copy the output to standard error, line by line: as data, and marked as TensorFlow's.

    Attributes:
        descriptor: of the file.

    Raises:
        OSError: the file cannot be made.
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
        """Returns the last `most` bytes of the output as text."""
        size = os.fstat(self.descriptor).st_size
        return os.pread(self.descriptor, min(size, most), max(0, size - most)).decode("utf-8", "replace")

    def close(self) -> None:
        """Copies the rest of the output, and closes the file."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        os.close(self.descriptor)

    def _follow(self) -> None:
        while not self._ended.wait(_PAUSE):
            self._pass_on(whole_lines=True)
        self._pass_on(whole_lines=False)

    def _pass_on(self, *, whole_lines: bool) -> None:
        """Shows the new output; with `whole_lines`, the last line only when it is complete or long."""
        while data := os.pread(self.descriptor, _PIECE, self._passed_on):  # empty if the child has cut the file
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
    """Returns the identity of the thread in which the child crashed, if the log says so."""
    _, mark, rest = log.rpartition("\nCurrent thread 0x")
    try:
        return int(rest.split(" ", 1)[0], 16) if mark else None
    except ValueError:
        return None
