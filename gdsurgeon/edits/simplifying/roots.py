"""What has to stay: names that somebody uses, and what is done for good."""

from __future__ import annotations

from gdsurgeon.analysis.queries.training import needed_initialisers
from gdsurgeon.edits.simplifying.draft import CHECKS, Draft
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import RESOURCE
from gdsurgeon.ops.kinds import CONTROL_FLOW, is_random


def served_nodes(graph: Graph) -> list[Node]:
    """The nodes that a model's signatures, and what restores and initialises it, name."""
    serving = serving_of(graph)
    return [graph[name] for name in serving.nodes if name in graph] if serving is not None else []


def lasting(draft: Draft) -> list[int]:
    """The nodes that do something which lasts, and those that there are to have it done."""
    ends = [number for number in draft.with_ops(("NoOp",)) if _is_end(draft, number)]
    return ends + [number for number in draft.not_pure() if _lasts(draft, number)]


def fetched_by_savers(draft: Draft) -> list[int]:
    """In a model, what nobody reads and waits for something that lasts: what a saver fetches, by its name."""
    if draft.graph.serving is None:
        return []
    top = draft.topology
    awaiting = (n for n in draft.order() if draft.has_controls(n) and not top.users(n))
    return [n for n in awaiting if any(port < 0 and _lasts(draft, other) for other, port in top.reads(n))]


def _lasts(draft: Draft, number: int) -> bool:
    op = draft.topology.op(number)
    if op in CONTROL_FLOW or draft.is_pure(number) or (op in CHECKS and not draft.keeps_checks):
        return False
    return not (is_random(op) and not _takes_resource(draft.graph, op))


def _is_end(draft: Draft, number: int) -> bool:
    """Whether it is a NoOp that somebody may run to have done what it waits for."""
    is_noop = draft.topology.op(number) == "NoOp"
    return is_noop and not draft.harmless[number] and not draft.topology.users(number)


def _takes_resource(graph: Graph, op: str) -> bool:
    definition = graph.op_def(op)
    return definition is None or any(arg.dtype == RESOURCE for arg in definition.inputs)


def initialising(draft: Draft) -> list[int]:
    """What gives variables and tables their values that the names which stay depend on."""
    kept = draft.topology.upstream(number for number, flag in enumerate(draft.kept) if flag)
    return needed_initialisers(draft.topology, kept)
