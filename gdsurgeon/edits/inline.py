"""inline: replaces calls by the nodes of the functions that they call. The reverse of fuse-ops."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.checks.functions import recursions
from gdsurgeon.analysis.queries.side_effects import only_computes
from gdsurgeon.analysis.traversal.control_flow import control_flow
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.functions import XLA_ATOL, XLA_MUST_COMPILE, XLA_RTOL, drop_left
from gdsurgeon.edits.naming import naming, of_selection
from gdsurgeon.edits.replacing import drop_colocations, hand_on
from gdsurgeon.errors import EditError, NothingToDo, printable, quoted
from gdsurgeon.graph.attrs import attr_value, string_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.closure import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.attr_names import FRAME_NAME, STATED_SHAPES
from gdsurgeon.ops.kinds import CALLS
from gdsurgeon.select import Nodes, nodes_of
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import nearest, suggestion
from gdsurgeon.wire.protos import AttrValue

MOST_NODES = 2_000_000
"""Nodes that inlining may make: functions that call the next one twice, a few dozen deep, would make more than there is
memory for."""


@public
@naming(nodes=of_selection)
@edit
def inline(
    graph: Graph,
    functions: Sequence[str] = (),
    *,
    nodes: Nodes | None = None,
    keep_names: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> EditResult:
    """Puts the bodies of functions in the place of their calls, calls inside the bodies included.

    Calls are PartitionedCall, StatefulPartitionedCall and nodes whose op is a function; loops and conditionals (While,
    If, ...) keep theirs. What nobody calls any more leaves the library. Nodes of bodies that have no effects and no
    consumers are left out.

    Args:
        graph: changed in place.
        functions: the functions to inline; all by default. Those that they call are inlined with them.
        nodes: the calls to inline; all by default. Other nodes among them stay as they are.
        keep_names: nodes are called what they are called in the body where that is free, instead of ``CALL/NAME``.
        rtol, atol: by how much the outputs may differ; by default not at all, and a little where XLA compiled a call.

    Raises:
        EditError: there is no such function or no call of it; a body holds an op that is not known, or a name that
            leads nowhere, or there would be more than `MOST_NODES` nodes; the graph is as it was.
    """
    for name in functions:
        if name not in graph.functions:
            known = [function.signature.name for function in graph.functions]
            near = nearest(name, known)
            line = f"{printable(graph.source_name)} has no function {quoted(name)}.{suggestion(near)}"
            raise EditError(line, code="no-such-function", facts={"function": name, "near": near})
    topology = topology_of(graph)
    calls = [topology.node(n) for n in topology.with_ops(op for op in topology.ops() if is_call(op, graph))]
    calls = [node for node in calls if not functions or call_of(node).function in functions]
    if nodes is not None:
        chosen = set(nodes_of(graph, nodes))
        calls = [node for node in calls if node in chosen]
    if not calls:
        what = f"of {', '.join(map(quoted, functions))}" if functions else "in the graph"
        raise NothingToDo(f"the model has no call {what} to inline; loops and conditionals keep their functions")
    inlined_bodies = bodies(graph, calls)
    _check_size(graph, calls, inlined_bodies)
    inside = [node for body in inlined_bodies.values() for node in inner_nodes(body)]
    compiled = any(node.plain_attr(XLA_MUST_COMPILE) for node in (*inside, *calls))
    flow = control_flow(topology)
    work = _Inlining(graph, inlined_bodies, keep_names, {node.name for node in calls})
    for node in calls:
        number = topology.id_of(node)
        work.inline(node, may_not_run=bool(flow.frames[number] or flow.sides[number]))
    intent = work.finish([node.name for node in calls])
    intent.functions.removed = drop_left(graph, (name for name, _ in inlined_bodies))
    loose = (XLA_RTOL, XLA_ATOL) if compiled else (0.0, 0.0)
    claim = SameOutputs(
        rtol=loose[0] if rtol is None else rtol,
        atol=loose[1] if atol is None else atol,
        also=tuple(node.name for node in calls),
        as_written=True,
    )
    return EditResult(intent, (claim,))


def _check_size(graph: Graph, calls: Iterable[Node], inlined: Mapping[BodyKey, Body]) -> None:
    """Raises EditError where the bodies of CALLS, with what they call, come to more than `MOST_NODES` nodes."""
    inner: dict[BodyKey, list[BodyKey]] = {}
    sizes: dict[BodyKey, int] = {}
    outer = [body_key(call_of(node)) for node in calls]
    pending = list(outer)
    while pending:  # the sizes of the bodies inside are known before those of the bodies around them
        key = pending[-1]
        if key not in inner:
            nodes = inner_nodes(inlined[key])
            inner[key] = [body_key(call_of(node)) for node in nodes if is_call(node.op, graph)]
            sizes[key] = len(nodes) - len(inner[key])
            pending += [other for other in inner[key] if other not in inner]
        if pending[-1] is key:
            pending.pop()
            sizes[key] += sum(sizes[other] for other in inner.pop(key, ()))
            inner[key] = []
    count = sum(sizes[key] for key in outer)
    if count > MOST_NODES:
        message = f"inlining would make {count:,} nodes; the limit is {MOST_NODES:,}"
        raise EditError(message, code="too-large", facts={"count": count, "most": MOST_NODES})


class _Inlining:
    """Inlines call after call; those that a body brings with it follow at once. No other node gets a name of TAKEN."""

    def __init__(self, graph: Graph, known: dict[BodyKey, Body], keep_names: bool, taken: Container[str]) -> None:
        self.graph = graph
        self.known = known
        self.keep_names = keep_names
        self.unique = UniqueNames(lambda name: name in graph or name in taken)
        self.added: list[Node] = []
        self.replaced: dict[Output, Output] = {}  # outputs of calls, and what has their values now
        self.given: dict[str, Output] = {}  # likewise of the calls in the file, by name
        self.rewired: list[tuple[Node, int, str]] = []
        self.waiting: list[Node] = []

    def inline(self, call: Node, *, may_not_run: bool) -> None:
        """Inlines a call of the file and the calls in it; MAY_NOT_RUN: it lies in a loop or a branch."""
        originals = [Output(call, i) for i in range(len(call.output_dtypes or ()))]
        self.given.update((output.name, output) for output in originals)
        pending = [call]
        while pending:
            pending += self._one(pending.pop(), may_not_run)

    def finish(self, names: Sequence[str]) -> Intent:
        """Removes what nothing uses of what was added; returns what was done, in the names that there are now.

        NAMES: of the calls.
        """
        self._remove_dead_ends(names)
        intent = Intent(added=[node.name for node in self.added if self._is_here(node)])
        here = set(intent.added)
        intent.removed = [name for name in names if name not in here]
        for name, output in self.given.items():
            now = self._now(output)
            if now.name != name and output.node.name not in here and self._is_here(now.node):
                intent.moved[name] = now.name
        for node, slot, old in self.rewired:
            if self._is_here(node) and node.inputs[slot].name != old:
                intent.rewired.append(Rewired(node.name, slot, old, node.inputs[slot].name))
        waiting = [node for node in dict.fromkeys(self.waiting) if self._is_here(node)]
        intent.changed = [node.name for node in waiting]
        return intent

    def _remove_dead_ends(self, names: Sequence[str]) -> None:
        """Removes nodes that bodies brought, that only compute, and that nothing reads; but those called NAMES."""
        own, kept = frozenset(self.added), frozenset(names)
        pending = list(self.added)
        while pending:
            node = pending.pop()
            if not self._is_here(node) or node.name in kept or not only_computes(node):
                continue
            if not self.graph.users(node) and not self.graph.colocated_with(node):
                above = dict.fromkeys([*(read.node for read in node.inputs), *node.controls])
                pending += [other for other in above if other in own]
                self.graph.remove([node])

    def _is_here(self, node: Node) -> bool:
        return self.graph.find(node.name) is node

    def _now(self, output: Output) -> Output:
        while output in self.replaced:
            output = self.replaced[output]
        return output

    def _one(self, call: Node, may_not_run: bool) -> list[Node]:
        """Inlines one call; returns the calls that have come with it."""
        body = self.known[body_key(call_of(call))]
        made = len(self.added)
        nodes = self._add_nodes(call, body)
        outside, start = self._enter(call, may_not_run)
        counterparts: dict[Node, Sequence[Output]] = {a: [o] for a, o in zip(body.arguments, outside, strict=True)}
        counterparts |= {old: [Output(new, i) for i in range(old.output_count or 0)] for old, new in nodes.items()}
        for old, new in nodes.items():
            self._wire(old, new, nodes, counterparts)
            if start and not new.inputs and not new.controls:
                self.graph.set_controls(new, start)
        results = [counterparts[read.node][read.index] for result in body.results for read in result.inputs]
        given = list(dict.fromkeys([*start, *(output.node for output in outside)]))
        effects = [nodes[node] for node in body.control_results.values()]
        self._replace(call, results, effects, given, frozenset(self.added[made:]))
        return [new for new in nodes.values() if is_call(new.op, self.graph)]

    def _enter(self, call: Node, may_not_run: bool) -> tuple[Sequence[Output], list[Node]]:
        """What the body reads for its arguments, and what its nodes without inputs wait for.

        A call runs when all is there that it reads and waits for, and not at all where one of these does not run. In a
        loop or a branch, and where it waits for something, its arguments are gated so that the same is true of them.
        """
        if not may_not_run and not call.controls:
            return call.inputs, []
        controls = list(call.controls)
        values: Sequence[Output] = call.inputs
        if may_not_run and values and (len(values) > 1 or controls):
            values = [self._identity(f"{call.name}/given", output, [], call) for output in values]
            controls += [value.node for value in values]
        if len(controls) > 1:
            controls = [self._node(f"{call.name}/start", [], controls, call)]
        gated = [self._identity(f"{call.name}/argument", output, controls, call) for output in values]
        return gated, controls or [output.node for output in gated]

    def _identity(self, name: str, output: Output, controls: Sequence[Node], after: Node) -> Output:
        return self._node(name, [output], controls, after).output

    def _node(self, name: str, values: Sequence[Output], controls: Sequence[Node], after: Node) -> Node:
        node = hand_on(self.graph, self.unique(name), values, controls, after)
        self.added.append(node)
        return node

    def _add_nodes(self, call: Node, body: Body) -> dict[Node, Node]:
        """Copies of the nodes of BODY, by these."""
        out: dict[Node, Node] = {}
        for old in inner_nodes(body):
            name = self.unique(old.name if self.keep_names else f"{call.name}/{old.name}")
            attrs = {key: value for key in old.attr_keys if (value := old.attr_bytes(key)) is not None}
            if FRAME_NAME in attrs:
                frame = attr_value(attrs[FRAME_NAME]).s.decode("utf-8", "surrogateescape")
                attrs[FRAME_NAME] = string_value(f"{call.name}/{frame}").SerializeToString()
            out[old] = self.graph.add(name, old.op, attrs=attrs, device=old.device or call.device, after=call)
        self.added.extend(out.values())
        return out

    def _wire(self, old: Node, new: Node, nodes: dict[Node, Node], counterparts: dict[Node, Sequence[Output]]) -> None:
        """Has NEW read, wait for and stand beside what corresponds to what OLD does; arguments are there from the
        beginning."""
        self.graph.set_inputs(new, [counterparts[read.node][read.index] for read in old.inputs])
        self.graph.set_controls(new, [nodes[control] for control in old.controls if control in nodes])
        if old.colocated:
            self.graph.set_colocated(new, [nodes[other] for other in old.colocated if other in nodes])

    def _replace(
        self,
        call: Node,
        results: Sequence[Output],
        effects: Sequence[Node],
        given: Sequence[Node],
        own: Container[Node],
    ) -> None:
        """Has those who read CALL read RESULTS, and those who wait for it wait for what it did; removes it.

        GIVEN is what the call itself waited for; OWN are the nodes that were made for it.
        """
        users = self.graph.users(call)
        is_read = any(read.node is call for user in users for read in user.inputs)
        above = dict.fromkeys(output.node for output in results)
        loose = [node for node in effects if node not in above]
        keeper: Node | None = None
        if loose or not is_read:
            behind = loose if results else loose or given
            if any(call in user.controls for user in users):
                behind = [node for node in _last([*above, *loose, *given], own) if node not in above]
            keeper = self._keeper(call, results, behind)
        place = [Output(keeper, i) for i in range(len(results))] if keeper is not None else list(results)
        self.replaced.update((Output(call, i), output) for i, output in enumerate(place))
        done = [keeper] if keeper is not None else self._done(call, users, [*above, *loose, *given], own)
        for user in users:
            slots = [slot for slot, read in enumerate(user.inputs) if read.node is call]
            if slots:
                self.rewired += [(user, slot, user.inputs[slot].name) for slot in slots]
                self.graph.set_slots({user: {slot: place[user.inputs[slot].index] for slot in slots}})
            if call in user.controls:
                new = [n for control in user.controls for n in (done if control is call else [control])]
                self.graph.set_controls(user, new)
                self.waiting.append(user)
        drop_colocations(self.graph, [call])
        name = call.name
        self.graph.remove([call])
        if keeper is not None:
            self.graph.rename({keeper: name})

    def _keeper(self, call: Node, results: Sequence[Output], effects: Sequence[Node]) -> Node:
        """An Identity with the call's outputs, for a call that is an output of the graph or has effects besides.

        What the call states of their shapes may be more than follows from its body.
        """
        keeper = self._node(f"{call.name}/{'results' if results else 'done'}", results, effects, call)
        if results and call.has_attr(STATED_SHAPES):
            self.graph.set_attr(keeper, STATED_SHAPES, call.attr_bytes(STATED_SHAPES))
        return keeper

    def _done(self, call: Node, users: Sequence[Node], ends: Sequence[Node], own: Container[Node]) -> list[Node]:
        """What to wait for in the place of CALL: a node, where there are several things, that waits for all."""
        if not any(call in user.controls for user in users):
            return []
        ends = _last(dict.fromkeys(ends), own)
        if len(ends) < 2:
            return ends
        return [self._node(f"{call.name}/done", [], ends, call)]


def _last(nodes: Iterable[Node], own: Container[Node]) -> list[Node]:
    """Those of NODES on which none of the others depends, as far as a walk among the nodes OWN tells."""
    ends = dict.fromkeys(nodes)

    def above(node: Node) -> Iterable[Node]:
        return (*(output.node for output in node.inputs), *node.controls) if node in own else ()

    seen = closure((other for end in ends for other in above(end)), above)
    return [node for node in ends if node not in seen]


class FunctionCall(NamedTuple):
    """A call of a function: its name, and the AttrValues that the call gives it."""

    function: str
    values: Mapping[str, AttrValue]


BodyKey = tuple[str, bytes]
"""What tells the body of one call from that of another: the function, and the values of its attrs."""


def call_of(node: Node) -> FunctionCall:
    """The call that NODE makes, which is one."""
    if node.op not in CALLS:
        return FunctionCall(node.op, dict(node.attrs()))
    value = node.attr("f")
    return FunctionCall(value.func.name, dict(value.func.attr)) if value is not None else FunctionCall("", {})


def is_call(op: str, graph: Graph) -> bool:
    """Whether a node of OP calls a function of GRAPH's library and nothing else."""
    return op in CALLS or op in graph.functions


