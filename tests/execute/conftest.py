from __future__ import annotations

from collections.abc import Iterator

import pytest

from gdsurgeon.execute.executor import Executor
from gdsurgeon.execute.settings import Settings


@pytest.fixture(scope="session")
def executor() -> Iterator[Executor]:
    """A process that lives through all tests: they must not kill it."""
    with Executor(Settings(timeout=120)) as started:
        yield started
