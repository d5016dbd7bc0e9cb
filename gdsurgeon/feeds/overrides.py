"""The user's feeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gdsurgeon.arguments import Pairs, StrPath, pairs_of, path_of
from gdsurgeon.text import spelt_value
from gdsurgeon.values import Data

Feeds = Pairs[str, object]
"""Values by the placeholder's name: numbers, lists and arrays, or texts as on the command line (``@FILE.npy``)."""
Shapes = Pairs[str, Sequence[int]]
"""Full shapes by the placeholder's name."""


@dataclass(eq=False, repr=False)
class Overrides(Data):
    """The user's feeds, by the name of the placeholder.

    Attributes:
        values: texts (``@FILE`` names a file), or arrays.
        archive: an .npz file with values.
        shapes: full shapes.
        archive_keys: the name of a placeholder in the archive, if it differs.
    """

    values: dict[str, object] = field(default_factory=dict)
    archive: str | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    archive_keys: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Returns the names in `values` and `shapes`."""
        return [*self.values, *self.shapes]

    def renamed(self, names: Mapping[str, str]) -> Overrides:
        """Returns the overrides for renamed placeholders; `names` maps the old names to the new ones."""
        keys = {there: here for here, there in names.items()}
        values = {names.get(n, n): v for n, v in self.values.items()}
        shapes = {names.get(n, n): s for n, s in self.shapes.items()}
        return Overrides(values, self.archive, shapes, self.archive_keys | keys)

    def only(self, names: Collection[str]) -> Overrides:
        """Returns the overrides of `names` only."""
        values = {n: v for n, v in self.values.items() if n in names}
        shapes = {n: s for n, s in self.shapes.items() if n in names}
        return Overrides(values, self.archive, shapes, self.archive_keys)


def overrides_of(feeds: Feeds | None, archive: StrPath | None, shapes: Shapes | None) -> Overrides:
    """Returns the arguments of library functions as one object. A list becomes text; an array remains an array."""
    values = {name.removesuffix(":0"): _value(value) for name, value in pairs_of(feeds or ())}
    dims = {name.removesuffix(":0"): tuple(dims) for name, dims in pairs_of(shapes or ())}
    return Overrides(values, path_of(archive), dims)


def _value(value: object) -> object:
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    try:
        return spelt_value(value)
    except TypeError:
        return value
