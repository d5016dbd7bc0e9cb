"""Calls of the operating system that fail."""

from __future__ import annotations

import os
import stat
from typing import Any


class Fault:
    """Has call number `at` of an os function fail, and every later one where `for_ever`.

    Of close, fsync and write only the calls on regular files count: a folder or a pipe has no disk to run full.
    """

    def __init__(self, name: str, code: int, for_ever: bool) -> None:
        self.name, self.code, self.for_ever = name, code, for_ever
        self.real = getattr(os, name) if name != "fsync" else lambda fd: None
        self.arm(0)

    def disarm(self) -> None:
        self.at = 0

    def arm(self, at: int) -> None:
        self.at, self.calls, self.struck = at, 0, False

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.at and self._counts(*args):
            self.calls += 1
            if self.calls == self.at or (self.for_ever and self.calls > self.at):
                self.struck = True
                if self.name == "close":
                    self.real(*args)  # the descriptor is gone, whatever close says
                raise OSError(self.code, os.strerror(self.code))
        return self.real(*args, **options)

    def _counts(self, *args: Any) -> bool:
        return self.name not in ("close", "fsync", "write") or stat.S_ISREG(os.fstat(args[0]).st_mode)
