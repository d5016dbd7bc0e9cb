"""signature: the graph stays as it is; the signatures are renamed, removed and added to as was asked for."""

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
    """Has EXPECTED be what was asked for; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
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
    """Has EXPECTED have ITEM as an input or an output: its dtype and shape are those of the graph."""
    expected.values.setdefault(("signature", item.key, "method"), PREDICT)
    place = ("signature", item.key, side, item.name)
    node, _, index = item.tensor.partition(":")
    named = (*place, "tensor")
    expected.values[named] = Tensor(f"{node}:{index or 0}")
    expected.free.update(((*place, "dtype"), (*place, "shape"), ("signature", item.key, "default", item.name)))


def _places(expected: Expected, item: str) -> list[Place]:
    """The places of ITEM, a key or ``KEY/name``."""
    if ("signature", item, "method") in expected.values:
        return [("signature", item)]
    key, _, name = item.partition("/")
    places: list[Place] = [("signature", key, side, name) for side in SIDES]
    return [place for place in places if any(found[:4] == place for found in expected.values)]