def inner_nodes(body: Body) -> list[Node]:
    """The nodes of a body, without those that stand for its arguments and results."""
    return [node for node in body.graph.nodes() if node not in body.graph.ends]


def bodies(graph: Graph, calls: Iterable[Node]) -> dict[BodyKey, Body]:
    """The bodies that inlining CALLS needs, those of the calls inside included, by `body_key`.

    Raises:
        EditError: see `Body`; or a call is given more or fewer tensors than its function takes.
    """
    out: dict[BodyKey, Body] = {}
    pending = list(calls)
    _check_recursion(graph, [call_of(node).function for node in pending])
    while pending:
        caller = pending.pop()
        call = call_of(caller)
        key = body_key(call)
        known = key in out
        body = out.setdefault(key, out[key] if known else Body(graph, call.function, call.values))
        if len(caller.inputs) != len(body.arguments):
            raise EditError(
                f"{quoted(caller.name)} has {len(caller.inputs)} inputs, but the function "
                f"{quoted(call.function)} has {len(body.arguments)} arguments",
                code="wrong-count",
                facts={
                    "node": caller.name,
                    "function": call.function,
                    "expected": len(body.arguments),
                    "found": len(caller.inputs),
                },
            )
        if not known:
            pending += [node for node in inner_nodes(body) if is_call(node.op, graph)]
    return out


def _check_recursion(graph: Graph, names: Iterable[str]) -> None:
    """Raises EditError where one of the functions NAMES comes to call itself."""
    library = graph.functions
    for path in recursions({name: library.calls(name) for name in library.reachable(names)}):
        message = f"recursive functions cannot be inlined: {' -> '.join(map(quoted, path))}"
        raise EditError(message, code="recursion", functions=path)


def body_key(call: FunctionCall) -> BodyKey:
    """The key of the body that CALL runs."""
    values = sorted(call.values.items())
    return call.function, b"".join(k.encode() + b"\0" + v.SerializeToString(deterministic=True) for k, v in values)
