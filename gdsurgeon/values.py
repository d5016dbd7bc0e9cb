"""Base classes of data and of objects that are closed, and the tolerance of comparisons."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sized
from typing import NamedTuple, TypeVar


class Data:
    """Data: two objects of a class are equal if their fields are equal; a `repr` shows the fields that are not empty.

    A subclass is a ``dataclass(eq=False, repr=False)``: generating both methods for each class, as a plain dataclass
    does, takes longer than a small edit.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = {key: value for key, value in vars(self).items() if value is not None}
        shown = ", ".join(f"{k}={short(v)}" for k, v in fields.items() if not isinstance(v, Sized) or len(v))
        return f"{type(self).__name__}({shown if len(shown) <= MOST_SHOWN else shown[:MOST_SHOWN] + '...'})"


MOST_SHOWN = 1000
"""Characters of the fields that a `repr` shows."""
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxother, _SHORT.maxstring = 3, 120, 80
"""Shows a value in a line: a notebook shows what the last line of a cell returns."""


def short(value: object) -> str:
    """Returns the `repr` of `value` in one line: at most three levels, with the first items of each."""
    return " ".join(_SHORT.repr(value).split("\n"))


class Tolerance(NamedTuple):
    """By how much two floating-point tensors may differ; by default, not at all.

    Attributes:
        rtol, atol: |a - b| <= atol + rtol * max(|a|, |b|) for each element.
        of_largest: max |a - b| <= of_largest * max |b|, where b is the tensor of the original. With `rtol` and `atol`,
            one of both conditions is enough.
    """

    rtol: float = 0.0
    atol: float = 0.0
    of_largest: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether tensors must be bit-identical."""
        return not any(self)


EXACT = Tolerance()


def widest(tolerances: Iterable[Tolerance]) -> Tolerance:
    """Returns the largest value of each field; EXACT without tolerances."""
    return Tolerance(*map(max, zip(EXACT, *tolerances, strict=True)))


class Closing:
    """An object that is closed at the end of a ``with`` block, also after an exception."""

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the files and processes of the object."""
        raise NotImplementedError


Own = TypeVar("Own", bound=Closing)
