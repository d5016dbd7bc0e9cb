"""A model that changes while it is read or edited, and several who edit it at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk, check_said
from support.graphs import FLOAT, const, graph_bytes, identity, placeholder

from gdsurgeon.operation import edit

QUICK = ("--validate", "structure")
X = placeholder("x", FLOAT, (-1, 4))
MODEL = graph_bytes(X, *(const(f"w{i}", [i] * 2000) for i in range(50)), identity("y", "x"))
OTHER = graph_bytes(X, identity("other", "x"))


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(identity("z", "y"))


def shorter(path: Path) -> None:
    os.truncate(path, 100)


def rewritten(path: Path) -> None:
    path.write_bytes(OTHER)


def replaced(path: Path) -> None:
    path.with_name("new.pb").write_bytes(OTHER)
    path.with_name("new.pb").rename(path)


def gone(path: Path) -> None:
    path.unlink()


def run_while(desk: Desk, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], *arguments: str) -> Any:
    """Runs a command whose model is changed by somebody between its being looked at and its being edited."""
    path = desk.put("model.pb", MODEL)
    carry_out = edit.carry_out

    def changing(*args: Any, **options: Any) -> Any:
        change(path)
        return carry_out(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(edit, "carry_out", changing)
        return desk.run(*arguments)


@pytest.mark.parametrize("change", [longer, shorter, rewritten])
@pytest.mark.parametrize("arguments", [("y=q", "-o", "out.pb"), ("y=q", "-i"), ("y=q", "-o", "-")])
def test_a_model_that_is_written_to_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], arguments: tuple[str, ...]
) -> None:
    ran = run_while(desk, monkeypatch, change, "rename", "model.pb", *arguments, *QUICK)
    assert ran.code == 3, ran
    check_said(ran, "model.pb", "while it was being read")
    assert [*desk.files()] == ["model.pb"] and desk.temporary_files() == []


@pytest.mark.tensorflow
@pytest.mark.parametrize("change", [replaced, gone])
def test_a_model_in_whose_place_there_is_another_is_edited_and_proven_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    ran = run_while(desk, monkeypatch, change, "rename", "model.pb", "y=q", "-o", "out.pb")
    assert ran.code == 0 and "bit-identical" in ran.err, ran
    out = desk.files()["out.pb"]
    desk.put("model.pb", MODEL)
    assert desk.run("rename", "model.pb", "y=q", "-o", "again.pb", *QUICK).code == 0
    assert desk.files()["again.pb"] == out


def test_of_two_who_edit_in_place_the_last_wins_whole(desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    at_once = [desk.fork("rename", "model.pb", f"x={name}", "-i", *QUICK) for name in ("p", "q", "r")]
    codes = [process.wait(60) for process in at_once]
    said = [process.communicate()[1].decode() for process in at_once]
    assert set(codes) <= {0, 3, 4} and 0 in codes, said
    found = desk.files()["model.pb"]
    desk.put("model.pb", MODEL)
    wanted = []
    for name in ("p", "q", "r"):
        assert desk.run("rename", "model.pb", f"x={name}", "-o", f"{name}.pb", *QUICK).code == 0
        wanted.append(desk.files()[f"{name}.pb"])
    assert found in wanted and desk.temporary_files() == []
