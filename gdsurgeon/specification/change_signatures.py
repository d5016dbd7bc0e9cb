"""signature: the signatures change as requested, and the graph is unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.surroundings import Place, Surroundings, Tensor
from gdsurgeon.graph.serving import PREDICT
from gdsurgeon.specification.surroundings import Expected

SIDES = ("input", "output", "default")


class Labelled(Protocol):
    """A tensor, its label and the key of its signature."""

    @property
    def name(self) -> str: ...
    @property
    def tensor(self) -> str: ...
    @property
    def key(self) -> str: ...


def violations(comparison: Comparison, **asked: object) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del asked  # see `around`
    yield from audit(comparison, Intent())


def around(
    expected: Expected,
    found: Surroundings,
    *,
    renamed: Sequence[tuple[str, str]] = (),
    removed: Sequence[str] = (),
    inputs: Sequence[Labelled] = (),
    outputs: Sequence[Labelled] = (),
) -> Iterator[str]:
    """Changes the expected signatures; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    del found
    for item in removed:
        expected.drop(*_places(expected, item))
    for old, new in renamed:
        for place in _places(expected, old):
            expected.move(place, (*place[:-1], new))
    for side, tensors in zip(SIDES, (inputs, outputs), strict=False):
        for tensor in tensors:
            add_tensor(expected, side, tensor)
    yield from ()


def add_tensor(expected: Expected, side: str, item: Labelled) -> None:
    """Adds an input or output of a signature, with the dtype and shape that it has in the graph."""
    expected.values.setdefault(("signature", item.key, "method"), PREDICT)
    node, _, index = item.tensor.partition(":")
    expect_tensor(expected, ("signature", item.key, side, item.name), node, index)
    expected.free.add(("signature", item.key, "default", item.name))


def expect_tensor(expected: Expected, place: Place, node: str, index: str) -> None:
    """Adds a tensor at `place`, with the dtype and shape that it has in the graph."""
    named = (*place, "tensor")
    expected.values[named] = Tensor(f"{node}:{index or 0}")
    expected.free.update(((*place, "dtype"), (*place, "shape")))


def _places(expected: Expected, item: str) -> list[Place]:
    """Returns the places of `item`, a key or ``KEY/name``."""
    if ("signature", item, "method") in expected.values:
        return [("signature", item)]
    key, _, name = item.partition("/")
    places: list[Place] = [("signature", key, side, name) for side in SIDES]
    return [place for place in places if any(found[:4] == place for found in expected.values)]
