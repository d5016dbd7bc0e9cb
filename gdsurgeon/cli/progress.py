"""What an operation is at, in the last line of a terminal, for those who have waited for a second."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gdsurgeon.cli.terminal import terminal

if TYPE_CHECKING:
    from gdsurgeon.proof.progress import Event

PATIENCE = 1.0
"""Seconds in which nothing is shown: most operations are done by then."""


class ProgressLine:
    """Shows events from `PATIENCE` on until it is closed, as a context manager; nothing where there is no terminal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""
        self._is_due = False
        self._timer = threading.Timer(PATIENCE, self._become_due)
        self._timer.daemon = True

    def __enter__(self) -> ProgressLine:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_due = False
            terminal.show("")

    def _become_due(self) -> None:
        with self._lock:
            self._is_due = not self._timer.finished.is_set()
            if self._is_due:
                terminal.show(self._text)

    def __call__(self, event: Event) -> None:
        """Notes what begins."""
        with self._lock:
            sample = f" sample {event.sample} of {event.samples}" if event.sample else ""
            self._text = f"{event.step}{sample} ..."
            if self._is_due:
                terminal.show(self._text)
