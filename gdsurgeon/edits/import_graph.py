"""import: copies a graph into the graph of a model."""

from __future__ import annotations

from collections.abc import Collection

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.edits.change_signatures import told
from gdsurgeon.edits.claims import EditResult, SameOutputs, SamePart, SameTensors
from gdsurgeon.edits.decorator import edit, of_olds, of_tensors
from gdsurgeon.edits.freeze import freeze, run_first
from gdsurgeon.edits.node_copies import NodeCopy, plan_copy
from gdsurgeon.edits.parts import check_fits, check_placeholder
from gdsurgeon.edits.replacing import check_outside_of_loops
from gdsurgeon.errors import EditError, NothingToDo, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, free_scope, parse_tensor, scope_prefix
from gdsurgeon.graph.node import Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Restoring, Served
from gdsurgeon.ops.kinds import UNSET_PLACEHOLDERS, is_table
from gdsurgeon.text import Entry


@edit(connect=of_olds(of_tensors))
def import_graph(
    graph: Graph,
    other: Graph,
    *,
    scope: str = "",
    connect: Pairs[str, str] = (),
) -> EditResult:
    """Copies the nodes of `other` into `graph`.

    If `other` is part of a model with signatures and a checkpoint, the part that its signatures need is frozen first,
    because a model has only one checkpoint. If `graph` is also part of a model, the model gets the signatures.

    Args:
        graph: changed in place.
        other: not changed. Its source must stay open until `graph` is written.
        scope: the name scope of the copied nodes, which must not be in use. Without a scope, the nodes keep their
            names, and names that are taken are made unique. The scope is also a prefix of the signature keys.
        connect: pairs (tensor of `graph`, placeholder of `other`): consumers of the placeholder read the tensor.

    Raises:
        EditError: the scope is in use, no such tensor or placeholder, types differ, `other` cannot be frozen, or it has
            tables and `graph` is part of a model. The graph is unchanged.
    """
    prefix = scope_prefix(scope)
    if prefix and free_scope(graph.names(), prefix[:-1]) != prefix[:-1]:
        raise EditError(f"the scope {quoted(prefix[:-1])} is in use", code="name-taken", scope=prefix[:-1])
    if other is graph:
        other = graph.pristine()
    part = _frozen(other)
    initialising = _initialising(graph, other, part)
    result = EditResult()
    replace: dict[Output, Output] = {}
    for text, placeholder in pairs_of(connect):
        node = part[placeholder.removesuffix(":0")]
        check_placeholder(node)
        if node.output in replace:
            message = f"the placeholder {quoted(node.name)} is connected twice"
            raise EditError(message, code="given-twice", placeholder=node.name)
        replace[node.output] = tensor = graph.tensor(text)
        check_fits(tensor, graph, node.output, part, result)
        check_outside_of_loops(graph, [tensor])
    has_outputs = bool(output_nodes(graph))
    copied = plan_copy(graph, part, replace=replace, scope=prefix).apply()
    served = [output for node in output_nodes(other) if node.name in part for output in part[node.name].outputs]
    intent = copied.intent()
    claim = SamePart(
        other,
        {placeholder.name: tensor.name for placeholder, tensor in replace.items()},
        tuple((output.name, copied.output(output).name) for output in served if output not in replace),
        intent.copied,
    )
    read = tuple(dict.fromkeys(tensor.name for tensor in replace.values()))
    claims = (*((SameOutputs(),) if has_outputs else ()), *((SameTensors(read),) if read else ()), claim)
    result.intent, result.claims, result.notes = intent, claims, copied.notes(part)
    result.decided["part"] = part
    if initialising is not None:
        feeds = {copied.output(part.tensor(text)).name: path for text, path in initialising.feeds.items()}
        result.notes.append(run_first([copied.nodes[part[name]].name for name in initialising.targets], feeds))
    if part is not other:
        frozen = [name for name in other.serving.keys if name in part] if other.serving is not None else []
        result.told.append(Entry("frozen", f"{len(frozen):,} variables of {other.source_name}"))
    _add_signatures(graph, other, copied, prefix[:-1], {output.name for output in replace}, result)
    return result


