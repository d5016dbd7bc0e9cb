from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.aside import ran_aside

import gdsurgeon as gds
from gdsurgeon.graph.graph import Graph


@pytest.fixture(scope="session")
def tf1_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graphs that `tf1_graphs.py` builds."""
    folder = tmp_path_factory.mktemp("tf1_graphs")
    said = ran_aside("support.tf1_graphs", str(folder))
    assert not said, said
    return folder


@pytest.fixture
def tf1_graph(tf1_folder: Path) -> Callable[[str], Graph]:
    """Loads one of them by name."""
    return lambda name: gds.load(str(tf1_folder / f"{name}.pb"))
