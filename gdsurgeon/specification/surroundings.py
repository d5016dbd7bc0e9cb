"""The expected surroundings of a model: those before the edit with the new names, and the requested changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from gdsurgeon.compare.intent import Intent
from gdsurgeon.compare.surroundings import Difference, differences, respelt
from gdsurgeon.container.meta_graph import MAIN_OP
from gdsurgeon.container.objects import SIGNATURE_MAP
from gdsurgeon.container.surroundings import Place, Surroundings
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import INIT
from gdsurgeon.specification.specify import Asked, specification_of


class Expected(NamedTuple):
    """The expected surroundings.

    Attributes:
        graph: before the edit, as it is in its file.
        now: after the edit, as it is written.
        was: the surroundings before the edit, as they are in the file.
        values: by place; a specification changes them.
        free: places that may have any value, and all places below them: other checks are about these.
    """

    graph: Graph
    now: Graph
    was: Surroundings
    values: Surroundings
    free: set[Place]

    def drop(self, *begins: Place) -> None:
        """Removes the places that begin with one of BEGINS."""
        for place in [p for p in self.values if any(p[: len(begin)] == begin for begin in begins)]:
            del self.values[place]

    def move(self, old: Place, new: Place) -> None:
        """Replaces the beginning `old` of places by `new`."""
        for place in [place for place in self.values if place[: len(old)] == old]:
            moved = (*new, *place[len(old) :])
            self.values[moved] = self.values.pop(place)


class Around(NamedTuple):
    """How the surroundings are written, independent of the edit.

    Attributes:
        touched: keys of signatures that are computed by other nodes: their functions, and the dtypes and shapes of
            their tensors, may be others.
        as_v1: whether the objects of TensorFlow 2 are left out.
    """

    touched: Collection[str] = ()
    as_v1: bool = False


def unchanged(before: Surroundings, graph: Graph, now: Graph, intent: Intent) -> Expected:
    """Returns the surroundings `before` the edit with the names of `intent`; `graph` and `now` as in `Expected`."""
    values = respelt(before, names_after(graph, intent), lambda name: intent.renamed_functions.get(name, name))
    expected = Expected(graph, now, before, values, set())
    if not before.get(("tags",)) and any(place[0] == "saver" and place not in values for place in before):
        expected.drop(("saver",))  # of a MetaGraph: the saver needs all its nodes
    return expected


def wrong_surroundings(
    expected: Expected, found: Surroundings, asked: Asked | None, how: Around
) -> Iterator[Difference | str]:
    """Yields the differences between the surroundings `found` after an edit and the expected ones.

    Args:
        expected: those before the edit, see `unchanged`; they become those that were asked for.
        found: after the edit.
        asked: the request.
        how: else they are written.
    """
    around = specification_of(f"around_{asked.edit}") if asked is not None else None
    if around is not None and asked is not None:
        yield from around(expected, found, **asked.arguments)
    if how.as_v1:
        expected.drop(("object",), ("function",))
        expected.move(("initialiser", INIT), ("initialiser", MAIN_OP))
    _settle_signatures(expected, how.touched)
    there = respelt(found, lambda text: text if _node(text) in expected.now else None)
    yield from differences(expected.values, there, expected.free)


def names_after(graph: Graph, intent: Intent) -> Callable[[str], str | None]:
    """Returns a function that returns the new name of a node, a tensor or ``^node``; None if it is removed."""
    added, removed = frozenset(intent.added), frozenset(intent.removed)

    def after(text: str) -> str | None:
        control = "^" if text[:1] == "^" else ""
        node, colon, index = text[len(control) :].partition(":")
        if graph.find(node) is None:
            return None
        if node in added and node not in intent.renamed:
            return text  # a new node has the name and replaces the node
        if node in removed:
            return None
        now = node if node in added else intent.renamed.get(node, node)
        return f"{control}{now}{colon}{index}"

    return after


def _node(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def _settle_signatures(expected: Expected, touched: Collection[str]) -> None:
    """Frees the dtypes and shapes of the signatures `touched`; the objects must have the present signatures."""
    values, free = expected.values, expected.free
    keys = {place[1] for place in values if place[0] == "signature"}
    for place in [place for place in values if place[0] == "signature" and place[1] in touched]:
        if place[-1] in ("dtype", "shape") and len(place) == 5:
            free.add(place)
    free.update(("signature", key, "default") for key in touched)
    maps = [place[1] for place, value in values.items() if place[0] == "object" and value == SIGNATURE_MAP]
    for path in maps:
        known = {place[2].removeprefix("child ") for place in values
                 if place[:2] == ("object", path) and place[2].startswith("child ")}  # fmt: skip
        for key in known - keys:
            expected.drop(("object", path, f"child {key}"), ("object", f"{path}.{key}"))
        for key in {*touched} | (keys - known if touched else set()):
            places = ("object", path, f"child {key}"), ("object", f"{path}.{key}")
            expected.drop(*places)
            free.update(places)
