"""The system calls that restrict a process; Python has no functions for them."""

from __future__ import annotations

import ctypes
import os
from functools import cache

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
