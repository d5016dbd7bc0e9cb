"""What classes share: of data, and of what is closed."""

from __future__ import annotations

from typing import TypeVar


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


class Closing:
    """What is closed at the end of a ``with`` block, however that ends."""

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives up what it holds."""
        raise NotImplementedError


Own = TypeVar("Own", bound=Closing)
