"""Calls: conditionals and loops with constant conditions, and inlining of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gdsurgeon.analysis.queries.effects import have_state
from gdsurgeon.analysis.traversal.control_flow import control_flow
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import Stage
from gdsurgeon.edits.functions import XLA_MUST_COMPILE
from gdsurgeon.edits.inline import bodies, call_of, inline, inner_nodes, is_call
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import IFS, WHILES
from gdsurgeon.wire.protos import AttrValue
from gdsurgeon.wire.write import ChunkSource, resolved, size_of

DECIDABLE = {
    "Case": "StatefulPartitionedCall",
    "If": "StatefulPartitionedCall",
    "StatelessCase": "PartitionedCall",
    "StatelessIf": "PartitionedCall",
}
"""The ops that call one of several functions, and the calls that they become."""


def decide_calls(graph: Graph, before_change: Callable[[], object]) -> Intent:
    """Makes If and Case with a constant condition calls of one function, unless the constant has control inputs.

    A While whose condition is constantly false becomes an IdentityN. `before_change` is called before the first change.
    """
    topology = topology_of(graph)
    found = [(node, _chosen(node)) for node in map(topology.node, topology.with_ops(DECIDABLE))]
    calls = [(node, function) for node, function in found if function is not None]
    loops = [
        node
        for node in map(topology.node, topology.with_ops(WHILES))
        if node.inputs and not node.plain_attr(XLA_MUST_COMPILE) and _never_turns(graph, node)
    ]
    if calls or loops:
        before_change()
    for node, function in calls:
        lost = dict.fromkeys(key for key in node.attr_keys if key not in ("Tin", "Tout", "_class"))
        graph.replace_op(node, DECIDABLE[node.op], node.inputs[1:], lost | {"f": function})
    for node in loops:
        lost = dict.fromkeys(key for key in node.attr_keys if key not in ("T", "_class"))
        graph.replace_op(node, "IdentityN", attrs=lost)
    return Intent(changed=[node.name for node in (*(node for node, _ in calls), *loops)])


def _never_turns(graph: Graph, node: Node) -> bool:
    """Returns whether the condition of a loop is the constant false and has no effects."""
    condition = attr_value(node.attr_bytes("cond") or b"").func
    if have_state(graph, [condition.name]):
        return False
    try:
        body = Body(graph, condition.name, condition.attr)
    except EditError:
        return False
    found = body.results[0].inputs[0].node if len(body.results) == 1 else None
    while found is not None and found.op == "Identity" and not found.controls:
        found = found.inputs[0].node
    value = constant(found) if found is not None and not found.controls else None
    return value is not None and not value.shape and not value.values[0]


def _chosen(node: Node) -> bytes | None:
    """Returns the function that a node always calls, as a serialized AttrValue; None if it is unknown."""
    reads = node.inputs
    value = constant(reads[0].node) if reads and not reads[0].node.controls else None
    if value is None or value.shape or node.plain_attr(XLA_MUST_COMPILE):
        return None
    if node.op in IFS:
        return node.attr_bytes("then_branch" if value.values[0] else "else_branch")
    branches = attr_value(node.attr_bytes("branches") or b"").list.func
    index = value.values[0]
    if not branches or not isinstance(index, int):
        return None
    out = AttrValue()
    out.func.CopyFrom(branches[index if 0 <= index < len(branches) else len(branches) - 1])
    return bytes(out.SerializeToString(deterministic=True))


STANDS_FOR = frozenset(("_implements", "api_implements"))
"""Attrs of functions that TensorFlow or a converter may replace; these functions must stay."""
_GOING = frozenset(("Identity", "NoOp"))
"""Ops that other passes usually remove."""
Passes = Callable[[Graph], None]


def inlined(graph: Graph, kept: Iterable[Node], passes: Passes) -> Stage | None:
    """Inlines functions if that does not make the file larger. Returns the stage, or None if nothing was inlined.

    Args:
        graph: changed in place.
        kept: nodes that must keep their names and values.
        passes: runs the other passes on a copy of the graph.
    """
    if graph.is_body or graph.serving is not None or not len(graph.functions):
        return None  # the objects of a model keep its functions
    calls = _calls(graph, kept)
    for names in (list(calls), [name for name, found in calls.items() if not _grows(graph, found)]):
        if names and _pays(graph, names, passes):
            before = graph.pristine() if not graph.is_changed else written(graph)
            return Stage(before, inline(graph, names, keep_names=True))
    return None


def written(graph: Graph) -> Graph:
    """Returns the graph as it would be read from its current serialization."""
    out = Graph(ChunkSource(resolved(graph.chunks()), graph.source_name))
    out.serving = graph.serving
    return out


def _calls(graph: Graph, kept: Iterable[Node]) -> dict[str, list[Node]]:
    """Returns the calls of each function that can be inlined everywhere.

    Not in a loop or a branch, which would need gates; not if XLA compiles the function, or if it stands for an op; not
    if a call with consumers must keep its name.
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
    """Returns whether a function, and all that it calls, consists of nothing but its nodes."""
    try:
        found = bodies(graph, calls)
    except EditError:
        return False  # a broken function, which may never be called
    inside = (node for body in found.values() for node in inner_nodes(body))
    if any(node.plain_attr(XLA_MUST_COMPILE) for node in (*calls, *inside)):
        return False
    return not any(STANDS_FOR & set(graph.functions[name].attr) for name, _ in found if name in graph.functions)


def _pays(graph: Graph, names: list[str], passes: Passes) -> bool:
    """Returns whether inlining does not make the file larger, at once or after the other passes."""
    tried = written(graph)
    inline(tried, names, keep_names=True)
    if size_of(tried.chunks()) <= size_of(graph.chunks()):
        return True
    tried, other = written(tried), written(graph)
    passes(tried)
    passes(other)
    return size_of(tried.chunks()) <= size_of(other.chunks())


def _grows(graph: Graph, calls: list[Node]) -> bool:
    """Returns whether copies of a function's nodes for each of its calls need more bytes than the calls and the
    function.
    """
    names = graph.functions.reachable([call_of(calls[0]).function])
    spared = sum(len(call.name) + sum(len(read.name) for read in call.inputs) for call in calls)
    made = 0
    for function in map(graph.functions.__getitem__, names):
        spared += function.ByteSize()
        for node in function.node_def:
            if node.op not in _GOING:
                made += node.ByteSize() * (1 if node.op == "Const" else len(calls))  # equal constants become one
    return made > spared
