"""Compares the surroundings of two graphs place by place, and replaces the names in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from gdsurgeon.container.container import Container
from gdsurgeon.container.surroundings import (
    INITIALISERS,
    UNREACHABLE,
    Function,
    Node,
    Place,
    Surroundings,
    Tensor,
    Value,
    surroundings,
)
from gdsurgeon.errors import Json, printable
from gdsurgeon.graph.names import renaming
from gdsurgeon.graph.serving import INIT
from gdsurgeon.text import shortened

Spell = Callable[[str], "str | None"]
"""Returns the new name of a node, a tensor or ``^node``; None if it was removed."""
MOST_SHOWN = 160


class Difference(NamedTuple):
    """A place with different values; None: one of the two does not have the place."""

    place: Place
    before: Value | None
    after: Value | None

    @property
    def text(self) -> str:
        """The difference in one line."""
        where = printable(": ".join(self.place))  # such as "signature serving_default: output y: tensor"
        if self.before is None:
            return f"{where}: {shown(self.after)} was added"
        if self.after is None:
            return f"{where}: {shown(self.before)} was removed"
        return f"{where}: {shown(self.after)} instead of {shown(self.before)}"

    def as_json(self) -> dict[str, Json]:
        """Returns the difference as JSON."""
        return {"place": list(self.place), "before": _json(self.before), "after": _json(self.after)}


def differences(before: Surroundings, after: Surroundings, free: Iterable[Place] = ()) -> list[Difference]:
    """Returns the places where `before` and `after` differ, except the places `free` and places below them.

    Objects and functions that no loader reaches are not compared.
    """
    loose = frozenset(free)
    out = []
    for place in dict.fromkeys((*before, *after)):
        was, now = before.get(place), after.get(place)
        is_reached = place[0] != "function" and not (place[0] == "object" and place[1].startswith(UNREACHABLE))
        if was != now and is_reached and loose.isdisjoint(place[:n] for n in range(1, len(place) + 1)):
            out.append(Difference(place, was, now))
    return out


# -- names -----------------------------------------------------------------------------------------------------

_GONE = object()


def respelt(found: Surroundings, nodes: Spell, functions: Callable[[str], str] = str) -> Surroundings:
    """Returns the surroundings with the names that `nodes` and `functions` return.

    Removed names are left out of lists, and so are records with such names. A place that requires a removed name is
    left out.
    """

    def spelt(value: Value) -> object:
        """Returns `value` with the present names, or `_GONE`."""
        if isinstance(value, (Node, Tensor)):
            name = nodes(value)
            return _GONE if name is None else type(value)(name)
        if isinstance(value, Function):
            return Function(functions(value))
        if isinstance(value, tuple):
            items = [now for item in value if (now := spelt(item)) is not _GONE]
            is_map = all(isinstance(item, dict) and [*item] == ["key", "value"] for item in items)
            return tuple(sorted(items, key=lambda item: str(item["key"])) if is_map else items)  # type: ignore[index]
        return record(value) if isinstance(value, dict) else value

    def record(before: dict[str, Value]) -> object:
        out = {key: spelt(value) for key, value in before.items()}
        has_lost = _GONE in out.values()
        if isinstance(captures := before.get("captures"), tuple):
            has_lost |= len(captures) != len(out["captures"])  # type: ignore[arg-type]
        if before.get("message") == "QueueRunnerDef" and before.get("enqueue_op_name"):
            has_lost |= not out["enqueue_op_name"]  # nothing fills the queue any more
        return _GONE if has_lost else {key: value for key, value in out.items() if value != () or before[key] == ()}

    values = ((place, spelt(value)) for place, value in found.items())
    return {place: value for place, value in values if value is not _GONE}  # type: ignore[misc]


# -- words -----------------------------------------------------------------------------------------------------


def shown(value: Value | None) -> str:
    """Returns a value as short text."""
    return printable(shortened(_plainly(value), MOST_SHOWN))


def _plainly(value: Value | None) -> str:
    if isinstance(value, str):
        return value or "''"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_plainly, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_plainly(item)}" for key, item in value.items()) + "}"
    return str(value)


def _json(value: Value | None) -> Json:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return str(value) if isinstance(value, str) else value


# -- two models ------------------------------------------------------------------------------------------------

_SERVED = frozenset(("signature", "initialiser", "asset"))
"""The places with differences that clients of a loader notice."""


def compare_surroundings(
    one: Container, other: Container, names: Mapping[str, str], keys: Collection[str] = ()
) -> list[Difference]:
    """Returns the differences between the surroundings of two models.

    Functions are compared by name only if the libraries of both have them: exporters number functions.

    Args:
        one, other: the models.
        names: the names in `other` of nodes of `one`, if they differ.
        keys: the signatures to compare; empty: all.
    """
    a, b = (surroundings(model.meta, model.folder) for model in (one, other))
    functions = {f.signature.name for f in one.graph.functions} & {f.signature.name for f in other.graph.functions}

    def library(name: str) -> str:
        return name if name in functions else ""

    before, after = _comparable(respelt(a, renaming(names), library)), _comparable(respelt(b, str, library))
    there = [{place[1] for place in side if place[0] == "signature"} for side in (before, after)]
    has_objects = [any(place[0] == "object" for place in side) for side in (before, after)]
    left_out = {("signature", key) for key in there[0] | there[1] if keys and key not in keys}
    alone = sorted(("signature", key) for key in there[0] ^ there[1] if not keys or key in keys)
    found = [Difference(place, *("signature" if place[1] in side else None for side in there)) for place in alone]
    others = differences(before, after, {*left_out, *alone})
    found += [item for item in others if item.place[0] != "meta info"]  # which describes the exporter
    if all(has_objects) or not any(has_objects):
        return found
    sides = ["objects" if there else None for there in has_objects]
    return [item for item in found if item.place[0] != "object"] + [Difference(("object",), *sides)]


def _comparable(found: Surroundings) -> Surroundings:
    """Returns the surroundings with the initializer of a loader in one place, whatever its key."""
    ways = [place for place in found if place[0] == "initialiser"]
    out = {place: value for place, value in found.items() if place not in ways}
    for key in (INIT, *INITIALISERS[:2]):
        if found.get(("initialiser", key)):
            out["initialiser",] = found["initialiser", key]
            break
    return out | {place: found[place] for place in ways if place[1] == INITIALISERS[2]}


def changes_what_is_served(item: Difference) -> bool:
    """Returns whether a difference affects clients that use the model through a loader."""
    place = item.place
    if place[0] == "object" and len(place) > 2:
        return place[2].startswith("function ") or (place[2].startswith("child") and place[1].endswith(".signatures"))
    is_more = item.before is None and place[0] == "signature" and place[2:3] != ("input",)
    return place[0] in _SERVED and not is_more
