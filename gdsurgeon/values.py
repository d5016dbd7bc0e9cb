"""What classes of data share."""

from __future__ import annotations


class Data:
    """Data: equal to another of its class with equal fields, and shown as what makes it.

    A subclass is a ``dataclass(eq=False, repr=False)``: to have these two made for each class, as a plain dataclass
    does, takes longer than a small edit.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"
