"""Output on the terminal: messages on standard error, answers on standard output."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from gdsurgeon.cli.summary import HEIGHT, WIDTH, brief, first, fitted, whole
from gdsurgeon.errors import middle_cut, printable
from gdsurgeon.text import before_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gdsurgeon.cli.progress import ProgressLine
    from gdsurgeon.errors import GdsurgeonError
    from gdsurgeon.proof.settings import Event
    from gdsurgeon.text import Entry

MOST_WARNINGS = 2
"""Number of warnings that are printed without -v."""
MOST_DETAILS = 21
"""Number of details of an error that are printed without -v."""
LONGEST_LINE = 4_000
"""Maximum characters of an error, a detail or a warning; TensorFlow's messages may contain long names."""
_STYLES = {
    "error": partial(click.style, fg="red", bold=True),
    "hint": partial(click.style, fg="cyan"),
    "warning": partial(click.style, fg="yellow"),
    "head": partial(click.style, bold=True),
    "proven": partial(click.style, fg="green"),
    "label": partial(click.style, dim=True),
}


class Terminal:
    """Prints messages to standard error. `colour` is ``auto``, ``always`` or ``never``."""

    def __init__(self) -> None:
        self.colour = "auto"
        self.debug = False
        self.quiet = False
        self.verbose = False
        self.command = ""
        self.is_settled: Callable[[], bool] = lambda: (
            False
        )  # returns whether the output has appeared, after which signals are ignored
        self.piped = ""  # MODEL, if the command is part of a pipe
        self.has_answered = False
        self._remarks = 0  # lines of warnings and notes
        self._line: ProgressLine | None = None  # the progress line, below all other lines

    def styled(self, text: str, style: str) -> str:
        """Returns TEXT in the colour of STYLE, if standard error has colours."""
        return _STYLES[style](text) if self.colours(sys.stderr) else text

    def colours(self, stream: TextIO | None) -> bool:
        """Returns whether output to STREAM has colours."""
        if self.colour != "auto":
            return self.colour == "always"
        is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM") in ("dumb", "unknown")
        return not is_plain and stream is not None and stream.isatty()

    def say(self, line: str) -> None:
        """Prints a line to standard error; does nothing if it is closed."""
        self.clear()
        try:
            if sys.stderr is not None:
                print(line, file=sys.stderr)
        except OSError:
            pass  # standard error is closed

    def answer(self, text: str) -> None:
        """Prints TEXT, the answer of a query, to standard output."""
        self.has_answered = True
        self.clear()
        click.echo(text, color=True)  # unchanged: an escape sequence may be part of a name

    def answer_lines(self, lines: Iterable[str]) -> None:
        """Prints lines as the answer of a query; names that make a line too long are shortened unless all is wanted."""
        self.answer("\n".join(lines if self.verbose else map(fitted, lines)))

    def answer_json(self, value: object) -> None:
        """Prints VALUE as JSON to standard output."""
        import json

        self.answer(json.dumps(value, indent=2))

    def settle(self, has_appeared: Callable[[], bool]) -> None:
        """Notes that the output is about to appear. HAS_APPEARED returns whether it has appeared."""
        self.is_settled = has_appeared
        self.clear()  # the output may be this terminal

    def stand_in_pipe(self, model: str, *, is_data: bool) -> None:
        """Makes errors name the command and MODEL if MODEL, or the output with IS_DATA, is a pipe."""
        from gdsurgeon.wire.source import STANDARD_INPUT, STANDARD_INPUT_NAME

        is_read = model in STANDARD_INPUT
        if (is_read and _is_pipe(0)) or (is_data and _is_pipe(1)):
            self.piped = STANDARD_INPUT_NAME if is_read else printable(model)

    def is_watched(self) -> bool:
        """Returns whether standard error is a terminal on which progress may be shown."""
        is_screen = sys.stderr is not None and sys.stderr.isatty() and self.colours(sys.stderr)
        return is_screen and not self.quiet and not self.verbose  # TensorFlow writes its log there

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Shows the command and the events of `tell` while the context is active, if standard error is a terminal."""
        if not self.is_watched():
            yield
            return
        from gdsurgeon.cli.progress import ProgressLine

        with ProgressLine(lambda: self.command, lambda: self.is_watched()) as self._line:
            try:
                yield
            finally:
                self._line.clear()
                self._line = None

    def tell(self, event: Event) -> None:
        """Shows the event EVENT."""
        if self._line is not None:
            self._line(event)

    def clear(self) -> None:
        """Clears the progress line before other output."""
        if self._line is not None:
            self._line.clear()

    def error(self, error: GdsurgeonError) -> None:
        """Prints the error in one line, followed by its details and its hint."""
        from gdsurgeon.cli.hints import hint_of, worded

        self.warn(dict.fromkeys(error.warnings))
        line = worded(error.message)
        if self.piped:
            line = f"{self.command}: {line}" if self.piped in line else f"{self.command} {self.piped}: {line}"
        self.say(f"{self.styled('Error:', 'error')} {middle_cut(line, LONGEST_LINE)}")
        most = len(error.details) if self.verbose else MOST_DETAILS
        for detail in error.details[:most]:
            self.say(f"  {middle_cut(worded(detail), LONGEST_LINE)}")
        if len(error.details) > most:
            self.say(f"  and {len(error.details) - most:,} more: use -v to show them")
        hint = hint_of(error, self.command)
        if hint:
            self.say(f"{self.styled('Hint:', 'hint')} {hint}")

    def warn(self, warnings: Iterable[str]) -> None:
        """Prints each warning in one line; without -v, only the first of more than two and their number."""
        from gdsurgeon.cli.hints import worded

        lines = [worded(warning) for warning in warnings]
        label = self.styled("Warning:", "warning")
        if self.verbose:
            for line in lines:
                self.say(f"{label} {middle_cut(line, LONGEST_LINE)}")
            return
        for line in lines if len(lines) <= MOST_WARNINGS else lines[:1]:
            self.say(f"{label} {fitted(line, WIDTH - len('Warning: '))}")
        if len(lines) > MOST_WARNINGS:
            self.say(f"{label} {len(lines) - 1:,} more warnings: use -v to show them")
        self._remarks += min(len(lines), MOST_WARNINGS)

    def note(self, line: str) -> None:
        """Prints a note: information that is not a warning."""
        self._remarks += 1
        self.say(f"{self.styled('Note:', 'hint')} {line if self.verbose else fitted(line, WIDTH - len('Note: '))}")

    def summary(self, heads: Sequence[str], entries: Sequence[Entry] = (), *, height: int | None = HEIGHT) -> None:
        """The closing summary: its first lines, then all entries, or brief ones in `height` lines if it has a bound."""
        if self.quiet:
            return
        for head in heads:
            self.say(self.styled(head if self.verbose else fitted(head), "head"))
        if self.verbose:
            lines = whole(entries)
        else:
            lines = first(entries) if height is None else brief(entries, height - len(heads) - self._remarks)
        self._remarks = 0
        for label, text in lines:
            self.say(self.styled(before_text(label), "proven" if label == "proven" else "label") + text)

    def report(
        self, outcome: Any, noun: str, described: object, summary: tuple[str, Sequence[Entry]], *, as_json: bool
    ) -> None:
        """Prints the result of a command that writes a `noun`: warnings, `described` as JSON, and the summary."""
        self.warn(outcome.warnings)
        if outcome.idle:
            self.note(f"{outcome.idle}; the output is the unchanged {noun}")
        if as_json:
            self.answer_json(described)
        self.summary([summary[0]], summary[1])


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


terminal = Terminal()
