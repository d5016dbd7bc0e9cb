"""What an operation is at: events for whoever waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

STEPS = (
    "waiting", "loading", "checking", "editing", "staging", "proving", "running", "comparing", "searching",
    "publishing",
)  # fmt: skip
"""In the order in which they come; waiting is for another run that replaces the model, running and comparing are once
for every sample."""


class Event(NamedTuple):
    """What begins now: one of `STEPS`, and of which sample, counted from 1, of how many; 0 where that says nothing."""

    step: str
    sample: int = 0
    samples: int = 0


Progress = Callable[[Event], None]
"""Is called with every event, by the thread that does the work: what it raises ends the operation."""


def silent(_event: Event) -> None:
    """For those who wait for nothing but the end."""
