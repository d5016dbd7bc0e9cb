"""inline: replaces calls by the nodes of the functions that they call. The reverse of fuse-ops."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.checks.check import recursions
from gdsurgeon.analysis.queries.effects import only_computes
from gdsurgeon.analysis.traversal.control_flow import control_flow_of
from gdsurgeon.analysis.traversal.order import producers_first
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.decorator import edit, of_selection
from gdsurgeon.edits.functions import XLA_MUST_COMPILE, allowed, drop_unused_functions
from gdsurgeon.edits.replacing import add_identity, drop_nodes, move_controls, remove_unused
from gdsurgeon.errors import EditError, NothingToDo, printable, quoted
from gdsurgeon.graph.attrs import string_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLS, FRAME_NAME, STATED_SHAPES
from gdsurgeon.select import Nodes, nodes_of
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.wire.protos import AttrValue

MOST_NODES = 2_000_000
"""The largest number of nodes that inlining can make. A chain of functions that call the next function twice would make
more nodes than fit into memory."""


class FunctionCall(NamedTuple):
    """A call of a function: the name of the function, and the values of its attrs."""

    function: str
    values: Mapping[str, AttrValue]


BodyKey = tuple[str, bytes]
"""The identity of a function body: the function, and the values of its attrs."""


@edit(nodes=of_selection)
def inline(
    graph: Graph,
    functions: Sequence[str] = (),
    *,
    nodes: Nodes | None = None,
    keep_names: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> EditResult:
    """Replaces calls by the nodes of the called functions, including the calls inside these functions.

    Calls are PartitionedCall, StatefulPartitionedCall and nodes whose op is a function. Loops and conditionals (While,
    If, ...) keep their functions. Functions that become unused are removed. Nodes of a function without effects and
    without consumers are left out.

    Args:
        graph: changed in place.
        functions: the functions to inline; by default all.
        nodes: the calls to inline; by default all. Nodes that are not calls stay.
        keep_names: keep the name of each node in the function if it is free, instead of ``CALL/NAME``.
        rtol, atol: the allowed differences of the outputs. By default the outputs are equal, or nearly equal if a call
            was compiled by XLA.

    Raises:
        EditError: no such function, no call of it, a function contains an unknown op or an input that does not exist,
            or inlining would make more than `MOST_NODES` nodes. The graph is unchanged.
    """
    for name in functions:
        if name not in graph.functions:
            near = nearest(name, [function.signature.name for function in graph.functions])
            line = f"{printable(graph.source_name)} has no function {quoted(name)}.{suggestion(near)}"
            raise EditError(line, code="no-such-function", function=name, near=near)
    topology = topology_of(graph)
    calls = [topology.node(n) for n in topology.with_ops(op for op in topology.ops() if is_call(op, graph))]
    chosen = None if nodes is None else set(nodes_of(graph, nodes))
    calls = [node for node in calls if not functions or call_of(node).function in functions]
    calls = [node for node in calls if chosen is None or node in chosen]
    if not calls:
        what = f"of {', '.join(map(quoted, functions))}" if functions else "in the graph"
        raise NothingToDo(f"the model has no call {what} to inline; loops and conditionals keep their functions")
    inlined = bodies(graph, calls)
    _check_size(graph, calls, inlined)
    inside = [node for body in inlined.values() for node in inner_nodes(body)]
    compiled = any(node.plain_attr(XLA_MUST_COMPILE) for node in (*inside, *calls))
    flow = control_flow_of(graph)
    numbers = {node: topology.id_of(node) for node in calls}
    may_not_run = {node: bool(flow.frames[number] or flow.sides[number]) for node, number in numbers.items()}
    intent = _inline(graph, may_not_run, inlined, keep_names)
    intent.functions.removed = drop_unused_functions(graph, (name for name, _ in inlined))
    also = tuple(node.name for node in calls)
    claim = SameOutputs(allowed(rtol, atol, is_compiled=compiled), also=also, as_written=True)
    return EditResult(intent, (claim,))


# -- calls and functions -----------------------------------------------------------------------------------


def call_of(node: Node) -> FunctionCall:
    """Returns the function that a call runs."""
    if node.op not in CALLS:
        return FunctionCall(node.op, dict(node.attrs()))
    value = node.attr("f")
    return FunctionCall(value.func.name, dict(value.func.attr)) if value is not None else FunctionCall("", {})


def is_call(op: str, graph: Graph) -> bool:
    """Returns whether a node of the op only calls a function of the graph."""
    return op in CALLS or op in graph.functions


def inner_nodes(body: Body) -> list[Node]:
    """Returns the nodes of a function without its arguments and results."""
    return [node for node in body.graph.nodes() if node not in body.graph.ends]


def body_key(call: FunctionCall) -> BodyKey:
    """Returns the key of the body that a call runs."""
    values = sorted(call.values.items())
    return call.function, b"".join(k.encode() + b"\0" + v.SerializeToString(deterministic=True) for k, v in values)


def bodies(graph: Graph, calls: Iterable[Node]) -> dict[BodyKey, Body]:
    """Returns the functions that `calls` run directly or indirectly, as graphs.

    Raises:
        EditError: see `Body`; or functions are recursive; or the numbers of inputs and arguments differ.
    """
    out: dict[BodyKey, Body] = {}
    pending = list(calls)
    library = graph.functions
    reachable = library.reachable([call_of(node).function for node in pending])
    for path in recursions({name: library.calls(name) for name in reachable}):
        message = f"recursive functions cannot be inlined: {' -> '.join(map(quoted, path))}"
        raise EditError(message, code="recursion", functions=path)
    while pending:
        caller = pending.pop()
        call = call_of(caller)
        key = body_key(call)
        body = out.get(key)
        if body is None:
            body = out[key] = Body(graph, call.function, call.values)
            pending += [node for node in inner_nodes(body) if is_call(node.op, graph)]
        found, expected = len(caller.inputs), len(body.arguments)
        if found != expected:
            raise EditError(
                f"{quoted(caller.name)} has {found} inputs, but the function {quoted(call.function)} has {expected} "
                "arguments",
                code="wrong-count",
                node=caller.name,
                function=call.function,
                expected=expected,
                found=found,
            )
    return out


def _check_size(graph: Graph, calls: Iterable[Node], inlined: Mapping[BodyKey, Body]) -> None:
    """Raises EditError if inlining would make more than `MOST_NODES` nodes."""
    numbers = {key: number for number, key in enumerate(inlined)}

    def called(nodes: Iterable[Node]) -> list[int]:
        return [numbers[body_key(call_of(node))] for node in nodes if is_call(node.op, graph)]

    content = list(map(inner_nodes, inlined.values()))
    inner, sizes = list(map(called, content)), list(map(len, content))
    for number in producers_first(range(len(sizes)), len(sizes), inner.__getitem__):
        sizes[number] += sum(sizes[other] - 1 for other in inner[number])
    count = sum(sizes[number] for number in called(calls))
    if count > MOST_NODES:
        message = f"inlining would make {count:,} nodes; the limit is {MOST_NODES:,}"
        raise EditError(message, code="too-large", count=count, most=MOST_NODES)


# -- inlining ----------------------------------------------------------------------------------------------


def _inline(graph: Graph, calls: Mapping[Node, bool], inlined: Mapping[BodyKey, Body], keep_names: bool) -> Intent:
    """Inlines calls one after the other, each with its inner calls, and removes inlined nodes that are not needed.

    A call runs only if all its inputs and control inputs run. If it has control inputs, or is in a loop or branch,
    Identity nodes give its arguments the same dependencies.

    Args:
        graph: changed in place.
        calls: for each call whether it is in a loop or branch.
        inlined: the bodies; see `bodies`.
        keep_names: see `inline`.
    """
    names = [call.name for call in calls]
    taken = frozenset(names)
    unique = UniqueNames(lambda name: name in graph or name in taken)
    added: list[Node] = []
    replaced: dict[Output, Output] = {}  # outputs of calls, and the tensors that replace them
    rewired: list[tuple[Node, int, str]] = []
    waiting: dict[Node, None] = {}

    def add(name: str, values: Sequence[Output], controls: Sequence[Node], after: Node) -> Node:
        added.append(add_identity(graph, unique(name), values, controls, after))
        return added[-1]

    def enter(call: Node, may_not_run: bool) -> tuple[Sequence[Output], list[Node]]:
        """Returns the tensors that replace the arguments, and the control inputs of inner nodes without inputs."""
        if not may_not_run and not call.controls:
            return call.inputs, []
        controls = list(call.controls)
        values: Sequence[Output] = call.inputs
        if may_not_run and values and (len(values) > 1 or controls):
            values = [add(f"{call.name}/given", [output], [], call).output for output in values]
            controls += [value.node for value in values]
        if len(controls) > 1:
            controls = [add(f"{call.name}/start", [], controls, call)]
        gated = [add(f"{call.name}/argument", [output], controls, call).output for output in values]
        return gated, controls or [output.node for output in gated]

    def leave(
        call: Node,
        results: Sequence[Output],
        effects: Sequence[Node],
        given: Sequence[Node],
        own: Container[Node],
    ) -> None:
        """Connects the users of a call to its results and effects, and removes the call.

        Args:
            call: the call.
            results: the tensors that replace its outputs.
            effects: inner nodes that must run.
            given: the nodes that the call depended on.
            own: the nodes that replace the call.
        """
        users = graph.users(call)
        has_controls = any(call in user.controls for user in users)
        above = dict.fromkeys(output.node for output in results)
        loose = [node for node in effects if node not in above]
        ends = dict.fromkeys([*above, *loose, *given])
        keeper: Node | None = None  # keeps the name of an output of the graph, and runs the effects
        if loose or not any(read.node is call for user in users for read in user.inputs):
            after = loose if results else loose or given
            if has_controls:
                after = [node for node in _last(ends, own) if node not in above]
            keeper = add(f"{call.name}/{'results' if results else 'done'}", results, after, call)
            if results and call.has_attr(STATED_SHAPES):  # can state more than follows from the function
                graph.set_attr(keeper, STATED_SHAPES, call.attr_bytes(STATED_SHAPES))
        place = [Output(keeper, i) for i in range(len(results))] if keeper is not None else list(results)
        replaced.update((Output(call, i), output) for i, output in enumerate(place))
        done = [keeper] if keeper is not None else _last(ends, own) if has_controls else []
        if len(done) > 1:
            done = [add(f"{call.name}/done", [], done, call)]
        for user in users:
            slots = [slot for slot, read in enumerate(user.inputs) if read.node is call]
            if slots:
                rewired.extend((user, slot, user.inputs[slot].name) for slot in slots)
                graph.set_slots({user: {slot: place[user.inputs[slot].index] for slot in slots}})
            if call in user.controls:
                move_controls(graph, [user], {call: done})
                waiting[user] = None
        (name,) = drop_nodes(graph, [call.name])
        if keeper is not None:
            graph.rename({keeper: name})

    given = {o.name: o for call in calls for o in (Output(call, i) for i in range(len(call.output_dtypes or ())))}
    pending = list(calls.items())[::-1]
    while pending:
        (call, may_not_run), made = pending.pop(), len(added)
        body = inlined[body_key(call_of(call))]
        nodes: dict[Node, Node] = {}
        for old in inner_nodes(body):
            name = unique(old.name if keep_names else f"{call.name}/{old.name}")
            attrs = {key: value for key in old.attr_keys if (value := old.attr_bytes(key)) is not None}
            if FRAME_NAME in attrs:
                frame = string_value(f"{call.name}/{old.text_attr(FRAME_NAME)}")
                attrs[FRAME_NAME] = frame.SerializeToString()
            nodes[old] = graph.add(name, old.op, attrs=attrs, device=old.device or call.device, after=call)
        added.extend(nodes.values())
        outside, start = enter(call, may_not_run)
        now: dict[Node, Sequence[Output]] = {a: [o] for a, o in zip(body.arguments, outside, strict=True)}
        now |= {old: [Output(new, i) for i in range(old.output_count or 0)] for old, new in nodes.items()}
        for old, new in nodes.items():
            controls = [nodes[control] for control in old.controls if control in nodes]
            inputs = [now[read.node][read.index] for read in old.inputs]
            graph.set_reads(new, inputs, controls or ([] if inputs else start))
            if old.colocated:
                graph.set_colocated(new, [nodes[other] for other in old.colocated if other in nodes])
        results = [now[read.node][read.index] for result in body.results for read in result.inputs]
        before = list(dict.fromkeys([*start, *(output.node for output in outside)]))
        leave(call, results, [nodes[n] for n in body.control_results.values()], before, frozenset(added[made:]))
        pending += [(new, may_not_run) for new in nodes.values() if is_call(new.op, graph)]

    own = frozenset(added)
    remove_unused(graph, added, lambda n: n in own and n.name not in taken and only_computes(n))

    intent = Intent(added=[node.name for node in added if node in graph])
    here = set(intent.added)
    intent.removed = [name for name in names if name not in here]
    for name, output in given.items():
        end = output
        while end in replaced:
            end = replaced[end]
        if end.name != name and output.node.name not in here and end.node in graph:
            intent.moved[name] = end.name
    for node, slot, old_name in rewired:
        if node in graph and node.inputs[slot].name != old_name:
            intent.rewired.append(Rewired(node.name, slot, old_name, node.inputs[slot].name))
    intent.changed = [node.name for node in waiting if node in graph]
    return intent


def _last(nodes: Iterable[Node], own: Container[Node]) -> list[Node]:
    """Returns the nodes on which no other of the nodes depends, judged by paths through the nodes `own`."""
    ends = dict.fromkeys(nodes)

    def above(node: Node) -> Iterable[Node]:
        return (*(output.node for output in node.inputs), *node.controls) if node in own else ()

    seen = closure((other for end in ends for other in above(end)), above)
    return [node for node in ends if node not in seen]
