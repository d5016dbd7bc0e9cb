"""The last line of a terminal shows the progress of a slow command, and is erased at the end."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn, TextIO

import click
import pytest
from support.desk import Desk
from support.hostile import PLAIN

from gdsurgeon.cli import terminal as module
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.proof.settings import Event

During = Callable[[Callable[[], object]], None]
LONG_ENOUGH = 60.0
"""Seconds after which nothing comes any more."""


class Screen:
    """A pseudo terminal: all that was written to it, and what it shows."""

    def __init__(self, end: int, stream: TextIO) -> None:
        self.stream = stream
        self._end = end
        self._written = b""
        self._news = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        while True:
            try:
                more = os.read(self._end, 4096)
            except OSError:
                return  # the other end is closed
            with self._news:
                self._written += more
                self._news.notify_all()

    @property
    def written(self) -> str:
        return self._written.decode()

    def wait(self, pattern: str) -> None:
        """Waits until something was written that PATTERN matches."""
        with self._news:
            assert self._news.wait_for(lambda: re.search(pattern, self.written), LONG_ENOUGH), self.written

    def shown(self) -> list[str]:
        """The visible lines, after all output has arrived."""
        self.stream.write("\N{END OF TEXT}")
        self.stream.flush()
        self.wait("\N{END OF TEXT}")
        lines, row, column = [""], 0, 0
        for part in re.findall(r"\x1b\[[\d;]*[A-Za-z]|.", self.written.split("\N{END OF TEXT}")[-2], re.DOTALL):
            if part == "\r":
                column = 0
            elif part == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif part == "\x1b[1A":
                row -= 1
            elif part == "\x1b[2K":
                lines[row] = ""
            elif not re.fullmatch(r"\x1b\[[\d;]*m", part):  # that is a colour
                assert part[0] != "\x1b", f"an unexpected sequence: {part!r}"
                lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + 1 :]
                column += 1
        return [line for line in lines if line]


@pytest.fixture
def screen(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """Standard error is a terminal, where a command is shown at once; and there is a model to work on."""
    desk.put("model.pb", PLAIN)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with open(theirs, "w", buffering=1) as end:
        # Not `sys.stderr`: pytest sets that anew before the test.
        monkeypatch.setattr("gdsurgeon.cli.terminal.sys", SimpleNamespace(stderr=end))
        screen = Screen(ours, end)
        yield screen
    screen.reader.join()  # it would read what is written to the next one, which may have its number
    os.close(ours)


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> During:
    """Has something happen while a command is at work."""

    def happens(what: Callable[[], object]) -> None:
        invoke = click.Command.invoke

        def invoked(command: click.Command, context: click.Context) -> Any:
            if context.parent is not None:
                what()
            return invoke(command, context)

        monkeypatch.setattr(click.Command, "invoke", invoked)

    return happens


COMMANDS = {
    "validate": ("--validate", "structure"),
    "view": (),
    "diff": ("model.pb",),
    "show": ("y",),
    "inspect": (),
    "select": ("--op", "Placeholder"),
    "convert": ("-o", "out.pbtxt"),
    "rename": ("y=q", "--validate", "structure"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_takes_long_is_shown_and_gone_in_the_end(
    desk: Desk, screen: Screen, during: During, command: str
) -> None:
    during(lambda: screen.wait(rf"{command} \.\.\. \d+ s"))
    desk.done(command, "model.pb", *COMMANDS[command])
    assert not any("..." in line for line in screen.shown())


def test_what_is_quick_has_no_line(desk: Desk, screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", LONG_ENOUGH)
    desk.run("view", "model.pb")
    terminal.say("the end")
    assert screen.shown() == ["the end"] and screen.written == "the end\n\N{END OF TEXT}"


def test_events_are_told(screen: Screen) -> None:
    with terminal.progress():
        terminal.tell(Event("running", 1, 2))
        screen.wait(r"running sample 1 of 2 \.\.\. \d+ s")
        terminal.tell(Event("comparing", 1, 2))
        screen.wait(r"comparing sample 1 of 2 \.\.\. \d+ s")
    assert screen.shown() == []
    assert "\x1b[?25l" not in screen.written, "a cursor that is hidden stays so where the process is killed"


def test_an_edit_and_a_validation_tell_events(desk: Desk, screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(terminal, "tell", lambda event: told.append(event.step))
    for arguments in (("rename", "model.pb", "y=q", "-q"), ("validate", "model.pb")):
        desk.run(*arguments, "--validate", "structure")
    assert told == ["loading", "checking", "editing", "staging", "publishing", "loading", "checking"]


def test_what_is_said_takes_the_line_s_place_and_the_next_step_has_another(screen: Screen) -> None:
    with terminal.progress():
        screen.wait(r"\d s")
        terminal.warn(["something"])
        terminal.tell(Event("staging"))
        screen.wait(r"staging \.\.\. \d+ s")
    assert screen.shown() == ["Warning: something"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), SystemExit("enough")])
def test_whatever_ends_a_command_leaves_a_clean_terminal(
    desk: Desk, screen: Screen, during: During, error: BaseException
) -> None:
    def fail() -> NoReturn:
        screen.wait(r"view \.\.\. \d+ s")
        raise error

    during(fail)
    desk.run("view", "model.pb")
    (line,) = screen.shown()
    assert line.startswith(("Interrupted", "Error: "))


def test_an_answer_on_the_same_terminal_stands_alone(desk: Desk, screen: Screen, during: During) -> None:
    def wait() -> None:
        screen.wait(r"\d s")
        sys.stdout = screen.stream

    during(wait)
    desk.run("select", "model.pb", "--op", "Placeholder")
    assert screen.shown() == ["x"]


@pytest.mark.parametrize(
    "arguments, environment",
    [(("-q",), {}), (("-v",), {}), (("--color", "never"), {}), ((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"})],
    ids=["quiet", "verbose", "no colour", "NO_COLOR", "dumb"],
)
def test_nothing_moves_where_output_is_to_be_plain(
    desk: Desk,
    screen: Screen,
    during: During,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    environment: dict[str, str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    watched = []
    during(lambda: watched.append(terminal.is_watched()))
    desk.done("view", "model.pb", *arguments)
    assert watched == [False]


def test_where_nobody_watches_nothing_is_drawn(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()
    with terminal.progress():
        monkeypatch.setattr(terminal, "is_watched", lambda: asked.set())
        terminal.clear()
        terminal.tell(Event("loading"))
        assert asked.wait(LONG_ENOUGH)
    terminal.say("the end")
    assert screen.shown()[-1] == "the end" and "loading" not in screen.written


def test_nothing_is_drawn_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdsurgeon.cli.terminal.sys", SimpleNamespace(stderr=io.StringIO()))
    assert not terminal.is_watched()


def test_what_draws_is_loaded_only_for_those_who_wait(desk: Desk) -> None:
    program = (
        "import sys, io\n"
        "sys.stderr.isatty = lambda: True\n"
        "from gdsurgeon.cli import terminal\n"
        f"terminal.PATIENCE = {LONG_ENOUGH}\n"  # a busy machine takes longer than a second
        "from gdsurgeon.cli.main import exit_code\n"
        "assert exit_code(['select', 'model.pb']) == 0\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'rich'])"
    )
    desk.put("model.pb", PLAIN)
    process = desk.start_python("-c", program, env=desk.environment(TERM="xterm"))
    out, err = process.communicate(timeout=LONG_ENOUGH)
    assert out.splitlines()[-1] == b"[]", err


def test_a_terminal_that_is_gone_fails_nothing(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def fail(*_: object) -> NoReturn:
        tried.set()
        raise OSError(5, "Input/output error")

    hooked: list[object] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    with monkeypatch.context() as closed:
        closed.setattr(screen.stream, "flush", fail)
        with terminal.progress():
            assert tried.wait(LONG_ENOUGH)
    assert not hooked
