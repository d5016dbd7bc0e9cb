"""The smallest piece of two models that still differs, as one graph that needs no input: for a bug report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gdsurgeon.analysis.shapes import PLACEHOLDERS
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.errors import EditError, NotValidatedError, quoted
from gdsurgeon.execute.comparing import ORIGINAL, difference
from gdsurgeon.execute.divergence import Guilty, Search, frontier
from gdsurgeon.execute.executor import Refused
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.dtypes import STRING
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.messages import message
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

    def as_json(self) -> dict[str, Any]:
        """For reports."""
        tensors = [self.mine, self.theirs]
        return {"bytes": len(self.data), "nodes": self.nodes, "tensors": tensors, "difference": self.text}


def reduced(search: Search, guilty: Guilty) -> Reduced:
    """The piece around GUILTY: its inputs are constants with the values that the model has there.

    It is run, and widened by what stands above it until its two versions differ as they do in the models.

    Raises:
        NotValidatedError: no piece of that kind differs on its own.
    """
    given: set[str] = set()
    for _ in range(MOST_ROUNDS):
        starts = _Starts(search, guilty, given)
        piece = _piece(search, guilty, starts)
        text = _difference(search, piece)
        if text:
            return piece._replace(text=text)
        wider = {pair.after for pair in starts.pairs}
        if wider <= given or not wider:
            break
        given |= wider
    raise NotValidatedError(
        f"no piece around {quoted(guilty.node)} differs on its own, so that nothing was reduced: "
        "it takes the whole graphs"
    )


class _Starts:
    """The tensors at which the piece begins, in each of the graphs, and their values."""

    def __init__(self, search: Search, guilty: Guilty, without: set[str]) -> None:
        change = search.change
        known = {pair for pair in search.pairs if pair.after not in without}
        self.mine = frontier(change.before, guilty.tensor.before, {p.before: p for p in known})[0]
        self.theirs = frontier(change.after, guilty.tensor.after, {p.after: p for p in known})[0]
        self.pairs = list(dict.fromkeys((*self.mine, *self.theirs)))
        self.values = dict(zip(self.pairs, _values(search, [p.before for p in self.pairs]), strict=True))


def _values(search: Search, tensors: list[str]) -> list[Tensor]:
    if not tensors:
        return []
    executor = search.executor
    try:
        executor.wait(executor.run(ORIGINAL, "inputs of the piece", search.feeds[0], tensors))
    except Refused as refused:
        raise NotValidatedError(f"the inputs of the piece cannot be had together: {refused.text}") from refused
    values = [executor.tensor("inputs of the piece", i) for i in range(len(tensors))]
    executor.drop("inputs of the piece")
    return values


def _piece(search: Search, guilty: Guilty, starts: _Starts) -> Reduced:
    change = search.change
    feeds = [_tensors(search, fed) for fed in search.feeds]
    mine = _side(
        change.before, guilty.tensor.before, {p.before: starts.values[p] for p in starts.mine}, feeds[0]
    )
    theirs = _side(change.after, guilty.tensor.after, {p.after: starts.values[p] for p in starts.theirs}, feeds[1])
    other = from_bytes(theirs, "other")
    graph = from_bytes(mine, "model")
    scope = "other"
    while any(name == scope or name.startswith(scope + "/") for name in graph.names()):
        scope += "_"
    import_graph(graph, other, scope=scope)
    ref = parse_tensor(guilty.tensor.after)
    return Reduced(
        read_chunks(graph.chunks()),
        graph.node_count,
        guilty.tensor.before,
        format_input(f"{scope}/{ref.node}", ref.port),
        "",
    )


def _tensors(search: Search, feeds: Mapping[str, Tensor | Result]) -> dict[str, Tensor]:
    return {
        name: search.executor.tensor(value.result_id, value.index) if isinstance(value, Result) else value
        for name, value in feeds.items()
    }


def _side(graph: Graph, end: str, starts: Mapping[str, Tensor], feeds: Mapping[str, Tensor]) -> bytes:
    """What of GRAPH computes END from STARTS, which are constants, and so are the inputs that are left."""
    graph = graph.pristine()
    nodes, needed = _needed(graph, end, starts)
    for node in nodes:  # what the piece only waits for is no part of it
        if any(control not in nodes for control in node.controls):
            graph.set_controls(node, [control for control in node.controls if control in nodes])
    drawn = {n: v for n, v in feeds.items() if n in needed and graph[parse_tensor(n).node].op not in PLACEHOLDERS}
    values = {**starts, **drawn}
    names: dict[str, str] = {}
    try:
        result = extract(graph, list(values), [end])
        names = {new: old for old, new in result.claims[0].given.items()}  # type: ignore[attr-defined]
    except EditError:
        pass  # the piece is the whole graph
    for node in list(graph.nodes()):
        if node.op not in PLACEHOLDERS:
            continue
        value = values.get(names.get(node.name, ""), feeds.get(node.name))
        if value is not None:
            _make_constant(graph, node, value)
    return read_chunks(graph.chunks())


def _needed(graph: Graph, end: str, starts: Iterable[str]) -> tuple[set[Node], set[str]]:
    """The nodes that compute END, without a look behind STARTS, and the names of the tensors that they read."""
    given = set(starts)
    first = graph[parse_tensor(end).node]
    seen = {first}
    pending = [first]
    out: set[str] = set()
    for node in pending:  # grows while it is walked
        for read in node.inputs:
            if read.name in given:
                continue
            out.add(read.name)
            if read.node.exists and read.node not in seen:
                seen.add(read.node)
                pending.append(read.node)
    return seen, out


def _make_constant(graph: Graph, node: Node, value: Tensor) -> None:
    graph.set_op(node, "Const")
    graph.set_inputs(node, [])
    for key in node.attr_keys:
        if key not in ("dtype", "_class"):
            graph.set_attr(node, key, None)
    graph.set_attr(node, "dtype", type_value(value.dtype).SerializeToString())
    graph.set_attr(node, "value", _constant(value).SerializeToString())


def _constant(value: Tensor) -> Any:
    """An AttrValue with VALUE, bit for bit."""
    if isinstance(value.data, list):
        return tensor_value(STRING, value.shape, value.data)
    out = message("tensorflow.AttrValue")()
    out.tensor.dtype = value.dtype
    out.tensor.tensor_shape.SetInParent()
    for size in value.shape:
        out.tensor.tensor_shape.dim.add(size=size)
    out.tensor.tensor_content = value.tobytes()
    return out


def _difference(search: Search, piece: Reduced) -> str:
    """How the two versions of the piece differ when it is run; '' where they do not."""
    executor = search.executor
    executor.load_bytes(PIECE, piece.data)
    try:
        executor.loaded(PIECE)
        executor.wait(executor.run(PIECE, "both", {}, [piece.mine, piece.theirs]))
    except Refused as refused:
        raise NotValidatedError(f"the piece does not run on its own: {refused.text}") from refused
    (comparison,) = executor.comparisons(
        executor.compare("both", "both", [(0, 1)], rtol=search.rtol, atol=search.atol)
    )
    executor.drop("both")
    executor.unload(PIECE)
    same = comparison.equal if not search.rtol and not search.atol else comparison.close
    return "" if same else difference(comparison)
