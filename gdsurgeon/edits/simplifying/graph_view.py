"""The graph while the passes of simplify change it: nodes and edges as integers. The graph itself changes
afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from gdsurgeon.analysis.queries.effects import has_state, ops_in_functions, written_into
from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.analysis.traversal.order import Worklist, topological_order
from gdsurgeon.analysis.traversal.topology import members, topology_of
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.ops.kinds import CONTROL_FLOW, hides_state

BITS, CONTROL = Table.PORT_BITS, Table.CONTROL_PORT
CHECKS = frozenset(("Assert", "CheckNumerics", "CheckNumericsV2"))
"""Ops whose only effect is an error for wrong values."""


class GraphView:
    """A graph with pending changes.

    Attributes:
        graph: the graph, unchanged since the view was made or renewed.
        topology: the current edges.
        ops: the op of each node.
        kept: for each node, whether it must keep its name and value.
        waiting: the nodes with control inputs.
        roots: the nodes that must stay, with all upstream nodes; set by the caller.
        removed: for each node, whether it is removed.
        merges: the Merge nodes that became Identity nodes.
        keeps_checks: whether a check counts as an effect.
        counts: the number of removed nodes and edges, and of new constants, by pass.
        changed: the nodes with different inputs since the view was made or renewed.
        start, ops_at_start: the edges and ops when the view was made.
        replaced: the tensors that were replaced, with the tensors that replace them.
        replaced_nodes: the nodes that were replaced by equal nodes, with these.
        moved: those of `replaced` that depend on known shapes, by node.
        idle: nodes whose random values are not used any more.
        constants: the nodes that became constants, each with its serialized value.
        opened: those of `constants` that are shapes with one dim of -1.
        equal: the groups of equal nodes, which the pass `equal_nodes` keeps here between its calls.
        pure_cone: for each node, whether it and all upstream nodes only compute, in each run: no effects, no branches.
    """

    def __init__(self, graph: Graph, kept: Iterable[int], *, keeps_checks: bool) -> None:
        self.graph = graph
        self.start = topology_of(graph)
        self.topology = self.start.draft()
        self.ops = self.topology.op_of_each()
        self.ops_at_start = tuple(self.ops)
        self.kept = self.topology.flags(kept)
        self.waiting = self.topology.with_controls()
        self.roots: list[int] = []
        self.removed = self.topology.flags(self.topology.gone)
        self.merges: dict[int, None] = {}
        self.keeps_checks = keeps_checks
        self.counts: Counter[str] = Counter()
        self.changed: set[int] = set()
        self.replaced: dict[int, int] = {}
        self.replaced_nodes: dict[int, int] = {}
        self.moved: dict[int, int] = {}
        self.idle: list[int] = []
        self.constants: dict[int, bytes] = {}
        self.opened: set[int] = set()
        self.equal: object = None
        self.pure_cone = bytearray(self.topology.size)
        self._instead: dict[int, int] = {}
        self._equals: dict[int, int] = {}  # an equal node
        self._waited: dict[int, int] = {}  # the new control input
        ops = {*self.ops, "Const", "Identity"}
        self._pure = {op: self._is_pure_op(op) for op in ops}
        self._references = {
            op: (found := graph.op_def(op)) is None or any(output.is_ref for output in found.outputs) for op in ops
        }
        self._constants: dict[tuple[int, bool], Constant | None] = {}
        self._inferred: Shapes | None = None
        self._changes: list[int] = []  # the changed nodes, in order; some several times
        self._seen: dict[str, int] = {}  # the length of `_changes` at the last call
        self._is_placed = 0  # the length of `_changes` when the order was computed
        self._readers: list[list[int]] = []  # of each node, as they were then
        self._later_readers: dict[int, list[int]] = {}
        self._colocated_with: set[int] = set()  # nodes with colocated nodes, and these
        self._colocated: set[int] = set()
        self._find_colocations()
        self._written = self._may_be_written()
        self.refresh()

    def refresh(self) -> None:
        """Recomputes the order and `pure_cone`, which only some passes change."""
        top, before = self.topology, self.pure_cone
        self._order = topological_order(top)
        self._places = [-1] * top.size
        for place, number in enumerate(self._order):
            self._places[number] = place
        self._readers, self._later_readers = top.consumers(), {}
        perhaps = (n for n in self._order if self._written[n] or not self._pure[self.ops[n]])
        unchecked = () if self.keeps_checks else CHECKS
        self._doing = [n for n in perhaps if not self.is_pure(n) and self.ops[n] not in unchecked]
        self.pure_cone = top.flags(self._order)
        for number in members(top.downstream(self._doing, self._readers)):
            self.pure_cone[number] = 0
        if self.pure_cone != before:
            self.mark_dirty(n for n, (was, now) in enumerate(zip(before, self.pure_cone, strict=True)) if was != now)
        self._is_placed = len(self._changes)

    def renew(self) -> None:
        """Continues with the graph after it was changed in accordance with this view."""
        self.topology.is_now_the_graph(self.changed)
        self.topology = self.topology.draft()
        self.mark_dirty(self.merges)
        self.merges, self.changed = {}, set()
        before, self._written = self._written, self._may_be_written()
        if self._written != before:
            self.mark_dirty(n for n, (was, now) in enumerate(zip(before, self._written, strict=True)) if was != now)
        if self._is_placed < len(self._changes) and (self._doing or self._written != before):
            self.refresh()  # otherwise nothing has an effect, before and after

    def _find_colocations(self) -> None:
        table, id_of = self.topology.table, self.topology.id_of
        for name, rows in table.colocations.items():
            if name in table.rows:
                self._colocated_with.add(table.rows[name])
                self._colocated.update(rows)
        for node in self.graph.touched():
            if node.has_resolved_colocations:
                self._colocated_with.update(id_of(other) for other in node.colocated if other.exists)
                self._colocated.add(id_of(node))

    def _may_be_written(self) -> bytearray:
        """Returns, for each node, whether an op may overwrite the memory of its output in place."""
        return self.topology.upstream(written_into(self.graph, self.topology), control=False)

    # -- looking -----------------------------------------------------------------------------------------

    def order(self) -> list[int]:
        """Returns the existing nodes in topological order."""
        return [number for number in self._order if not self.removed[number]]

    def place(self, number: int) -> int:
        """Returns the position of a node in the topological order; -1 for nodes in or downstream of a cycle."""
        return self._places[number]

    def with_ops(self, ops: Container[str]) -> list[int]:
        """Returns the nodes with one of `ops` in topological order."""
        wanted = {op for op in self.topology.ops() if op in ops}
        op = self.ops
        return [number for number in self._order if op[number] in wanted and not self.removed[number]] if wanted else []

    def not_pure(self) -> list[int]:
        """Returns the nodes with effects, and possibly some without, in topological order."""
        return [number for number in self._doing if not self.removed[number]]

    def data(self, number: int) -> list[int]:
        """Returns the codes of the tensors that a node reads, with the replacements of the current pass."""
        codes = self.topology.inputs(number)
        if number in self.waiting:
            codes = [code for code in codes if code & CONTROL != CONTROL]
        if self._equals:
            return list(map(self.now, codes))
        return [self.now(code) if code in self._instead else code for code in codes]

    def has_control_outputs(self, number: int) -> bool:
        """Returns whether other nodes have a control dependency on a node."""
        code = number << BITS | CONTROL
        users = self.topology.users(number) if self.waiting else ()
        return any(user in self.waiting and code in self.topology.inputs(user) for user in users)

    def is_pure(self, number: int) -> bool:
        """Returns whether a node only computes: it has no state, randomness, control flow or references."""
        if self._written[number]:
            return False
        found = self._pure[self.ops[number]]
        if found is not None:
            return found
        node = self.topology.node(number)
        return not has_state(node) and not any(map(hides_state, ops_in_functions(node)))

    def _is_pure_op(self, op: str) -> bool | None:
        """Returns whether all nodes of an op only compute; None if that depends on the functions that they call."""
        definition = self.graph.op_def(op)
        if op in CONTROL_FLOW or hides_state(op) or definition is None or definition.is_stateful:
            return False
        if any(arg.is_ref for arg in (*definition.inputs, *definition.outputs)):
            return False
        return None if self.takes_functions(op) else True

    def takes_functions(self, op: str) -> bool:
        """Returns whether an op calls functions or is a function."""
        definition = self.graph.op_def(op)
        return definition is not None and (definition.takes_functions or op in self.graph.functions)

    def may_be_reference(self, code: int) -> bool:
        """Returns whether a tensor may be a reference to a variable, or memory that an op overwrites."""
        number = code >> BITS
        return bool(self._written[number]) or self._references[self.ops[number]]

    def constant(self, code: int, *, only_scalar: bool = False) -> Constant | None:
        """Returns the value of a small constant, or None. With `only_scalar`, the constant must be a scalar."""
        number = code >> BITS
        if self.ops[number] != "Const":
            return None
        key = (number, only_scalar)
        if key not in self._constants:
            self._constants[key] = constant(self.topology.node(number), only_scalar=only_scalar)
        return self._constants[key]

    def must_keep(self, number: int) -> bool:
        """Returns whether a node must keep its name, or other nodes are colocated with it."""
        if self.kept[number]:
            return True
        if number not in self._colocated_with:
            return False
        node = self.topology.node(number)
        beside = (other for other in self.graph.colocated_with(node) if other is not node)
        return any(not self.removed[self.topology.id_of(other)] for other in beside)

    # -- looking again -----------------------------------------------------------------------------------

    def mark_dirty(self, numbers: Iterable[int]) -> None:
        """Marks nodes as changed: passes look again at these nodes and at nodes near them."""
        self._changes.extend(numbers)

    def mark_dirty_self(self, numbers: Iterable[int]) -> None:
        """Marks nodes that have different consumers or colocations: passes look again at these nodes only.

        Passes look at the consumers of a node only to find control dependencies.
        """
        self._changes.extend([~number for number in numbers])

    def changed_since(self, what: str) -> list[int] | None:
        """Returns the nodes changed since the last call for `what`; None for the first call.

        Nodes marked by `mark_dirty_self` are given as -1 minus their number.
        """
        start = self._seen.get(what)
        self._seen[what] = len(self._changes)
        return None if start is None else self._changes[start:]

    def skip_own_changes(self, what: str) -> None:
        """Ends a pass that has looked at all nodes near its own changes; marks of `mark_dirty_self` are kept."""
        own = self.changed_since(what) or ()
        self.mark_dirty_self([~number for number in own if number < 0])

    def dirty_nodes(
        self, what: str, ops: Container[str], reach: int = 1, through: Container[str] = ()
    ) -> Iterator[int]:
        """Yields the nodes to look at in topological order: at first all with one of `ops`, later those near changed
        nodes.

        Changes during the iteration count for nodes that are yielded later.

        Args:
            what: the name of the pass.
            ops: the ops that it looks at.
            reach: the largest number of edges between a node and a changed node.
            through: ops whose nodes do not count as a step.
        """
        news = self.changed_since(what)
        if news is None:
            yield from self.with_ops(ops)
            return
        if not any(op in ops for op in self.topology.ops()):
            return
        agenda = Worklist(self._order, self._places)
        told = len(self._changes)
        agenda.add(self._near(news, ops, reach, through))
        for number in agenda:
            if not self.removed[number]:
                yield number
            if told < len(self._changes):
                news, told = self._changes[told:], len(self._changes)
                agenda.add(self._near(news, ops, reach, through))

    def _near(self, numbers: Iterable[int], ops: Container[str], reach: int, through: Container[str]) -> list[int]:
        """Returns those of `numbers` and of the nodes up to `reach` edges downstream that have one of `ops`."""
        removed = self.removed  # their consumers have changed themselves
        found = {number for number in numbers if number >= 0 and not removed[number]}
        alone = [~number for number in numbers if number < 0 and not removed[~number]]
        front, op = list(found), self.ops
        for _ in range(reach):
            further: list[int] = []
            for number in front:  # grows while it is walked
                for user in (*self._readers[number], *self._later_readers.get(number, ())):
                    if user not in found:
                        found.add(user)
                        (front if op[user] in through else further).append(user)
            front = further
        return [number for number in (*found, *alone) if op[number] in ops]

    def shapes(self) -> Shapes:
        """Returns the shapes of all tensors; shapes stated in attrs are not used."""
        edited = self.changed_since("shapes")
        if self._inferred is None:
            self._inferred = Shapes(self.topology, self._order, self._places)
        elif edited:
            edited = [number for number in edited if number >= 0]
            self.mark_dirty(self._inferred.update(self.topology, self._order, self._places, edited))
            self.changed_since("shapes")  # which it has just said itself
        return self._inferred

    # -- changing ----------------------------------------------------------------------------------------

    def now(self, code: int) -> int:
        """Returns the tensor that replaces `code`, with the replacements of the current pass."""
        if code not in self._instead and code >> BITS not in self._equals:
            return code
        path = []
        while True:
            if code in self._instead:
                path.append(code)
                code = self._instead[code]
            elif code >> BITS in self._equals:
                code = self._equals[code >> BITS] << BITS | code & CONTROL
            else:
                break
        for step in path:
            self._instead[step] = code
        return code

    def final(self, code: int) -> int:
        """Returns the tensor that replaces `code` after all passes so far."""
        while code in self.replaced or code >> BITS in self.replaced_nodes:
            other = self.replaced_nodes.get(code >> BITS, code >> BITS)
            code = self.replaced.get(code, other << BITS | code & CONTROL)
        return code

    def has_replacement(self, number: int) -> bool:
        """Returns whether the current pass replaces a node by an equal one."""
        return number in self._equals

    def replace_all_uses(self, number: int, source: int, others: Iterable[int] = ()) -> bool:
        """Makes consumers of output 0 of a node read `source`, and moves control edges; returns False if that is not
        safe.

        Args:
            number: the node.
            source: the code of a tensor.
            others: the codes of other tensors that the node reads.
        """
        source = self.now(source)
        producer = source >> BITS
        if self.must_keep(number) or number in self.waiting or self.may_be_reference(source):
            return False
        if not all(self.pure_cone[code >> BITS] for code in others):
            return False  # these tensors decide which branch runs
        if self.ops[producer] in CONTROL_FLOW and self.has_control_outputs(number):
            return False  # a control edge from a branch would be lost
        self.replace_uses(number << BITS, source)
        self.replace_control_uses(number, producer)
        return True

    def replace_each_use(self, number: int, sources: Sequence[int]) -> None:
        """Makes consumers of output i of a node read `sources[i]`, if that is safe."""
        if self.must_keep(number) or number in self.waiting or self.has_control_outputs(number):
            return
        alike = {self.pure_cone[source >> BITS] for source in sources}
        if alike == {1} and not any(map(self.may_be_reference, sources)):
            for port, source in enumerate(sources):
                self.replace_uses(number << BITS | port, source)
            self.replace_control_uses(number, sources[0] >> BITS)

    def replace_node(self, number: int, other: int) -> None:
        """Makes all consumers of a node use `other`, which is equal."""
        self._equals[number] = other
        self.replace_control_uses(number, other)

    def replace_uses(self, code: int, source: int) -> None:
        """Makes the consumers of the tensor `code` read `source`."""
        self._instead[code] = source
        self._changes.append(code >> BITS)

    def replace_control_uses(self, number: int, other: int) -> None:
        """Makes nodes with a control dependency on a node depend on `other`."""
        self._waited[number] = other
        self._changes.append(number)

    def become_identity(self, number: int, source: int) -> None:
        """Makes a Merge an Identity of its only remaining input."""
        self.topology.set_op(number, "Identity")
        self.ops[number] = "Identity"
        self.merges[number] = None
        self.set_inputs(number, [source])

    def become_constants(self, values: Mapping[int, bytes]) -> None:
        """Makes nodes constants with serialized values."""
        self.constants |= values
        for number in values:
            self._part(number)
            self.topology.set_op(number, "Const")
            self.ops[number] = "Const"
            self.set_inputs(number, ())

    def set_inputs(self, number: int, codes: Iterable[int]) -> None:
        """Sets the inputs and control inputs of a node."""
        lost, found = self.topology.set_inputs(number, codes)
        self.changed.add(number)
        if self.waiting:
            self.mark_dirty_self(lost)
        if number in self.waiting and not any(code & CONTROL == CONTROL for code in self.topology.inputs(number)):
            self.waiting.remove(number)
        for producer in found:
            self._later_readers.setdefault(producer, []).append(number)
        self._changes.append(number)

    def commit(self, what: str) -> None:
        """Ends a pass: applies its replacements and removes the replaced nodes.

        Args:
            what: the pass that is counted.
        """
        replaced = dict.fromkeys([*(code >> BITS for code in self._instead), *self._waited])
        going = {number for number in self._waited if not self.kept[number]}
        users = dict.fromkeys(user for number in replaced for user in self.topology.users(number))
        for user in users:
            if user not in going:
                self.set_inputs(user, self._committed(user) if user in self.waiting else self.data(user))
        self.remove([number for number in self._waited if number in going], what)
        self.replaced |= self._instead
        self.replaced_nodes |= self._equals
        self._instead, self._equals, self._waited = {}, {}, {}

    def _committed(self, user: int) -> Iterator[int]:
        seen = set()
        for code in self.topology.inputs(user):
            if code & CONTROL != CONTROL:
                yield self.now(code)
                continue
            number = code >> BITS
            while number in self._waited:
                number = self._waited[number]
            if number not in seen:
                seen.add(number)
                yield number << BITS | CONTROL

    def remove(self, numbers: Iterable[int], what: str) -> None:
        """Removes nodes without consumers."""
        going = [number for number in numbers if not self.removed[number]]
        for number in going:
            self.removed[number] = 1
            if self.waiting:
                self.mark_dirty_self(self.topology.producers(number))
            self._part(number)
        if going:
            self.topology.leave_out(going)
            self.counts[what] += len(going)

    def _part(self, number: int) -> None:
        """Marks the nodes that a removed node was colocated with."""
        if number in self._colocated:
            others = (other for other in self.topology.node(number).colocated if other.exists)
            self.mark_dirty_self(map(self.topology.id_of, others))


Pass = Callable[[GraphView], None]


def run_passes(view: GraphView, passes: Sequence[Pass]) -> None:
    """Runs `passes` until no pass changes anything. Each iteration leaves fewer nodes or edges."""
    done = -1
    while done != view.counts.total():
        done = view.counts.total()
        for each in passes:
            each(view)
