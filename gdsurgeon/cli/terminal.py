"""Standard error for people: colour only on a terminal, errors as one line."""

from __future__ import annotations

import os
import stat
import sys
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click

from gdsurgeon.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gdsurgeon.errors import GdsurgeonError

_STYLES = {
    "error": partial(click.style, fg="red", bold=True),
    "hint": partial(click.style, fg="cyan"),
    "warning": partial(click.style, fg="yellow"),
    "head": partial(click.style, bold=True),
    "proven": partial(click.style, fg="green"),
    "label": partial(click.style, dim=True),
}


class Terminal:
    """What is said on standard error. `colour` is ``auto``, ``always`` or ``never``."""

    def __init__(self) -> None:
        self.colour = "auto"
        self.debug = False
        self.quiet = False
        self.command = ""
        self.is_settled: Callable[[], bool] = lambda: False  # whether the output has appeared: a signal comes too late
        self.piped = ""  # MODEL, where the command stands in a pipe
        self.has_answered = False
        self._shown = ""  # of the progress that stands in the last line, without a line feed

    def styled(self, text: str, style: str) -> str:
        """TEXT in a colour, where colours are shown."""
        return _STYLES[style](text) if self.colours(sys.stderr) else text

    def colours(self, stream: TextIO | None) -> bool:
        """Whether what is written to STREAM has colours."""
        if self.colour != "auto":
            return self.colour == "always"
        return "NO_COLOR" not in os.environ and stream is not None and stream.isatty()

    def say(self, line: str) -> None:
        """A line on standard error; nothing happens where that is closed."""
        self.show("")
        try:
            if sys.stderr is not None:
                print(line, file=sys.stderr)
        except OSError:
            pass  # there is nobody left to tell

    def answer(self, text: str) -> None:
        """Prints TEXT on standard output: what a query was for."""
        self.has_answered = True
        click.echo(text)

    def stand_in_pipe(self, model: str, *, is_data: bool) -> None:
        """Has errors name the command and MODEL where it reads from a pipe, or its data (IS_DATA) go into one."""
        from gdsurgeon.wire.source import STANDARD_INPUT, STANDARD_INPUT_NAME

        is_read = model in STANDARD_INPUT
        if (is_read and _is_pipe(0)) or (is_data and _is_pipe(1)):
            self.piped = STANDARD_INPUT_NAME if is_read else printable(model)

    def is_watched(self) -> bool:
        """Whether somebody sees standard error as it is written."""
        return not self.quiet and sys.stderr is not None and sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Has TEXT stand in the last line of the terminal until something else is said; '' clears it."""
        if text != self._shown:
            self._shown = text
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def error(self, error: GdsurgeonError) -> None:
        """One line for the error; details and a hint, where there are some, under it."""
        from gdsurgeon.cli.hints import hint_of, worded

        self.warn(dict.fromkeys(error.warnings))
        line = worded(error.message)
        if self.piped:
            line = f"{self.command}: {line}" if self.piped in line else f"{self.command} {self.piped}: {line}"
        self.say(f"{self.styled('Error:', 'error')} {line}")
        for detail in error.details:
            self.say(f"  {worded(detail)}")
        hint = hint_of(error, self.command)
        if hint:
            self.say(f"{self.styled('Hint:', 'hint')} {hint}")

    def warn(self, warnings: Iterable[str]) -> None:
        """Warnings, a line each."""
        from gdsurgeon.cli.hints import worded

        for warning in warnings:
            self.say(f"{self.styled('Warning:', 'warning')} {worded(warning)}")

    def note(self, line: str) -> None:
        """What is no fault, and what somebody who expected more should know."""
        self.say(f"{self.styled('Note:', 'hint')} {line}")

    def summary(self, lines: list[str]) -> None:
        """The closing summary."""
        if self.quiet:
            return
        for i, line in enumerate(lines):
            label, rest = line[:11], line[11:]
            if i == 0:
                self.say(self.styled(line, "head"))
            elif label.strip() == "proven":
                self.say(self.styled(label, "proven") + rest)
            else:
                self.say(self.styled(label, "label") + rest)


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


terminal = Terminal()
