"""The ops of a graph that an engine lacks, including those in called functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from gdsurgeon.analysis.queries.function_usage import used_functions
from gdsurgeon.analysis.queries.op_usage import op_counts
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.engines import SELECT, Engine


class Place(NamedTuple):
    """A node: FUNCTION is in whose body it is, '' where it is one of the graph."""

    function: str
    node: str


@dataclass
class LackingOp:
    """An op that an engine lacks.

    Attributes:
        nodes: how many nodes there are of it, in functions too.
        first: some of these nodes, those of the graph before those of functions.
        is_select: whether the engine takes it as an op of TensorFlow that is linked into the program.
    """

    op: str
    is_select: bool = False
    nodes: int = 0
    first: list[Place] = field(default_factory=list)


class OpsOfGraph(NamedTuple):
    """What was looked at, and what an engine lacks of it.

    Attributes:
        lacking: the most frequent first.
        nodes: of the graph and of the functions that it uses.
        ops: how many different ones these have.
    """

    lacking: list[LackingOp]
    nodes: int
    ops: int


MOST_PLACES = 1000
"""How many nodes of an op are named, at most."""


def lacking_ops(graph: Graph, engine: Engine) -> OpsOfGraph:
    """Which ops of GRAPH, and of the functions that its nodes come to use, ENGINE lacks. O(n)."""
    counts = Counter(op_counts(graph))
    found: dict[str, LackingOp] = {}
    for op in filter(partial(_is_lacking, graph, engine), list(counts)):
        found[op] = LackingOp(op, engine.ops.get(op) == SELECT, counts[op], list(_places(graph, op)))
    for function in sorted(used_functions(graph)):
        for node in graph.functions[function].node_def if function in graph.functions else ():
            counts[node.op] += 1
            if _is_lacking(graph, engine, node.op):
                lacking = found.setdefault(node.op, LackingOp(node.op, engine.ops.get(node.op) == SELECT))
                lacking.nodes += 1
                if len(lacking.first) < MOST_PLACES:
                    lacking.first.append(Place(function, node.name))
    ranked = sorted(found.values(), key=lambda each: (-each.nodes, each.op))
    return OpsOfGraph(ranked, counts.total(), len(counts))


def _is_lacking(graph: Graph, engine: Engine, op: str) -> bool:
    """Returns whether `engine` lacks `op`; functions of the graph are not ops."""
    return op not in graph.functions and engine.ops.get(op, SELECT) == SELECT


def _places(graph: Graph, op: str) -> Iterator[Place]:
    topology = topology_of(graph)
    return (Place("", topology.node(number).name) for number in topology.with_ops([op])[:MOST_PLACES])