def _frozen(other: Graph) -> Graph:
    """Returns `other` with constants instead of the variables of its signatures; `other` itself if it has none."""
    serving = serving_of(other)
    if serving is None or not serving.checkpoint or not serving.called:
        return other
    copy = other.copy()
    try:
        freeze(copy, outputs=list(dict.fromkeys(text for served in serving.called.values() for text in served.tensors)))
    except NothingToDo:
        return other
    return copy.written()


def _initialising(graph: Graph, other: Graph, part: Graph) -> Restoring | None:
    """Returns the run of a loader that initialises the tables in `part` of `other`; None without tables.

    Raises:
        EditError: `graph` is part of a model, whose loaders would not run it.
    """
    theirs = serving_of(other)
    table = next((node for node in part.nodes() if is_table(node.op)), None)
    if theirs is None or theirs.initialising is None or table is None:
        return None
    if graph.serving is not None:
        line = f"{quoted(table.name)} of {printable(other.source_name)} is a table, which no loader would initialize"
        raise EditError(line, code="not-initialized", advice="import-frozen", node=table.name)
    targets = tuple(name for name in theirs.initialising.targets if name in part)
    feeds = {text: path for text, path in theirs.initialising.feeds.items() if text.partition(":")[0] in part}
    return Restoring(feeds, targets)


def _add_signatures(
    graph: Graph, other: Graph, copied: NodeCopy, scope: str, connected: Collection[str], result: EditResult
) -> None:
    """Adds the signatures of `other` to the model of `graph`; `result` gets a line for each signature."""
    theirs, name_of_other = serving_of(other), printable(other.source_name)
    if theirs is None or not theirs.called:
        return
    if graph.serving is None:
        text = f"the signatures of {name_of_other} are left out: a GraphDef cannot hold signatures"
        result.note(text, "no-signatures", signatures=list(theirs.called))
        return
    mine = dict(graph.serving.signatures)
    unique = UniqueNames(lambda key: key in mine)
    at = {old.name: new for old, new in copied.nodes.items()}
    for key, served in theirs.called.items():
        own = unique(f"{scope.replace('/', '_')}_{key}" if scope else key)
        refs = [{name: parse_tensor(text) for name, text in side.items()} for side in (served.inputs, served.outputs)]
        inputs, outputs = (
            {name: Output(at[ref.node], ref.port).name for name, ref in side.items() if ref.node in at} for side in refs
        )
        if not outputs or any("/" in name for name in (*served.inputs, *served.outputs)):
            why = "some of its tensors are not dense" if outputs else "it has no outputs"
            text = f"the signature {quoted(key)} of {name_of_other} is left out: {why}"
            result.note(text, "no-signature", signature=key)
            continue
        if connected:  # placeholders of the model that the outputs depend on are further inputs
            topology, copies = topology_of(graph), {*at.values()}
            given = {topology.code(graph.tensor(text)) for text in inputs.values()}
            ends = [topology.id_of(graph.tensor(text).node) for text in outputs.values()]
            above = topology.upstream(ends, given=given)
            numbers = [n for n in topology.with_ops(UNSET_PLACEHOLDERS) if above[n] and topology.node(n) not in copies]
            names = [name for name in map(topology.name, numbers) if name not in inputs.values()]
            inputs |= {name: name for name in names if name not in inputs}
        mine[own] = Served(inputs, outputs, served.method)
        result.told.append(told(own, mine[own]))
        for name in (name for name in served.inputs if name not in inputs):
            why = "is connected" if refs[0][name].node in connected else "is not needed"
            text = f"the signature {quoted(own)} has no input {quoted(name)}: it {why}"
            result.note(text, "no-such-input", signature=own, name=name)
    graph.serving = graph.serving._replace(signatures=mine)
