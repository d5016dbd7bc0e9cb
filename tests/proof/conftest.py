"""What must hold after every proof."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.failing import children
from support.workers import idle_workers


@pytest.fixture
def no_child_is_left() -> Iterator[None]:
    """No process is there in the end that was not there before, and every worker that was lent is given back."""
    before = set(children()) - idle_workers()
    yield
    assert set(children()) - idle_workers() <= before
