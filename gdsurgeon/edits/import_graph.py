"""import: another graph beside a model, in one file."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.edits.change_signatures import told
from gdsurgeon.edits.claims import EditResult, SameOutputs, SamePart, SameTensors
from gdsurgeon.edits.freeze import freeze, run_first
from gdsurgeon.edits.naming import naming, of_olds, of_tensors
from gdsurgeon.edits.node_copies import NodeCopy, plan_copy
from gdsurgeon.edits.parts import check_fits, no_placeholder
from gdsurgeon.edits.replacing import check_outside_of_loops
from gdsurgeon.errors import EditError, NothingToDo, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, parse_tensor, scope_prefix
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Restoring, Served
from gdsurgeon.ops.kinds import PLACEHOLDERS, UNSET_PLACEHOLDERS, is_table
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import Entry
from gdsurgeon.wire.write import ChunkSource
from gdsurgeon.wire.write import resolved as resolved_chunks


@public
@naming(connect=of_olds(of_tensors))
@edit
def import_graph(
    graph: Graph,
    other: Graph,
    *,
    scope: str = "",
    connect: Pairs[str, str] = (),
) -> EditResult:
    """Copies the nodes of OTHER into GRAPH.

    If OTHER is part of a model with signatures and a checkpoint, what its signatures need is frozen first: variables
    become constants, since a model has one checkpoint. If GRAPH is part of a model as well, that gets the signatures.

    Args:
        graph: changed in place.
        other: left as it is; its source must stay open until GRAPH is written.
        scope: the name scope that the nodes come under; it must not be in use. Without one they keep their names, and
            a name that is taken is made unique. The keys of signatures begin with it, too.
        connect: (tensor of GRAPH, placeholder of OTHER): what read the placeholder reads the tensor.

    Raises:
        EditError: the scope is in use, no such tensor or placeholder, types differ, OTHER cannot be frozen, or it has
            tables and GRAPH is part of a model; GRAPH is as it was.
    """
    prefix = scope_prefix(scope)
    if prefix and any(name.startswith(prefix) or name == prefix[:-1] for name in graph.names()):
        raise EditError(f"the scope {quoted(prefix[:-1])} is in use", code="name-taken", scope=prefix[:-1])
    if other is graph:
        other = graph.pristine()
    part = _frozen(other)
    initialising = _initialising(graph, other, part)
    warnings: list[str] = []
    replace: dict[Node, Output] = {}
    for tensor, placeholder in pairs_of(connect):
        node = _placeholder(part, placeholder)
        if node in replace:
            message = f"the placeholder {quoted(node.name)} is connected twice"
            raise EditError(message, code="given-twice", placeholder=node.name)
        replace[node] = graph.tensor(tensor)
        check_fits(replace[node], graph, node.output, part, warnings)
        check_outside_of_loops(topology_of(graph), [replace[node]])
    has_outputs = bool(output_nodes(graph))
    names = {node: prefix + node.name for node in part.nodes() if node not in replace} if prefix else {}
    copied = plan_copy(graph, part, replace=replace, names=names).apply()
    served = [output for node in output_nodes(other) if node.name in part for output in part[node.name].outputs]
    intent = copied.intent()
    claim = SamePart(
        other,
        {node.name: tensor.name for node, tensor in replace.items()},
        tuple((output.name, copied.output(output).name) for output in served if output.node not in replace),
        intent.copied,
    )
    read = tuple(dict.fromkeys(tensor.name for tensor in replace.values()))
    claims = (*((SameOutputs(),) if has_outputs else ()), *((SameTensors(read),) if read else ()), claim)
    result = EditResult(intent, claims, warnings, copied.notes(part))
    result.decided["part"] = part
    if initialising is not None:
        feeds = {copied.output(part.tensor(text)).name: path for text, path in initialising.feeds.items()}
        result.notes.append(run_first([copied.nodes[part[name]].name for name in initialising.targets], feeds))
    if part is not other:
        frozen = [name for name in other.serving.variables if name in part] if other.serving is not None else []
        result.told.append(Entry("frozen", f"{len(frozen):,} variables of {other.source_name}"))
    _add_signatures(graph, other, copied, prefix[:-1], {node.name for node in replace}, result)
    return result


def _frozen(other: Graph) -> Graph:
    """OTHER with constants for the variables that its signatures need; OTHER itself if there are none."""
    serving = serving_of(other)
    if serving is None or not serving.checkpoint or not serving.called:
        return other
    copy = Graph(other.source, text=other.text, file_bytes=other.file_bytes)
    copy.store, copy.serving = other.store, other.serving
    try:
        freeze(copy, outputs=list(dict.fromkeys(text for served in serving.called.values() for text in served.tensors)))
    except NothingToDo:
        return other
    return Graph(ChunkSource(resolved_chunks(copy.chunks()), other.source_name))


def _initialising(graph: Graph, other: Graph, part: Graph) -> Restoring | None:
    """Returns the run of a loader that initialises the tables in PART of OTHER; None if there are none.

    Raises:
        EditError: GRAPH is part of a model, whose loaders would not run it.
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
    """Gives the model of GRAPH the signatures of OTHER; RESULT says which, and which cannot be given."""
    theirs = serving_of(other)
    if theirs is None or not theirs.called:
        return
    if graph.serving is None:
        text = f"the signatures of {printable(other.source_name)} are left out: a GraphDef cannot hold signatures"
        result.notes.append(Remark(text, "no-signatures", signatures=list(theirs.called)))
        return
    mine = dict(graph.serving.signatures)
    unique = UniqueNames(lambda key: key in mine)
    at = {old.name: new for old, new in copied.nodes.items()}
    for key, served in theirs.called.items():
        own = f"{scope.replace('/', '_')}_{key}" if scope else key
        own = unique(own) if own in mine else own
        inputs, outputs = _copied(served.inputs, at), _copied(served.outputs, at)
        if not outputs or any("/" in name for name in (*served.inputs, *served.outputs)):
            why = "some of its tensors are not dense" if outputs else "it has no outputs"
            text = f"the signature {quoted(key)} of {printable(other.source_name)} is left out: {why}"
            result.notes.append(Remark(text, "no-signature", signature=key))
            continue
        if connected:
            inputs |= _reached(graph, inputs, outputs, {*at.values()})
        mine[own] = Served(inputs, outputs, served.method)
        result.told.append(told(own, mine[own]))
        lost = [name for name in served.inputs if name not in inputs]
        for name in lost:
            node = parse_tensor(served.inputs[name]).node
            why = "is connected" if node in connected else "is not needed"
            text = f"the signature {quoted(own)} has no input {quoted(name)}: it {why}"
            result.notes.append(Remark(text, "no-such-input", signature=own, name=name))
    graph.serving = graph.serving._replace(signatures=mine)


def _copied(named: Mapping[str, str], at: Mapping[str, Node]) -> dict[str, str]:
    """The tensors NAMED as they are called in the copy, without those that are not in it."""
    refs = {name: parse_tensor(text) for name, text in named.items()}
    return {name: Output(at[ref.node], ref.port).name for name, ref in refs.items() if ref.node in at}


def _reached(
    graph: Graph, inputs: Mapping[str, str], outputs: Mapping[str, str], copies: Collection[Node]
) -> dict[str, str]:
    """Further inputs of a signature: the placeholders, none of the COPIES, that OUTPUTS depend on."""
    topology = topology_of(graph)
    given = {topology.code(graph.tensor(text)) for text in inputs.values()}
    above = topology.upstream([topology.id_of(graph.tensor(text).node) for text in outputs.values()], given=given)
    numbers = [n for n in topology.with_ops(UNSET_PLACEHOLDERS) if above[n] and topology.node(n) not in copies]
    found = map(topology.name, numbers)
    return {name: name for name in found if name not in inputs and name not in inputs.values()}


def _placeholder(other: Graph, name: str) -> Node:
    node = other[name.removesuffix(":0")]
    if node.op not in PLACEHOLDERS:
        raise no_placeholder(node)
    return node
