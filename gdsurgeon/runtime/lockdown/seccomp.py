"""Restricts system calls with seccomp: no sockets, no programs, no effect on other processes.

From Documentation/userspace-api/seccomp_filter.rst of Linux. The filter is a program of the classic BPF, which the
kernel runs at each system call; a denied call fails with EPERM. The lists name the denied calls, because no complete
list exists of the calls of TensorFlow, its libraries and the drivers of GPUs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.runtime.lockdown.landlock import Refusal, control, gain_no_privileges

if TYPE_CHECKING:
    from gdsurgeon.runtime.lockdown import Opening

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000  # SECCOMP_RET_*
_LOAD, _AND, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x35, 0x06  # BPF_LD|W|ABS and the like
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data; an argument has 8 bytes, low half first
_CLONE_THREAD = 0x10000
_UNIX = 1  # AF_UNIX
_CONTROLS = (0x5412, 0x541C, 0x8901, 0x8902)
"""Requests of ioctl that type into a terminal, or choose who gets signals: TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP."""
_FILE_SYSTEM_CONTROLS = (0x5800, 0x6600, 0x7600, 0x9400)
"""The second byte of requests of ioctl that change files or file systems: flags, versions, encryption, snapshots."""
_FILE_CONTROLS = (8, 10, 15, 1024, 1026)
"""Commands of fcntl that choose who gets signals, and which, or that make the kernel report or delay what others do:
F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY."""
_X32 = 0x40000000  # bit of the numbers of a second set of calls on x86_64

_NEW_CALLS = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "process_mrelease": 448,
    "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469,
}  # fmt: skip
"""The numbers of calls that are the same on all architectures."""

_CALLS: dict[str, tuple[int, dict[str, int]]] = {
    # machine: (AUDIT_ARCH_*, numbers by name)
    "x86_64": (0xC000003E, {
        "ioctl": 16, "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "connect": 42, "accept": 43, "sendto": 44,
        "sendmsg": 46, "bind": 49, "listen": 50, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59,
        "kill": 62, "semget": 64, "semop": 65, "semctl": 66, "shmdt": 67, "msgget": 68, "msgsnd": 69, "msgrcv": 70,
        "msgctl": 71, "fcntl": 72, "truncate": 76, "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94,
        "ptrace": 101, "syslog": 103, "rt_sigqueueinfo": 129, "utime": 132, "uselib": 134, "personality": 135,
        "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "vhangup": 153, "modify_ldt": 154,
        "pivot_root": 155, "adjtimex": 159, "setrlimit": 160, "chroot": 161, "acct": 163, "settimeofday": 164,
        "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
        "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179,
        "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
        "fremovexattr": 199, "tkill": 200, "sched_setaffinity": 203, "semtimedop": 220, "clock_settime": 227,
        "tgkill": 234, "utimes": 235, "mq_open": 240, "mq_unlink": 241, "kexec_load": 246, "add_key": 248,
        "request_key": 249, "keyctl": 250, "ioprio_set": 251, "inotify_init": 253, "migrate_pages": 256,
        "fchownat": 260, "futimesat": 261, "fchmodat": 268, "unshare": 272, "get_robust_list": 274, "move_pages": 279,
        "utimensat": 280, "accept4": 288, "inotify_init1": 294, "rt_tgsigqueueinfo": 297, "perf_event_open": 298,
        "fanotify_init": 300, "prlimit64": 302, "name_to_handle_at": 303, "open_by_handle_at": 304,
        "clock_adjtime": 305, "sendmmsg": 307, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
        "kcmp": 312, "finit_module": 313, "sched_setattr": 314, "kexec_file_load": 320, "bpf": 321, "execveat": 322,
        "userfaultfd": 323,
    }),
    "aarch64": (0xC00000B7, {
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
        "fcntl": 25, "inotify_init1": 26, "ioctl": 29, "ioprio_set": 30, "umount2": 39, "mount": 40, "pivot_root": 41,
        "truncate": 45, "chroot": 51, "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "vhangup": 58,
        "quotactl": 60, "utimensat": 88, "acct": 89, "personality": 92, "unshare": 97, "get_robust_list": 100,
        "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116, "ptrace": 117,
        "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122, "kill": 129, "tkill": 130,
        "tgkill": 131, "rt_sigqueueinfo": 138, "setpriority": 140, "reboot": 142, "sethostname": 161,
        "setdomainname": 162, "setrlimit": 164, "settimeofday": 170, "adjtimex": 171, "mq_open": 180, "mq_unlink": 181,
        "msgget": 186, "msgctl": 187, "msgrcv": 188, "msgsnd": 189, "semget": 190, "semctl": 191, "semtimedop": 192,
        "semop": 193, "shmget": 194, "shmctl": 195, "shmat": 196, "shmdt": 197, "socket": 198, "socketpair": 199,
        "bind": 200, "listen": 201, "accept": 202, "connect": 203, "sendto": 206, "sendmsg": 211, "add_key": 217,
        "request_key": 218, "keyctl": 219, "clone": 220, "execve": 221, "swapon": 224, "swapoff": 225,
        "migrate_pages": 238, "move_pages": 239, "rt_tgsigqueueinfo": 240, "perf_event_open": 241, "accept4": 242,
        "prlimit64": 261, "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
        "clock_adjtime": 266, "setns": 268, "sendmmsg": 269, "process_vm_readv": 270, "process_vm_writev": 271,
        "kcmp": 272, "finit_module": 273, "sched_setattr": 274, "bpf": 280, "execveat": 281, "userfaultfd": 282,
        "kexec_file_load": 294,
    }),
}  # fmt: skip

_NETWORK = frozenset(("accept", "accept4", "bind", "connect", "listen", "sendmmsg", "sendmsg", "socketpair"))
"""Calls of servers and their clients; socket and sendto have conditions."""
_OF_SOCKETS = frozenset(("connect", "sendmmsg", "sendmsg", "socketpair"))
"""Calls with which the driver of a GPU uses path sockets."""
_FILES = frozenset(
    """
    chmod chown fchmod fchmodat fchmodat2 fchown fchownat file_setattr fremovexattr fsetxattr futimesat lchown
    lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat truncate utime utimensat utimes
    """.split()
)
"""Calls that change files without writing them; Landlock does not restrict them."""
_SIGNALS = ("kill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill")
"""Signals to a process; its number is the first argument."""
_OF_A_PROCESS = (
    "get_robust_list", "migrate_pages", "move_pages", "sched_setaffinity", "sched_setattr", "sched_setparam",
    "sched_setscheduler",
)  # fmt: skip
"""Other calls that act on a process, whose number is the first argument; 0 is the caller."""
_LOOKED_AT = {*_SIGNALS, *_OF_A_PROCESS, "clone", "clone3", "fcntl", "ioctl", "prlimit64", "sendto", "socket"}


class _Instruction(NamedTuple):
    """struct sock_filter: an operation, a number, and the instructions to skip if it is true or false."""

    code: int
    number: int
    if_true: int = 0
    if_false: int = 0


def restrict_calls(opening: Opening) -> None:
    """Restricts this thread, and the threads and processes it starts, to the system calls allowed by `opening`.

    Raises:
        Refusal: seccomp is not available, or the numbers of this machine's system calls are not known.
    """
    machine = os.uname().machine
    if machine not in _CALLS or struct.calcsize("P") != 8:
        raise Refusal(f"the system calls of {machine} are not known")
    program = _program(machine, opening)
    code = b"".join(struct.pack("=HBBI", i.code, i.if_true, i.if_false, i.number) for i in program)
    body = ctypes.create_string_buffer(code, len(code))
    try:
        gain_no_privileges()
        control(_PR_SET_SECCOMP, _MODE_FILTER, _Program(len(program), ctypes.addressof(body)))
    except OSError as error:
        raise Refusal(f"seccomp: {error.strerror}") from error


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _program(machine: str, opening: Opening) -> list[_Instruction]:
    """Returns the filter program for `machine`."""
    architecture, own = _CALLS[machine]
    numbers = {**own, **_NEW_CALLS}
    out = [
        _Instruction(_LOAD, _ARCHITECTURE),
        _Instruction(_EQUAL, architecture, if_true=1),
        _Instruction(_RETURN, _ERRNO | errno.EPERM),
        _Instruction(_LOAD, _NUMBER),
        *([_Instruction(_AT_LEAST, _X32, if_false=1), _refused()] if machine == "x86_64" else []),
    ]
    spared = _NETWORK | _FILES if opening.files_and_network else _OF_SOCKETS if opening.accelerators else frozenset()
    for name, number in numbers.items():
        if name not in spared and name not in _LOOKED_AT:
            out += [_Instruction(_EQUAL, number, if_false=1), _refused()]
    for name, conditions in _conditions(opening):
        rule = list(conditions)
        out += [_Instruction(_EQUAL, numbers[name], if_false=len(rule)), *rule]
    return [*out, _Instruction(_RETURN, _ALLOW)]


def _conditions(opening: Opening) -> Iterator[tuple[str, list[_Instruction]]]:
    """Yields the system calls whose arguments are checked, with the instructions that decide on each.

    The last instruction applies to all arguments that no earlier instruction decided on.
    """
    # New threads are allowed, new processes are not. The filter cannot read the arguments of clone3; callers fall back
    # to clone if it is missing.
    yield "clone", [_load_argument(0), _Instruction(_ANY_BIT, _CLONE_THREAD, if_true=1), _refused(), _ALLOWED]
    yield "clone3", [_refused(errno.ENOSYS)]
    for name in _SIGNALS:
        yield name, [*_unless(0, os.getpid()), _ALLOWED]
    for name in _OF_A_PROCESS:
        yield name, [*_unless(0, 0, os.getpid()), _ALLOWED]
    # Limits are read only: a privileged process could raise its own.
    yield "prlimit64", [*_unless(0, 0, os.getpid()), *_unless_null(2), _ALLOWED]
    yield "fcntl", [_load_argument(1), *_if_equal(_FILE_CONTROLS), _ALLOWED]
    kind = _Instruction(_AND, 0xFF00)
    yield "ioctl", [_load_argument(1), *_if_equal(_CONTROLS), kind, *_if_equal(_FILE_SYSTEM_CONTROLS), _ALLOWED]
    if not opening.files_and_network:
        # A driver uses a path socket to ask whether it shares a GPU.
        yield "socket", [*_unless(0, *([_UNIX] if opening.accelerators else [])), _ALLOWED]
        yield "sendto", [*([] if opening.accelerators else _unless_null(4)), _ALLOWED]


_ALLOWED = _Instruction(_RETURN, _ALLOW)


def _unless(index: int, *numbers: int) -> list[_Instruction]:
    """Returns instructions that refuse the call unless the low half of an argument is one of `numbers`."""
    checks = [_Instruction(_EQUAL, number, if_true=len(numbers) - at) for at, number in enumerate(numbers)]
    return [_load_argument(index), *checks, _refused()]


def _unless_null(index: int) -> list[_Instruction]:
    """Returns instructions that refuse the call unless an argument is a null pointer."""
    high = _Instruction(_LOAD, _ARGUMENT + 8 * index + 4)
    null = [_Instruction(_EQUAL, 0, if_true=1), _refused()]
    return [_load_argument(index), *null, high, *null]


def _if_equal(numbers: Sequence[int]) -> list[_Instruction]:
    """Returns instructions that refuse the call if the loaded number is one of `numbers`."""
    return [part for number in numbers for part in (_Instruction(_EQUAL, number, if_false=1), _refused())]


def _load_argument(index: int) -> _Instruction:
    """Returns the instruction that loads the low half of an argument, on a little-endian machine."""
    return _Instruction(_LOAD, _ARGUMENT + 8 * index)


def _refused(reason: int = errno.EPERM) -> _Instruction:
    return _Instruction(_RETURN, _ERRNO | reason)
