"""Holds a pattern against the nodes below one, in all ways: a depth-first search whose bindings are taken back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.rewriting.facts import NodeFacts
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.index import Table
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import COMMUTATIVE, CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.patterns.terms import Anything, Op, Ref, Term, Value, Variable

BITS, CONTROL = Table.PORT_BITS, Table.CONTROL_PORT

MOST_TRIED = 1 << 20
"""How often terms are held against tensors below one node: sums of sums have very many orders of what they add."""

Todo = tuple[Term, int, "Todo"] | None
"""Terms that have yet to match, each with the code of its tensor."""


@dataclass
class Found:
    """A match, in the numbers of a topology.

    Attributes:
        tensors: codes by the names of variables.
        nodes: by labels.
        attrs: serialised AttrValues by the names of variables.
        placed: the node of each term that is an `Op`, but for those that are missing.
    """

    tensors: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    attrs: dict[str, bytes] = field(default_factory=dict)
    placed: dict[Op, int] = field(default_factory=dict)

    def copy(self) -> Found:
        """The same, which stays when this is changed."""
        return Found(dict(self.tensors), dict(self.nodes), dict(self.attrs), dict(self.placed))

    def joined(self, other: Found, facts: NodeFacts) -> Found | None:
        """Both matches as one; None where a name stands for two things."""
        for name in self.tensors.keys() & other.tensors.keys():
            if facts.first(self.tensors[name]) != facts.first(other.tensors[name]):
                return None
        for mine, its in ((self.nodes, other.nodes), (self.attrs, other.attrs)):
            if any(mine.get(key, value) != value for key, value in its.items()):
                return None
        return Found(
            other.tensors | self.tensors, self.nodes | other.nodes, self.attrs | other.attrs, self.placed | other.placed
        )

    def root(self, term: Op | Ref) -> int:
        """The node of a result."""
        return self.nodes[term.label] if isinstance(term, Ref) else self.placed[term]

    def members(self) -> set[int]:
        """The nodes that ops of the pattern have matched."""
        return {*self.placed.values()}


class Searched(Protocol):
    """What a search is in.

    Attributes:
        topology, facts: the nodes.
        barred: nodes that are none to a pattern.
        tried: how often a term was held against a tensor.
    """

    topology: Topology
    facts: NodeFacts
    barred: Container[int]
    tried: int


class Search:
    """One search; it is over when what it yields is no longer asked for."""

    def __init__(self, count: Searched, taken: Container[int]) -> None:
        self.topology, self.facts, self.barred = count.topology, count.facts, count.barred
        self.count = count
        self.taken = taken
        self._found = Found()
        self._tried, self._where = 0, ""

    def ways(self, term: Op, number: int) -> Iterator[Found]:
        """The ways in which TERM matches at a node; the inputs of commutative ops as they come, then the other way."""
        self._where = quoted(self.topology.name(number))
        return self._matched((term, number << BITS | term.port, None))

    def _matched(self, todo: Todo) -> Iterator[Found]:
        """The ways in which all of TODO match; what is bound meanwhile is in `_found`."""
        if todo is None:
            yield self._found.copy()
            return
        term, code, rest = todo
        self.count.tried += 1
        self._tried += 1
        if self._tried > MOST_TRIED:
            message = f"{self._where} can match in too many ways: the search was stopped after {MOST_TRIED:,} steps"
            raise EditError(message, code="too-many-ways")
        if isinstance(term, Op):
            yield from self._op(term, code, rest)
        elif isinstance(term, Variable):
            yield from self._variable(term, code, rest)
        elif isinstance(term, Anything):
            yield from self._matched(rest)
        elif isinstance(term, Value):
            if self.facts.has_value(code, term):
                yield from self._matched(rest)
        elif isinstance(term, Ref):
            number = self._found.nodes.get(term.label)
            if number is not None and number << BITS | term.port == code:
                yield from self._matched(rest)

    def _variable(self, term: Variable, code: int, rest: Todo) -> Iterator[Found]:
        known = self._found.tensors.get(term.name)
        if not self.facts.is_kind(code, term):
            return
        if known is not None and known != code and self.facts.first(known) != self.facts.first(code):
            return
        if known is not None:
            yield from self._matched(rest)
            return
        self._found.tensors[term.name] = code
        yield from self._matched(rest)
        del self._found.tensors[term.name]

    def _op(self, term: Op, code: int, rest: Todo) -> Iterator[Found]:
        number = code >> BITS
        if code & CONTROL == term.port and self._is_one(term, number):
            bound = self.facts.attrs_of(term, number, self._found.attrs)
            if bound is not None:
                new = [name for name in bound if name not in self._found.attrs]
                self._found.attrs.update(bound)
                self._found.placed[term] = number
                if term.label:
                    self._found.nodes[term.label] = number
                for following in self._inputs(term, number, rest):
                    yield from self._matched(following)
                del self._found.placed[term]
                self._found.nodes.pop(term.label, None)
                for name in new:
                    del self._found.attrs[name]
        if term.optional and term.inputs:
            yield from self._matched((term.inputs[0], code, rest))

    def _is_one(self, term: Op, number: int) -> bool:
        return may_be(self.topology, term, number) and number not in self.barred and number not in self.taken

    def _inputs(self, term: Op, number: int, rest: Todo) -> Iterator[Todo]:
        """What has to match then, for each order in which inputs may be taken."""
        if term.inputs is None:
            yield rest
            return
        reads = [code for code in self.topology.inputs(number) if code & CONTROL != CONTROL]
        wanted = len(term.inputs)
        if len(reads) < wanted or (len(reads) > wanted and not term.rest) or min(reads, default=0) < 0:
            return
        yield _pushed(term.inputs, reads, rest)
        if wanted == len(reads) == 2 and reads[0] != reads[1] and self._is_commutative(number):
            yield _pushed(term.inputs, reads[::-1], rest)

    def _is_commutative(self, number: int) -> bool:
        """Whether a node gives the same with its inputs exchanged; an Add of texts puts one behind the other."""
        op = self.topology.op(number)
        return op in COMMUTATIVE and (op != "Add" or self.topology.node(number).plain_attr("T") != STRING)


def _pushed(terms: Iterable[Term], codes: list[int], rest: Todo) -> Todo:
    """TERMS, each with its code, in front of REST; the first comes first."""
    for term, code in reversed([*zip(terms, codes, strict=False)]):
        rest = (term, code, rest)
    return rest


def may_be(topology: Topology, term: Op, number: int) -> bool:
    """Whether a node is of an op that TERM names, or of one that any op stands for."""
    op = topology.op(number)
    return op in term.ops if term.ops else op not in CONTROL_FLOW and op not in PLACEHOLDERS
