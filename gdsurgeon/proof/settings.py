"""The settings of runs, and the progress of an operation; this module imports nothing large."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

DEFAULT_TIMEOUT = 300.0
"""The number of seconds that one step, loading or running, may take."""


def is_cpu(device: str) -> bool:
    """Returns whether a device of the settings is the CPU."""
    return device == "cpu" or device.startswith("/device:CPU")


class Settings(NamedTuple):
    """How and where graphs run.

    Attributes:
        device: ``cpu``, ``gpu`` or a device name such as ``/device:GPU:1``.
        timeout: seconds for one step.
        op_libraries: libraries of custom ops.
        allow_ops: whether ops that access files, networks or Python may run.
        seed: for generated feeds.
        samples: the number of feeds.
        verbose: whether TensorFlow's own log is printed to standard error.
        reads: files and folders that the graphs may read: a checkpoint, assets.
        release: the folder with the libraries of a different release, see `gdsurgeon.runtime.packages.unpacked`; or a
            different engine, see `gdsurgeon.runtime.worker.open_runtime`.
        onednn: whether TensorFlow may use kernels of oneDNN.
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

    def reading(self, paths: Iterable[str]) -> Settings:
        """Returns the settings for graphs that may also read `paths`."""
        return self._replace(reads=tuple(dict.fromkeys((*self.reads, *paths))))


class Event(NamedTuple):
    """The beginning of a step.

    Attributes:
        step: in this order ``waiting`` for a different process that replaces the model, ``loading``, ``checking``,
            ``editing``, ``staging``, ``proving``, for each sample ``running`` and ``comparing``, ``searching``,
            ``measuring``, ``publishing``.
        sample, samples: the number of the sample from 1, and of all samples; 0 in other steps.
    """

    step: str
    sample: int = 0
    samples: int = 0


Progress = Callable[[Event], None]
"""Is called with every event by the thread that does the work; an exception ends the operation."""


def silent(_event: Event) -> None:
    """Ignores events."""
