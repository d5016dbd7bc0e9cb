"""Restricts file access with Landlock: the process can read the files of Python, TensorFlow and the devices.

From Documentation/userspace-api/landlock.rst of Linux. Threads and processes inherit the restrictions, and nothing can
remove them. Open descriptors keep their access.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdsurgeon.runtime.lockdown import Opening

_PR_SET_NO_NEW_PRIVS = 38


class Refusal(Exception):
    """The kernel refused a restriction; the text names it and the reason."""


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def system_call(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Returns the result of a system call.

    Raises:
        OSError: the kernel refuses it.
    """
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(int(_libc().syscall(ctypes.c_long(number), *given)))


def control(option: int, argument: int, pointer: ctypes.Array[ctypes.c_char] | ctypes.Structure | None = None) -> None:
    """Calls ``prctl(option, argument, pointer)``.

    Raises:
        OSError: the kernel refuses it.
    """
    address = None if pointer is None else ctypes.byref(pointer)
    _checked(int(_libc().prctl(option, ctypes.c_ulong(argument), address, ctypes.c_ulong(0), ctypes.c_ulong(0))))


def gain_no_privileges() -> None:
    """Prevents programs started later from gaining more rights than this process.

    The kernel requires this before it accepts restrictions.
    """
    control(_PR_SET_NO_NEW_PRIVS, 1)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# -- the rules --------------------------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all architectures
_VERSION = 1  # flag of landlock_create_ruleset
_PATH_BENEATH = 1  # kind of rules

# Access to files, by bit: LANDLOCK_ACCESS_FS_*.
_WRITE_FILE, _READ_FILE, _READ_DIR, _IOCTL_DEV = 1 << 1, 1 << 2, 1 << 3, 1 << 15
_FILE_ACCESS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All rights known to Landlock, from each version on: moving to another folder (2), truncating (3), and controlling
devices (5) came later."""
_NET_ACCESS = 0b11
"""LANDLOCK_ACCESS_NET_BIND_TCP and _CONNECT_TCP, from version 4 on."""
_SCOPES = 0b11
"""LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and _SIGNAL, from version 6 on: no access to other processes."""


def version() -> int:
    """Returns the version of the kernel's Landlock; 0 if it is missing or disabled."""
    try:
        return system_call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict_files(opening: Opening) -> None:
    """Restricts this thread, and the threads and processes it starts, to the file access in `opening`.

    Raises:
        Refusal: Landlock is not available.
    """
    found = version()
    if not found:
        raise Refusal("this kernel has no Landlock")
    if opening.files_and_network:
        return
    try:
        gain_no_privileges()
        ruleset = _new_ruleset(found)
        try:
            _add_rules(ruleset, found, opening)
            system_call(_RESTRICT_SELF, ruleset, 0)
        finally:
            os.close(ruleset)
    except OSError as error:
        raise Refusal(f"Landlock: {error.strerror}") from error


def _access(found: int) -> int:
    """Returns all kinds of file access that Landlock of version `found` can restrict."""
    return _FILE_ACCESS[max(known for known in _FILE_ACCESS if known <= found)]


def _new_ruleset(found: int) -> int:
    """Returns the descriptor of a new ruleset that denies everything Landlock can deny."""
    attr = struct.pack("=QQQ", _access(found), _NET_ACCESS, _SCOPES)
    size = 24 if found >= 6 else 16 if found >= 4 else 8
    return system_call(_CREATE_RULESET, ctypes.create_string_buffer(attr, len(attr)), size, 0)


def _add_rules(ruleset: int, found: int, opening: Opening) -> None:
    known = _access(found)
    for path in readable(opening):
        _allow(ruleset, path, _READ_FILE | _READ_DIR)
    _allow(ruleset, "/dev/null", _READ_FILE | _WRITE_FILE)
    for path in device_files() if opening.accelerators else ():
        _allow(ruleset, path, known & (_READ_FILE | _WRITE_FILE | _READ_DIR | _IOCTL_DEV))


def _allow(ruleset: int, path: str, access: int) -> None:
    """Allows `access` to `path` and everything below it; does nothing if `path` does not exist."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            access &= ~_READ_DIR
        rule = struct.pack("=Qi", access, place)
        system_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
    except OSError as error:
        if error.errno != errno.EBADFD:  # a file system that has no place for rules, such as that of pipes
            raise
    finally:
        os.close(place)


# -- the files --------------------------------------------------------------------------------------------------------

_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/ssl/openssl.cnf",
    "/sys/devices/system", "/sys/fs/cgroup",
)  # fmt: skip
_PROCESSES = tuple(f"/proc/{name}" for name in ("cpuinfo", "filesystems", "meminfo", "stat", "sys", "version"))
_OWN_PROCESS = tuple(
    f"/proc/self/{name}" for name in "auxv cgroup cmdline cpuset limits maps mountinfo mounts stat statm status".split()
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
