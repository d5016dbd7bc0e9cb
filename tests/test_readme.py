"""The README as it is written: its commands run, and print what it says they print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

README = (ROOT / "README.md").read_text()
SETTING_UP = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, list[str]]]:
    """(command, the lines that it is to print) in the order of the README; setting up is done already."""
    out: list[tuple[str, list[str]]] = []
    for block in blocks("console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                out.append((line[2:].removeprefix(SETTING_UP), []))
            else:
                out[-1][1].append(line)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the examples run one after another, as a reader would."""
    path = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "fixtures", path / "fixtures")
    return path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def masked(line: str) -> str:
    """LINE without what differs from run to run: seconds, and sizes and values that depend on versions."""
    line = re.sub(r"\d+\.\d s\)", "N s)", line)
    line = re.sub(r" = .*", " = VALUE", line)
    return re.sub(r"[\d.,]+ [KMG]iB", "SIZE", line)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("command", "expected"), examples(), ids=[c[:60] for c, _ in examples()])
def test_example(command: str, expected: list[str], folder: Path) -> None:
    if "jq" in command and shutil.which("jq") is None:
        command = command.split(" | ")[0]
        expected = []
    result = shell(command, folder)
    printed = (result.stdout + result.stderr).splitlines()
    refused = any(line.startswith("Error:") for line in expected)
    assert (result.returncode != 0) == refused, result.stderr
    lines = [masked(line) for line in printed]
    for line in expected:
        if line.strip() != "...":
            assert masked(line) in lines, result.stdout + result.stderr


def test_every_command_has_an_example() -> None:
    from gdsurgeon.registry import COMMANDS

    shown = " ".join(command for command, _ in examples())
    edits = [name for name, entry in COMMANDS.items() if entry.group != "This program"]
    assert [name for name in edits if f"gdsurgeon {name} " not in shown] == []


@pytest.mark.parametrize("block", blocks("python"))
def test_library_example(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    exec(compile(block, "README.md", "exec"), {})
    assert (folder / "edited.pb").stat().st_size > 100_000
