from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.workers import lent_worker

from gdsurgeon.runtime.client import Worker


@pytest.fixture(scope="module")
def capi_worker() -> Iterator[Worker]:
    with lent_worker(runtime="capi") as worker:
        yield worker


@pytest.fixture(scope="module")
def python_worker() -> Iterator[Worker]:
    with lent_worker(runtime="python") as worker:
        yield worker


@pytest.fixture(params=["capi", "python"])
def worker(request: pytest.FixtureRequest) -> Worker:
    """A worker of each kind that lives through all tests: they must not kill it."""
    found: Worker = request.getfixturevalue(f"{request.param}_worker")
    return found
