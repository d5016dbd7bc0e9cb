"""Fixtures for the tests of published models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from gdsurgeon.wire import text


@pytest.fixture(scope="package", autouse=True)
def texts_are_read_once() -> Iterator[None]:
    """A model in the form of text is parsed by the first of the tests that load it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "to_binary", cache(text.to_binary))
        yield
