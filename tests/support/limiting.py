"""Work under a limit of memory: a reader that needs more than its input allows fails."""

from __future__ import annotations

import gc
import os
import resource
import signal
import traceback
from collections.abc import Callable

from support.patience import LONG_ENOUGH


def within_memory(most: int, work: Callable[[], object]) -> None:
    """Runs WORK in a fork of this process that gets at most MOST further bytes; fails unless WORK returns."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(LONG_ENOUGH))
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                there = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (there + most, there + most))
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "it took too much memory, or failed: see its traceback"
