"""The fixtures in the repository, as models to look at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.paths import FIXTURES


@pytest.fixture
def fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of the fixtures, in which the test is."""
    for file in FIXTURES.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
