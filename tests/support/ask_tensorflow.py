"""Asks TensorFlow about shapes, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Answers:
    """What TensorFlow says of the graphs in a folder, by their names without suffix; see `tensorflow_shapes`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        return found


def asked(folder: Path, random_graphs: int = 0) -> Answers:
    """The answers on each graph in FOLDER, and on so many random ones, which are made there first."""
    program = Path(__file__).with_name("tensorflow_shapes.py")
    done = subprocess.run(
        [sys.executable, str(program), str(folder), str(random_graphs)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Answers(folder)
