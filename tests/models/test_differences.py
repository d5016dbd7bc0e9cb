"""Published graphs with one small change: each is named, whatever a run of it would show."""

from __future__ import annotations

import pytest
from support.published import ABSENT, EXECUTABLE, FOLDER
from support.small_changes import unnamed

import gdsurgeon as gds
from gdsurgeon.wire.write import read_chunks

pytestmark = [pytest.mark.models, pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)]


@pytest.mark.parametrize("name", EXECUTABLE)
def test_a_small_change_is_named(name: str) -> None:
    data = read_chunks(gds.load(str(FOLDER / name)).chunks())
    assert unnamed(data, 1 if len(data) > 1 << 20 else 3) == []
