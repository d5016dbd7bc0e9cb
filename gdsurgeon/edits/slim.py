"""slim: of a model stays what its signatures need, and nodes that restore their variables, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.change_signatures import pairs, signature_of, told
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.edits.decorator import edit
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.replacing import drop_colocations
from gdsurgeon.edits.saver import add_restoring, add_saving, restored_once, saver_in
from gdsurgeon.errors import EditError, Line, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import free_scope
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import serving_of, tensor_now
from gdsurgeon.graph.serving import Key, Restoring, Served, Serving
from gdsurgeon.ops.kinds import TEMPORARY, is_variable
from gdsurgeon.text import Entry, counted

SCOPE = "saver"
"""Under which names the nodes are put that restore and save variables."""
_WITHOUT_STATE = frozenset(("Const", "NoOp"))


@edit()
def slim(graph: Graph, *, signatures: Sequence[str] = ()) -> EditResult:
    """Cuts GRAPH, that of a SavedModel or a MetaGraph, down to what SIGNATURES need, and has it restore itself.

    Nodes that restore and save the variables that are left take the place of those that there were, if any: also
    variables that only the model's objects could restore. What initialises tables stays with these.

    Args:
        graph: changed in place, and `Graph.serving` with it.
        signatures: keys; none: all that somebody calls.

    Raises:
        EditError: GRAPH is part of no model with signatures; there is no such key; or a signature needs a variable that
            is neither restored nor initialised.
    """
    serving = serving_of(graph)
    if serving is None or graph.serving is None:
        raise EditError(
            f"{printable(graph.source_name)} is a plain GraphDef; slim expects a SavedModel or a .meta file",
            code="wrong-format",
            file=graph.source_name,
        )
    if not serving.called:
        line = Line(
            "{model} has no signatures, so it is unknown which parts are needed", model=printable(graph.source_name)
        )
        raise EditError(line, code="no-such-signature")
    called = {key: signature_of(graph, serving, key) for key in signatures or serving.called}
    topology = topology_of(graph)
    kept = topology.upstream([topology.id_of(graph.tensor(text).node) for text in _tensors(called)])
    initialising = _initialising(graph, serving, topology, kept)
    first = [topology.id_of(graph[name]) for name in (initialising.targets if initialising is not None else ())]
    loading = topology.upstream(first)
    for number in members(loading):
        kept[number] = 1
    keys = _keys(serving, [topology.node(n) for n in members(kept)], topology, loading)
    scope = free_scope(graph.names(), SCOPE)

    going = [topology.node(number) for number in topology.numbers() if not kept[number]]
    intent = Intent(removed=[node.name for node in going])
    drop_colocations(graph, going)
    graph.remove(going)
    intent.functions.removed = drop_unused_functions(graph)
    added = [*add_restoring(graph, keys, scope), *add_saving(graph, keys, scope)] if keys else []
    intent.added = [node.name for node in added]
    graph.serving = graph.serving._replace(
        signatures={key: served for key, served in graph.serving.signatures.items() if key in called},
        meant=(),
        initialising=_in_file(graph, graph.serving.initialising) if initialising is not None else None,
        saver=saver_in(scope, keys) if keys else None,
        before=graph.serving.before or graph.serving,
    )
    lines = [told(key, served) for key, served in called.items()]
    lines.append(Entry("restores", counted(len(keys), "variable")))
    return EditResult(intent, (SameGiven({}, pairs(called), equation(())),), told=lines)


def _tensors(called: Mapping[str, Served]) -> list[str]:
    """The tensors that signatures take and give."""
    sides = (side for served in called.values() for side in (served.inputs, served.outputs))
    return list(dict.fromkeys(tensor for side in sides for tensor in side.values()))


def _initialising(graph: Graph, serving: Serving, topology: Topology, kept: bytearray) -> Restoring | None:
    """What a loader initialises the model by, where that is about anything which is KEPT."""
    run = serving.initialising
    if run is None:
        return None
    above = topology.upstream([topology.id_of(graph[name]) for name in run.targets])
    concerned = (n for n in members(above) if kept[n] and topology.op(n) not in _WITHOUT_STATE)
    return run if next(concerned, None) is not None else None


def _in_file(graph: Graph, run: Restoring | None) -> Restoring | None:
    """RUN, by the names of the file, without the feeds of what is gone."""
    if run is None:
        return None
    return run._replace(feeds={text: path for text, path in run.feeds.items() if tensor_now(graph, text) is not None})


def _keys(serving: Serving, kept: Sequence[Node], topology: Topology, loading: bytearray) -> dict[Node, Key]:
    """Where the checkpoint has the values of the variables among KEPT.

    Raises:
        EditError: one has no value, and is not among what is run for LOADING either.
    """
    for node in kept:
        is_kept = is_variable(node.op) and node.op not in TEMPORARY
        if is_kept and node.name not in serving.keys and not loading[topology.id_of(node)]:
            raise EditError(
                f"the variable {quoted(node.name)}, needed by a signature, is neither restored nor initialized",
                code="value-unknown",
                node=node.name,
            )
    return restored_once(kept, serving.keys)
