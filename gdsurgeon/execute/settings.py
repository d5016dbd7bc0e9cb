"""How graphs are to be run, as the user says it; nothing heavy is imported for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.errors import UsageError, quoted

DEFAULT_TIMEOUT = 300.0
"""Seconds that one step, loading or running, may take."""


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
    """

    device: str = "cpu"
    timeout: float = DEFAULT_TIMEOUT
    op_libraries: tuple[str, ...] = ()
    allow_ops: bool = False
    seed: int = 0
    samples: int = 2
    verbose: bool = False


@dataclass
class Overrides:
    """What a user says of feeds, by the placeholder's name.

    Attributes:
        values: texts; one that begins with ``@`` names a file.
        archive: an .npz file with values.
        shapes: full shapes.
    """

    values: dict[str, str] = field(default_factory=dict)
    archive: str | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def check_names(self, known: Iterable[str]) -> None:
        """Raises UsageError where a name is none of KNOWN."""
        names = set(known)
        for name in (*self.values, *self.shapes):
            if name not in names:
                raise UsageError(f"there is no placeholder {quoted(name)} to feed")
