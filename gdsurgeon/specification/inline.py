"""inline: the nodes of a function replace its call, with the same inputs, control inputs and effects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison, is_same_attr
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, format_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLS, COLOCATION_ATTR
from gdsurgeon.selection import Selection
from gdsurgeon.specification.nodes import Rows, calling_nodes, is_pure, lost_functions, selected
from gdsurgeon.wire.protos import AttrValue


def function_of(call: Node) -> tuple[str, Mapping[str, AttrValue]]:
    """Returns the name of the function that a node calls, and the values of its attributes."""
    if call.op not in CALLS:
        return call.op, dict(call.attrs())
    value = call.attr("f")
    return (value.func.name, dict(value.func.attr)) if value is not None else ("", {})


class Scope:
    """The graph, or the nodes of a function that replace a call.

    Args:
        call: the replaced call; None for the graph.
        outer: the scope of the call.
        body: the function.

    Attributes:
        names: the names in the edited graph, by the nodes of the function.
        inner: the scopes of the replaced calls among the nodes.
        device: the device of nodes that have none.
    """

    def __init__(self, call: Node | None = None, outer: Scope | None = None, body: Body | None = None) -> None:
        self.call, self.outer = call, outer
        self.device: str = (call.device if call is not None else "") or (outer.device if outer is not None else "")
        self.names: dict[Node, str] = {}
        self.inner: dict[Node, Scope] = {}
        self.nodes, self.arguments, self.results, self.effects = [], {}, [], []
        if body is not None:
            self.nodes = [node for node in body.graph.nodes() if node not in body.graph.ends]
            self.arguments = {node: number for number, node in enumerate(body.arguments)}
            self.results = [read for node in body.results for read in node.inputs]
            self.effects = list(body.control_results.values())

    def name(self, node: Node) -> str:
        """Returns the name of a node in the edited graph."""
        return self.names.get(node, node.name)

    def waits(self) -> set[str]:
        """Returns the nodes that must run before the call. A call without inputs inherits those of its outer call."""
        at = self
        while at.call is not None and at.outer is not None:
            if at.call.inputs or at.call.controls:
                return awaited((at.outer, control) for control in at.call.controls)
            at = at.outer
        return set()

    def side_effects(self) -> list[Place]:
        """Returns the nodes that run because of control outputs, unless they compute results."""
        ends = {read.node for read in self.results}
        return [(self, node) for node in self.effects if node not in ends]


Place = tuple[Scope, Node]


def origin(scope: Scope, read: Output) -> tuple[Scope, Output, list[Place]]:
    """Returns the tensor that replaces the tensor `read` of `scope`: an argument or the result of a call is replaced.

    Also returns the scope of the tensor, and further nodes that must run before its consumers.
    """
    waits: list[Place] = []
    while True:
        number, inner = scope.arguments.get(read.node), scope.inner.get(read.node)
        call, outer = scope.call, scope.outer
        if number is not None and call is not None and outer is not None:
            waits += [(outer, control) for control in call.controls]
            scope, read = outer, call.inputs[number]
        elif inner is not None:
            waits += inner.side_effects()
            scope, read = inner, inner.results[read.index]
        else:
            return scope, read, waits


def awaited(places: Iterable[Place]) -> set[str]:
    """Returns the nodes of the edited graph that replace control inputs from nodes.

    These are, for a call, the nodes of its control outputs and results. If none of them is a node of its function,
    the inputs and control inputs of the call are added.
    """
    out: set[str] = set()
    pending, seen = list(places), set[Place]()
    while pending:
        scope, node = place = pending.pop()
        if place in seen or node in scope.arguments:
            continue  # arguments exist before the function runs
        seen.add(place)
        inner = scope.inner.get(node)
        if inner is None:
            out.add(scope.name(node))
            continue
        pending += [(inner, effect) for effect in inner.effects]
        ends = [origin(inner, read)[:2] for read in inner.results]
        out |= {where.name(read.node) for where, read in ends}
        if not inner.effects and all(where is not inner for where, _ in ends):
            pending += [(scope, control) for control in node.controls]
            pending += [(where, read.node) for where, read, _ in (origin(scope, given) for given in node.inputs)]
    return out


def inlined(graph: Graph, calls: Sequence[Node], *, keep_names: bool) -> tuple[Scope, list[Scope]]:
    """Returns the scope of `graph`, and those of all replaced calls: of `calls`, and of the calls in their functions.

    With `keep_names`, nodes keep their names of the function if these are unused.
    """
    bodies: dict[tuple[str, str], Body] = {}

    def scope_of(call: Node, outer: Scope) -> Scope:
        name, values = function_of(call)
        key = name, repr(sorted((key, value.SerializeToString(deterministic=True)) for key, value in values.items()))
        if key not in bodies:
            bodies[key] = Body(graph, name, values)
        return Scope(call, outer, bodies[key])

    unique = UniqueNames(lambda name: name in graph)
    root, scopes = Scope(), list[Scope]()
    root.inner = {call: scope_of(call, root) for call in calls}
    for call, first in root.inner.items():
        pending = [(call.name, first)]
        while pending:
            prefix, scope = pending.pop()
            scopes.append(scope)
            for node in scope.nodes:
                scope.names[node] = unique(node.name if keep_names else f"{prefix}/{node.name}")
                if node.op in CALLS or node.op in graph.functions:
                    scope.inner[node] = scope_of(node, scope)
            pending += [(scope.names[node], inner) for node, inner in scope.inner.items()]
    return root, scopes


_FORWARDING = frozenset(("Identity", "IdentityN", "NoOp"))


def inline(
    comparison: Comparison,
    functions: Sequence[str] = (),
    nodes: Selection | Sequence[str] | None = None,
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
    root, scopes = inlined(before, chosen, keep_names=keep_names)
    made = {
        name
        for scope in scopes
        for node, name in scope.names.items()
        if node not in scope.inner and (name in comparison.after or not is_pure(before, node.op))
    }
    calls = [call.name for call in root.inner]
    kept = {name for name in calls if name in comparison.after}
    helpers = kept | {name for name in facts.added if name not in made}
    intent = Intent(
        added=[*made, *helpers],
        removed=[name for name in calls if name not in kept],
        functions=FunctionChanges(removed=_lost_functions(comparison, root, scopes)),
    )
    edited = _Edited(comparison.after, root, scopes, helpers)
    for name in helpers:
        node = comparison.after.find(name)
        if node is not None and (node.op not in _FORWARDING or node.device):
            yield f"{quoted(name)} was added, but is a {node.op}"
    for scope in scopes:
        for node in scope.nodes:
            if node not in scope.inner and scope.names[node] in made:
                yield from edited.copy(scope, node)
    for scope in root.inner.values():
        yield from edited.around(scope, before, intent)
    yield from audit(comparison, intent)


class _Edited:
    """The graph after the edit. The `helpers` are added nodes that are not copies: they forward tensors and order."""

    def __init__(self, after: Graph, root: Scope, scopes: Sequence[Scope], helpers: set[str]) -> None:
        self._after, self._root, self._helpers = after, root, helpers
        self._made = helpers | {name for scope in scopes for name in scope.names.values()}
        self._given = {node.name for call in root.inner for node in _above(call)}

    def copy(self, scope: Scope, old: Node) -> Iterator[str]:
        """Yields the faults of the copy of a node of a function body."""
        name = scope.names[old]
        new = self._after.find(name)
        if new is None:
            yield f"{quoted(name)} is missing"
            return
        if (new.op, new.device) != (old.op, old.device or scope.device):
            yield f"{quoted(name)} is a {new.op} on {quoted(new.device)}"
        for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
            if key not in (COLOCATION_ATTR, "frame_name") and not is_same_attr(old, new, key):
                yield f"{quoted(name)} has a different {quoted(key)}"
        together = {scope.names[o] for o in old.colocated if o in scope.names and o not in scope.inner}
        if {o.name for o in new.colocated if o.name in self._after} != together:
            yield f"{quoted(name)} is colocated with {sorted(o.name for o in new.colocated)}"
        if len(new.inputs) != len(old.inputs):
            yield f"{quoted(name)} has {len(new.inputs)} inputs"
            return
        for now, read in zip(new.inputs, old.inputs, strict=True):
            yield from self._read(name, now, scope, read)
        wanted, waits = awaited((scope, control) for control in old.controls), self._waits(new.controls)
        if not old.inputs and not wanted:
            wanted = scope.waits()
        if not waits <= wanted and not any(control.name in self._helpers for control in new.controls):
            yield f"{quoted(name)} has the control inputs {sorted(waits)}"
        yield from self._late(name, waits, wanted)

    def around(self, scope: Scope, before: Graph, intent: Intent) -> Iterator[str]:
        """Yields the faults of the users of a call of the file."""
        root, old = self._root, scope.call
        assert old is not None
        name = old.name
        is_read = any(read.node is old for call in root.inner for read in call.inputs)
        for user in (user for name in before.store.users(old.name) if (user := before[name]) not in root.inner):
            now = self._after.find(user.name)
            slots = [slot for slot, read in enumerate(user.inputs) if read.node is old]
            is_read = is_read or bool(slots)
            for slot in slots if now is not None and len(now.inputs) == len(user.inputs) else ():
                assert now is not None
                yield from self._read(user.name, now.inputs[slot], root, user.inputs[slot])
                intent.rewire([(user.name, slot)], user.inputs[slot].name, now.inputs[slot].name)
            if now is not None and old in user.controls:
                wanted = awaited((root, control) for control in user.controls)
                yield from self._late(user.name, self._waits(now.controls), wanted)
                kept = {control.name for control in user.controls if control not in root.inner}
                waits = {control.name for control in now.controls}
                if not kept <= waits or not waits - kept <= self._made | self._given:
                    yield f"{quoted(user.name)} has the control inputs {sorted(waits)}"
                intent.alter(user.name, {"controls": tuple(c.name for c in now.controls)})
        if is_read:
            return
        call = self._after.find(name)
        if call is None:
            yield f"{quoted(name)}, which has no consumers, is missing"
            return
        for index, read in enumerate(scope.results):
            yield from self._read(name, Output(call, index), scope, read)
        wanted = awaited(scope.side_effects() if scope.results else [(root, old)])
        yield from self._late(name, self._waits(_above(call)), wanted)

    def _read(self, name: str, now: Output, scope: Scope, read: Output) -> Iterator[str]:
        """Yields a line unless the input `now` is the counterpart of `read`, with the same orderings."""
        where, tensor, gates = origin(scope, read)
        passed: list[Node] = []
        while now.node.name in self._helpers and now.index < len(now.node.inputs):
            passed += _above(now.node)
            now = now.node.inputs[now.index]
        wanted = format_input(where.name(tensor.node), tensor.index)
        if now.name != wanted:
            yield f"{quoted(name)} reads {quoted(now.name)}, not {quoted(wanted)}"
        yield from self._late(name, self._waits([*passed, now.node]), awaited(gates))

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


def _above(node: Node) -> list[Node]:
    """Returns the producers of all inputs of a node."""
    return [*(read.node for read in node.inputs), *node.controls]


def _lost_functions(comparison: Comparison, root: Scope, scopes: Sequence[Scope]) -> list[str]:
    """Returns the functions that only the inlined calls called, directly or indirectly."""
    before, after = comparison.before, comparison.after
    called = (function_of(scope.call)[0] for scope in scopes if scope.call is not None)
    left = (node for node in calling_nodes(before) if node not in root.inner)
    names = (name for scope in scopes for node, name in scope.names.items() if node not in scope.inner)
    made = (node for name in names if (node := after.find(name)) is not None)
    return lost_functions(before, called, chain(left, made))
