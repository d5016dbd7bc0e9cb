"""Asks TensorFlow about shapes, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.aside import Aside

RANDOM_GRAPHS = 40


class Answers:
    """What TensorFlow says of the graphs in a folder, by their names without suffix; see `tensorflow_shapes`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        return found


class ShapesTold(Aside):
    """A process that tells shapes."""

    def __init__(self) -> None:
        # The convolutions of oneDNN give their input back where their output is empty.
        super().__init__("support.tensorflow_shapes", TF_ENABLE_ONEDNN_OPTS="0")

    def of(self, folder: Path, random_graphs: int = 0) -> Answers:
        """The answers on each graph in FOLDER, and on so many random ones, which are made there first."""
        self.ask("examine", folder=str(folder), random=random_graphs)
        return Answers(folder)
