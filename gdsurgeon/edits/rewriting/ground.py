"""What may be replaced where it is: nothing else reads it, it runs where all of it runs, and no name is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.effects import in_written_memory
from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow_of, while_frames
from gdsurgeon.analysis.traversal.order import levels
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.rewriting.searching import Found
from gdsurgeon.edits.simplifying.roots import served_nodes
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.ops.dtypes import REF
from gdsurgeon.ops.kinds import CONTROL_FLOW
from gdsurgeon.patterns.terms import InputOf, Op, Ref, Rule, Term, Variable, walk

BITS, CONTROL = Table.PORT_BITS, Table.CONTROL_PORT


class Place(NamedTuple):
    """What a match would replace.

    Attributes:
        found: the match.
        roots: for each result the node and the output.
        going: the nodes that nothing of the rest needs then, without the roots.
        kept: those that stay because the replacement reads them.
    """

    found: Found
    roots: tuple[tuple[int, int], ...]
    going: tuple[int, ...]
    kept: frozenset[int]


class Ground:
    """A graph as it is while matches are looked for.

    Attributes:
        topology: its nodes.
        ends: those that are no part of any pattern: arguments and results of a function.
        named: those whose names somebody uses: outputs, and what a model's signatures and savers name.
    """

    def __init__(self, graph: Graph, topology: Topology) -> None:
        self.topology = topology
        self.ends = frozenset(map(topology.id_of, graph.ends))
        self.named = frozenset(topology.id_of(node) for node in (*output_nodes(graph), *served_nodes(graph)))
        self._written = in_written_memory(graph, topology)
        self._flows = bool(topology.ops() & CONTROL_FLOW)
        self._flow: ControlFlow | None = control_flow_of(graph) if self._flows else None
        self._frames = while_frames(topology).of if self._flows else []
        self._levels: dict[int, int] | None = None

    def place(self, rule: Rule, found: Found, kept_terms: Iterable[Op]) -> Place:
        """What FOUND would replace; KEPT_TERMS and all below them stay."""
        kept = {found.placed[term] for term in kept_terms if term in found.placed}
        roots = tuple((found.root(term), term.port) for term in rule.pattern)
        ends = {number for number, _ in roots}
        members = dict.fromkeys(found.placed.values())
        going = tuple(number for number in members if number not in ends and number not in kept)
        return Place(found, roots, going, frozenset(kept - ends))

    def level(self, number: int) -> int:
        """The longest way to a node from what reads nothing; loops are cut where they close."""
        if self._levels is None:
            self._levels = {n: depth for depth, level in enumerate(levels(self.topology)) for n in level}
        return self._levels[number]

    def place_in_order(self, number: int) -> tuple[int, int]:
        """By which nodes are ordered: producers first, those of one level as they are in the file."""
        return self.level(number), number

    # -- what speaks against it --------------------------------------------------------------------------

    def why_not(self, place: Place, read: Sequence[int]) -> Remark | None:
        """Why a match stays as it is, None where nothing speaks against it.

        Args:
            place: what would be replaced.
            read: the codes of the tensors that the replacement reads.
        """
        members = place.found.members()
        return (
            self._why_read(place, members, read)
            or self._why_elsewhere(place, members)
            or self._why_other_branch(place, read)
            or self._why_circle(place, read)
        )

    def _why_read(self, place: Place, members: set[int], read: Sequence[int]) -> Remark | None:
        top = self.topology
        changing = members - place.kept
        both = next((code >> BITS for code in read if code >> BITS in place.going), None)
        if both is not None:
            text = f"{quoted(top.name(both))} would be removed, but the replacement reads it"
            return Remark(text, "still-read", node=top.name(both))
        for number in place.going:
            name = top.name(number)
            if number in self.named:
                text = f"{quoted(name)} is an output, or its name is used by the model"
                return Remark(text, "is-output", node=name)
            outside = next((user for user in top.users(number) if user not in changing), None)
            if outside is not None:
                text = f"{quoted(name)} is used by {quoted(top.name(outside))}, outside the match"
                return Remark(text, "outside-uses", node=name, user=top.name(outside))
            if any(port < 0 for _, port in top.reads(number)):
                return Remark(f"{quoted(name)} has a control dependency", "has-controls", node=name)
        ports: dict[int, set[int]] = {}
        for number, port in place.roots:
            ports.setdefault(number, set()).add(port)
        for number, results in ports.items():
            for user in top.users(number):
                for source, port in top.reads(user):
                    if source == number and port >= 0 and port not in results and user not in changing:
                        tensor = f"{top.name(number)}:{port}"
                        text = f"{quoted(tensor)} is used by {quoted(top.name(user))}, but the rule does not return it"
                        return Remark(text, "no-result", tensor=tensor, user=top.name(user))
        shared = next((n for n in changing if (top.node(n).output_dtypes or [0])[0] > REF), None)
        if shared is not None:
            return Remark(f"{quoted(top.name(shared))} is a reference", "is-reference", node=top.name(shared))
        ends = (*(number for number, _ in place.roots), *(code >> BITS for code in read)) if self._written else ()
        written = next((number for number in ends if number in self._written), None)
        if written is None:
            return None
        name = top.name(written)
        return Remark(f"an op can change the value of {quoted(name)} in place", "written-in-place", node=name)

    def _why_elsewhere(self, place: Place, members: set[int]) -> Remark | None:
        if self._flow is None:
            return None
        root = place.roots[0][0]
        here = (self._frames[root], self._flow.sides[root])
        for number in members:
            if (self._frames[number], self._flow.sides[number]) != here:
                names = [self.topology.name(number), self.topology.name(root)]
                text = f"{' and '.join(map(quoted, names))} are not in the same loop or branch"
                return Remark(text, "crosses-branch", nodes=names)
        return None

    def _why_other_branch(self, place: Place, read: Sequence[int]) -> Remark | None:
        """The replacement has to run where the match does: in the frame and the branch of what it reads."""
        flow = self._flow
        if flow is None:
            return None
        for root, _ in place.roots:
            waits = [(producer, port) for producer, port in self.topology.reads(root) if port < 0]
            tensors = [(code >> BITS, code & CONTROL) for code in read] + waits
            sides = frozenset().union(*(flow.of_tensor(number, port) for number, port in tensors))
            in_frame = self._frames[root] < 0 or any(self._frames[n] == self._frames[root] for n, _ in tensors)
            if sides != flow.sides[root] or not in_frame:
                name = self.topology.name(root)
                text = f"no remaining input determines when {quoted(name)} runs"
                return Remark(text, "leaves-branch", node=name)
        return None

    def _why_circle(self, place: Place, read: Sequence[int]) -> Remark | None:
        """Of several results none may be computed before all that is read: each edge leads to a higher level then."""
        nodes = dict.fromkeys(number for number, _ in place.roots)
        if len(nodes) < 2:
            return None
        first = min(nodes, key=self.level)
        for code in read:
            if self.level(code >> BITS) >= self.level(first):
                names = [self.topology.name(first), self.topology.name(code >> BITS)]
                text = f"{' may be needed to compute '.join(map(quoted, names))}, which the replacement reads"
                return Remark(text, "would-cycle", nodes=names)
        return None

    def anchor(self, place: Place, read: Sequence[int]) -> int | None:
        """What a constant waits for so that it runs in the loop that the match is in; None outside of loops."""
        root = place.roots[0][0]
        if self._flow is None or self._frames[root] < 0:
            return None
        waits = [producer for producer, port in self.topology.reads(root) if port < 0]
        return next(n for n in (*(code >> BITS for code in read), *waits) if self._frames[n] == self._frames[root])

    def runs_once(self, number: int) -> bool:
        """Whether a node is in no loop and in no branch."""
        return self._flow is None or self._flow.runs_once(number)

    def is_free(self, number: int) -> bool:
        """Whether a root may go: nobody uses its name or waits for it, and it waits for nobody."""
        top = self.topology
        if number in self.named or any(port < 0 for _, port in top.reads(number)):
            return False
        if any((number, -1) in top.reads(user) for user in top.users(number)):
            return False
        return not top.graph.colocated_with(top.node(number))


def kept_terms(rule: Rule, replacement: Sequence[Term]) -> list[Op]:
    """The terms of the pattern whose nodes the REPLACEMENT reads as they are, with all below them."""
    labels = {term.label for root in replacement for term in walk(root) if isinstance(term, Ref)}
    out: list[Op] = []
    for root in rule.pattern:
        for term in walk(root):
            if isinstance(term, Op) and term.label in labels and term.label:
                out += [below for below in walk(term) if isinstance(below, Op)]
    return out


def codes_read(topology: Topology, found: Found, replacement: Sequence[Term]) -> list[int]:
    """The codes of the tensors of the graph that a replacement reads."""
    out: dict[int, None] = {}
    for root in replacement:
        for term in walk(root):
            if isinstance(term, Variable):
                out[found.tensors[term.name]] = None
            elif isinstance(term, Ref) and term.label in found.nodes:
                out[found.nodes[term.label] << BITS | term.port] = None
            elif isinstance(term, InputOf):
                codes = [c for c in topology.inputs(found.nodes[term.label]) if c & CONTROL != CONTROL]
                out |= dict.fromkeys(codes[term.first :] if term.rest else codes[term.first : term.first + 1])
    return list(out)
