"""How graphs are to be run, as the user says it; nothing heavy is imported for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

DEFAULT_TIMEOUT = 300.0
"""Seconds that one step, loading or running, may take."""


def is_cpu(device: str) -> bool:
    """Whether a device, as the settings name it, is the CPU."""
    return device == "cpu" or device.startswith("/device:CPU")


class Settings(NamedTuple):
    """How and where graphs are run.

    Attributes:
        device: ``cpu``, ``gpu`` or a device name such as ``/device:GPU:1``.
        timeout: seconds for one step.
        op_libraries: libraries of custom ops.
        allow_ops: whether ops that reach files, networks or Python may be run.
        seed: of the feeds.
        samples: feeds tried.
        verbose: whether TensorFlow's own log goes to standard error.
        reads: files and folders that the graphs may read: a checkpoint, assets.
        release: the folder of the libraries of another release that runs them, see `gdsurgeon.runtime.released`; or
            another engine, see `gdsurgeon.runtime.engines.opened.open_engine`.
        onednn: whether TensorFlow may take kernels of oneDNN, as it does where it is not told otherwise.
    """

    device: str = "cpu"
    timeout: float = DEFAULT_TIMEOUT
    op_libraries: tuple[str, ...] = ()
    allow_ops: bool = False
    seed: int = 0
    samples: int = 2
    verbose: bool = False
    reads: tuple[str, ...] = ()
    release: str = ""
    onednn: bool = True


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
