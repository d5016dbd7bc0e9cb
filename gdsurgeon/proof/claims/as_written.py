"""Graphs whose calls TensorFlow runs as they are written."""

from __future__ import annotations

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.functions.definition import NO_OPTIMIZER_OF_ITS_OWN
from gdsurgeon.graph.attrs import bytes_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.ops.kinds import CALLS
from gdsurgeon.proof.engine import await_loaded
from gdsurgeon.proof.trial import EDITED, ORIGINAL, TrialContext, both_load
from gdsurgeon.wire.write import read_chunks

_KEY = "config_proto"


def load_as_written(context: TrialContext) -> None:
    """Has both graphs loaded so that no call of a function optimises this by itself when it is first run.

    A call does so, in a session that has the optimiser turned off, too, unless it says otherwise; and rounds then
    differently from the same nodes outside of a function. The edited graph must have loaded as it is.

    Raises:
        ValidationError, NotValidatedError: see `gdsurgeon.proof.engine.await_loaded`.
    """
    change, executor = context.change, context.executor
    for key, graph in ((ORIGINAL, change.before), (EDITED, change.after)):
        data = read_chunks(graph.chunks())
        plain = from_bytes(data, graph.source_name)
        _forbid_optimizers(plain)
        if plain.is_edited or plain.functions.is_changed:
            await_loaded(executor, key, both_load(change)[key])
            executor.load_bytes(key, read_chunks(plain.chunks()))


def _forbid_optimizers(graph: Graph) -> None:
    value = bytes_value(NO_OPTIMIZER_OF_ITS_OWN)
    data = value.SerializeToString(deterministic=True)
    topology = topology_of(graph)
    for number in topology.with_ops(CALLS):
        node = topology.node(number)
        if node.attr_bytes(_KEY) != data:
            graph.set_attr(node, _KEY, data)
    for function in list(graph.functions):
        calls = [place for place, node in enumerate(function.node_def) if node.op in CALLS and node.attr[_KEY] != value]
        if calls:
            changed = type(function)()
            changed.CopyFrom(function)
            for place in calls:
                changed.node_def[place].attr[_KEY].CopyFrom(value)
            graph.functions.replace(changed)
