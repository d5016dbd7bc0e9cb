"""inline: the nodes of a function replace its call, with the same inputs, control inputs and effects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison, is_same_attr
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, format_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLS, COLOCATION_ATTR, CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.specification.rows import Rows, Selecting, selected
from gdsurgeon.specification.sharing import calling_nodes, named_by_node
from gdsurgeon.wire.protos import AttrValue

Resolved = tuple[str, set[str]]
"""A tensor that is not an output of a replaced call, and the further nodes that must run before its consumers."""


def function_of(call: Node) -> tuple[str, Mapping[str, AttrValue]]:
    """Returns the name of the function that a node calls, and the values of its attributes."""
    if call.op not in CALLS:
        return call.op, dict(call.attrs())
    value = call.attr("f")
    return (value.func.name, dict(value.func.attr)) if value is not None else ("", {})


class Inlined:
    """A call that is replaced by the nodes of its function.

    Args:
        calls: all replaced calls.
        call: the node in the graph or in a function.
        name: the name that the call has, or would have, in the graph.
        outer: the replaced call whose function contains this call; None if it is a node of the graph.

    Attributes:
        copies: the names in the edited graph, by the nodes of the function.
        inner: the calls among these nodes.
        device: the device of nodes that have none.
    """

    def __init__(self, calls: InlinedCalls, call: Node, name: str, outer: Inlined | None) -> None:
        self.calls, self.call, self.name, self.outer = calls, call, name, outer
        self.body = calls.body(call)
        self.device: str = call.device or (outer.device if outer is not None else "")
        self.copies: dict[Node, str] = {}
        self.inner: dict[Node, Inlined] = {}
        self._arguments = {node: number for number, node in enumerate(self.body.arguments)}

    def waits(self) -> set[str]:
        """Returns the nodes that must run before the call. A call without inputs inherits those of its outer call."""
        at: Inlined | None = self
        while at is not None and not at.call.inputs and not at.call.controls:
            at = at.outer
        return set() if at is None else at.calls.awaited(at.outer, at.call.controls)

    def argument(self, node: Node) -> int | None:
        """Returns the index of the argument that a node of the function is; None if it is not an argument."""
        return self._arguments.get(node)

    def effects(self) -> set[str]:
        """Returns the nodes that run because of control outputs, unless they compute results."""
        ends = {read.node for read in self.results()}
        return self.calls.awaited(self, (node for node in self.body.control_results.values() if node not in ends))

    def results(self) -> list[Output]:
        """Returns the results of the function, as tensors of its body."""
        return [read for node in self.body.results for read in node.inputs]


class InlinedCalls:
    """The calls that are replaced by the nodes of their functions, also calls inside these functions.

    Args:
        graph: the original.
        calls: the calls in the graph, in the order of the file.
        keep_names: whether nodes keep their names of the function if these are unused.
    """

    def __init__(self, graph: Graph, calls: Sequence[Node], *, keep_names: bool) -> None:
        self._graph = graph
        self._bodies: dict[tuple[str, bytes], Body] = {}
        unique = UniqueNames(lambda name: name in graph)
        self.of = {call.name: Inlined(self, call, call.name, None) for call in calls}
        self.all: list[Inlined] = []
        for first in self.of.values():
            pending = [first]
            while pending:
                work = pending.pop()
                self.all.append(work)
                for node in self.nodes(work):
                    copy = unique(node.name if keep_names else f"{work.name}/{node.name}")
                    work.copies[node] = copy
                    if self.is_call(node):
                        work.inner[node] = Inlined(self, node, copy, work)
                pending += work.inner.values()

    def is_call(self, node: Node) -> bool:
        """Returns whether a node of a function is a call."""
        return node.op in CALLS or node.op in self._graph.functions

    @staticmethod
    def nodes(work: Inlined) -> Iterator[Node]:
        """Returns the nodes of a function without its arguments and results."""
        return (node for node in work.body.graph.nodes() if node not in work.body.graph.ends)

    def body(self, call: Node) -> Body:
        """Returns the body of the called function."""
        name, values = function_of(call)
        spelt = sorted((key, value.SerializeToString(deterministic=True)) for key, value in values.items())
        key = name, repr(spelt).encode()
        if key not in self._bodies:
            self._bodies[key] = Body(self._graph, name, values)
        return self._bodies[key]

    def resolved(self, inside: Inlined | None, read: Output) -> Resolved:
        """Returns the tensor of the edited graph that replaces `read`.

        Args:
            inside: the call whose function contains `read`; None if it is a tensor of the graph.
            read: the tensor.
        """
        gates: set[str] = set()
        ways = list(self._ways(inside, read))
        for where, _, through in ways:
            if through is not None:
                is_left = through is not where
                gates |= self.awaited(where, through.call.controls) if is_left else through.effects()
        where, tensor, _ = ways[-1]
        return format_input(self._name(where, tensor.node), tensor.index), gates

    def _ways(self, inside: Inlined | None, read: Output) -> Iterator[tuple[Inlined | None, Output, Inlined | None]]:
        """Yields `read` and the tensors that it is passed from, up to one that no replaced call returns.

        Yields the call that contains each tensor, the tensor, and the call between it and the previous tensor.
        """
        through: Inlined | None = None
        while True:
            yield inside, read, through
            number = inside.argument(read.node) if inside is not None else None
            if inside is not None and number is not None:
                through, read = inside, inside.call.inputs[number]
                inside = through.outer
                continue
            through = self._call(inside, read.node)
            if through is None:
                return
            inside, read = through, through.results()[read.index]

    def _call(self, inside: Inlined | None, node: Node) -> Inlined | None:
        return self.of.get(node.name) if inside is None else inside.inner.get(node)

    @staticmethod
    def _name(inside: Inlined | None, node: Node) -> str:
        return node.name if inside is None else inside.copies[node]

    def awaited(self, inside: Inlined | None, nodes: Iterable[Node]) -> set[str]:
        """Returns the nodes of the edited graph that replace control inputs from `nodes`.

        These are, for a call, the nodes of its control outputs and results. If none of them is a node of its function,
        the inputs and control inputs of the call are added.
        """
        out: set[str] = set()
        pending = [(inside, node) for node in nodes]
        seen: set[tuple[int, Node]] = set()
        while pending:
            place, node = pending.pop()
            if (id(place), node) in seen or (place is not None and place.argument(node) is not None):
                continue  # arguments exist before the function runs
            seen.add((id(place), node))
            call = self._call(place, node)
            if call is None:
                out.add(self._name(place, node))
                continue
            effects = list(call.body.control_results.values())
            pending += [(call, effect) for effect in effects]
            ends = [list(self._ways(call, read))[-1] for read in call.results()]
            out |= {self._name(where, read.node) for where, read, _ in ends}
            if not effects and not any(where is call for where, _, _ in ends):
                pending += [(place, control) for control in call.call.controls]
                pending += [(where, read.node) for given in call.call.inputs
                            for where, read, _ in list(self._ways(place, given))[-1:]]  # fmt: skip
        return out


_FORWARDING = frozenset(("Identity", "IdentityN", "NoOp"))


def inline(
    comparison: Comparison,
    functions: Sequence[str] = (),
    nodes: Selecting | Sequence[str] | None = None,
    keep_names: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del rtol, atol  # of the proof
    before, facts = comparison.before, comparison.facts
    rows = Rows(before)
    ops = {op for op in rows.table.op_names if op in CALLS or op in before.functions}
    found = [before[rows.names[row]] for row in rows.of_op(ops)]
    chosen = [node for node in found if not functions or function_of(node)[0] in functions]
    if nodes is not None:
        names = set(selected(before, nodes))
        chosen = [node for node in chosen if node.name in names]
    calls = InlinedCalls(before, chosen, keep_names=keep_names)
    made = {
        name
        for work in calls.all
        for node, name in work.copies.items()
        if node not in work.inner and (name in comparison.after or not _may_be_left_out(node))
    }
    kept = {name for name in calls.of if name in comparison.after}
    helpers = kept | {name for name in facts.added if name not in made}
    intent = Intent(
        added=[*made, *helpers],
        removed=[name for name in calls.of if name not in kept],
        functions=FunctionChanges(removed=_unused(before, comparison.after, calls)),
    )
    seen = _Seen(comparison.after, calls, helpers)
    for name in helpers:
        node = comparison.after.find(name)
        if node is not None and (node.op not in _FORWARDING or node.device):
            yield f"{quoted(name)} was added, but is a {node.op}"
    for work in calls.all:
        for node in calls.nodes(work):
            if node not in work.inner and work.copies[node] in made:
                yield from seen.copy(work, node)
    for work in calls.of.values():
        yield from seen.around(work, before, intent)
    yield from audit(comparison, intent)


class _Seen:
    """The graph after the edit. The `helpers` are added nodes that are not copies: they forward tensors and order."""

    def __init__(self, after: Graph, calls: InlinedCalls, helpers: set[str]) -> None:
        self._after, self._calls, self._helpers = after, calls, helpers
        self._made = helpers | {name for work in calls.all for name in work.copies.values()}
        given = (n for w in calls.of.values() for n in (*w.call.controls, *(read.node for read in w.call.inputs)))
        self._given = {node.name for node in given}

    def copy(self, work: Inlined, old: Node) -> Iterator[str]:
        """Yields the faults of the copy of a node of a function body."""
        name = work.copies[old]
        new = self._after.find(name)
        if new is None:
            yield f"{quoted(name)} is missing"
            return
        if (new.op, new.device) != (old.op, old.device or work.device):
            yield f"{quoted(name)} is a {new.op} on {quoted(new.device)}"
        for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
            if key not in (COLOCATION_ATTR, "frame_name") and not is_same_attr(old, new, key):
                yield f"{quoted(name)} has a different {quoted(key)}"
        together = {work.copies[o] for o in old.colocated if o in work.copies and o not in work.inner}
        if {o.name for o in new.colocated if o.name in self._after} != together:
            yield f"{quoted(name)} is colocated with {sorted(o.name for o in new.colocated)}"
        if len(new.inputs) != len(old.inputs):
            yield f"{quoted(name)} has {len(new.inputs)} inputs"
            return
        for now, read in zip(new.inputs, old.inputs, strict=True):
            yield from self._read(name, now, work, read)
        wanted, waits = self._calls.awaited(work, old.controls), self._waits(new.controls)
        if not old.inputs and not wanted:
            wanted = work.waits()
        if not waits <= wanted and not self._is_gated(new):
            yield f"{quoted(name)} has the control inputs {sorted(waits)}"
        yield from self._late(name, waits, wanted)

    def _is_gated(self, node: Node) -> bool:
        return any(control.name in self._helpers for control in node.controls)

    def around(self, work: Inlined, before: Graph, intent: Intent) -> Iterator[str]:
        """Yields the faults of the users of a call of the file."""
        name = work.name
        users = [before[user] for user in before.store.users(name) if user not in self._calls.of]
        is_read = False
        for user in users:
            now = self._after.find(user.name)
            slots = [slot for slot, read in enumerate(user.inputs) if read.node.name == name]
            is_read = is_read or bool(slots)
            for slot in slots if now is not None and len(now.inputs) == len(user.inputs) else ():
                assert now is not None
                yield from self._read(user.name, now.inputs[slot], None, user.inputs[slot])
                intent.rewire([(user.name, slot)], user.inputs[slot].name, now.inputs[slot].name)
            if now is not None and any(control.name == name for control in user.controls):
                yield from self._late(user.name, self._waits(now.controls), self._calls.awaited(None, user.controls))
                kept = {control.name for control in user.controls if control.name not in self._calls.of}
                waits = {control.name for control in now.controls}
                if not kept <= waits or not waits - kept <= self._made | self._given:
                    yield f"{quoted(user.name)} has the control inputs {sorted(waits)}"
                intent.alter(user.name, {"controls": tuple(c.name for c in now.controls)})
        is_read = is_read or any(r.node.name == name for o in self._calls.of.values() for r in o.call.inputs)
        if is_read:
            return
        call = self._after.find(name)
        if call is None:
            yield f"{quoted(name)}, which has no consumers, is missing"
            return
        for index, read in enumerate(work.results()):
            yield from self._read(name, Output(call, index), work, read)
        waits = self._waits([*call.controls, *(read.node for read in call.inputs)])
        yield from self._late(name, waits, work.effects() if work.results() else self._calls.awaited(None, [work.call]))

    def _read(self, name: str, now: Output, inside: Inlined | None, read: Output) -> Iterator[str]:
        """Yields a line unless the input `now` is the counterpart of `read`, with the same orderings."""
        wanted, gates = self._calls.resolved(inside, read)
        passed: list[Node] = []
        while now.node.name in self._helpers and now.index < len(now.node.inputs):
            passed += [*now.node.controls, *(handed.node for handed in now.node.inputs)]
            now = now.node.inputs[now.index]
        if now.name != wanted:
            yield f"{quoted(name)} reads {quoted(now.name)}, not {quoted(wanted)}"
        yield from self._late(name, self._waits([*passed, now.node]), gates)

    def _waits(self, nodes: Iterable[Node]) -> set[str]:
        """Returns the nodes that `nodes` are or forward orderings from."""
        seen = closure(nodes, lambda node: _above(node) if node.name in self._helpers else ())
        return {node.name for node in seen} - self._helpers

    def _late(self, name: str, waits: set[str], wanted: set[str]) -> Iterator[str]:
        """Yields a line if a node may run before the nodes `wanted`, given its dependencies `waits`."""
        left = wanted - waits
        if not left:
            return
        starts = (node for waited in waits if (node := self._after.find(waited)) is not None)
        left -= {node.name for node in closure(starts, lambda node: _above(node) if node.name in self._made else ())}
        if left:
            yield f"{quoted(name)} has no control dependency on {sorted(left)}"


def _may_be_left_out(node: Node) -> bool:
    """Returns whether a node has no effects, and may be left out if it has no consumers."""
    definition = node.op_def
    return definition is not None and not definition.is_stateful and node.op not in PLACEHOLDERS | CONTROL_FLOW


def _above(node: Node) -> list[Node]:
    """Returns the producers of all inputs of a node."""
    return [*(read.node for read in node.inputs), *node.controls]


def _unused(before: Graph, after: Graph, calls: InlinedCalls) -> list[str]:
    """Returns the functions that only the inlined calls called, directly or indirectly."""
    library = before.functions
    inlined = set(library.reachable((function_of(work.call)[0] for work in calls.all), gradients=True))
    others = [f.signature.name for f in library if f.signature.name not in inlined]
    left = [node for node in calling_nodes(before) if node.name not in calls.of]
    made = (after.find(name) for work in calls.all for node, name in work.copies.items() if node not in work.inner)
    named = (name for node in (*left, *made) if node is not None for name in named_by_node(node))
    used = set(library.reachable([*named, *others], gradients=True))
    return [name for name in inlined if name not in used]
