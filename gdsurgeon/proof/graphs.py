"""Graphs that run with changes: a consumer reads a different tensor, or nodes have other attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import DETERMINISTIC
from gdsurgeon.analysis.queries.usage import op_usage
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.functions import NO_OPTIMIZER_OF_ITS_OWN
from gdsurgeon.edits.reroute import check_acyclic
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import bool_value, bytes_value, int_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.kinds import CALLS, is_random
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.proof.change import opened_again, with_restoring
from gdsurgeon.proof.executor import await_loaded
from gdsurgeon.proof.trial import EDITED, ORIGINAL, Session
from gdsurgeon.wire.protos import AttrValue
from gdsurgeon.wire.write import read_chunks


def rewired(graph: Graph, places: Mapping[str, str], constants: Mapping[str, bytes]) -> Graph | None:
    """Returns `graph` with other inputs of some nodes, and other values of constants.

    Args:
        graph: is not changed.
        places: for tensors of `graph` the tensor that their consumers read instead.
        constants: for Const nodes of `graph` the serialised AttrValue of their new value.

    Returns:
        The graph; None if it lacks a tensor or a constant, or would have a cycle.
    """
    if graph.is_edited:
        out = from_bytes(read_chunks(graph.chunks()), graph.source_name)
        out.serving = serving_of(graph)
    else:
        out = opened_again(graph)
    slots: dict[Node, dict[int, Output]] = {}
    try:
        for old, new in places.items():
            source = out.tensor(new)
            for use in out.uses(out.tensor(old)):
                slots.setdefault(use.node, {})[use.slot] = source
        check_acyclic(topology_of(out), slots)
    except EditError:
        return None
    for name, value in constants.items():
        node = out.find(name)
        if node is None or node.op != "Const":
            return None
        out.set_attr(node, "value", value)
    out.set_slots(slots)
    return out


class OtherAttrs(NamedTuple):
    """New values of some attributes of all nodes with certain ops, also in functions."""

    ops: frozenset[str]
    values: Mapping[str, AttrValue]


def as_written() -> OtherAttrs:
    """Returns the attributes of function calls that are not optimized separately.

    By default, a call optimizes its function in its first run, even if the session does not optimize. The results are
    then rounded differently from the same nodes outside a function.
    """
    return OtherAttrs(CALLS, {"config_proto": bytes_value(NO_OPTIMIZER_OF_ITS_OWN)})


def of_one_seed(graph: Graph) -> list[OtherAttrs]:
    """Returns the attributes that make all random ops sample the same numbers; [] if an op of `graph` has no seed."""
    definitions = {usage.op: op_def(usage.op) for usage in op_usage(graph) if is_random(usage.op)}
    told: dict[bool, list[str]] = {}
    for op, found in definitions.items():
        if found is None or not {"seed", "seed2"} <= found.attrs.keys():
            return []
        told.setdefault(DETERMINISTIC in found.attrs, []).append(op)
    seeds = {"seed": int_value(1), "seed2": int_value(1)}
    values = {False: seeds, True: {DETERMINISTIC: bool_value(True), **seeds}}
    return [OtherAttrs(frozenset(ops), values[is_told]) for is_told, ops in told.items()]


def load_with(session: Session, others: Sequence[OtherAttrs]) -> None:
    """Loads both graphs again with other attributes, under the same keys. The edited graph must have loaded.

    Raises:
        ValidationError, NotValidatedError: see `gdsurgeon.proof.executor.await_loaded`.
    """
    change, executor = session.change, session.executor
    for key, graph in ((ORIGINAL, change.before), (EDITED, change.after)):
        data = read_chunks(graph.chunks())
        plain = from_bytes(data, graph.source_name)
        for item in others:
            _set(plain, item)
        if plain.is_edited or plain.functions.is_changed:
            await_loaded(executor, key, session.both_load()[key])
            executor.load_bytes(key, with_restoring(graph, read_chunks(plain.chunks())))


def _set(graph: Graph, others: OtherAttrs) -> None:
    spelt = {key: value.SerializeToString(deterministic=True) for key, value in others.values.items()}
    topology = topology_of(graph)
    for number in topology.with_ops(others.ops):
        node = topology.node(number)
        for key, data in spelt.items():
            if node.attr_bytes(key) != data:
                graph.set_attr(node, key, data)
    for function in list(graph.functions):
        places = [place for place, node in enumerate(function.node_def) if node.op in others.ops]
        changed = type(function)()
        changed.CopyFrom(function)
        for place in places:
            for key, value in others.values.items():
                changed.node_def[place].attr[key].CopyFrom(value)
        if changed != function:
            graph.functions.replace(changed)
