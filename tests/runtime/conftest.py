from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.workers import lent_worker

from gdsurgeon.runtime.client import Worker


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A worker that lives through all tests: they must not kill it."""
    with lent_worker() as found:
        yield found
