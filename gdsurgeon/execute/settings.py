"""How graphs are to be run, as the user says it; nothing heavy is imported for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
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
        target: a ``grpc://host:port`` of the TensorFlow server that runs them; '' is this machine.
    """

    device: str = "cpu"
    timeout: float = DEFAULT_TIMEOUT
    op_libraries: tuple[str, ...] = ()
    allow_ops: bool = False
    seed: int = 0
    samples: int = 2
    verbose: bool = False
    target: str = ""


@dataclass
class Overrides:
    """What a user says of feeds, by the placeholder's name.

    Attributes:
        values: texts; one that begins with ``@`` names a file.
        archive: an .npz file with values.
        shapes: full shapes.
        archive_keys: what a placeholder is called in the archive, where that is not its own name.
    """

    values: dict[str, str] = field(default_factory=dict)
    archive: str | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    archive_keys: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """The names in `values` and `shapes`."""
        return [*self.values, *self.shapes]

    def renamed(self, names: Mapping[str, str]) -> Overrides:
        """The same for placeholders that are called otherwise: NAMES maps a name here to the one there."""
        keys = {there: here for here, there in names.items()}
        return Overrides(
            {names.get(n, n): v for n, v in self.values.items()},
            self.archive,
            {names.get(n, n): s for n, s in self.shapes.items()},
            {**self.archive_keys, **keys},
        )

    def only(self, names: Collection[str]) -> Overrides:
        """What is said of NAMES."""
        return Overrides(
            {n: v for n, v in self.values.items() if n in names},
            self.archive,
            {n: s for n, s in self.shapes.items() if n in names},
            self.archive_keys,
        )
