"""Finds the node at which two models begin to differ, and reduces the difference to a small graph."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from gdsurgeon.analysis.shapes.arithmetic import count
from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.errors import EditError, NotValidatedError, ValidationError, printable, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import format_input, free_scope, node_of, nodes_of, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import base_dtype, element_size
from gdsurgeon.ops.kinds import PLACEHOLDERS, STATED_SHAPES, undefined_outputs
from gdsurgeon.proof.differences import node_differences
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import agrees, difference
from gdsurgeon.proof.trial import EDITED, ORIGINAL, Failure, ProofContext, Trial
from gdsurgeon.runtime.compare import Comparison
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.write import read_chunks

CHUNK_BYTES = 256 << 20
"""The number of bytes of tensors of each graph in memory at a time, estimated from the known shapes."""
CHUNK_TENSORS = 2000
UNKNOWN_BYTES = 1 << 20
"""The assumed size of a tensor with an unknown shape."""
MOST_GUILTY = 20


class TensorPair(NamedTuple):
    """A tensor of the model and its counterpart in the other model."""

    before: str
    after: str


class Guilty(NamedTuple):
    """A node whose inputs agree and whose output differs.

    Attributes:
        node: its name in the other model.
        op: its op.
        tensor: the different output, in both models.
        text: the difference in words.
        comparison: the difference in numbers.
        inputs: the nearest compared tensors upstream, which agree.
        between: nodes between these and the node, which have no counterpart or cannot be fetched.
        why: the differences of the node in the files.
    """

    node: str
    op: str
    tensor: TensorPair
    text: str
    comparison: Comparison
    inputs: tuple[TensorPair, ...]
    between: tuple[str, ...]
    why: tuple[str, ...]


@dataclass
class Divergence:
    """The result of the search.

    Attributes:
        guilty: the nodes in topological order; at most `MOST_GUILTY`.
        compared: the number of compared tensors.
        left_out: the number of tensors with a counterpart that cannot be fetched: in loops, in branches, ...
        lockstep: whether both models got the tensors of the first model, or each its own.
    """

    guilty: list[Guilty] = field(default_factory=list)
    compared: int = 0
    left_out: int = 0
    lockstep: bool = False


class DivergenceSearch:
    """Compares inner tensors of two models in topological order, in chunks that fit into memory.

    Both graphs are loaded as written, because optimized nodes have no counterpart.

    Args:
        context: the two models, in the executor that has loaded them.
        trial: of the two models.
        failure: of that trial; only tensors that the different outputs depend on are compared.
    """

    def __init__(self, context: ProofContext, trial: Trial, failure: Failure) -> None:
        self.executor, self.change = context.executor, context.change
        self.ends, self.feeds, self.model_feeds = failure.wrong, failure.fed[EDITED], failure.fed[ORIGINAL]
        self._origin = self.change.intent.origins()
        self.tolerance = trial.tolerance
        self.found = Divergence()
        self.pairs = self._fetchable()
        self.partners = {pair.after: pair for pair in self.pairs}

    # -- what can be compared -----------------------------------------------------------------------------------

    def _fetchable(self) -> dict[TensorPair, tuple[int, int]]:
        """Returns the pairs that can be fetched in both graphs, in topological order, and their runs."""
        graph = self.change.after
        topology = topology_of(graph)
        above = topology.upstream([topology.id_of(graph[node]) for node in nodes_of(end.after for end in self.ends)])
        names = [topology.name(number) for number in topological_order(topology) if above[number]]
        partners = [
            pair
            for name in names
            if graph[name].op not in PLACEHOLDERS
            for theirs in graph[name].outputs
            if theirs.index not in undefined_outputs(graph[name].op, graph[name].setting)
            and theirs.name not in self.feeds
            and (pair := self._paired(theirs.name)) is not None
        ]
        theirs = _fetches(self.executor, graph, [pair.after for pair in partners])
        mine = _fetches(self.executor, self.change.before, [pair.before for pair in partners])
        groups = {
            pair: (mine[pair.before], theirs[pair.after])
            for pair in partners
            if pair.after in theirs and pair.before in mine
        }
        self.found.left_out = len(partners) - len(groups)
        return groups

    def _paired(self, tensor: str) -> TensorPair | None:
        """Returns a tensor of the other model with its counterpart in the model; None if it has none, or it is fed."""
        mine = self._origin(tensor)
        if mine is None or mine in self.model_feeds:
            return None
        node = self.change.before.find(node_of(mine))
        exists = node is not None and parse_tensor(mine).port < len(node.outputs)
        return TensorPair(mine, tensor) if exists else None

    def _chunks(self) -> Iterator[list[TensorPair]]:
        """Yields the pairs in order, in chunks that fit into memory and can be fetched in one run."""
        graph = self.change.after
        given = {
            graph[node_of(name)].output: value.shape
            for name, value in self.feeds.items()
            if isinstance(value, Tensor) and node_of(name) in graph
        }
        shapes = infer_shapes(graph, given)
        for _, members in groupby(self.pairs, key=self.pairs.__getitem__):
            chunk: list[TensorPair] = []
            total = 0
            for pair in members:
                output = graph.tensor(pair.after)
                elements = count(shapes.shape(output))
                element = element_size(base_dtype(output.dtype)) or 16
                size = UNKNOWN_BYTES if elements is None else element * elements
                if chunk and (total + size > CHUNK_BYTES or len(chunk) >= CHUNK_TENSORS):
                    yield chunk
                    chunk, total = [], 0
                chunk.append(pair)
                total += size
            yield chunk

    # -- each on its own values, or in lockstep -----------------------------------------------------------------

    def first(self) -> Divergence:
        """Finds the first different node; each graph runs on its own values.

        Raises:
            ValidationError, NotValidatedError: a repeated run fails.
        """
        for chunk in self._chunks():
            differing = self._differing(chunk) or {}
            # A different tensor is the cause if no tensor upstream differs.
            bad = {pair.after for pair in differing}
            for pair, comparison in differing.items():
                if not any(read.after in bad for read in self._frontier(pair)[0]):
                    self._note(pair, comparison)
            if differing:
                break
        self._note_ends()
        return self.found

    def lockstep(self) -> Divergence:
        """Finds all different nodes; every node of the other model gets the tensors of the first model as inputs.

        Differences of its inputs therefore do not reach a node.

        Raises:
            ValidationError, NotValidatedError: the graphs refuse these inputs.
        """
        self.found.lockstep = True
        for chunk in self._chunks():
            for colour in self._colours(chunk):
                self._judge(colour)
        order = {pair: i for i, pair in enumerate(self.pairs)}
        self.found.guilty.sort(key=lambda guilty: order[guilty.tensor])
        self._note_ends()
        return self.found

    def _judge(self, pairs: Sequence[TensorPair]) -> None:
        """Runs nodes of the other model on tensors of the first; a node that refuses them is left out."""
        read = [self.partners[t] for pair in pairs for t in self._reads(pair) if t in self.partners]
        differing = self._differing(pairs, read)
        if differing is not None:
            for pair, comparison in differing.items():
                self._note(pair, comparison)
        elif len(pairs) > 1:
            for pair in pairs:
                self._judge([pair])
        else:
            self.found.left_out += 1

    def _reads(self, pair: TensorPair) -> list[str]:
        return [output.name for output in self.change.after[node_of(pair.after)].inputs]

    def _colours(self, chunk: Sequence[TensorPair]) -> list[list[TensorPair]]:
        """Returns pairs in groups that can share a run: a tensor that is fed to one of them is not fetched for a
        different one."""
        colour_of: dict[str, int] = {}
        colours: dict[int, list[TensorPair]] = {}
        for pair in chunk:
            node = node_of(pair.after)
            if node not in colour_of:
                taken = {colour_of.get(node_of(tensor), -1) for tensor in self._reads(pair)}
                colour_of[node] = next(i for i in range(len(taken) + 1) if i not in taken)
            colours.setdefault(colour_of[node], []).append(pair)
        return list(colours.values())

    def _differing(
        self, pairs: Sequence[TensorPair], read: Sequence[TensorPair] | None = None
    ) -> dict[TensorPair, Comparison] | None:
        """Returns the pairs that differ, if the other model gets the tensors of `read` from the first model.

        None if the other model refuses them; without `read` it must run.
        """
        executor, places = self.executor, {pair: i for i, pair in enumerate(dict.fromkeys([*pairs, *(read or ())]))}
        mine, theirs = "inner tensors of the model", "inner tensors of the other model"
        text = "{} does not run when inner tensors are fetched: {}"
        try:
            executor.run(ORIGINAL, mine, self.model_feeds, [pair.before for pair in places])
        except Refused as refused:
            raise NotValidatedError(text.format(self.change.name, printable(refused.text))) from refused
        fed = {**self.feeds, **{pair.after: Result(mine, places[pair]) for pair in read or ()}}
        try:
            executor.run(EDITED, theirs, fed, [pair.after for pair in pairs])
        except Refused as refused:
            if read is not None:
                return None
            raise ValidationError(text.format(self.change.called, printable(refused.text))) from refused
        self.found.compared += len(pairs)
        indices = [(places[pair], i) for i, pair in enumerate(pairs)]
        found = executor.compare(mine, theirs, indices, self.tolerance)
        executor.drop(mine)
        executor.drop(theirs)
        return {p: c for p, c in zip(pairs, found, strict=True) if not agrees(c, self.tolerance)}

    # -- the cause ------------------------------------------------------------------------------------------------

    def _note_ends(self) -> None:
        """Reports the outputs themselves if no tensor before them differs."""
        for end in self.ends if not self.found.guilty else ():
            if end.after not in self.partners and end.comparison is not None:
                self._note(TensorPair(end.before, end.after), end.comparison)

    def _note(self, pair: TensorPair, comparison: Comparison) -> None:
        if len(self.found.guilty) >= MOST_GUILTY:
            return
        node = self.change.after[node_of(pair.after)]
        inputs, between = self._frontier(pair)
        why = self._why(node) if pair.after in self.partners else []
        for name in between:
            why += [f"{quoted(name)}: {line}" for line in self._why(self.change.after[name])]
        self.found.guilty.append(
            Guilty(node.name, node.op, pair, difference(comparison), comparison, inputs, between, tuple(why))
        )

    def _why(self, node: Node) -> list[str]:
        """Returns the differences of a node in the files; [] if it has no counterpart."""
        pair = self._paired(node.name)
        if pair is None:
            return []
        return node_differences(self.change.before[node_of(pair.before)], node, self.change.intent.counterpart)

    def _frontier(self, pair: TensorPair) -> tuple[tuple[TensorPair, ...], tuple[str, ...]]:
        """Returns the nearest compared tensors upstream of a pair, and the nodes between."""
        inputs, between = frontier(self.change.after, pair.after, self.partners)
        names = tuple(node.name for node in between if node.op not in PLACEHOLDERS)
        return tuple(self.partners[name] for name in inputs), names


def frontier(graph: Graph, end: str, known: Container[str]) -> tuple[list[str], list[Node]]:
    """Returns the nearest tensors in `known` upstream of the node of `end`, and the nodes between."""
    start = graph[node_of(end)]
    seen = {start}
    pending = [start]
    found: dict[str, None] = {}
    for node in pending:  # grows while it is walked
        for read in node.inputs:
            if read.name in known:
                found[read.name] = None
            elif read.node.exists and read.node not in seen:
                seen.add(read.node)
                pending.append(read.node)
    return list(found), pending[1:]


def _fetches(executor: Executor, graph: Graph, tensors: Sequence[str]) -> dict[str, int]:
    """Returns the fetchable tensors of the nodes of `tensors`, each with the number of its run."""
    plan = plan_with(executor.settings, graph, tensors)
    return {name: i for i, group in enumerate(plan.groups) for name in group if name not in plan.random}


PIECE = "piece"
MOST_ROUNDS = 8
"""The number of times that the part is extended by nodes upstream if it does not differ in isolation."""


class Reduced(NamedTuple):
    """A graph with both versions of a part, on constants.

    Attributes:
        data: the serialised GraphDef.
        nodes: the number of nodes.
        mine: the tensor of the model.
        theirs: the tensor of the other model.
        text: the difference; '' if both versions agree.
    """

    data: bytes
    nodes: int
    mine: str
    theirs: str
    text: str


def reduced(search: DivergenceSearch, guilty: Guilty) -> Reduced:
    """Returns the part around a different node; constants have the values of the inputs in the model.

    The part is run, and extended upstream until both versions differ as in the models.

    Raises:
        NotValidatedError: no such part differs in isolation.
    """
    if guilty.tensor.after not in search.partners:
        raise NotValidatedError(
            f"{quoted(guilty.node)} has no counterpart to compare it with, so nothing was reduced", code="not-reduced"
        )
    given: set[str] = set()
    for _ in range(MOST_ROUNDS):
        try:
            piece, starts = _piece(search, guilty, given)
        except EditError as error:
            text = f"the subgraph around {quoted(guilty.node)} cannot be cut out: {error.message}"
            raise NotValidatedError(text, code="not-reduced") from error
        if piece.text:
            return piece
        wider = {pair.after for pair in starts}
        if wider <= given:
            break
        given |= wider
    raise NotValidatedError(
        f"no subgraph around {quoted(guilty.node)} differs in isolation, so nothing was reduced: only the "
        "whole graphs show the difference",
        code="not-reduced",
    )


def _piece(search: DivergenceSearch, guilty: Guilty, without: Collection[str]) -> tuple[Reduced, list[TensorPair]]:
    """Returns the part downstream of the nearest compared tensors, except `without`, and the pairs at its start.

    Raises:
        EditError: the part cannot be cut out.
        NotValidatedError: the values of the tensors cannot be computed in one run, or the part does not run.
    """
    executor, change = search.executor, search.change
    known = [pair for pair in search.pairs if pair.after not in without]
    mine, theirs = {pair.before: pair for pair in known}, {pair.after: pair for pair in known}
    starts = [mine[name] for name in frontier(change.before, guilty.tensor.before, mine)[0]]
    others = [theirs[name] for name in frontier(change.after, guilty.tensor.after, theirs)[0]]
    pairs = list(dict.fromkeys((*starts, *others)))
    values: dict[TensorPair, Tensor] = {}
    if pairs:
        result = "inputs of the piece"
        try:
            executor.run(ORIGINAL, result, search.model_feeds, [pair.before for pair in pairs])
        except Refused as refused:
            text = f"the inputs of the subgraph cannot be computed in one run: {refused.text}"
            raise NotValidatedError(text, code="not-reduced") from refused
        values = {pair: executor.tensor(result, i) for i, pair in enumerate(pairs)}
        executor.drop(result)
    feeds, own_feeds = (
        {name: executor.fetched(value) for name, value in fed.items()} for fed in (search.model_feeds, search.feeds)
    )
    model = _side(change.before, guilty.tensor.before, {pair.before: values[pair] for pair in starts}, feeds)
    other = _side(change.after, guilty.tensor.after, {pair.after: values[pair] for pair in others}, own_feeds)
    graph = from_bytes(model, "model")
    scope, ref = free_scope(graph.names(), "other"), parse_tensor(guilty.tensor.after)
    import_graph(graph, from_bytes(other, "other"), scope=scope)
    data, ends = read_chunks(graph.chunks()), (guilty.tensor.before, format_input(f"{scope}/{ref.node}", ref.port))
    return Reduced(data, graph.node_count, *ends, _difference(search, data, ends)), pairs


def _side(graph: Graph, end: str, starts: Mapping[str, Tensor], feeds: Mapping[str, Tensor]) -> bytes:
    """Returns the nodes of a graph that compute `end` from constants for `starts` and for other inputs."""
    graph = graph.copy()
    drawn = {name: value for name, value in feeds.items() if graph[node_of(name)].op not in PLACEHOLDERS}
    fixed = {**starts, **drawn}
    read, between = frontier(graph, end, fixed)
    nodes = {graph[node_of(end)], *between}
    for node in nodes:  # other control inputs are not part of the piece
        graph.set_controls(node, [control for control in node.controls if control in nodes])
    values = {name: value for name, value in fixed.items() if name in read}
    names: dict[str, str] = {}
    if values or len(nodes) < graph.node_count:
        (claim,) = extract(graph, list(values), [end]).claims
        assert isinstance(claim, SameGiven)
        names = {new: old for old, new in claim.given.items()}
    for node in [node for node in graph.nodes() if node.op in PLACEHOLDERS]:
        value = values.get(names.get(node.name, ""), feeds.get(node.name))
        if value is not None:
            if isinstance(value.data, list):
                content = tensor_value(value.dtype, value.shape, value.data)
            else:
                content = raw_value(value.dtype, value.shape, value.tobytes())
            attrs = {"shape": None, STATED_SHAPES: None, "dtype": type_value(value.dtype), "value": content}
            graph.replace_op(node, "Const", [], attrs)
    return read_chunks(graph.chunks())


def _difference(search: DivergenceSearch, data: bytes, ends: Sequence[str]) -> str:
    """Returns the difference of `ends`, both versions of the part in the graph `data`, in a run; '' if they agree."""
    executor = search.executor
    executor.load(PIECE, data)
    try:
        executor.loaded(PIECE)
        executor.run(PIECE, "both", {}, ends)
    except Refused as refused:
        raise NotValidatedError(
            f"the subgraph does not run in isolation: {refused.text}", code="not-reduced"
        ) from refused
    (comparison,) = executor.compare("both", "both", [(0, 1)], search.tolerance)
    executor.drop("both")
    executor.unload(PIECE)
    return "" if agrees(comparison, search.tolerance) else difference(comparison)
