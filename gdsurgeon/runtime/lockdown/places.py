"""The locations of Python, TensorFlow and the devices: a restricted worker must be able to read these files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdsurgeon.runtime.lockdown import Opening

_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/ssl/openssl.cnf",
    "/sys/devices/system", "/sys/fs/cgroup",
)  # fmt: skip
_PROCESSES = tuple(f"/proc/{name}" for name in ("cpuinfo", "filesystems", "meminfo", "stat", "sys", "version"))
_OWN_PROCESS = tuple(
    f"/proc/self/{name}"
    for name in (
        "auxv",
        "cgroup",
        "cmdline",
        "cpuset",
        "limits",
        "maps",
        "mountinfo",
        "mounts",
        "stat",
        "statm",
        "status",
    )
)
"""Not ``environ``, which may contain passwords, nor ``task``, which contains ``environ`` again."""
_RANDOM = ("/dev/random", "/dev/urandom")
_ACCELERATORS = (
    "/proc/devices", "/proc/driver", "/proc/modules", "/sys", "/etc/nvidia", "/etc/OpenCL", "/opt/cuda", "/opt/rocm",
    "/run/nvidia", "/run/opengl-driver",
)  # fmt: skip


def readable(opening: Opening) -> Iterator[str]:
    """Yields the files and folders that may be read; some may not exist."""
    yield from _SYSTEM
    yield from _PROCESSES
    yield from _OWN_PROCESS
    yield from _RANDOM
    yield from _python()
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    if opening.accelerators:
        yield from _ACCELERATORS
        yield from (os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH") if os.environ.get(name))
    yield from opening.reads
    named = os.environ.get("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "")
    for library in (*opening.libraries, named) if named else opening.libraries:
        yield library
        # Libraries that it depends on may be in the same folder.
        folder = os.path.dirname(library)
        yield from (os.path.join(folder, name) for name in _listed(folder) if ".so" in name)


def writable() -> tuple[str, ...]:
    """Returns the files that may be written."""
    return ("/dev/null",)


def device_files() -> list[str]:
    """Returns the device files of GPUs and other accelerators."""
    return [f"/dev/{name}" for name in _listed("/dev") if name.startswith(("nvidia", "dri", "kfd", "dxg", "accel"))]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _python() -> Iterator[str]:
    """Yields the standard library, the installed packages, and this package.

    Of any other folder on the module path only this package is readable: that folder may hold the user's own files.
    """
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)):
        yield from (os.path.join(prefix, name) for name in ("lib", "lib64"))
    programs = os.path.dirname(sys.executable)
    yield from (os.path.join(folder, "pyvenv.cfg") for folder in (programs, os.path.dirname(programs)))
    yield os.path.dirname(os.__file__)
    yield os.path.expanduser("~/.keras/keras.json")
    for place in sys.path:
        is_for_packages = os.path.basename(place) in ("site-packages", "dist-packages")
        if is_for_packages or os.path.isdir(os.path.join(place, "tensorflow")):
            yield place
    yield os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
