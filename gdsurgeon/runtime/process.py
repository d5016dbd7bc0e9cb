"""What the child is started with, and ended by: the module path, descriptors, a signal."""

from __future__ import annotations

import os
import sys

from gdsurgeon.resources import is_memory_limited, memory_budget


def module_path() -> list[str]:
    """Where the child finds modules: where this process does, and this package for certain."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = [os.path.abspath(place) for place in sys.path if isinstance(place, str)]
    return path if package in path else [*path, package]


_ALLOCATION = "glibc.malloc." + ":glibc.malloc.".join(
    (f"mmap_threshold={1 << 25}", f"trim_threshold={1 << 32}", f"top_pad={1 << 26}", "arena_max=8")
)
"""Has the C library take memory in large pieces, and keep it: to run a graph TensorFlow copies it some ten times over.

Huge pages (``hugetlb=1``) are not asked for: a virtual machine may take three times as long to be given them.
"""

_ROOMY = 4 << 30
"""Bytes of memory from which on the child may reserve large pieces without running out of it."""


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


def environment(verbose: bool, cpu_only: bool, runtime: str | None = None, *, onednn: bool = True) -> dict[str, str]:
    """The environment of the child: the variables of `PASSED`, and those that the arguments call for.

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
    """What runs in the child, for people."""
    from gdsurgeon.ops.engines import TITLES

    return TITLES.get((runtime or "").partition(":")[0], "TensorFlow")


def takes_files(runtime: str | None) -> bool:
    """Whether what runs in the child has to be handed graphs as files."""
    return (runtime or "").partition(":")[0] == "openvino"


def unnamed_file() -> int:
    """A descriptor of a new file that has no name and vanishes with its last descriptor."""
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
    """A duplicate of DESCRIPTOR above 2. If standard input was closed, DESCRIPTOR itself may be 0."""
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def kill(pid: int) -> None:
    """End a process that may have ended already."""
    import signal

    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has already ended
