"""The graph as the passes of simplify have it: edges over integers. The graph itself changes once they are done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TypeVar

from gdsurgeon.analysis.queries.effects import has_state, ops_in_functions, written_into
from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.analysis.traversal.order import Worklist, topological_order
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.ops.kinds import CONTROL_FLOW, hides_state
from gdsurgeon.ops.op_defs import OpDef

BITS, CONTROL = Table.PORT_BITS, Table.CONTROL_PORT
CHECKS = frozenset(("Assert", "CheckNumerics", "CheckNumericsV2"))
"""Ops that do nothing but refuse what they read."""

T = TypeVar("T")


class Draft:
    """What has become of a graph.

    Attributes:
        graph: as it was when this was made or renewed; it stays so.
        topology: the edges as they are now.
        ops: the op of each node.
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
        self.ops = self.topology.op_of_each()
        self.kept = self.topology.flags(kept)
        self.roots: list[int] = []
        self.gone = self.topology.flags(self.topology.gone)
        self.merges: dict[int, None] = {}
        self.keeps_checks = keeps_checks
        self.counts: Counter[str] = Counter()
        self.changed: set[int] = set()
        self.harmless = bytearray(self.topology.size)
        self._instead: dict[int, int] = {}
        self._equals: dict[int, int] = {}  # the node that gives what a node gives
        self._waited: dict[int, int] = {}  # what to wait for in the place of a node
        self._pure: dict[str, bool | None] = {}
        self._references: dict[str, bool] = {}
        self._constants: dict[int, Constant | None] = {}
        self._inferred: Shapes | None = None
        self._memories: dict[Callable[[Draft], object], object] = {}
        self._news: list[int] = []  # the nodes that have changed, in the order in which they did, some again and again
        self._looked: dict[str, int] = {}  # how many of these there were when somebody last looked at them
        self._is_placed = 0  # how many there were when the order was found
        self._readers: list[list[int]] = []  # of each node, as they were then
        self._later_readers: dict[int, list[int]] = {}
        self._beside: set[int] = set()  # the nodes beside which others stand, and these
        self._standing: set[int] = set()
        self._find_colocations()
        self._written = self._may_be_written()
        self.refresh()

    def refresh(self) -> None:
        """Looks again at what depends on control flow and effects; other passes leave that as it is."""
        top, before = self.topology, self.harmless
        self._order = topological_order(top)
        self._places = [-1] * top.size
        for place, number in enumerate(self._order):
            self._places[number] = place
        self._readers, self._later_readers = top.consumers(), {}
        self._doing = [number for number in self._order if not self._only_computes(number)]
        self.harmless = top.flags(self._order)
        for number in members(top.downstream(self._doing, self._readers)):
            self.harmless[number] = 0
        if self.harmless != before:
            self.note(n for n, (was, now) in enumerate(zip(before, self.harmless, strict=True)) if was != now)
        self._is_placed = len(self._news)

    def renew(self) -> None:
        """Goes on with the graph, which has become what this draft of it is."""
        self.topology.is_now_the_graph(self.changed)
        self.topology = self.topology.draft()
        self.note(self.merges)
        self.merges, self.changed, self.counts = {}, set(), Counter()
        before, self._written = self._written, self._may_be_written()
        if self._written != before:
            self.note(n for n, (was, now) in enumerate(zip(before, self._written, strict=True)) if was != now)
        if self._is_placed < len(self._news):
            self.refresh()

    def _only_computes(self, number: int) -> bool:
        return self.is_pure(number) or (self.ops[number] in CHECKS and not self.keeps_checks)

    def _find_colocations(self) -> None:
        table, id_of = self.topology.table, self.topology.id_of
        for name, rows in table.colocations.items():
            if name in table.rows:
                self._beside.add(table.rows[name])
                self._standing.update(rows)
        for node in self.graph.touched():
            if node.has_resolved_colocations:
                self._beside.update(id_of(other) for other in node.colocated if other.exists)
                self._standing.add(id_of(node))

    def _may_be_written(self) -> bytearray:
        """For each node whether what it gives may be in the memory that somebody writes into, in place."""
        return self.topology.upstream(written_into(self.graph, self.topology), control=False)

    # -- looking -----------------------------------------------------------------------------------------

    def order(self) -> list[int]:
        """The nodes that are there, producers first."""
        return [number for number in self._order if not self.gone[number]]

    def place(self, number: int) -> int:
        """Where a node is in that order; -1 where it is in or behind a cycle, and so in none."""
        return self._places[number]

    def with_ops(self, ops: Container[str]) -> list[int]:
        """The nodes of OPS, producers first: what is said of one may be what is asked of the next."""
        wanted = {op for op in self.topology.ops() if op in ops}
        op = self.ops
        return [number for number in self._order if op[number] in wanted and not self.gone[number]] if wanted else []

    def not_pure(self) -> list[int]:
        """The nodes that do more than compute, and perhaps some that do not, producers first."""
        return [number for number in self._doing if not self.gone[number]]

    def data(self, number: int) -> list[int]:
        """The codes of the tensors that a node reads, as they are after what this pass has done."""
        codes = [code for code in self.topology.inputs(number) if code & CONTROL != CONTROL]
        return list(map(self.now, codes)) if self._instead or self._equals else codes

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
        op = self.ops[number]
        if op not in self._pure:
            self._pure[op] = self._is_pure_op(op)
        found = self._pure[op]
        if found is not None:
            return found
        node = self.topology.node(number)
        return not has_state(node) and not any(map(hides_state, ops_in_functions(node)))

    def _is_pure_op(self, op: str) -> bool | None:
        """Whether all nodes of OP compute and do nothing else; None where that depends on the functions they call."""
        definition = self.graph.op_def(op)
        if op in CONTROL_FLOW or not (_is_pure(definition) and not hides_state(op)):
            return False
        return None if self.takes_functions(op) else True

    def takes_functions(self, op: str) -> bool:
        """Whether an op calls functions, or is one."""
        definition = self.graph.op_def(op)
        return definition is not None and (definition.takes_functions or op in self.graph.functions)

    def gives_reference(self, code: int) -> bool:
        """Whether a tensor may be a reference to a variable, or written into, and not a value."""
        if self._written[code >> BITS]:
            return True
        op = self.ops[code >> BITS]
        if op not in self._references:
            self._references[op] = _gives_reference(self.graph.op_def(op))
        return self._references[op]

    def constant(self, code: int) -> Constant | None:
        """The value of a tensor that is a small constant, else None."""
        number = code >> BITS
        if self.ops[number] != "Const":
            return None
        if number not in self._constants:
            self._constants[number] = constant(self.topology.node(number))
        return self._constants[number]

    def is_named(self, number: int) -> bool:
        """Whether others stand beside a node, or its name has to stay: then it is no pass's to take."""
        if self.kept[number]:
            return True
        if number not in self._beside:
            return False
        node = self.topology.node(number)
        beside = (other for other in self.graph.colocated_with(node) if other is not node)
        return any(not self.gone[self.topology.id_of(other)] for other in beside)

    # -- looking again -----------------------------------------------------------------------------------

    def note(self, numbers: Iterable[int]) -> None:
        """Says that something about nodes is different now: who looks at what is near them looks again."""
        self._news.extend(numbers)

    def note_alone(self, numbers: Iterable[int]) -> None:
        """Says that nodes have other readers or neighbours now, which nobody else can see."""
        self._news.extend([~number for number in numbers])

    def news(self, what: str) -> list[int] | None:
        """The nodes about which something is different since WHAT has last asked; None: it asks for the first time.

        Of those of which nobody else can see that, -1 minus their number.
        """
        start = self._looked.get(what)
        self._looked[what] = len(self._news)
        return None if start is None else self._news[start:]

    def again(self, what: str, ops: Container[str], reach: int = 1, through: Container[str] = ()) -> Iterator[int]:
        """The nodes of OPS, producers first, of which WHAT has to be said anew: all, and later those near what changed.

        What changes while they are looked at counts for those behind it.

        Args:
            what: who looks at them.
            ops: those that it looks at.
            reach: how many edges may lie between a node and what it depends on.
            through: edges to nodes of these do not count.
        """
        news = self.news(what)
        if news is None:
            yield from self.with_ops(ops)
            return
        if not any(op in ops for op in self.topology.ops()):
            return
        agenda = Worklist(self._order, self._places)
        told = len(self._news)
        agenda.add(self._near(news, ops, reach, through))
        for number in agenda:
            if not self.gone[number]:
                yield number
            if told < len(self._news):
                news, told = self._news[told:], len(self._news)
                agenda.add(self._near(news, ops, reach, through))

    def _near(self, numbers: Iterable[int], ops: Container[str], reach: int, through: Container[str]) -> list[int]:
        """Those of OPS among NUMBERS and what depends on them within REACH edges, but for those to THROUGH."""
        gone = self.gone  # of what is, the readers have changed themselves
        found = {number for number in numbers if number >= 0 and not gone[number]}
        alone = [~number for number in numbers if number < 0 and not gone[~number]]
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
        """The shapes of the tensors of the graph; what attrs state of them does not count."""
        edited = self.news("shapes")
        if self._inferred is None:
            self._inferred = Shapes(self.topology, self._order, self._places)
        elif edited:
            edited = [number for number in edited if number >= 0]
            self.note(self._inferred.update(self.topology, self._order, self._places, edited))
            self.news("shapes")  # which it has just said itself
        return self._inferred

    def remembered(self, make: Callable[[Draft], T]) -> T:
        """What MAKE has made when a pass first asked for it: what it keeps from one time to the next."""
        if make not in self._memories:
            self._memories[make] = make(self)
        return self._memories[make]  # type: ignore[return-value]

    # -- changing ----------------------------------------------------------------------------------------

    def now(self, code: int) -> int:
        """The tensor that is read in the place of CODE, after what this pass has done."""
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

    def has_replacement(self, number: int) -> bool:
        """Whether a node is about to go, since another gives the same."""
        return number in self._equals

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
        self.read_instead(number << BITS, source)
        self.wait_instead(number, producer)
        return True

    def bypass_each(self, number: int, sources: Sequence[int]) -> None:
        """Has those who read output i of a node read SOURCES[i]; left alone where somebody could tell."""
        if self.is_named(number) or self.has_controls(number) or self.is_waited_for(number):
            return
        alike = {self.harmless[source >> BITS] for source in sources}
        if alike == {1} and not any(map(self.gives_reference, sources)):
            for port, source in enumerate(sources):
                self.read_instead(number << BITS | port, source)
            self.wait_instead(number, sources[0] >> BITS)

    def stand_in(self, number: int, other: int) -> None:
        """Has all who read or wait for a node read OTHER, which gives the same."""
        self._equals[number] = other
        self.wait_instead(number, other)

    def read_instead(self, code: int, source: int) -> None:
        """Has those who read the tensor CODE read SOURCE."""
        self._instead[code] = source
        self._news.append(code >> BITS)

    def wait_instead(self, number: int, other: int) -> None:
        """Has those who wait for a node wait for OTHER."""
        self._waited[number] = other
        self._news.append(number)

    def become_identity(self, number: int, source: int) -> None:
        """Makes a Merge the Identity of the only input that it has left."""
        self.topology.set_op(number, "Identity")
        self.ops[number] = "Identity"
        self.merges[number] = None
        self.set_inputs(number, [source])

    def become_constants(self, numbers: Iterable[int]) -> None:
        """Says that nodes of the graph are constants."""
        for number in numbers:
            self._part(number)
            self.topology.set_op(number, "Const")
            self.ops[number] = "Const"
            self.set_inputs(number, ())

    def set_inputs(self, number: int, codes: Iterable[int]) -> None:
        """Has a node read and wait for something else, CODES."""
        lost, found = self.topology.set_inputs(number, codes)
        self.changed.add(number)
        for producer in found:
            self._later_readers.setdefault(producer, []).append(number)
        self._news.append(number)
        self.note_alone(lost)

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
            self.note_alone(self.topology.producers(number))
            self._part(number)
        if going:
            self.topology.leave_out(going)
            self.counts[what] += len(going)

    def _part(self, number: int) -> None:
        """Notes beside which nodes one stands no longer."""
        if number in self._standing:
            others = (other for other in self.topology.node(number).colocated if other.exists)
            self.note_alone(map(self.topology.id_of, others))


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


def _gives_reference(definition: OpDef | None) -> bool:
    return definition is None or any(output.is_ref for output in definition.outputs)
