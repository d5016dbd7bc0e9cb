"""Comparisons of published graphs with graphs that have one small change."""

from __future__ import annotations

import pytest
from support.mutations import unnamed
from support.published import EXECUTABLE, FOLDER, needs_models

import gdsurgeon as gds
from gdsurgeon.wire.write import read_chunks

pytestmark = needs_models


@pytest.mark.parametrize("name", EXECUTABLE)
def test_a_small_change_is_named(name: str) -> None:
    data = read_chunks(gds.load(str(FOLDER / name)).chunks())
    assert unnamed(data, 1 if len(data) > 1 << 20 else 3) == []
