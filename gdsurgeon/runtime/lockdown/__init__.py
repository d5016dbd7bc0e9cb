"""Restricts a process: the kernel denies graphs access to files, networks and other processes.

The table of ops decides which graphs are run (`gdsurgeon.ops.reach`); the restrictions hold even if that table is
wrong. Landlock denies files, seccomp denies system calls, and limits bound memory and files. The process cannot undo
this.
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
        unnamed_bytes: the largest size of an unnamed file in memory; no other files can be written.
    """

    files_and_network: bool = False
    accelerators: bool = False
    libraries: Sequence[str] = ()
    reads: Sequence[str] = ()
    unnamed_bytes: int = _LOG_BYTES


def lock_in(opening: Opening) -> list[str]:
    """Restricts this process permanently. Files that it loads later must be among `landlock.readable`.

    Call it while there is only one thread: other existing threads are not restricted.

    Args:
        opening: the access that the process keeps.

    Returns:
        The reasons for restrictions that could not be applied; [] if all were applied.
    """
    set_limits(opening)
    if sys.platform != "linux":
        return [f"{sys.platform} has neither Landlock nor seccomp"]
    from gdsurgeon.runtime.lockdown.landlock import Refusal, restrict_files
    from gdsurgeon.runtime.lockdown.seccomp import restrict_calls

    missing = []
    for restrict in (restrict_files, restrict_calls):  # in this order: the second denies calls of the first
        try:
            restrict(opening)
        except Refusal as refusal:
            missing.append(str(refusal))
    return missing


def set_limits(opening: Opening) -> None:
    """Disables core files (a gigabyte each), and limits the size of logs, and memory to the budget.

    Memory is not limited if there are accelerators: drivers reserve far more than they use.
    """
    import resource

    from gdsurgeon.resources import memory_budget

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
