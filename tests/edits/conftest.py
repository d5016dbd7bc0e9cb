"""Models for the tests of add-gradients."""

from __future__ import annotations

from typing import Any

import pytest
from support.adding_gradients import Lab

from gdsurgeon.runtime.evaluator import Differentiator


@pytest.fixture
def lab(tf: Any, differentiator: Differentiator) -> Lab:
    return Lab(tf, differentiator)
