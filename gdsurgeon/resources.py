"""What the system gives: how much memory may be taken, and what there is too little of where something fails."""

import errno
import os

MEMORY = "GDSURGEON_MEMORY"
"""Environment: MiB that TensorFlow's process may take; a quarter of that is what an archive of feeds may unfold to."""
OUT_OF_MEMORY = "out of memory"
_PART = 0.75  # of the machine's memory, by default
_EXHAUSTED = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
_WORDS = {
    "too many open files": "too many open files",
    "can't start new thread": "no further thread can be started",
    "failed to map segment": OUT_OF_MEMORY,
    "cannot map zero-fill pages": OUT_OF_MEMORY,
    "cannot allocate memory": OUT_OF_MEMORY,
    "temporarily unavailable": OUT_OF_MEMORY,
    "bad_alloc": OUT_OF_MEMORY,
    "memoryerror": OUT_OF_MEMORY,
    "memory allocation": OUT_OF_MEMORY,
    "out of memory": OUT_OF_MEMORY,
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
            return OUT_OF_MEMORY
        if isinstance(error, SystemError) and is_memory_limited():
            return OUT_OF_MEMORY  # C code that got none, and has not said so
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


def lacked_at_end(status: int | None, log: str, resident: int, kills: int) -> str:
    """The resource whose lack ended TensorFlow's process, as a clause; '' if it is not known that one was lacking.

    Libraries that get no memory often crash without a word. A process that crashes with half of its memory budget in
    use is taken to be one of these: TensorFlow asks for memory in large pieces.

    Args:
        status: its exit code, or minus the number of a signal.
        log: the output of the process.
        resident: bytes of memory that it used at most.
        kills: how many processes the kernel has killed for want of memory since this one started.
    """
    import signal

    lacked = told_of_want(log)
    if lacked or status is None:
        return lacked
    if status == -signal.SIGKILL:
        return OUT_OF_MEMORY if kills else ""
    return OUT_OF_MEMORY if memory_budget() and resident >= memory_budget() // 2 else ""


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed for want of memory since the machine started; 0 if it does not say."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except (OSError, ValueError):
        return 0
