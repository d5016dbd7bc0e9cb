"""What is shown in the last line of a terminal while an operation takes long."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest

from gdsurgeon.cli import progress
from gdsurgeon.cli.progress import ProgressLine
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.proof.progress import Event


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    found = Screen()
    monkeypatch.setattr("gdsurgeon.cli.terminal.sys", SimpleNamespace(stderr=found))
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    return found


def test_nothing_is_shown_of_what_is_quick(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 60)
    with ProgressLine() as line:
        line(Event("loading"))
    assert screen.getvalue() == ""


def test_what_takes_long_is_shown_and_cleared(screen: Screen) -> None:
    with ProgressLine() as line:
        line(Event("running", 1, 2))
        deadline = time.monotonic() + 20
        while "running" not in screen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        line(Event("running", 2, 2))
    assert screen.getvalue() == "\r\x1b[Krunning sample 1 of 2 ...\r\x1b[Krunning sample 2 of 2 ...\r\x1b[K"


def test_what_is_said_takes_the_line_s_place(screen: Screen) -> None:
    terminal.show("running ...")
    terminal.say("Error: something")
    assert screen.getvalue() == "\r\x1b[Krunning ...\r\x1b[KError: something\n"


def test_who_is_watched(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal.is_watched()
    monkeypatch.setattr(terminal, "quiet", True)
    assert not terminal.is_watched()
