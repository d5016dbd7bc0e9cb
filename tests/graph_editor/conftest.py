from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.paths import TESTS

import gdsurgeon as gds
from gdsurgeon.graph.graph import Graph


@pytest.fixture(scope="session")
def tf1_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graphs that `tf1_graphs.py` builds."""
    folder = tmp_path_factory.mktemp("tf1_graphs")
    script = TESTS / "support" / "tf1_graphs.py"
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def tf1_graph(tf1_folder: Path) -> Callable[[str], Graph]:
    """Loads one of them by name."""
    return lambda name: gds.load(str(tf1_folder / f"{name}.pb"))
