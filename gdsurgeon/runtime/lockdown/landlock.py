"""Restricts file access with Landlock: the process can read the files of TensorFlow and write none.

From Documentation/userspace-api/landlock.rst of Linux. Threads and processes inherit the restrictions, and nothing can
remove them. Open descriptors keep their access.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING

from gdsurgeon.runtime.lockdown.kernel import Refusal, gain_no_privileges, system_call
from gdsurgeon.runtime.lockdown.places import device_files, readable, writable

if TYPE_CHECKING:
    from gdsurgeon.runtime.lockdown import Opening

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
    for path in writable():
        _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
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
