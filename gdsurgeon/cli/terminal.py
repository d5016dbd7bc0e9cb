"""Output on the terminal: messages on standard error, answers on standard output."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, TextIO

import click

from gdsurgeon.errors import middle_cut, printable
from gdsurgeon.text import Entry, and_more, before_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gdsurgeon.errors import GdsurgeonError
    from gdsurgeon.proof.settings import Event
    from gdsurgeon.text import Entry


WIDTH = 160
"""Characters of the longest line of a brief summary."""

HEIGHT = 12
"""Lines of the longest brief summary, with its warnings."""

FEW = 3
"""Names, or entries of one label, that a brief summary shows."""

MANY = 8
"""Entries of one label that are shown if the number of lines has no bound."""

LONG_NAMES = (60, 40, 28, 18, 14)
"""Characters to which long names are shortened, if the width of a line requires it."""

PROVEN = "proven"

FIRST_LEFT_OUT = (
    *("fed", "called", "bytes", "also compared", "random", "line", "loader", "kept", "recomputed"),
    *("returned", "passes", "ops", "nodes", "note"),
)  # fmt: skip
"""Labels that a brief summary omits first; then it omits other labels, beginning with the last."""


def whole(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Returns all entries as lines (label, text). If the names of an entry do not fit in its line, each has a line."""
    out = []
    for label, text, names in entries:
        names = [*map(printable, names)]
        line = f"{printable(text)}: {', '.join(names)}" if names else printable(text)
        if len(names) < 2 or len(line) <= WIDTH:
            out.append((label, line.removeprefix(": ")))
        else:
            out += [(label, f"{printable(text)}:"), *(("", f"  {name}") for name in names)]
    return out


def first(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Returns the entries as lines (label, text): the first `MANY` of each label, and the number of the others."""
    return [line for _, group in groupby(entries, lambda entry: entry.label) for line in _each([*group], MANY)]


def brief(entries: Sequence[Entry], height: int = HEIGHT) -> list[tuple[str, str]]:
    """Returns the entries as at most `height` lines (label, text). Without room, the entries of a label share one line.

    Labels can be left out, except the proof and measured differences. The last line then names the omitted labels.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.label, []).append(entry)
    lines = {label: [(label, _together(group, _room(label)))] for label, group in groups.items()}
    if PROVEN in groups:
        lines[PROVEN] = _each(groups[PROVEN], FEW)
    spare = height - sum(map(len, lines.values()))
    left_out = []
    if spare < 0:
        others = [label for label in reversed(groups) if label not in (*FIRST_LEFT_OUT, PROVEN, "measured")]
        left_out = [*(label for label in FIRST_LEFT_OUT if label in groups), *others][: 1 - spare]
        lines = {label: group for label, group in lines.items() if label not in left_out}
        lines["more"] = [("more", fitted(f"-v also shows {', '.join(left_out)}", _room("more")))]
    for label in lines:
        group = groups.get(label, [])
        if label != PROVEN and 0 < len(group) - 1 <= min(spare, FEW - 1):
            spare -= len(group) - 1
            lines[label] = _each(group, FEW)
    return [line for group in lines.values() for line in group]


def _each(group: Sequence[Entry], most: int) -> list[tuple[str, str]]:
    """Returns at most `most` lines for the entries of one label; the last can have the number of further entries."""
    shown = group if len(group) <= most else group[: most - 1]
    lines = [(entry.label, _shortest(entry, _room(entry.label))) for entry in shown]
    return lines + [(group[0].label, and_more(len(group) - len(shown)).strip())] * (len(shown) < len(group))


def _room(label: str) -> int:
    return WIDTH - len(before_text(label))


def _together(group: Sequence[Entry], room: int) -> str:
    """Returns the first entries of a group in one line, with the number of the others."""
    for most in range(min(FEW, len(group)), 0, -1):
        tail = f"; {and_more(len(group) - most).strip()}" if len(group) > most else ""
        line = "; ".join(_shortest(entry, room) for entry in group[:most])
        if len(line) + len(tail) <= room:
            break
    return fitted(line, room - len(tail)) + tail


def _shortest(entry: Entry, room: int) -> str:
    """Returns an entry in at most `room` characters: the first names, and the common scope of many names."""
    line, names = printable(entry.text), entry.names
    if not names:
        return fitted(line, room)
    scope = common_scope(names) if len(names) > FEW else ""
    head = f"{line} in {printable(scope)}: " if scope else f"{line}: " if line else ""
    for most in range(min(FEW, len(names)), 0, -1):
        shown = ", ".join(printable(name[len(scope) :]) for name in names[:most])
        line = head + shown + and_more(len(names) - most)
        if len(_with_short_names(line, LONG_NAMES[1])) <= room:
            break
    return fitted(line, room)


