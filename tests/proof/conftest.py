"""What must hold after every proof."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.failing import children


@pytest.fixture
def no_child_is_left() -> Iterator[None]:
    """No process is there in the end that was not there before."""
    before = set(children())
    yield
    assert set(children()) <= before
