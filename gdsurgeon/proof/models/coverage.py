"""What feeds reach: both sides of comparisons, clips and choices; and a search for feeds that reach more.

After neuron coverage (Pei et al., DeepXplore, 2017) and coverage-guided fuzzing (Odena et al., TensorFuzz, 2019): what
is counted are the places where a graph does one thing or another, and what a feed has made it do there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.errors import Json, printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.dtypes import FLOAT16, FLOAT32, FLOAT64
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import agrees, difference
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.subject import Feeds
from gdsurgeon.proof.trial import EDITED, ORIGINAL, ComparedPair, Fetch, nodes_of
from gdsurgeon.runtime.statistics import Statistics
from gdsurgeon.runtime.tensor import from_numpy

MOST_PLACES = 256
"""Places that are looked at: what is computed there is held in memory."""
FACTORS = (-1.0, 8.0, -8.0, 64.0, 0.125, -64.0, 512.0)
"""What feeds are multiplied by, one after another, while there is time."""
_RESULT, _MINE, _THEIRS = "coverage", "on further feeds", "on further feeds, the other"
_SIGN = ("Relu", "Elu", "Selu", "LeakyRelu", "Abs", "Sign", "Softplus")
_TRUTH = ("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "LogicalNot")
_CHOICE = ("Select", "SelectV2", "Where", "If", "StatelessIf", "Switch", "RefSwitch")


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


@dataclass
class Coverage:
    """What feeds have reached.

    Attributes:
        places: how many sides of places there are to be seen: two of each.
        seen: of each place, whether it was seen below and above its limit.
        feeds: how many were run.
    """

    places: list[Place]
    seen: dict[Place, tuple[bool, bool]] = field(default_factory=dict)
    feeds: int = 0

    def note(self, place: Place, found: Statistics) -> None:
        """Counts what a tensor was."""
        if found.minimum is None or found.maximum is None:
            return
        below, above = self.seen.get(place, (False, False))
        self.seen[place] = below or found.minimum < place.limit, above or found.maximum > place.limit

    @property
    def unreached(self) -> list[str]:
        """The places of which one side was not seen, and which, a phrase each."""
        out = []
        for place in self.places:
            below, above = self.seen.get(place, (False, False))
            if not (below and above):
                side = "above" if below else "below" if above else "below or above"
                out.append(f"{place.node} {side} {place.limit:g}")
        return out

    def as_json(self) -> dict[str, Json]:
        """For reports."""
        missing = self.unreached
        return {
            "places": len(self.places),
            "both_sides": len(self.places) - len(missing),
            "feeds": self.feeds,
            "unreached": list(missing),
        }


def places_of(graph: Graph, settings: Settings) -> list[Place]:
    """The places of GRAPH that can be looked at in a run; those in loops and functions cannot."""
    found: list[Place] = []
    for row, name in enumerate(graph.store.names):
        op = graph.store.table.op(row)
        if op in _SIGN or op == "Relu6":
            read = graph[name].inputs[0].name
            found += [Place(name, read, limit) for limit in ((0.0, 6.0) if op == "Relu6" else (0.0,))]
        elif op in _TRUTH:
            found.append(Place(name, name, 0.5))
        elif op in _CHOICE:
            slot = 1 if op in ("Switch", "RefSwitch") else 0
            found.append(Place(name, graph[name].inputs[slot].name, 0.5))
        if len(found) >= MOST_PLACES:
            break
    nodes = nodes_of(place.tensor for place in found)
    fetched = {parse_tensor(tensor).node for tensor in plan_with(settings, graph, nodes).fetches} if nodes else set()
    return [place for place in found if parse_tensor(place.tensor).node in fetched]


def covered(executor: Executor, coverage: Coverage, fed: Feeds) -> None:
    """Runs what decides at the places of COVERAGE on the feeds FED, and counts what it was. Raises Refused."""
    tensors = list(dict.fromkeys(place.tensor for place in coverage.places))
    if not tensors:
        return
    executor.wait(executor.run(ORIGINAL, _RESULT, fed, tensors))
    found = dict(zip(tensors, executor.statistics(_RESULT), strict=True))
    executor.drop(_RESULT)
    coverage.feeds += 1
    for place in coverage.places:
        coverage.note(place, found[place.tensor])


_FLOATS = (FLOAT16, FLOAT32, FLOAT64)


def search(executor: Executor, coverage: Coverage, fed: Feeds, seconds: float) -> Iterator[tuple[float, Feeds]]:
    """Covers FED, and then it with its floats multiplied, by one factor after another, until SECONDS have passed.

    Yields the factor and the feeds of each that the model takes. Raises Refused where it does not take FED.
    """
    covered(executor, coverage, fed)
    started = time.monotonic()
    values = {name: executor.fetched(value) for name, value in fed.items()} if seconds else {}
    for factor in FACTORS:
        if time.monotonic() - started > seconds or not seconds:
            return
        feeds: Feeds = {
            name: from_numpy(value.numpy() * value.numpy().dtype.type(factor)) if value.dtype in _FLOATS else value
            for name, value in values.items()
        }
        try:
            covered(executor, coverage, feeds)
        except Refused:
            continue  # a feed that the model does not take
        yield factor, feeds


class BothModels(NamedTuple):
    """Two models that have given the same, to be compared on further feeds.

    Attributes:
        pairs: what is compared.
        fed: what the other one was fed last.
        names: what inputs of the model are called in the other one, where that is another name.
        rtol, atol: by how much floats may differ.
    """

    pairs: Sequence[ComparedPair]
    fed: Feeds
    names: Mapping[str, str]
    rtol: float
    atol: float


def differing_on(executor: Executor, both: BothModels, feeds: Feeds) -> list[str]:
    """How the outputs differ on FEEDS, a line each; none where one of the models does not take them."""
    tried = [
        (pair, pair.mine.tensor)
        for pair in both.pairs
        if not pair.reason and isinstance(pair.mine, Fetch) and (pair.mine.run, pair.theirs.run) == (ORIGINAL, EDITED)
    ]
    if not tried:
        return []
    called = {both.names.get(name, name): value for name, value in feeds.items()}
    others = {**both.fed, **{name: value for name, value in called.items() if name in both.fed}}
    try:
        executor.wait(executor.run(ORIGINAL, _MINE, feeds, [tensor for _, tensor in tried]))
        executor.wait(executor.run(EDITED, _THEIRS, others, [pair.theirs.tensor for pair, _ in tried]))
    except Refused:
        return []
    places = [(i, i) for i in range(len(tried))]
    found = executor.comparisons(executor.compare(_MINE, _THEIRS, places, rtol=both.rtol, atol=both.atol))
    executor.drop(_MINE)
    executor.drop(_THEIRS)
    return [
        f"{printable(pair.after)}: {difference(each)}"
        for (pair, _), each in zip(tried, found, strict=True)
        if not agrees(each, both.rtol, both.atol)
    ]
