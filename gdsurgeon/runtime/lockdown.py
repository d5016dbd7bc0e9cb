"""Restricts a process: the kernel denies graphs access to files, networks and other processes.

The table of ops decides which graphs are run (`gdsurgeon.ops.reach`); the restrictions hold even if that table is
wrong. Landlock denies files, seccomp denies system calls, and limits bound memory and files. The process cannot undo
this.

The process can read the files of Python, TensorFlow and the devices. It has no sockets, starts no programs, and has no
effect on other processes. From Documentation/userspace-api/landlock.rst and seccomp_filter.rst of Linux. Threads and
processes inherit the restrictions. Open descriptors keep their access.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.resources import memory_budget

_LOG_BYTES = 64 << 20


class Opening(NamedTuple):
    """The access that the process keeps.

    Attributes:
        files_and_network: both, with the rights of the user who started the process.
        accelerators: whether GPUs and the like may be used.
        libraries: files that may be read in addition to Python and TensorFlow.
        reads: files and folders that graphs may read.
        unnamed_bytes: the largest size of an unnamed file in memory; no other files can be written.
    """

    files_and_network: bool = False
    accelerators: bool = False
    libraries: Sequence[str] = ()
    reads: Sequence[str] = ()
    unnamed_bytes: int = _LOG_BYTES


def lock_in(opening: Opening) -> list[str]:
    """Restricts this process permanently. Files that it loads later must be among `_readable`.

    Call it while there is only one thread: other existing threads are not restricted.

    Args:
        opening: the access that the process keeps.

    Returns:
        The reasons for restrictions that could not be applied; [] if all were applied.
    """
    _set_limits(opening)
    if sys.platform != "linux":
        return [f"{sys.platform} has neither Landlock nor seccomp"]
    missing = []
    # In this order: the second denies calls of the first.
    for name, restrict in (("Landlock", _restrict_files), ("seccomp", _restrict_calls)):
        try:
            # The kernel requires this before it accepts restrictions: programs started later cannot gain more rights.
            kernel_call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            restrict(opening)
        except OSError as error:
            missing.append(f"{name}: {error.strerror}")
    return missing


def _set_limits(opening: Opening) -> None:
    """Disables core files (a gigabyte each), and limits the size of logs, and memory to the budget.

    Memory is not limited if there are accelerators: drivers reserve far more than they use.
    """
    import resource

    # Not 0: if core files are piped to a handler, only 1 byte stops them.
    limits = [(resource.RLIMIT_CORE, 1)]
    if not opening.files_and_network and not opening.accelerators:
        limits.append((resource.RLIMIT_FSIZE, opening.unnamed_bytes))
    if memory_budget() and not opening.accelerators:
        limits.append((resource.RLIMIT_DATA, memory_budget()))
    for kind, most in limits:
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):
            pass  # already less than that


def kernel_call(function: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Returns the result of ``syscall`` or ``prctl`` of the C library.

    Raises:
        OSError: the kernel refuses it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result: int = getattr(library, function)(*given)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# -- Landlock ---------------------------------------------------------------------------------------------------------

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


def landlock_version() -> int:
    """Returns the version of the kernel's Landlock; 0 if it is missing or disabled."""
    try:
        return kernel_call("syscall", _CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def _restrict_files(opening: Opening) -> None:
    """Restricts this thread, and the threads and processes it starts, to the file access in `opening`."""
    version = landlock_version()
    if not version:
        raise OSError(errno.ENOSYS, "this kernel does not have it")
    if opening.files_and_network:
        return
    ruleset, known = new_ruleset(version)
    try:
        for path in _readable(opening):
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        _allow(ruleset, "/dev/null", _READ_FILE | _WRITE_FILE)
        for name in _listed("/dev") if opening.accelerators else ():
            if name.startswith(_DEVICES):
                _allow(ruleset, f"/dev/{name}", known & (_READ_FILE | _WRITE_FILE | _READ_DIR | _IOCTL_DEV))
        kernel_call("syscall", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def new_ruleset(version: int) -> tuple[int, int]:
    """Returns the descriptor of a new ruleset that denies everything, and the rights to files that it can deny."""
    known = _FILE_ACCESS[max(each for each in _FILE_ACCESS if each <= version)]
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    return kernel_call("syscall", _CREATE_RULESET, struct.pack("=QQQ", known, _NET_ACCESS, _SCOPES), size, 0), known


def _allow(ruleset: int, path: str, access: int) -> None:
    """Allows `access` to `path` and everything below it; does nothing if `path` does not exist."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            access &= ~_READ_DIR
        kernel_call("syscall", _ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, place), 0)
    except OSError as error:
        if error.errno != errno.EBADFD:  # a file system that has no place for rules, such as that of pipes
            raise
    finally:
        os.close(place)


_READABLE = """
    /usr /lib /lib32 /lib64 /nix/store /gnu/store /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/localtime
    /etc/ssl/openssl.cnf /sys/devices/system /sys/fs/cgroup /dev/random /dev/urandom

    /proc/cpuinfo /proc/filesystems /proc/meminfo /proc/stat /proc/sys /proc/version

    /proc/self/auxv /proc/self/cgroup /proc/self/cmdline /proc/self/cpuset /proc/self/limits /proc/self/maps
    /proc/self/mountinfo /proc/self/mounts /proc/self/stat /proc/self/statm /proc/self/status
"""
"""Not ``environ`` of the process, which may contain passwords, nor ``task``, which contains ``environ`` again."""
_ACCELERATORS = """
    /proc/devices /proc/driver /proc/modules /sys /etc/nvidia /etc/OpenCL /opt/cuda /opt/rocm /run/nvidia
    /run/opengl-driver
"""


_DEVICES = ("nvidia", "dri", "kfd", "dxg", "accel")
"""How the names of the device files of GPUs and other accelerators begin."""


def _readable(opening: Opening) -> Iterator[str]:
    """Yields the files and folders that may be read; some may not exist."""
    yield from _READABLE.split()
    yield from _python()
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    if opening.accelerators:
        yield from _ACCELERATORS.split()
        yield from (os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH") if os.environ.get(name))
    yield from opening.reads
    named = os.environ.get("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "")
    for library in (*opening.libraries, named) if named else opening.libraries:
        yield library
        # Libraries that it depends on may be in the same folder.
        folder = os.path.dirname(library)
        yield from (os.path.join(folder, name) for name in _listed(folder) if ".so" in name)


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


# -- seccomp ----------------------------------------------------------------------------------------------------------

# The filter is a program of the classic BPF, which the kernel runs at each system call; a denied call fails with EPERM.

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
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

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS = {
    "sockets of drivers": """
        connect 42 203, sendmmsg 307 269, sendmsg 46 211, socketpair 53 199
    """,
    "network": """
        accept 43 202, accept4 288 242, bind 49 200, listen 50 201, sendto 44 206, socket 41 198
    """,
    "files": """
        chmod 90 -, chown 92 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452, fchown 93 55, fchownat 260 54,
        file_setattr 469, fremovexattr 199 16, fsetxattr 190 7, futimesat 261 -, lchown 94 -, lremovexattr 198 15,
        lsetxattr 189 6, removexattr 197 14, removexattrat 466, setxattr 188 5, setxattrat 463, truncate 76 45,
        utime 132 -, utimensat 280 88, utimes 235 -
    """,
    "signals": """
        kill 62 129, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, tgkill 234 131
    """,
    "processes": """
        get_robust_list 274 100, migrate_pages 256 238, move_pages 279 239, sched_setaffinity 203 122,
        sched_setattr 314 274, sched_setparam 142 118, sched_setscheduler 144 119
    """,
    "other": """
        acct 163 89, add_key 248 217, adjtimex 159 171, bpf 321 280, chroot 161 51, clock_adjtime 305 266,
        clock_settime 227 112, clone 56 220, clone3 435, delete_module 176 106, execve 59 221, execveat 322 281,
        fanotify_init 300 262, fcntl 72 25, finit_module 313 273, fork 57 -, fsconfig 431, fsmount 432, fsopen 430,
        fspick 433, init_module 175 105, inotify_init 253 -, inotify_init1 294 26, io_uring_enter 426,
        io_uring_register 427, io_uring_setup 425, ioctl 16 29, ioperm 173 -, iopl 172 -, ioprio_set 251 30,
        kcmp 312 272, kexec_file_load 320 294, kexec_load 246 104, keyctl 250 219, modify_ldt 154 -, mount 165 40,
        mount_setattr 442, move_mount 429, mq_open 240 180, mq_unlink 241 181, msgctl 71 187, msgget 68 186,
        msgrcv 70 188, msgsnd 69 189, name_to_handle_at 303 264, open_by_handle_at 304 265, open_tree 428,
        open_tree_attr 467, perf_event_open 298 241, personality 135 92, pidfd_getfd 438, pidfd_open 434,
        pidfd_send_signal 424, pivot_root 155 41, prlimit64 302 261, process_madvise 440, process_mrelease 448,
        process_vm_readv 310 270, process_vm_writev 311 271, ptrace 101 117, quotactl 179 60, quotactl_fd 443,
        reboot 169 142, request_key 249 218, semctl 66 191, semget 64 190, semop 65 193, semtimedop 220 192,
        setdomainname 171 162, sethostname 170 161, setns 308 268, setpriority 141 140, setrlimit 160 164,
        settimeofday 164 170, shmat 30 196, shmctl 31 195, shmdt 67 197, shmget 29 194, swapoff 168 225, swapon 167 224,
        syslog 103 116, tkill 200 130, umount2 166 39, unshare 272 97, uselib 134 -, userfaultfd 323 282, vfork 58 -,
        vhangup 153 58
    """,
}
"""The system calls that are denied, or allowed for some arguments, by group: the name, and the number on each machine
of `AUDIT_ARCH` or on all of them. Calls are denied by name because no complete list exists of the calls of TensorFlow,
its libraries and the drivers of GPUs.

- sockets of drivers: calls with which the driver of a GPU uses path sockets;
- files: calls that change files without writing them; Landlock does not restrict them;
- signals: signals to a process; its number is the first argument;
- processes: other calls that act on a process, whose number is the first argument; 0 is the caller.
"""


class Instruction(NamedTuple):
    """struct sock_filter: an operation, a number, and the instructions to skip if it is true or false."""

    code: int
    number: int
    if_true: int = 0
    if_false: int = 0


def _restrict_calls(opening: Opening) -> None:
    """Restricts this thread, and the threads and processes it starts, to the system calls allowed by `opening`."""
    machine = os.uname().machine
    if machine not in AUDIT_ARCH or struct.calcsize("P") != 8:
        raise OSError(errno.ENOSYS, f"the system calls of {machine} are not known")
    program = call_filter(machine, opening)
    code = b"".join(struct.pack("=HBBI", each.code, each.if_true, each.if_false, each.number) for each in program)
    body = ctypes.create_string_buffer(code, len(code))
    kernel_call(
        "prctl", _PR_SET_SECCOMP, _MODE_FILTER, struct.pack("=H6xQ", len(program), ctypes.addressof(body)), 0, 0
    )


def call_numbers(machine: str) -> Iterator[tuple[str, str, int]]:
    """Yields the group, the name and the number of the system calls in `_CALLS` that `machine` has."""
    at = list(AUDIT_ARCH).index(machine)
    for group, calls in _CALLS.items():
        for name, *numbers in map(str.split, calls.split(",")):
            number = numbers[at if len(numbers) > 1 else 0]
            if number != "-":
                yield group, name, int(number)


def call_filter(machine: str, opening: Opening) -> list[Instruction]:
    """Returns the filter program for `machine`."""
    out = [
        Instruction(_LOAD, _ARCHITECTURE),
        Instruction(_EQUAL, AUDIT_ARCH[machine], if_true=1),
        _refused(),
        Instruction(_LOAD, _NUMBER),
        *([Instruction(_AT_LEAST, _X32, if_false=1), _refused()] if machine == "x86_64" else []),
    ]
    rules = _rules(opening)
    for group, name, number in call_numbers(machine):
        rule = rules.get(name, rules.get(group, [_refused()]))
        out += [Instruction(_EQUAL, number, if_false=len(rule)), *rule] if rule else []
    return [*out, _ALLOWED]


_ALLOWED = Instruction(_RETURN, _ALLOW)


def _rules(opening: Opening) -> dict[str, list[Instruction]]:
    """Returns the instructions that decide on calls, by their name or group; [] if a call is allowed.

    The last instruction applies to all arguments that no earlier instruction decided on.
    """
    thread = Instruction(_ANY_BIT, _CLONE_THREAD, if_true=1)
    second_byte = Instruction(_AND, 0xFF00)
    rules = {
        # New threads are allowed, new processes are not. The filter cannot read the arguments of clone3; callers fall
        # back to clone if it is missing.
        "clone": [_load_argument(0), thread, _refused(), _ALLOWED],
        "clone3": [_refused(errno.ENOSYS)],
        "signals": [*_unless(os.getpid()), _ALLOWED],
        "processes": [*_unless(0, os.getpid()), _ALLOWED],
        # Limits are read only: a privileged process could raise its own.
        "prlimit64": [*_unless(0, os.getpid()), *_unless_null(2), _ALLOWED],
        "fcntl": [_load_argument(1), *_if_equal(_FILE_CONTROLS), _ALLOWED],
        "ioctl": [
            *(_load_argument(1), *_if_equal(_CONTROLS)),
            *(second_byte, *_if_equal(_FILE_SYSTEM_CONTROLS), _ALLOWED),
        ],
        "sendto": [*_unless_null(4), _ALLOWED],
    }
    if opening.files_and_network:
        return rules | {"files": [], "network": [], "sockets of drivers": [], "sendto": []}
    if opening.accelerators:  # a driver uses a path socket to ask whether it shares a GPU
        return rules | {"sockets of drivers": [], "socket": [*_unless(_UNIX), _ALLOWED], "sendto": []}
    return rules


def _unless(*numbers: int) -> list[Instruction]:
    """Returns instructions that refuse the call unless the low half of the first argument is one of `numbers`."""
    checks = [Instruction(_EQUAL, number, if_true=len(numbers) - at) for at, number in enumerate(numbers)]
    return [_load_argument(0), *checks, _refused()]


def _unless_null(index: int) -> list[Instruction]:
    """Returns instructions that refuse the call unless an argument is a null pointer."""
    high = Instruction(_LOAD, _ARGUMENT + 8 * index + 4)
    null = [Instruction(_EQUAL, 0, if_true=1), _refused()]
    return [_load_argument(index), *null, high, *null]


def _if_equal(numbers: Sequence[int]) -> list[Instruction]:
    """Returns instructions that refuse the call if the loaded number is one of `numbers`."""
    return [part for number in numbers for part in (Instruction(_EQUAL, number, if_false=1), _refused())]


def _load_argument(index: int) -> Instruction:
    """Returns the instruction that loads the low half of an argument, on a little-endian machine."""
    return Instruction(_LOAD, _ARGUMENT + 8 * index)


def _refused(reason: int = errno.EPERM) -> Instruction:
    return Instruction(_RETURN, _ERRNO | reason)
