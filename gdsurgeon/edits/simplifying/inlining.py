"""Plain calls: the bodies of functions in their place, as `inline` puts them there, where that makes nothing larger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

from gdsurgeon.analysis.traversal.control_flow import control_flow
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs, Stage
from gdsurgeon.edits.functions import XLA_MUST_COMPILE
from gdsurgeon.edits.inline import bodies, call_of, inline, inner_nodes, is_call
from gdsurgeon.errors import EditError, Json
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.text import Entry, counted
from gdsurgeon.wire.write import ChunkSource, resolved

STANDS_FOR = frozenset(("_implements", "api_implements"))
"""Attrs of a function that TensorFlow, or who converts its graphs, may take another for: it has to stay one."""
_GOING = frozenset(("Identity", "NoOp"))
"""Ops that the other passes mostly take away."""
Passes = Callable[[Graph], None]


def inlined(graph: Graph, kept: Iterable[Node], passes: Passes) -> Stage | None:
    """Inlines the calls of those functions for which that is to be done; what it has done, None where that is nothing.

    Args:
        graph: changed in place.
        kept: nodes whose names have to stay, and give what they gave.
        passes: has the other passes done, on a copy of the graph.
    """
    if graph.is_body or graph.serving is not None or not len(graph.functions):
        return None  # the objects of a model keep its functions, whoever calls them
    calls = _calls(graph, kept)
    for names in (list(calls), [name for name, found in calls.items() if not _grows(graph, found)]):
        if names and _pays(graph, names, passes):
            before = graph.pristine() if not graph.is_changed else written(graph)
            return Stage(before, inline(graph, names, keep_names=True))
    return None


def after_inlining(first: Stage, before: Graph, later: EditResult) -> EditResult:
    """What inlining, FIRST, and then the other passes, LATER, come to; BEFORE is the graph between.

    The calls must not optimise their functions by themselves where both graphs are compared bit for bit.
    """
    intent = first.result.intent.then(later.intent)
    compared = SameGiven | SameOutputs
    claims = tuple(replace(claim, as_written=True) if isinstance(claim, compared) else claim for claim in later.claims)
    calls = [name for claim in first.result.claims if isinstance(claim, SameOutputs) for name in claim.also]
    told = [Entry("inlined", counted(len(calls), "call")), *later.told]
    facts = {**later.facts, "passes": {"inline": len(calls), **cast("dict[str, Json]", later.facts["passes"])}}
    stages = (first, *(later.stages or (Stage(before, replace(later, facts={})),)))
    return EditResult(intent, claims, later.warnings, later.notes, told, facts, stages=stages)


def written(graph: Graph) -> Graph:
    """GRAPH as it would be read from what is written of it now."""
    out = Graph(ChunkSource(resolved(graph.chunks()), graph.source_name))
    out.serving = graph.serving
    return out


def _calls(graph: Graph, kept: Iterable[Node]) -> dict[str, list[Node]]:
    """The calls of each function all of whose calls can be inlined, and nobody could tell.

    Not in a loop or a branch, where gates would have to be made; not of a function that XLA compiles, or that stands
    for another; not where the name of a call has to stay that somebody reads.
    """
    topology = topology_of(graph)
    flow = control_flow(topology)
    named = {node.name for node in kept}
    found: dict[str, list[Node]] = {}
    barred: set[str] = set()
    for number in topology.with_ops(op for op in topology.ops() if is_call(op, graph)):
        node = topology.node(number)
        name = call_of(node).function
        found.setdefault(name, []).append(node)
        is_read = node.name in named and any(True for _ in topology.users(number))
        if flow.frames[number] or flow.sides[number] or is_read:
            barred.add(name)
    return {name: calls for name, calls in found.items() if name not in barred and _may_go(graph, calls)}


def _may_go(graph: Graph, calls: list[Node]) -> bool:
    """Whether the function of CALLS, and all that it calls, is nothing but its nodes."""
    try:
        found = bodies(graph, calls)
    except EditError:
        return False  # a broken one, which nobody may ever call
    inside = (node for body in found.values() for node in inner_nodes(body))
    if any(node.plain_attr(XLA_MUST_COMPILE) for node in (*calls, *inside)):
        return False
    return not any(STANDS_FOR & set(graph.functions[name].attr) for name, _ in found if name in graph.functions)


def _pays(graph: Graph, names: list[str], passes: Passes) -> bool:
    """Whether the file is not larger for it at once, or after the other passes no larger than it is without."""
    tried = written(graph)
    inline(tried, names, keep_names=True)
    if written_size(tried) <= written_size(graph):
        return True
    tried, other = written(tried), written(graph)
    passes(tried)
    passes(other)
    return written_size(tried) <= written_size(other)


def written_size(graph: Graph) -> int:
    """The bytes of a graph as it would be written."""
    return ChunkSource(resolved(graph.chunks()), "").size


def _grows(graph: Graph, calls: list[Node]) -> bool:
    """Whether the nodes of a function, once for each of its CALLS, are more bytes than the calls and it itself."""
    names = graph.functions.reachable([call_of(calls[0]).function])
    spared = sum(len(call.name) + sum(len(read.name) for read in call.inputs) for call in calls)
    made = 0
    for function in map(graph.functions.__getitem__, names):
        spared += function.ByteSize()
        for node in function.node_def:
            if node.op not in _GOING:
                made += node.ByteSize() * (1 if node.op == "Const" else len(calls))  # equal constants become one
    return made > spared
