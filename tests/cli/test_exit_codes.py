"""The exit code of a command after an unexpected error: always 70, and never 1."""

from __future__ import annotations

import pytest
from support.desk import Desk, finished
from support.paths import ROOT

from gdsurgeon import errors
from gdsurgeon.cli import main as main_module
from gdsurgeon.container import load

FAULT = "Error: internal error (RuntimeError: no\\nway)\n"
RAISES = "def raising(*_): raise RuntimeError('no\\nway')\n"


def test_each_kind_of_error_has_its_code() -> None:
    kinds = [errors.GdsurgeonError, *errors.GdsurgeonError.__subclasses__()]
    assert {kind.__name__: kind.exit_code for kind in kinds if kind.__module__ == errors.__name__} == {
        "GdsurgeonError": 70, "UsageError": 2, "InputError": 3, "EditError": 4, "ValidationError": 5, "OutputError": 6,
        "NotValidatedError": 7,
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [("inspect", "m.pb"), ("inspect", "m.pb", "--json"), ("select", "m.pb")])
def test_an_exception_is_a_fault_of_ours(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def raising(*_: object) -> None:
        raise RuntimeError("no\nway")

    monkeypatch.setattr(load, "open_model", raising)
    ran = desk.run(*arguments)
    assert (ran.code, ran.out) == (70, b"")
    assert ran.err == FAULT + "Hint: please report it with the output of --debug\n"


@pytest.mark.parametrize("place", ["main.forget", "main._have_signals_raise", "main.terminal.error"])
def test_what_cleans_up_or_tells_of_errors_may_fail_too(desk: Desk, place: str) -> None:
    source = f"from gdsurgeon.cli import main\n{RAISES}{place} = raising\nmain.run()"
    ran = finished(desk.start_python("-c", source, "inspect"))
    assert ran.code == 70
    assert FAULT in ran.err and "Traceback" not in ran.err
    assert main_module.INTERNAL_FAULT == 70


def test_an_installation_that_is_not_whole(desk: Desk) -> None:
    desk.put("click.py", RAISES.encode() + b"raising()\n")
    path = f"{desk.folder}:{ROOT}"
    ran = finished(desk.start_python("-m", "gdsurgeon", "--help", env=desk.environment(PYTHONPATH=path)))
    assert (ran.code, ran.err) == (70, FAULT)


@pytest.mark.parametrize(("asked", "code"), [("bash_complete", 70), ("tcsh_complete", 2), ("bash_source", 0)])
def test_a_shell_that_cannot_be_answered(desk: Desk, asked: str, code: int) -> None:
    environment = desk.environment(_GDSURGEON_COMPLETE=asked)  # without the line to complete
    assert finished(desk.start_python("-m", "gdsurgeon", env=environment)).code == code
