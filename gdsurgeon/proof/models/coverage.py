"""What feeds have reached of a graph: both sides of comparisons, turns of loops, rows of tables, channels; as data.

After neuron coverage (Pei et al., DeepXplore, 2017): what is counted are the places where a graph does one thing or
another, and what a feed has made it do there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import or_
from typing import NamedTuple

from gdsurgeon.errors import Json
from gdsurgeon.runtime.statistics import Statistics


class Place(NamedTuple):
    """A place where a graph does one thing or another.

    Attributes:
        node: which.
        tensor: what decides.
        limit: it does one thing below this, and the other above.
    """

    node: str
    tensor: str
    limit: float


class Loop(NamedTuple):
    """A v1 while loop that is in no other.

    Attributes:
        node: its LoopCond.
        tensor: what comes out of it.
    """

    node: str
    tensor: str


class Lookup(NamedTuple):
    """A look-up in a constant: an embedding, or a table.

    Attributes:
        node: which.
        tensor: the rows, or the keys, that are asked for.
        rows: how many there are.
        keys: the tensor of a table's keys; '' where rows are asked for by their numbers.
    """

    node: str
    tensor: str
    rows: int
    keys: str


class Channels(NamedTuple):
    """The channels of an activation that gives nothing below zero.

    Attributes:
        node: which.
        tensor: what it reads.
        axis: that of the channels.
    """

    node: str
    tensor: str
    axis: int


class Places(NamedTuple):
    """What is looked at of a graph, by kinds."""

    sides: list[Place]
    loops: list[Loop]
    lookups: list[Lookup]
    channels: list[Channels]

    @property
    def tensors(self) -> list[str]:
        """What is fetched for it, each once."""
        keys = (lookup.keys for lookup in self.lookups if lookup.keys)
        found = (place.tensor for kind in self for place in kind)
        return list(dict.fromkeys([*found, *keys]))


@dataclass
class Coverage:
    """What feeds have reached.

    Attributes:
        places: where there is something to be reached.
        seen: of each place with two sides, whether it was seen below and above its limit.
        turns: by the LoopCond of a loop, how many turns it was seen to take: 0, 1, or 2 for more.
        rows: by the node of a look-up, what was asked for of what is there.
        alive: by the node of an activation, for each of its channels whether it was seen above zero.
        feeds: how many were run.
    """

    places: Places
    seen: dict[Place, tuple[bool, bool]] = field(default_factory=dict)
    turns: dict[str, set[int]] = field(default_factory=dict)
    rows: dict[str, set[object]] = field(default_factory=dict)
    alive: dict[str, bytes] = field(default_factory=dict)
    feeds: int = 0

    def note(self, place: Place, found: Statistics) -> None:
        """Counts what a tensor was."""
        if found.minimum is None or found.maximum is None:
            return
        below, above = self.seen.get(place, (False, False))
        self.seen[place] = below or found.minimum < place.limit, above or found.maximum > place.limit

    def note_turns(self, runs: Mapping[str, int]) -> None:
        """Counts the turns of loops, by how often each node ran: a condition is asked once more than it holds."""
        for loop in self.places.loops:
            if runs.get(loop.node):
                self.turns.setdefault(loop.node, set()).add(min(runs[loop.node] - 1, 2))

    def note_rows(self, lookup: Lookup, asked: Sequence[object], keys: Sequence[object]) -> None:
        """Counts what was ASKED for, of the KEYS of a table where it is one."""
        there = set(keys) if lookup.keys else range(lookup.rows)
        self.rows.setdefault(lookup.node, set()).update(item for item in set(asked) if item in there)

    def note_alive(self, node: str, alive: bytes) -> None:
        """Counts the channels of an activation that are above zero somewhere: 1 for each that is."""
        known = self.alive.get(node, bytes(len(alive)))
        self.alive[node] = bytes(map(or_, known, alive)) if len(known) == len(alive) else known

    @property
    def unreached(self) -> list[str]:
        """The places of which one side was not seen, and which, a phrase each."""
        out = []
        for place in self.places.sides:
            below, above = self.seen.get(place, (False, False))
            if not (below and above):
                side = "above" if below else "below" if above else "below or above"
                out.append(f"{place.node} {side} {place.limit:g}")
        return out

    @property
    def turns_missed(self) -> list[str]:
        """The loops that were not seen with 0, 1 and more turns, and which of these were not, a phrase each."""
        missing = {loop.node: {0, 1, 2} - self.turns.get(loop.node, set()) for loop in self.places.loops}
        words = ("0", "1", "more")
        return [
            f"{node} with {' or '.join(words[n] for n in sorted(turns))}" for node, turns in missing.items() if turns
        ]

    @property
    def channels(self) -> tuple[int, int]:
        """How many channels were seen above zero, and how many there are."""
        return sum(map(sum, self.alive.values())), sum(map(len, self.alive.values()))

    def as_json(self) -> dict[str, Json]:
        """For reports."""
        missing = self.unreached
        alive, channels = self.channels
        return {
            "places": len(self.places.sides),
            "both_sides": len(self.places.sides) - len(missing),
            "feeds": self.feeds,
            "unreached": list(missing),
            "loops": {loop.node: sorted(self.turns.get(loop.node, ())) for loop in self.places.loops},
            "rows": {
                lookup.node: {"there": lookup.rows, "asked": len(self.rows.get(lookup.node, ()))}
                for lookup in self.places.lookups
            },
            "channels": {"there": channels, "alive": alive},
            "dead_channels": {node: found.count(0) for node, found in self.alive.items() if 0 in found},
        }
