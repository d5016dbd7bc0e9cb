"""Limits of memory, and the exhausted resource that caused an error."""

import errno
import os

MEMORY = "GDSURGEON_MEMORY"
"""Environment: the limit of TensorFlow's process in MiB. An archive of feeds can unpack to a quarter of it."""
OUT_OF_MEMORY = "out of memory"
_PART = 0.75  # of the machine's memory, by default
_EXHAUSTED = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
_WORDS = {
    "too many open files": "too many open files",
    "can't start new thread": "no further thread can be started",
    "failed to map segment": OUT_OF_MEMORY,
    "cannot map zero-fill pages": OUT_OF_MEMORY,
    "cannot allocate memory": OUT_OF_MEMORY,
    "out of memory": OUT_OF_MEMORY,
    "temporarily unavailable": OUT_OF_MEMORY,
    "bad_alloc": OUT_OF_MEMORY,
    "memoryerror": OUT_OF_MEMORY,
    "memory allocation": OUT_OF_MEMORY,
}
"""Words in errors of libraries and of their loader, and their meaning."""


def memory_budget() -> int:
    """Returns the memory limit of TensorFlow's process in bytes, from `MEMORY` or a part of the system's memory.

    0 if neither is known.
    """
    given = os.environ.get(MEMORY, "")
    if given.isascii() and given.isdigit():
        return int(given) << 20
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            limit = file.read().strip()
        there = min(there, int(limit)) if limit.isdigit() else there
    except OSError:
        pass
    return int(there * _PART)


def is_memory_limited() -> bool:
    """Returns whether this process and its child processes have a memory limit, such as from ``ulimit -v``."""
    try:
        import resource
    except ImportError:
        return False
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(kind)[0] != resource.RLIM_INFINITY for kind in kinds)


def exhausted(error: BaseException | None) -> str:
    """Returns the exhausted resource that caused `error`, as a clause; '' for a different cause.

    The causes of exceptions are also examined: a module that could not be loaded can be missed later, and a clean-up
    can fail after the first error.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError):
            return OUT_OF_MEMORY
        if isinstance(error, SystemError) and is_memory_limited():
            return OUT_OF_MEMORY  # C code that got no memory, without an error
        if isinstance(error, OSError) and error.errno in _EXHAUSTED:
            return os.strerror(error.errno).lower()
        if isinstance(error, (ImportError, OSError, RuntimeError)) and told_of_want(str(error)):
            return told_of_want(str(error))
        error = error.__cause__ or error.__context__
    return ""


def told_of_want(text: str) -> str:
    """Returns the exhausted resource that `text` mentions, or ''.

    `text` is the error message of a library or the output of a process.
    """
    lower = text.lower()
    return next((meaning for words, meaning in _WORDS.items() if words in lower), "")


def lacked_at_end(status: int | None, log: str, resident: int, kills: int) -> str:
    """Returns the exhausted resource that ended TensorFlow's process, as a clause; '' if none is known.

    Libraries that get no memory often crash without a message. If a process crashes with half of its memory budget in
    use, this is assumed to be the cause, because TensorFlow requests memory in large pieces.

    Args:
        status: its exit code, or minus the number of a signal.
        log: the output of the process.
        resident: bytes of memory that it used at most.
        kills: the number of processes that the kernel has killed for lack of memory since this one started.
    """
    import signal

    lacked = told_of_want(log)
    if lacked or status is None:
        return lacked
    if status == -signal.SIGKILL:
        return OUT_OF_MEMORY if kills else ""
    return OUT_OF_MEMORY if memory_budget() and resident >= memory_budget() // 2 else ""


def out_of_memory_kills() -> int:
    """Returns the number of processes that the kernel killed for lack of memory since it started; 0 if unknown."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except (OSError, ValueError):
        return 0
