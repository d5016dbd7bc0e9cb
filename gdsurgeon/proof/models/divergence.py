"""Where two models begin to differ: tensors compared in topological order, in chunks that memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import Json, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import base_dtype, element_size
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.models.node_difference import node_differences
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import agrees, difference
from gdsurgeon.proof.subject import Feeds
from gdsurgeon.proof.trial import EDITED
from gdsurgeon.runtime.compare import Comparison
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor

CHUNK_BYTES = 256 << 20
"""Bytes of tensors that are held of each graph at a time, as far as shapes can be foreseen."""
CHUNK_TENSORS = 2000
UNKNOWN_BYTES = 1 << 20
"""What a tensor of unknown shape is taken for."""
MOST_GUILTY = 20


class TensorPair(NamedTuple):
    """A tensor of the model and its partner in the other one; SOURCE numbers the reference that the first is of."""

    before: str
    after: str
    source: int = 0


class ModelSide(NamedTuple):
    """A graph with which the other model is compared: the model itself, or what stands before or behind it.

    Attributes:
        key: its name in the executor.
        graph: as it is in its file.
        feeds: what it is fed.
        partner: for a tensor of the other model the one of this graph, or None.
        counterpart: what a tensor of this graph is called in the other model.
    """

    key: str
    graph: Graph
    feeds: Feeds
    partner: Callable[[str], str | None]
    counterpart: Callable[[str], str]


class DifferingOutput(NamedTuple):
    """An output of the two that differs, and how."""

    before: str
    after: str
    comparison: Comparison


class Differing(NamedTuple):
    """What differs between two models.

    Attributes:
        outputs: those that do; what they do not depend on is not looked at.
        feeds: what the other model was fed.
        rtol, atol: by how much floats may differ.
    """

    outputs: Sequence[DifferingOutput]
    feeds: Feeds
    rtol: float = 0.0
    atol: float = 0.0


class Guilty(NamedTuple):
    """A node whose inputs agree and of whose outputs one does not.

    Attributes:
        node: in the other model.
        op: of it.
        tensor: what differs, in both models.
        text: how, in words.
        comparison: the same in figures.
        inputs: the nearest tensors above it that were compared, and agree.
        between: nodes between those and it that have no partner or cannot be fetched.
        why: what is different about the node as the files have it.
    """

    node: str
    op: str
    tensor: TensorPair
    text: str
    comparison: Comparison
    inputs: tuple[TensorPair, ...]
    between: tuple[str, ...]
    why: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        """For reports."""
        return {
            "node": self.node,
            "op": self.op,
            "tensor": self.tensor.after,
            "counterpart": self.tensor.before,
            "difference": self.text,
            "max_abs_difference": self.comparison.max_abs,
            "inputs": [pair.after for pair in self.inputs],
            "between": list(self.between),
            "why": list(self.why),
        }


@dataclass
class Divergence:
    """What was found.

    Attributes:
        guilty: in topological order, the first first; at most `MOST_GUILTY`.
        compared: tensors that were compared.
        left_out: tensors with a partner that cannot be fetched: in loops, in branches that may not be taken, ...
        lockstep: whether both were given the model's tensors, or each its own.
    """

    guilty: list[Guilty] = field(default_factory=list)
    compared: int = 0
    left_out: int = 0
    lockstep: bool = False

    def as_json(self) -> dict[str, Json]:
        """For reports."""
        return {
            "guilty": [guilty.as_json() for guilty in self.guilty],
            "compared": self.compared,
            "left_out": self.left_out,
            "lockstep": self.lockstep,
        }


class DivergenceSearch:
    """The search for the node that is to blame.

    Both graphs are loaded as they are written: what an optimiser folds together belongs to no node.

    Args:
        executor: has loaded all of them, the other model as EDITED.
        change: the two models.
        sides: the model, and what stands before and behind it.
        differing: what is to be explained.
    """

    def __init__(self, executor: Executor, change: Change, sides: Sequence[ModelSide], differing: Differing) -> None:
        self.executor = executor
        self.change = change
        self.sides = sides
        self.ends, self.feeds, self.rtol, self.atol = differing
        self.topology = topology_of(change.after)
        self.found = Divergence()
        nodes = {parse_tensor(end.after).node for end in differing.outputs}
        above = self.topology.upstream([self.topology.id_of(change.after[name]) for name in nodes])
        self._order = [number for number in topological_order(self.topology) if above[number]]
        self.pairs, self._groups = self._fetchable()

    # -- what can be compared -----------------------------------------------------------------------------------

    def _fetchable(self) -> tuple[list[TensorPair], dict[TensorPair, tuple[int, int, int]]]:
        """The pairs that can be fetched in both graphs, in topological order, and the runs that can fetch them."""
        graph = self.change.after
        names = [self.topology.name(number) for number in self._order]
        partners = [
            TensorPair(mine, theirs, source)
            for name in names
            if graph[name].op not in PLACEHOLDERS
            for theirs in _tensors_of(graph[name])
            if theirs not in self.feeds
            for source, mine in self._partner(theirs)
        ]
        theirs = _fetches(self.executor, graph, [parse_tensor(pair.after).node for pair in partners])
        mine = [
            _fetches(self.executor, r.graph, [parse_tensor(p.before).node for p in partners if p.source == i])
            for i, r in enumerate(self.sides)
        ]
        groups = {
            pair: (pair.source, mine[pair.source][pair.before], theirs[pair.after])
            for pair in partners
            if pair.after in theirs and pair.before in mine[pair.source]
        }
        self.found.left_out = len(partners) - len(groups)
        return list(groups), groups

    def _partner(self, tensor: str) -> Iterator[tuple[int, str]]:
        """The first of the sides that has a partner for a tensor of the other model, and that partner."""
        for source, reference in enumerate(self.sides):
            mine = reference.partner(tensor)
            if mine is not None and _has(reference.graph, mine) and mine not in reference.feeds:
                yield source, mine
                return

    @cached_property
    def partners(self) -> dict[str, TensorPair]:
        """The pairs by the name in the other model."""
        return {pair.after: pair for pair in self.pairs}

    def _chunks(self) -> Iterator[list[TensorPair]]:
        """The pairs in order, in chunks that fit into memory and whose tensors can be fetched in one run."""
        sizes = self._sizes()
        for _, members in groupby(self.pairs, key=lambda pair: self._groups[pair]):
            chunk: list[TensorPair] = []
            total = 0
            for pair in members:
                if chunk and (total + sizes[pair] > CHUNK_BYTES or len(chunk) >= CHUNK_TENSORS):
                    yield chunk
                    chunk, total = [], 0
                chunk.append(pair)
                total += sizes[pair]
            if chunk:
                yield chunk

    def _sizes(self) -> dict[TensorPair, int]:
        graph = self.change.after
        given = {
            Output(graph[parse_tensor(name).node], 0): value.shape
            for name, value in self.feeds.items()
            if isinstance(value, Tensor) and parse_tensor(name).node in graph
        }
        shapes = infer_shapes(graph, given)
        out: dict[TensorPair, int] = {}
        for pair in self.pairs:
            output = graph.tensor(pair.after)
            shape = shapes.shape(output)
            size = element_size(base_dtype(output.dtype)) or 16
            for dim in shape or ():
                size *= max(dim, 1)
            out[pair] = size if shape is not None and min(shape, default=0) >= 0 else UNKNOWN_BYTES
        return out

    # -- each on its own values ---------------------------------------------------------------------------------

    def first(self) -> Divergence:
        """Each graph runs on its own values: finds the first node that differs.

        Raises:
            ValidationError, NotValidatedError: a run that went before does not go again.
        """
        for chunk in self._chunks():
            self._run_side(chunk[0].source, chunk)
            self._run(EDITED, "theirs", self.feeds, [pair.after for pair in chunk])
            places = [(f"mine {pair.source}", i) for i, pair in enumerate(chunk)]
            differing = self._differing(chunk, places)
            self.found.compared += len(chunk)
            self._drop("theirs", *(f"mine {i}" for i in range(len(self.sides))))
            if differing:
                self._blame(differing)
                break
        if not self.found.guilty:
            self._blame_ends()
        return self.found

    def _blame_ends(self) -> None:
        """Nothing that has a partner differs above the outputs that do: what lies between is to blame."""
        for end in self.ends:
            if end.after not in self.partners:
                self._note(TensorPair(end.before, end.after), end.comparison)

    def _blame(self, differing: Mapping[TensorPair, Comparison]) -> None:
        """Of the tensors that differ those above which none does."""
        bad = {pair.after for pair in differing}
        for pair, comparison in differing.items():
            inputs, _ = self._frontier(pair)
            if not any(read.after in bad for read in inputs):
                self._note(pair, comparison)

    # -- in lockstep --------------------------------------------------------------------------------------------

    def lockstep(self) -> Divergence:
        """Every node of the other graph gets the model's tensors for its inputs: finds all nodes that differ.

        What differs above a node is not handed on to it, so that each is judged by itself.

        Raises:
            ValidationError, NotValidatedError: the graphs do not run on that.
        """
        self.found.lockstep = True
        for chunk in self._chunks():
            read = {pair: [self.partners[t] for t in self._reads(pair) if t in self.partners] for pair in chunk}
            wanted = list(dict.fromkeys([*chunk, *(p for pairs in read.values() for p in pairs)]))
            places: dict[TensorPair, tuple[str, int]] = {}
            for source in range(len(self.sides)):
                of_source = [pair for pair in wanted if pair.source == source]
                places |= {pair: (f"mine {source}", i) for i, pair in enumerate(of_source)}
                self._run_side(source, of_source)
            for colour in self._colours(chunk):
                self._try(colour, read, places)
            self._drop(*(f"mine {i}" for i in range(len(self.sides))))
        if not self.found.guilty:
            self._blame_ends()
        order = {pair.after: i for i, pair in enumerate(self.pairs)}
        self.found.guilty.sort(key=lambda guilty: order.get(guilty.tensor.after, len(order)))
        return self.found

    def _try(
        self,
        pairs: Sequence[TensorPair],
        read: Mapping[TensorPair, list[TensorPair]],
        places: Mapping[TensorPair, tuple[str, int]],
    ) -> None:
        """Runs nodes of the other model on the sides' tensors; one that does not take them is left out."""
        fed = dict(self.feeds) | {p.after: Result(*places[p]) for pair in pairs for p in read[pair]}
        try:
            self.executor.wait(self.executor.run(EDITED, "theirs", fed, [pair.after for pair in pairs]))
        except Refused:
            if len(pairs) > 1:
                for pair in pairs:
                    self._try([pair], read, places)
            else:
                self.found.left_out += 1
            return
        for pair, comparison in self._differing(pairs, [places[pair] for pair in pairs]).items():
            self._note(pair, comparison)
        self.found.compared += len(pairs)
        self._drop("theirs")

    def _run_side(self, source: int, wanted: Sequence[TensorPair]) -> None:
        if wanted:
            reference = self.sides[source]
            self._run(reference.key, f"mine {source}", reference.feeds, [pair.before for pair in wanted])

    def _reads(self, pair: TensorPair) -> list[str]:
        return [output.name for output in self.change.after[parse_tensor(pair.after).node].inputs]

    def _colours(self, chunk: Sequence[TensorPair]) -> list[list[TensorPair]]:
        """Pairs that can share a run: a tensor that is fed to one of them is not fetched for another."""
        colour_of: dict[str, int] = {}
        colours: list[list[TensorPair]] = []
        for pair in chunk:
            node = parse_tensor(pair.after).node
            if node not in colour_of:
                taken = {colour_of.get(parse_tensor(tensor).node, -1) for tensor in self._reads(pair)}
                colour_of[node] = next(i for i in range(len(taken) + 1) if i not in taken)
            while len(colours) <= colour_of[node]:
                colours.append([])
            colours[colour_of[node]].append(pair)
        return colours

    # -- both ---------------------------------------------------------------------------------------------------

    def _run(self, key: str, result: str, feeds: Feeds, fetches: list[str]) -> None:
        try:
            self.executor.wait(self.executor.run(key, result, feeds, fetches))
        except Refused as refused:
            kind = ValidationError if key == EDITED else NotValidatedError
            name = self.change.called if key == EDITED else self.change.name
            raise kind(f"{name} does not run while its tensors are looked at: {printable(refused.text)}") from refused

    def _drop(self, *results: str) -> None:
        for result in results:
            self.executor.drop(result)

    def _differing(
        self, pairs: Sequence[TensorPair], places: Sequence[tuple[str, int]]
    ) -> dict[TensorPair, Comparison]:
        """Those of PAIRS that differ; of the sides they are at PLACES, of the other model in their order."""
        out: dict[TensorPair, Comparison] = {}
        for result in dict.fromkeys(result for result, _ in places):
            of_result = [(i, place[1]) for i, place in enumerate(places) if place[0] == result]
            at = [(mine, theirs) for theirs, mine in of_result]
            pending = self.executor.compare(result, "theirs", at, rtol=self.rtol, atol=self.atol)
            for (i, _), found in zip(of_result, self.executor.comparisons(pending), strict=True):
                if not agrees(found, self.rtol, self.atol):
                    out[pairs[i]] = found
        return out

    def _note(self, pair: TensorPair, comparison: Comparison) -> None:
        if len(self.found.guilty) >= MOST_GUILTY:
            return
        node = self.change.after[parse_tensor(pair.after).node]
        inputs, between = self._frontier(pair)
        why = self._why(node) if pair.after in self.partners else []
        for name in between:
            why += [f"{quoted(name)}: {line}" for line in self._why(self.change.after[name])]
        self.found.guilty.append(
            Guilty(node.name, node.op, pair, difference(comparison), comparison, inputs, between, tuple(why))
        )

    def _why(self, node: Node) -> list[str]:
        """What is different about a node as the files have it; [] where it has no partner."""
        for source, mine in self._partner(node.name):
            reference = self.sides[source]
            other = reference.graph.find(parse_tensor(mine).node)
            return node_differences(other, node, reference.counterpart) if other is not None else []
        return []

    def _frontier(self, pair: TensorPair) -> tuple[tuple[TensorPair, ...], tuple[str, ...]]:
        """The nearest tensors above PAIR that are compared, and the nodes on the way to them."""
        inputs, between = frontier(self.change.after, pair.after, self.partners)
        return tuple(inputs), tuple(node.name for node in between if node.op not in PLACEHOLDERS)


