"""The smallest piece of two models that still differs, as one graph that needs no input: for a bug report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.errors import EditError, Json, NotValidatedError, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import format_input, free_scope, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.proof.change import opened_again
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.models.divergence import DivergenceSearch, Guilty, ModelSide, TensorPair, frontier
from gdsurgeon.proof.proof import agrees, difference
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.write import read_chunks

PIECE = "piece"
MOST_ROUNDS = 8
"""How often the piece is widened by the nodes above it where it does not differ on its own."""


class Reduced(NamedTuple):
    """A graph in which both versions of a piece stand side by side on constants.

    Attributes:
        data: the serialised GraphDef.
        nodes: how many it has.
        mine: the model's tensor in it.
        theirs: the other model's.
        text: how the two differ when it is run.
    """

    data: bytes
    nodes: int
    mine: str
    theirs: str
    text: str

    def as_json(self) -> dict[str, Json]:
        """For reports."""
        tensors = [self.mine, self.theirs]
        return {"bytes": len(self.data), "nodes": self.nodes, "tensors": tensors, "difference": self.text}


def reduced(search: DivergenceSearch, guilty: Guilty) -> Reduced:
    """The piece around GUILTY: its inputs are constants with the values that the model has there.

    It is run, and widened by what stands above it until its two versions differ as they do in the models.

    Raises:
        NotValidatedError: no piece of that kind differs on its own.
    """
    if guilty.tensor.after not in search.partners:
        raise NotValidatedError(
            f"{quoted(guilty.node)} has no counterpart to compare it with, so nothing was reduced", code="not-reduced"
        )
    given: set[str] = set()
    for _ in range(MOST_ROUNDS):
        starts = _Starts(search, guilty, given)
        try:
            piece = _piece(search, guilty, starts)
        except EditError as error:
            text = f"the subgraph around {quoted(guilty.node)} cannot be cut out: {error.message}"
            raise NotValidatedError(text, code="not-reduced") from error
        text = _difference(search, piece)
        if text:
            return piece._replace(text=text)
        wider = {pair.after for pair in starts.pairs}
        if wider <= given or not wider:
            break
        given |= wider
    raise NotValidatedError(
        f"no subgraph around {quoted(guilty.node)} differs in isolation, so nothing was reduced: only the "
        "whole graphs show the difference",
        code="not-reduced",
    )


class _Starts:
    """The tensors at which the piece begins, in each of the graphs, and their values."""

    def __init__(self, search: DivergenceSearch, guilty: Guilty, without: set[str]) -> None:
        side = guilty.tensor.side
        known = [pair for pair in search.pairs if pair.after not in without]
        graph = search.sides[side].graph
        mine = {pair.before: pair for pair in known if pair.side == side}
        theirs = {pair.after: pair for pair in known}
        self.mine = [mine[name] for name in frontier(graph, guilty.tensor.before, mine)[0]]
        self.theirs = [theirs[name] for name in frontier(search.change.after, guilty.tensor.after, theirs)[0]]
        self.pairs = list(dict.fromkeys((*self.mine, *self.theirs)))
        self.values: dict[TensorPair, Tensor] = {}
        for key, reference in search.sides.items():
            self.values |= _values(search.executor, reference, [p for p in self.pairs if p.side == key])


def _values(executor: Executor, reference: ModelSide, pairs: list[TensorPair]) -> dict[TensorPair, Tensor]:
    if not pairs:
        return {}
    result = "inputs of the piece"
    try:
        executor.wait(executor.run(reference.key, result, reference.feeds, [pair.before for pair in pairs]))
    except Refused as refused:
        raise NotValidatedError(
            f"the inputs of the subgraph cannot be computed in one run: {refused.text}", code="not-reduced"
        ) from refused
    values = {pair: executor.tensor(result, i) for i, pair in enumerate(pairs)}
    executor.drop(result)
    return values


def _piece(search: DivergenceSearch, guilty: Guilty, starts: _Starts) -> Reduced:
    reference = search.sides[guilty.tensor.side]
    mine = _side(
        reference.graph,
        guilty.tensor.before,
        {p.before: starts.values[p] for p in starts.mine},
        _tensors(search, reference.feeds),
    )
    theirs = _side(
        search.change.after,
        guilty.tensor.after,
        {p.after: starts.values[p] for p in starts.theirs},
        _tensors(search, search.feeds),
    )
    graph, other = from_bytes(mine, "model"), from_bytes(theirs, "other")
    scope = free_scope(graph.names(), "other")
    import_graph(graph, other, scope=scope)
    ref = parse_tensor(guilty.tensor.after)
    return Reduced(
        read_chunks(graph.chunks()),
        graph.node_count,
        guilty.tensor.before,
        format_input(f"{scope}/{ref.node}", ref.port),
        "",
    )


def _tensors(search: DivergenceSearch, feeds: Mapping[str, Tensor | Result]) -> dict[str, Tensor]:
    return {name: search.executor.fetched(value) for name, value in feeds.items()}


def _side(graph: Graph, end: str, starts: Mapping[str, Tensor], feeds: Mapping[str, Tensor]) -> bytes:
    """What of GRAPH computes END from STARTS, which are constants, and so are the inputs that are left."""
    graph = opened_again(graph)
    drawn = {name: value for name, value in feeds.items() if graph[parse_tensor(name).node].op not in PLACEHOLDERS}
    fixed = {**starts, **drawn}
    read, between = frontier(graph, end, fixed)
    nodes = {graph[parse_tensor(end).node], *between}
    for node in nodes:  # what the piece only waits for is no part of it
        if any(control not in nodes for control in node.controls):
            graph.set_controls(node, [control for control in node.controls if control in nodes])
    values = {name: value for name, value in fixed.items() if name in read}
    names: dict[str, str] = {}
    if values or len(nodes) < graph.node_count:
        (claim,) = extract(graph, list(values), [end]).claims
        assert isinstance(claim, SameGiven)
        names = {new: old for old, new in claim.given.items()}
    for node in list(graph.nodes()):
        if node.op not in PLACEHOLDERS:
            continue
        value = values.get(names.get(node.name, ""), feeds.get(node.name))
        if value is not None:
            _make_constant(graph, node, value)
    return read_chunks(graph.chunks())


def _make_constant(graph: Graph, node: Node, value: Tensor) -> None:
    graph.set_op(node, "Const")
    graph.set_inputs(node, [])
    for key in node.attr_keys:
        if key not in ("dtype", "_class"):
            graph.set_attr(node, key, None)
    graph.set_attr(node, "dtype", type_value(value.dtype).SerializeToString())
    if isinstance(value.data, list):
        content = tensor_value(STRING, value.shape, value.data)
    else:
        content = raw_value(value.dtype, value.shape, value.tobytes())
    graph.set_attr(node, "value", content.SerializeToString())


def _difference(search: DivergenceSearch, piece: Reduced) -> str:
    """How the two versions of the piece differ when it is run; '' where they do not."""
    executor = search.executor
    executor.load_bytes(PIECE, piece.data)
    try:
        executor.loaded(PIECE)
        executor.wait(executor.run(PIECE, "both", {}, [piece.mine, piece.theirs]))
    except Refused as refused:
        raise NotValidatedError(
            f"the subgraph does not run in isolation: {refused.text}", code="not-reduced"
        ) from refused
    (comparison,) = executor.comparisons(executor.compare("both", "both", [(0, 1)], rtol=search.rtol, atol=search.atol))
    executor.drop("both")
    executor.unload(PIECE)
    return "" if agrees(comparison, search.rtol, search.atol) else difference(comparison)