def common_scope(names: Sequence[str]) -> str:
    """Returns the innermost scope of all `names`, with its slash; '' without such a scope, or if a name has spaces."""
    if any(" " in name for name in names):
        return ""
    first, last = (name.split("/")[:-1] for name in (min(names), max(names)))
    return "".join(f"{part}/" for part, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def fitted(text: str, most: int = WIDTH) -> str:
    """Returns the text in at most `most` characters. Long names lose their middle first, then the whole text does."""
    for longest in LONG_NAMES:
        text = _with_short_names(text, longest) if len(text) > most else text
    return middle_cut(text, most)


def _with_short_names(text: str, longest: int) -> str:
    return re.sub(rf"\S{{{longest + 1},}}", lambda found: middle_cut(found[0], longest), text)


MOST_WARNINGS = 2
"""Number of warnings that are printed without -v."""
MOST_DETAILS = 21
"""Number of details of an error that are printed without -v."""
LONGEST_LINE = 4_000
"""Maximum characters of an error, a detail or a warning; TensorFlow's messages may contain long names."""
PATIENCE = 1.0
"""Seconds before the line appears. Most commands end before."""
INTERVAL = 0.25
"""Seconds between updates of the line."""
_STYLES: dict[str, dict[str, Any]] = {
    "error": {"fg": "red", "bold": True},
    "hint": {"fg": "cyan"},
    "warning": {"fg": "yellow"},
    "head": {"bold": True},
    "proven": {"fg": "green"},
    "label": {"dim": True},
}


class ProgressLine:
    """Shows the current event of a command and its time, `PATIENCE` seconds after the command or other output.

    A separate thread draws the line. Signals do not interrupt this thread, so the line is always complete.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._began = time.monotonic()
        self._doing = ""
        self._over = threading.Event()
        self._drawing: threading.Thread | None = None

    def show(self, event: Event | None = None) -> None:
        """Shows `event`, or the command before the first event. After other output, the line appears again below it."""
        if event is not None:
            self._doing = f"{event.step} sample {event.sample} of {event.samples}" if event.sample else event.step
        if self._drawing is None:
            self._over.clear()
            self._drawing = threading.Thread(target=self._draw, daemon=True)
            self._drawing.start()

    def clear(self) -> None:
        """Erases the line before other output."""
        if self._drawing is not None:
            self._over.set()
            self._drawing.join()
            self._drawing = None

    def _draw(self) -> None:
        if self._over.wait(PATIENCE) or not self._terminal.is_watched():
            return
        try:
            while not self._over.is_set():
                seconds = int(time.monotonic() - self._began)
                line = f"{self._doing or self._terminal.command} ... {seconds} s"
                width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
                print(_ERASED + fitted(line, width - 1), end="", file=sys.stderr, flush=True)
                self._over.wait(INTERVAL)
            print(_ERASED, end="", file=sys.stderr, flush=True)
        except OSError:
            pass  # the terminal is closed: the command continues


_ERASED = "\r\x1b[2K"
"""Erases the line of the cursor, and moves the cursor to its start."""


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
        """Returns `text` in the colour of `style`, if standard error has colours."""
        return click.style(text, **_STYLES[style]) if self.colours(sys.stderr) else text

    def colours(self, stream: TextIO | None) -> bool:
        """Returns whether output to `stream` has colours."""
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
        """Prints `text`, the answer of a query, to standard output."""
        self.has_answered = True
        self.clear()
        click.echo(text, color=True)  # unchanged: an escape sequence may be part of a name

    def answer_lines(self, lines: Iterable[str]) -> None:
        """Prints lines as the answer of a query. Without -v, long lines are shortened."""
        self.answer("\n".join(lines if self.verbose else map(fitted, lines)))

    def answer_json(self, value: object) -> None:
        """Prints `value` as JSON to standard output."""
        import json

        self.answer(json.dumps(value, indent=2))

    def write(self, path: str, data: bytes) -> None:
        """Writes `data` to the file `path`, completely or not at all, or to a stream."""
        from gdsurgeon.wire.output import OutputFile

        with OutputFile(path) as file:
            self.clear()
            if file.is_stream:
                file.stream([data])
            else:
                file.stage([data])
                file.publish()

    def settle(self, has_appeared: Callable[[], bool]) -> None:
        """Notes that the output is about to appear. `has_appeared` returns whether it has appeared."""
        self.is_settled = has_appeared
        self.clear()  # the output may be this terminal

    def note_pipe(self, model: str, *, is_data: bool) -> None:
        """Makes errors name the command and MODEL if MODEL, or the output if it `is_data`, is a pipe."""
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
        self._line = ProgressLine(self)
        self._line.show()
        try:
            yield
        finally:
            self._line.clear()
            self._line = None

    def tell(self, event: Event) -> None:
        """Shows `event`."""
        if self._line is not None:
            self._line.show(event)

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
        """Prints the first lines `heads`, then the entries; without -v at most `height` lines (None: no limit)."""
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
