"""Shows the progress of a command in the last line of a terminal, after one second."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdsurgeon.proof.settings import Event

PATIENCE = 1.0
"""Seconds before the line appears. Most commands end before, and never import the code that draws."""
INTERVAL = 0.25
"""Seconds between updates of the line."""


class ProgressLine:
    """A context manager that shows the current event and its time after `PATIENCE` seconds.

    A separate thread draws the line. Signals do not interrupt this thread, so the line is always complete.

    Args:
        command: returns the name of the command, which is shown before the first event.
        is_watched: returns whether the line should be drawn; called before each update.
    """

    def __init__(self, command: Callable[[], str], is_watched: Callable[[], bool]) -> None:
        self._command = command
        self._is_watched = is_watched
        self._doing = ""
        self._began = time.monotonic()
        self._over: threading.Event | None = None
        self._drawing: threading.Thread | None = None

    def __enter__(self) -> ProgressLine:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, event: Event) -> None:
        """Shows a new event. After other output, the line appears again below it."""
        sample = f" sample {event.sample} of {event.samples}" if event.sample else ""
        self._doing = f"{event.step}{sample}"
        if self._over is None:
            self._start()

    def clear(self) -> None:
        """Erases the line before other output."""
        if self._over is not None:
            self._over.set()
        if self._drawing is not None:
            self._drawing.join()
        self._over = self._drawing = None

    def _start(self) -> None:
        self._over = threading.Event()
        self._drawing = threading.Thread(target=self._draw, args=(self._over,), daemon=True)
        self._drawing.start()

    def _draw(self, over: threading.Event) -> None:
        if over.wait(PATIENCE) or not self._is_watched():
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        class SteadyConsole(Console):
            """A console that does not hide the cursor: a killed or stopped process could not show it again."""

            def show_cursor(self, show: bool = True) -> bool:
                return False

        def line() -> Text:
            seconds = int(time.monotonic() - self._began)
            return Text(f"{self._doing or self._command()} ... {seconds} s", no_wrap=True, overflow="ellipsis")

        try:
            with Live(
                get_renderable=line,
                console=SteadyConsole(file=sys.stderr),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            ) as live:
                live.refresh()
                while not over.wait(INTERVAL):
                    live.refresh()
        except (OSError, MemoryError):
            pass  # the terminal is closed or too small: the command continues
