"""The targets of rows, and whether a row reaches its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench_support.measure import Measured

MB = 1_000_000
NOISE = 0.02  # seconds below which a difference between two sizes says nothing


@dataclass(frozen=True)
class Target:
    """Bounds on the first contender of a row; only those given apply.

    `times` and `plus` (seconds) are measured against the contender labelled `peer`, and so is
    `less`: how many times its memory that must be. Where several labels begin so, it is the slowest of them.
    """

    times: float | None = None
    plus: float | None = None
    peer: str = "cp"
    seconds: float | None = None
    megabytes: float | None = None
    less: float | None = None

    def __str__(self) -> str:
        bounds = []
        if self.less is not None:
            bounds.append(f">= {self.less:.3g} x less memory than {self.peer}")
        if self.times is not None:
            bounds.append(f"<= {self.times:.3g} x {self.peer}")
        if self.plus is not None:
            bounds.append(f"<= {self.peer} + {duration(self.plus)}")
        if self.seconds is not None:
            bounds.append(f"<= {duration(self.seconds)}")
        if self.megabytes is not None:
            bounds.append(f"<= {self.megabytes:g} MB")
        return ", ".join(bounds)

    def met(self, results: Sequence[Measured]) -> bool | None:
        """Whether every bound holds; None where it cannot be told."""
        subject = results[0]
        if not subject.samples:
            return None
        measured: list[tuple[float | None, float | None]] = [
            (self.seconds, subject.seconds),
            (self.megabytes, subject.rss / MB),
        ]
        if self.times is not None or self.plus is not None:
            peer = named(results, self.peer)
            measured += [(self.times, subject.ratio(peer)), (self.plus, subject.excess(peer))]
        if self.less is not None:
            measured.append((1 / self.less, subject.rss / named(results, self.peer).rss))
        bounded = [(bound, value) for bound, value in measured if bound is not None]
        if any(value is not None and value > bound for bound, value in bounded):
            return False
        return None if any(value is None for _, value in bounded) else True


@dataclass(frozen=True)
class Growth:
    """Bounds how much dearer a further node (or byte) is in the large model than in the middle one.

    The first three contenders do the same work on a tiny, a middle and a large model. Where three
    more follow, they are cp on the same files, and what cp itself grows by is allowed for.
    """

    sizes: tuple[int, int, int]
    unit: str
    times: float = 1.3

    def __str__(self) -> str:
        return f"<= {self.times:g} x linear"

    def slope(self, results: Sequence[Measured]) -> float | None:
        """Cost of a further unit from middle to large over that from tiny to middle."""
        if not all(result.samples for result in results):
            return None
        tiny, middle, large = (result.seconds for result in results)
        if middle - tiny < NOISE:
            return None
        first = (middle - tiny) / (self.sizes[1] - self.sizes[0])
        return (large - middle) / (self.sizes[2] - self.sizes[1]) / first

    def bound(self, results: Sequence[Measured]) -> float:
        own = self.slope(results[3:6]) if len(results) >= 6 else None
        return self.times * max(1.0, own or 1.0)

    def met(self, results: Sequence[Measured]) -> bool | None:
        slope = self.slope(results[:3])
        return None if slope is None else slope <= self.bound(results)

    def detail(self, results: Sequence[Measured]) -> str:
        slope = self.slope(results[:3])
        if slope is None:
            return "cannot be told"
        text = f"{slope:.2f} x linear per {self.unit}"
        own = self.slope(results[3:6]) if len(results) >= 6 else None
        return f"{text} (cp {own:.2f})" if own is not None else text


def named(results: Sequence[Measured], label: str) -> Measured:
    """Returns the contender with this label, or else the slowest contender whose label begins with it."""
    found = [result for result in results if result.contender.label == label]
    found = found or [result for result in results if result.contender.label.startswith(label)]
    return max(found, key=lambda result: result.seconds if result.samples else 0.0)


def duration(seconds: float) -> str:
    """Three figures at most, in the unit that suits."""
    if abs(seconds) < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"
