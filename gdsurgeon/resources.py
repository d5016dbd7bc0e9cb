"""What the system gives: how much memory may be taken, and what there is too little of where something fails."""

import errno
import os

MEMORY = "GDSURGEON_MEMORY"
"""Environment: MiB that TensorFlow's process may take; a quarter of that is what an archive of feeds may unfold to."""
_PART = 0.75  # of what the machine has, where nobody says
_EXHAUSTED = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
_WORDS = {
    "too many open files": "too many open files",
    "can't start new thread": "no further thread can be started",
    "failed to map segment": "out of memory",
    "cannot allocate memory": "out of memory",
    "temporarily unavailable": "out of memory",
    "bad_alloc": "out of memory",
    "memoryerror": "out of memory",
    "memory allocation": "out of memory",
    "out of memory": "out of memory",
}
"""What libraries, their loader and their authors say of it, and what that means."""


def memory_budget() -> int:
    """Bytes that TensorFlow's process may take; 0 where neither `MEMORY` nor the system says."""
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
    """Whether this process was given less memory than the system has, as by ``ulimit -v``: so is what it starts."""
    try:
        import resource
    except ImportError:
        return False
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(kind)[0] != resource.RLIM_INFINITY for kind in kinds)


def exhausted(error: BaseException | None) -> str:
    """What there was not enough of, where that has led to ERROR, as a clause; '' where it has not.

    A module that could not be loaded may be missed only where it is used, and a clean-up may fail after what called for
    it: what an exception came of counts, too.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError):
            return "out of memory"
        if isinstance(error, SystemError) and is_memory_limited():
            return "out of memory"  # C code that got none, and has not said so
        if isinstance(error, OSError) and error.errno in _EXHAUSTED:
            return os.strerror(error.errno).lower()
        if isinstance(error, (ImportError, OSError, RuntimeError)) and told_of_want(str(error)):
            return told_of_want(str(error))
        error = error.__cause__ or error.__context__
    return ""


def told_of_want(text: str) -> str:
    """What there was not enough of, by what a library or a process that ended has said; ''."""
    lower = text.lower()
    return next((meaning for words, meaning in _WORDS.items() if words in lower), "")
