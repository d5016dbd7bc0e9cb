"""What a user says of feeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gdsurgeon.values import Data


@dataclass(eq=False, repr=False)
class Overrides(Data):
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
