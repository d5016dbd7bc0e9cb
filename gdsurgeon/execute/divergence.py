"""Where two models begin to differ: tensors compared in topological order, in chunks that memory allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from gdsurgeon.analysis.node_difference import node_differences
from gdsurgeon.analysis.order import topological_order
from gdsurgeon.analysis.shape_inference import infer_shapes
from gdsurgeon.analysis.shapes import PLACEHOLDERS
from gdsurgeon.analysis.topology import Topology
from gdsurgeon.errors import NotValidatedError, ValidationError, printable
from gdsurgeon.execute.change import Change
from gdsurgeon.execute.comparing import EDITED, ORIGINAL, difference
from gdsurgeon.execute.executor import Executor, Refused
from gdsurgeon.execute.plan import make_plan
from gdsurgeon.execute.subject import Feeds
from gdsurgeon.graph.dtypes import SIZES, base_dtype
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.runtime.compare import Comparison
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor

CHUNK_BYTES = 256 << 20
"""Bytes of tensors that are held of each graph at a time, as far as shapes can be foreseen."""
CHUNK_TENSORS = 2000
UNKNOWN_BYTES = 1 << 20
"""What a tensor of unknown shape is taken for."""
MOST_GUILTY = 20


class Pair(NamedTuple):
    """A tensor of the model and its partner in the other one."""

    before: str
    after: str


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
    tensor: Pair
    text: str
    comparison: Comparison
    inputs: tuple[Pair, ...]
    between: tuple[str, ...]
    why: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
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

    def as_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "guilty": [guilty.as_json() for guilty in self.guilty],
            "compared": self.compared,
            "left_out": self.left_out,
            "lockstep": self.lockstep,
        }


class Search:
    """The search for the node that is to blame.

    Both graphs are loaded as they are written: what an optimiser folds together belongs to no node.

    Args:
        executor: has loaded the model as ORIGINAL and the other one as EDITED.
        change: the two.
        feeds: what to feed the one and the other.
        ends: tensors of the other model that differ; what they do not depend on is not looked at.
        rtol, atol: by how much floats may differ.
    """

    def __init__(
        self,
        executor: Executor,
        change: Change,
        feeds: tuple[Feeds, Feeds],
        ends: Sequence[str],
        *,
        rtol: float = 0.0,
        atol: float = 0.0,
    ) -> None:
        self.executor = executor
        self.change = change
        self.feeds = feeds
        self.rtol, self.atol = rtol, atol
        self.topology = Topology(change.after)
        self.found = Divergence()
        above = self.topology.upstream([self.topology.id_of(change.after[parse_tensor(t).node]) for t in ends])
        self._order = [number for number in topological_order(self.topology) if above[number]]
        self._before_of = {new: old for old, new in change.journal.renamed.items()}
        self._moved = {new: old for old, new in change.journal.moved.items()}
        self.pairs, self._groups = self._fetchable()

    # -- what can be compared -----------------------------------------------------------------------------------

    def _fetchable(self) -> tuple[list[Pair], dict[Pair, tuple[int, int]]]:
        """The pairs that can be fetched in both graphs, in topological order, and the runs that can fetch them."""
        after, before = self.change.after, self.change.before
        names = [self.topology.name(number) for number in self._order]
        paired = [name for name in names if self._old_name(name) in before and after[name].op not in PLACEHOLDERS]
        theirs = _fetches(self.executor, after, paired)
        mine = _fetches(self.executor, before, [self._old_name(name) for name in paired])
        groups: dict[Pair, tuple[int, int]] = {}
        by_node: dict[str, list[str]] = {}
        for tensor in theirs:
            by_node.setdefault(parse_tensor(tensor).node, []).append(tensor)
        for name in names:
            for tensor in by_node.get(name, ()):
                old = self.old_tensor(tensor)
                if old in mine and tensor not in self.feeds[1]:
                    groups[Pair(old, tensor)] = mine[old], theirs[tensor]
        self.found.left_out = sum(len(after[name].output_dtypes or ()) for name in paired) - len(groups)
        return list(groups), groups

    def _old_name(self, name: str) -> str:
        return self._before_of.get(name, name)

    def old_tensor(self, tensor: str) -> str:
        """What a tensor of the other model is called in the model."""
        if tensor in self._moved:
            return self._moved[tensor]
        ref = parse_tensor(tensor)
        return format_input(self._old_name(ref.node), ref.port)

    @cached_property
    def partners(self) -> dict[str, Pair]:
        """The pairs by the name in the other model."""
        return {pair.after: pair for pair in self.pairs}

    def _chunks(self) -> Iterator[list[Pair]]:
        """The pairs in order, in chunks that fit into memory and whose tensors can be fetched in one run."""
        sizes = self._sizes()
        for _, members in groupby(self.pairs, key=lambda pair: self._groups[pair]):
            chunk: list[Pair] = []
            total = 0
            for pair in members:
                if chunk and (total + sizes[pair] > CHUNK_BYTES or len(chunk) >= CHUNK_TENSORS):
                    yield chunk
                    chunk, total = [], 0
                chunk.append(pair)
                total += sizes[pair]
            if chunk:
                yield chunk

    def _sizes(self) -> dict[Pair, int]:
        graph = self.change.after
        given = {
            Output(graph[parse_tensor(name).node], 0): value.shape
            for name, value in self.feeds[1].items()
            if isinstance(value, Tensor) and parse_tensor(name).node in graph
        }
        shapes = infer_shapes(graph, given)
        out: dict[Pair, int] = {}
        for pair in self.pairs:
            output = graph.tensor(pair.after)
            shape = shapes.shape(output)
            size = SIZES.get(base_dtype(output.dtype), 16)
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
            self._run(ORIGINAL, "mine", self.feeds[0], [pair.before for pair in chunk])
            self._run(EDITED, "theirs", self.feeds[1], [pair.after for pair in chunk])
            differing = self._differing(chunk, list(range(len(chunk))), list(range(len(chunk))))
            self.found.compared += len(chunk)
            self._drop("mine", "theirs")
            if differing:
                self._blame(differing)
                break
        return self.found

    def _blame(self, differing: Mapping[Pair, Comparison]) -> None:
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
            at = {pair: i for i, pair in enumerate(wanted)}
            self._run_reference(wanted)
            for colour in self._colours(chunk):
                fed = dict(self.feeds[1])
                fed |= {p.after: Result("mine", at[p]) for pair in colour for p in read[pair]}
                self._run(EDITED, "theirs", fed, [pair.after for pair in colour])
                differing = self._differing(colour, [at[pair] for pair in colour], list(range(len(colour))))
                for pair, comparison in differing.items():
                    self._note(pair, comparison)
                self._drop("theirs")
            self.found.compared += len(chunk)
            self._drop("mine")
        order = {pair.after: i for i, pair in enumerate(self.pairs)}
        self.found.guilty.sort(key=lambda guilty: order[guilty.tensor.after])
        return self.found

    def _run_reference(self, wanted: Sequence[Pair]) -> None:
        self._run(ORIGINAL, "mine", self.feeds[0], [pair.before for pair in wanted])

    def _reads(self, pair: Pair) -> list[str]:
        return [output.name for output in self.change.after[parse_tensor(pair.after).node].inputs]

    def _colours(self, chunk: Sequence[Pair]) -> list[list[Pair]]:
        """Pairs that can share a run: a tensor that is fed to one of them is not fetched for another."""
        colour_of: dict[str, int] = {}
        colours: list[list[Pair]] = []
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
            kind = NotValidatedError if key == ORIGINAL else ValidationError
            name = self.change.name if key == ORIGINAL else self.change.called
            raise kind(f"{name} does not run while its tensors are looked at: {printable(refused.text)}") from refused

    def _drop(self, *results: str) -> None:
        for result in results:
            self.executor.drop(result)

    def _differing(self, pairs: Sequence[Pair], mine: list[int], theirs: list[int]) -> dict[Pair, Comparison]:
        places = list(zip(mine, theirs, strict=True))
        pending = self.executor.compare("mine", "theirs", places, rtol=self.rtol, atol=self.atol)
        exact = not self.rtol and not self.atol
        compared = zip(pairs, self.executor.comparisons(pending), strict=True)
        return {pair: c for pair, c in compared if not (c.equal if exact else c.close)}

    def _note(self, pair: Pair, comparison: Comparison) -> None:
        if len(self.found.guilty) >= MOST_GUILTY:
            return
        node = self.change.after[parse_tensor(pair.after).node]
        other = self.change.before.find(parse_tensor(pair.before).node)
        why = node_differences(other, node, self.change.journal.counterpart) if other is not None else []
        inputs, between = self._frontier(pair)
        self.found.guilty.append(
            Guilty(node.name, node.op, pair, difference(comparison), comparison, inputs, between, tuple(why))
        )

    def _frontier(self, pair: Pair) -> tuple[tuple[Pair, ...], tuple[str, ...]]:
        """The nearest tensors above PAIR that are compared, and the nodes on the way to them."""
        inputs, between = frontier(self.change.after, pair.after, self.partners)
        return tuple(inputs), tuple(node.name for node in between if node.op not in PLACEHOLDERS)


def frontier(graph: Graph, end: str, known: Mapping[str, Pair]) -> tuple[list[Pair], list[Node]]:
    """The nearest of the tensors KNOWN (by name) above the node of END, and the nodes between them and it."""
    start = graph[parse_tensor(end).node]
    seen = {start}
    pending = [start]
    found: dict[Pair, None] = {}
    for node in pending:  # grows while it is walked
        for read in node.inputs:
            pair = known.get(read.name)
            if pair is not None:
                found[pair] = None
            elif read.node.exists and read.node not in seen:
                seen.add(read.node)
                pending.append(read.node)
    return list(found), pending[1:]


def _fetches(executor: Executor, graph: Graph, names: Sequence[str]) -> dict[str, int]:
    """The tensors of the nodes NAMES that can be fetched, each with the number of the run that can fetch it."""
    settings = executor.settings
    plan = make_plan(
        graph,
        allow_ops=settings.allow_ops,
        custom_ops=bool(settings.op_libraries),
        outputs=[name for name in dict.fromkeys(names) if name in graph],
    )
    return {name: i for i, group in enumerate(plan.groups) for name in group if name not in plan.random}
