"""slim: keeps only the nodes of a model that its signatures need, with new nodes that restore their variables."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.traversal.topology import members, topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.change_signatures import pairs, signature_of, told
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.edits.decorator import edit
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.replacing import drop_nodes
from gdsurgeon.edits.saver import SCOPE, add_saver, restored_once
from gdsurgeon.errors import EditError, Line, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import free_scope
from gdsurgeon.graph.served import serving_of, tensor_now
from gdsurgeon.ops.kinds import TEMPORARY, is_variable
from gdsurgeon.text import Entry, counted

_WITHOUT_STATE = frozenset(("Const", "NoOp"))


@edit()
def slim(graph: Graph, *, signatures: Sequence[str] = ()) -> EditResult:
    """Reduces the graph of a SavedModel or a MetaGraph to the nodes that `signatures` need.

    New nodes restore and save the remaining variables. They replace the present saver, if there is one, and also
    restore variables that otherwise only the objects of the model restore. Initializers of tables stay.

    Args:
        graph: changed in place, with `Graph.serving`.
        signatures: the keys of signatures; by default all that are called.

    Raises:
        EditError: the graph is not part of a model with signatures, no such key, or a signature needs a variable that
            is neither restored nor initialised.
    """
    serving = serving_of(graph)
    if serving is None or graph.serving is None:
        message = f"{printable(graph.source_name)} is a plain GraphDef; slim expects a SavedModel or a .meta file"
        raise EditError(message, code="wrong-format", file=graph.source_name)
    if not serving.called:
        model = printable(graph.source_name)
        line = Line("{model} has no signatures, so it is unknown which parts are needed", model=model)
        raise EditError(line, code="no-such-signature")
    called = {key: signature_of(graph, serving, key) for key in signatures or serving.called}
    topology = topology_of(graph)
    tensors = dict.fromkeys(text for served in called.values() for text in served.tensors)
    kept = topology.upstream([topology.id_of(graph.tensor(text).node) for text in tensors])
    run = serving.initialising
    loading = topology.upstream([topology.id_of(graph[name]) for name in (run.targets if run is not None else ())])
    is_initialised = any(kept[n] and topology.op(n) not in _WITHOUT_STATE for n in members(loading))
    for number in members(loading) if is_initialised else ():
        kept[number] = 1
    nodes = [topology.node(number) for number in members(kept)]
    for node in nodes:
        is_lost = is_variable(node.op) and node.op not in TEMPORARY and node.name not in serving.keys
        if is_lost and not (is_initialised and loading[topology.id_of(node)]):
            message = f"the variable {quoted(node.name)}, needed by a signature, is neither restored nor initialized"
            raise EditError(message, code="value-unknown", node=node.name)
    keys = restored_once(nodes, serving.keys)
    scope = free_scope(graph.names(), SCOPE)

    unneeded = [topology.name(number) for number in topology.numbers() if not kept[number]]
    intent = Intent(removed=drop_nodes(graph, unneeded))
    intent.functions.removed = drop_unused_functions(graph)
    saver, added = add_saver(graph, keys, scope) if keys else (None, [])
    intent.added = [node.name for node in added]
    run = graph.serving.initialising if is_initialised else None
    if run is not None:  # with the names of the file, without feeds of removed nodes
        feeds = {text: path for text, path in run.feeds.items() if tensor_now(graph, text) is not None}
        run = run._replace(feeds=feeds)
    graph.serving = graph.serving._replace(
        signatures={key: served for key, served in graph.serving.signatures.items() if key in called},
        meant=(),
        initialising=run,
        saver=saver,
        before=graph.serving.before or graph.serving,
    )
    summary = [told(key, served) for key, served in called.items()]
    summary.append(Entry("restores", counted(len(keys), "variable")))
    return EditResult(intent, (SameGiven({}, pairs(called), equation(())),), told=summary)
