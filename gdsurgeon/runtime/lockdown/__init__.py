"""Locks a process in: of what a graph might have TensorFlow do to files, networks and processes, the kernel does none.

The table of ops decides which graphs are run (`gdsurgeon.ops.reach`); the lock holds if that table is wrong. Landlock
takes files away, seccomp takes system calls away, and limits bound memory and files. The process cannot undo this.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

_LOG_BYTES = 64 << 20


class Opening(NamedTuple):
    """The access that the process keeps.

    Attributes:
        files_and_network: both, with the rights of the user who started the process.
        accelerators: whether GPUs and the like may be used.
        libraries: files that may be read in addition to Python and TensorFlow.
        reads: files and folders that graphs may read.
        unnamed_bytes: how large a file without a name may become, in memory: no other can be written.
    """

    files_and_network: bool = False
    accelerators: bool = False
    libraries: Sequence[str] = ()
    reads: Sequence[str] = ()
    unnamed_bytes: int = _LOG_BYTES


def lock_in(opening: Opening) -> list[str]:
    """Lock this process in, for good. Files that it loads later must be among `places`.

    To be called while there is one thread: those that are there already are not locked in.

    Args:
        opening: the access that the process keeps.

    Returns:
        What could not be done, a reason each; [] where all of it holds.
    """
    set_limits(opening)
    if sys.platform != "linux":
        return [f"{sys.platform} has neither Landlock nor seccomp"]
    from gdsurgeon.runtime.lockdown.kernel import Refusal
    from gdsurgeon.runtime.lockdown.landlock import restrict_files
    from gdsurgeon.runtime.lockdown.seccomp import restrict_calls

    missing = []
    for restrict in (restrict_files, restrict_calls):  # in this order: the second takes the first's calls away
        try:
            restrict(opening)
        except Refusal as refusal:
            missing.append(str(refusal))
    return missing


def set_limits(opening: Opening) -> None:
    """No core files (a gigabyte each), no log of any length, and no more memory than the budget.

    Where there are accelerators memory is not limited: drivers reserve far more than they use.
    """
    import resource

    from gdsurgeon.resources import memory_budget

    # Not 0: where core files are piped to a handler, that would not stop them, and 1 byte does.
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
