"""Compares two graphs: finds which node became which, and what is different."""

from __future__ import annotations

from collections.abc import Collection

from gdsurgeon.arguments import public
from gdsurgeon.compare.difference import Difference, describe
from gdsurgeon.compare.functions import compare_functions
from gdsurgeon.compare.match import match
from gdsurgeon.compare.surroundings import compare_surroundings
from gdsurgeon.container.load import Model
from gdsurgeon.container.surroundings import Place
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.source import Source

_PIECE = 1 << 20


def diff_models(one: Model, other: Model, ignore: Collection[str] = ()) -> Difference:
    """What is different between the graphs of two models, and around them. See `diff`."""
    out = diff(one.graph, other.graph, ignore)
    if one.container is not None and other.container is not None:
        names = {old: new for i, j in out.matching.pairs() for old, new in [out.names(i, j)]} if out.matching else {}
        found = compare_surroundings(one.container, other.container, names)
        out.around = [item for item in found if not _is_told(item.place)]
    return out


def _is_told(place: Place) -> bool:
    """Returns whether the differences of signatures report `place`."""
    return place[0] == "signature" and (len(place) == 2 or place[-1] == "tensor")


@public
def diff(a: Graph, b: Graph, ignore: Collection[str] = ()) -> Difference:
    """What is different between A and B, each as it is in memory.

    Args:
        a, b: the graphs.
        ignore: what does not count: names, weights (values that training sets), shapes; see `IGNORABLE`.

    Raises:
        InputError: one of them is broken.
    """
    a, b = a.written(), b.written()
    out = Difference(a, b)
    if a.serving is None and b.serving is None and are_same_bytes(a.source, b.source):
        return out
    out.matching = match(a, b)
    called = compare_functions(out, ignore)
    describe(out, called, ignore)
    return out


def are_same_bytes(one: Source, other: Source) -> bool:
    """Returns whether both sources have the same bytes; reading stops at the first difference."""
    if one.size != other.size:
        return False
    pieces = ((at, min(_PIECE, one.size - at)) for at in range(0, one.size, _PIECE))
    return all(one.read(*piece) == other.read(*piece) for piece in pieces)
