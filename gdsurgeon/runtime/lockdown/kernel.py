"""The system calls by which a process is locked in, which Python has no functions for."""

from __future__ import annotations

import ctypes
import os
from functools import cache

_PR_SET_NO_NEW_PRIVS = 38


class Refusal(Exception):
    """The kernel does not do it, here; the text says what, and why."""


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def system_call(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """The result of a system call.

    Raises:
        OSError: the kernel refuses it.
    """
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(int(_libc().syscall(ctypes.c_long(number), *given)))


def control(option: int, argument: int, pointer: ctypes.Array[ctypes.c_char] | ctypes.Structure | None = None) -> None:
    """prctl(OPTION, ARGUMENT, POINTER).

    Raises:
        OSError: the kernel refuses it.
    """
    address = None if pointer is None else ctypes.byref(pointer)
    _checked(int(_libc().prctl(option, ctypes.c_ulong(argument), address, ctypes.c_ulong(0), ctypes.c_ulong(0))))


def gain_no_privileges() -> None:
    """No program that is started from here on gets more rights than this one; the kernel asks for it beforehand."""
    control(_PR_SET_NO_NEW_PRIVS, 1)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
