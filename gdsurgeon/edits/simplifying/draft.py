"""The graph as the passes of simplify have it: edges over integers. The graph itself changes once they are done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from gdsurgeon.analysis.queries.in_place import written_into
from gdsurgeon.analysis.queries.side_effects import ops_in_functions
from gdsurgeon.analysis.queries.state import has_state
from gdsurgeon.analysis.traversal.order import topological_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.ops.kinds import CONTROL_FLOW, hides_state
from gdsurgeon.ops.op_defs import OpDef

BITS, CONTROL = Table.PORT_BITS, Table.CONTROL_PORT
CHECKS = frozenset(("Assert", "CheckNumerics", "CheckNumericsV2"))
"""Ops that do nothing but refuse what they read."""


class Draft:
    """What has become of a graph.

    Attributes:
        graph: as it is in its file; it stays so.
        topology: the edges as they are now.
        kept: for each node whether its name has to stay, and give what it gave.
        roots: the nodes that have to stay with all that they depend on; whoever makes a draft says which.
        gone: for each node whether it is gone.
        merges: the Merge nodes that are Identities now.
        keeps_checks: whether a check counts as an effect.
        counts: the nodes and edges that went, by the pass that took them.
        changed: the nodes that read or wait for something else.
    """

    def __init__(self, graph: Graph, kept: Iterable[int], *, keeps_checks: bool) -> None:
        self.graph = graph
        self.topology = topology_of(graph).draft()
        self.kept = self.topology.flags(kept)
        self.roots: list[int] = []
        self.gone = self.topology.flags(self.topology.gone)
        self.merges: dict[int, None] = {}
        self.keeps_checks = keeps_checks
        self.counts: Counter[str] = Counter()
        self.changed: set[int] = set()
        self._instead: dict[int, int] = {}
        self._equals: dict[int, int] = {}  # the node that gives what a node gives
        self._waited: dict[int, int] = {}  # what to wait for in the place of a node
        self._ops: dict[str, bool] = {}
        self._constants: dict[int, Constant | None] = {}
        self._written = self._may_be_written()
        self.refresh()

    def refresh(self) -> None:
        """Looks again at what depends on control flow and effects; other passes leave that as it is."""
        top = self.topology
        self.harmless = bytearray(top.size)
        self._order = topological_order(top)
        for number in self._order:
            if self.is_pure(number) or (top.op(number) in CHECKS and not self.keeps_checks):
                self.harmless[number] = all(self.harmless[producer] for producer in top.producers(number))

    def _may_be_written(self) -> bytearray:
        """For each node whether what it gives may be in the memory that somebody writes into, in place."""
        return self.topology.upstream(written_into(self.graph, self.topology), control=False)

    # -- looking -----------------------------------------------------------------------------------------

    def order(self) -> list[int]:
        """The nodes that are there, producers first."""
        return [number for number in self._order if not self.gone[number]]

    def with_ops(self, ops: Container[str]) -> list[int]:
        """The nodes of OPS, producers first: what is said of one may be what is asked of the next."""
        op = self.topology.op
        return [number for number in self._order if not self.gone[number] and op(number) in ops]

    def data(self, number: int) -> list[int]:
        """The codes of the tensors that a node reads, as they are after what this pass has done."""
        return [self.now(code) for code in self.topology.inputs(number) if code & CONTROL != CONTROL]

    def has_controls(self, number: int) -> bool:
        """Whether a node waits for something."""
        return any(code & CONTROL == CONTROL for code in self.topology.inputs(number))

    def is_waited_for(self, number: int) -> bool:
        """Whether somebody waits for a node."""
        code = number << BITS | CONTROL
        return any(code in self.topology.inputs(user) for user in self.topology.users(number))

    def is_pure(self, number: int) -> bool:
        """Whether the node computes, and does nothing else: no state, no chance, no control flow, no reference."""
        if self._written[number]:
            return False
        op = self.topology.op(number)
        if op not in self._ops:
            definition = self.graph.op_def(op)
            self._ops[op] = op not in CONTROL_FLOW and _is_pure(definition) and not hides_state(op)
        if not self._ops[op]:
            return False
        definition = self.graph.op_def(op)
        calls = definition is not None and (definition.takes_functions or op in self.graph.functions)
        if not calls:
            return True
        node = self.topology.node(number)
        return not has_state(node) and not any(map(hides_state, ops_in_functions(node)))

    def gives_reference(self, code: int) -> bool:
        """Whether a tensor may be a reference to a variable, or written into, and not a value."""
        if self._written[code >> BITS]:
            return True
        definition = self.graph.op_def(self.topology.op(code >> BITS))
        return definition is None or any(output.is_ref for output in definition.outputs)

    def constant(self, code: int) -> Constant | None:
        """The value of a tensor that is a small constant, else None."""
        number = code >> BITS
        if number not in self._constants:
            is_one = self.topology.op(number) == "Const"
            self._constants[number] = constant(self.topology.node(number)) if is_one else None
        return self._constants[number]

    def is_named(self, number: int) -> bool:
        """Whether others stand beside a node, or its name has to stay: then it is no pass's to take."""
        if self.kept[number]:
            return True
        node = self.topology.node(number)
        beside = (other for other in self.graph.colocated_with(node) if other is not node)
        return any(not self.gone[self.topology.id_of(other)] for other in beside)

    # -- changing ----------------------------------------------------------------------------------------

    def now(self, code: int) -> int:
        """The tensor that is read in the place of CODE, after what this pass has done."""
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

    def bypass(self, number: int, source: int, beside: Iterable[int] = ()) -> bool:
        """Has those who read output 0 of a node read SOURCE, a code, and those who wait for it wait for that.

        BESIDE: the other tensors that the node reads. Left alone, with False, where somebody could tell.
        """
        source = self.now(source)
        producer = source >> BITS
        if self.is_named(number) or self.has_controls(number) or self.gives_reference(source):
            return False
        if not all(self.harmless[code >> BITS] for code in beside):
            return False  # they say which branch or iteration is alive
        if self.topology.op(producer) in CONTROL_FLOW and self.is_waited_for(number):
            return False  # what waits for a branch would run in any case
        self._instead[number << BITS] = source
        self._waited[number] = producer
        return True

    def bypass_each(self, number: int, sources: Sequence[int]) -> None:
        """Has those who read output i of a node read SOURCES[i]; left alone where somebody could tell."""
        if self.is_named(number) or self.has_controls(number) or self.is_waited_for(number):
            return
        alike = {self.harmless[source >> BITS] for source in sources}
        if alike == {1} and not any(map(self.gives_reference, sources)):
            for port, source in enumerate(sources):
                self._instead[number << BITS | port] = source
            self._waited[number] = sources[0] >> BITS

    def stand_in(self, number: int, other: int) -> None:
        """Has all who read or wait for a node read OTHER, which gives the same."""
        self._equals[number] = other
        self._waited[number] = other

    def read_instead(self, code: int, source: int) -> None:
        """Has those who read the tensor CODE read SOURCE."""
        self._instead[code] = source

    def wait_instead(self, number: int, other: int) -> None:
        """Has those who wait for a node wait for OTHER."""
        self._waited[number] = other

    def become_identity(self, number: int, source: int) -> None:
        """Makes a Merge the Identity of the only input that it has left."""
        self.topology.set_op(number, "Identity")
        self.merges[number] = None
        self.set_inputs(number, [source])

    def set_inputs(self, number: int, codes: Iterable[int]) -> None:
        """Has a node read and wait for something else, CODES."""
        self.topology.set_inputs(number, codes)
        self.changed.add(number)

    def settle(self, what: str) -> None:
        """Ends a pass: those who read what it has replaced read the replacement, and what it has replaced is gone.

        WHAT: in the name of which pass.
        """
        replaced = dict.fromkeys([*(code >> BITS for code in self._instead), *self._waited])
        for user in dict.fromkeys(user for number in replaced for user in self.topology.users(number)):
            self.set_inputs(user, self._settled(user))
        self.remove([number for number in self._waited if not self.kept[number]], what)
        self._instead, self._equals, self._waited = {}, {}, {}

    def _settled(self, user: int) -> Iterator[int]:
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
        """Takes away nodes that nobody reads any longer."""
        going = [number for number in numbers if not self.gone[number]]
        for number in going:
            self.gone[number] = 1
        if going:
            self.topology.leave_out(going)
            self.counts[what] += len(going)


Pass = Callable[[Draft], None]


def to_the_end(draft: Draft, passes: Iterable[Pass]) -> None:
    """Runs PASSES until none finds anything. Each turn leaves fewer nodes or edges than there were."""
    each_turn, done = list(passes), -1
    while done != draft.counts.total():
        done = draft.counts.total()
        for each in each_turn:
            each(draft)


def _is_pure(definition: OpDef | None) -> bool:
    if definition is None or definition.is_stateful:
        return False
    return not any(arg.is_ref for arg in (*definition.inputs, *definition.outputs))
