"""Edits of other packages: the example of docs/plugins.md is installed and run, and errors are reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.desk import Desk, check_said
from support.graphs import FLOAT, add, graph_bytes, node, placeholder
from support.paths import ROOT

PAGE = (ROOT / "docs" / "plugins.md").read_text()
MODEL = graph_bytes(
    placeholder("x", FLOAT, (2,)), node("checked", "CheckNumerics", ["x"], T=FLOAT, message="x is not finite"),
    add("y", "checked", "x"),
)  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the page in it, as pip installs it."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    files = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == ["pyproject.toml", "strip_checks/__init__.py", "strip_checks/command.py"]
    for name, text in files:
        path = source / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "--target", target, source], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def on_path(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))


def distribution(folder: Path, entry_points: str) -> None:
    """A package in FOLDER that has nothing but ENTRY_POINTS."""
    path = folder / "other-1.0.dist-info"
    path.mkdir(parents=True)
    (path / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (path / "entry_points.txt").write_text("[gdsurgeon.commands]\n" + entry_points)


@pytest.mark.usefixtures("on_path")
def test_the_help_lists_it(desk: Desk) -> None:
    text = desk.run("--help").out.decode()
    assert "\nFrom other packages:\n  strip-checks        Remove ops that only check values." in text
    ran = desk.run("help", "strip-checks")
    assert ran == desk.run("strip-checks", "--help")
    assert ran.out.startswith(b"Usage: gdsurgeon strip-checks [OPTIONS] MODEL") and b"\nSelection:\n" in ran.out


@pytest.mark.tensorflow
@pytest.mark.usefixtures("on_path")
def test_it_runs_and_is_proven(desk: Desk) -> None:
    desk.put("model.pb", MODEL)
    ran = desk.run("strip-checks", "model.pb", "-o", "quick.pb", "--report", "report.json")
    assert (ran.code, ran.out) == (0, b""), ran.err
    assert "note     values are no longer checked" in ran.err
    report = json.loads((desk.folder / "report.json").read_text())
    assert (report["command"], report["claims"]) == ("strip-checks", ["SameOutputs"])
    assert report["proof"]["compared"] == 1 and all(output["equal"] for output in report["proof"]["outputs"])
    assert desk.run("select", "quick.pb").out == b"x\ny\n"


@pytest.mark.usefixtures("on_path")
def test_its_refusals_are_those_of_any_command(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(placeholder("x")))
    ran = desk.run("strip-checks", "model.pb", "-o", "quick.pb", "--validate", "structure", "--require-change")
    assert ran.code == 4
    check_said(ran, "CheckNumerics")
    assert "quick.pb" not in desk.files()


@pytest.mark.usefixtures("on_path")
def test_a_slip_of_the_keyboard(desk: Desk) -> None:
    ran = desk.run("strip-check", "model.pb")
    assert ran.code == 2
    check_said(ran, "unknown command 'strip-check'", "Did you mean 'strip-checks'?")


def test_the_shell_completes_it(installed: Path) -> None:
    environment = {
        **os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{ROOT}", "_GDSURGEON_COMPLETE": "bash_complete",
        "GDSURGEON_LINE": "gdsurgeon strip-c", "GDSURGEON_BREAKS": "=",
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "gdsurgeon"], env=environment, capture_output=True, check=True)
    assert done.stdout == b"plain\tstrip-checks\n"


def test_a_package_that_is_broken_spoils_nothing_else(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(desk.folder / "other", "broken = gone.module:command\nnone = json:dumps\nrename = json:dumps\n")
    monkeypatch.syspath_prepend(str(desk.folder / "other"))
    text = desk.run("--help").out.decode()
    assert "(the command 'broken' (gone.module:command) cannot be" in text
    assert text.count("\n  rename ") == 1
    for name, words in (("broken", "ModuleNotFoundError"), ("none", "is not a click command")):
        ran = desk.run(name, "model.pb")
        assert ran.code == 2
        check_said(ran, words)
    assert b"Usage: gdsurgeon rename" in desk.run("rename", "--help").out


@pytest.mark.parametrize(
    ("leaving", "code", "said"),
    [
        ("click.get_current_context().exit(3)", 3, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(4)", 4, ""),
        ("sys.exit(256 + 9)", 9, ""),
        ("sys.exit('no\\nway')", 70, "Error: no\\nway\n"),
        ("raise click.ClickException('no way')", 2, "Error: no way\n"),
        ("raise RuntimeError('no way')", 70, "Error: internal error (RuntimeError: no way)\n"),
        ("raise click.Abort", 130, "Interrupted\n"),
    ],
)
def test_how_it_may_leave(desk: Desk, monkeypatch: pytest.MonkeyPatch, leaving: str, code: int, said: str) -> None:
    distribution(desk.folder / "other", "leaving = leaving:command\n")
    text = f"import sys, click\n@click.command()\ndef command():\n    click.echo('data')\n    {leaving}\n"
    (desk.folder / "other" / "leaving.py").write_text(text)
    monkeypatch.syspath_prepend(str(desk.folder / "other"))
    monkeypatch.delitem(sys.modules, "leaving", raising=False)
    ran = desk.run("leaving")
    assert (ran.code, ran.out) == (code, b"data\n")
    assert ran.err.startswith(said) if said else not ran.err


def test_one_that_leaves_when_it_is_loaded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(desk.folder / "other", "gone = gone_at_once:command\n")
    (desk.folder / "other" / "gone_at_once.py").write_text("import sys\nsys.exit(1)\n")
    monkeypatch.syspath_prepend(str(desk.folder / "other"))
    assert desk.run("gone").code == 2
    desk.done("--help")


def test_a_command_of_ours_does_not_look_at_packages() -> None:
    code = "import sys\nfrom gdsurgeon.cli.main import exit_code\nassert exit_code(sys.argv[1:]) == 0"
    loaded = "\nprint([n for n in ('importlib.metadata',) if n in sys.modules])"
    for arguments, expected in ((["rename", "--help"], "[]"), (["--help"], "[]")):
        done = subprocess.run(
            [sys.executable, "-c", code + loaded, *arguments], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == expected


def test_the_page_tells_what_is_public() -> None:
    from gdsurgeon import plugin

    told = PAGE.split("## Claims")[1]
    own = {"Claim", "Command", "GdsurgeonError", "InputError", "Intent", "Request", "ValidationError"}
    public = sorted({*vars(plugin)} - {"annotations"})
    left = [name for name in public if name[0] != "_" and f"`{name}" not in told and name not in own]
    assert left == ["printable", "quoted"]