def frontier(graph: Graph, end: str, known: Mapping[str, TensorPair]) -> tuple[list[TensorPair], list[Node]]:
    """The nearest of the tensors KNOWN (by name) above the node of END, and the nodes between them and it."""
    start = graph[parse_tensor(end).node]
    seen = {start}
    pending = [start]
    found: dict[TensorPair, None] = {}
    for node in pending:  # grows while it is walked
        for read in node.inputs:
            pair = known.get(read.name)
            if pair is not None:
                found[pair] = None
            elif read.node.exists and read.node not in seen:
                seen.add(read.node)
                pending.append(read.node)
    return list(found), pending[1:]


def _tensors_of(node: Node) -> list[str]:
    return [format_input(node.name, index) for index in range(len(node.output_dtypes or (0,)))]


def _has(graph: Graph, tensor: str) -> bool:
    ref = parse_tensor(tensor)
    node = graph.find(ref.node)
    return node is not None and ref.port < len(node.output_dtypes or (0,))


def _fetches(executor: Executor, graph: Graph, names: Sequence[str]) -> dict[str, int]:
    """The tensors of the nodes NAMES that can be fetched, each with the number of the run that can fetch it."""
    plan = plan_with(executor.settings, graph, [name for name in dict.fromkeys(names) if name in graph])
    return {name: i for i, group in enumerate(plan.groups) for name in group if name not in plan.random}
