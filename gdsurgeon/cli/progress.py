"""What a command is at, in the last line of a terminal, for those who have waited for a second."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdsurgeon.proof.progress import Event

PATIENCE = 1.0
"""Seconds in which nothing is shown: most commands are done by then, and never load what draws."""
INTERVAL = 0.25
"""Seconds after which the line is drawn anew."""


class ProgressLine:
    """Shows what goes on from `PATIENCE` on, and for how long it has; as a context manager.

    A thread of its own draws: no signal interrupts it, so that the line is whole or gone.

    Args:
        command: tells what goes on until an event says more.
        is_watched: tells whether anything is to be drawn, asked when it would be.
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
        """Notes what begins; where something was said meanwhile, the line appears again under it, in its time."""
        sample = f" sample {event.sample} of {event.samples}" if event.sample else ""
        self._doing = f"{event.step}{sample}"
        if self._over is None:
            self._start()

    def clear(self) -> None:
        """Erases the line: something else is to be written."""
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
            """One whose cursor is seen: what is killed, or stopped by Ctrl-Z, could not show it again."""

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
            pass  # the terminal is gone, or there is room for nothing: the command goes on
