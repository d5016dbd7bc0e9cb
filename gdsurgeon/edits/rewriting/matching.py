"""Finds where a pattern matches: from its rarest op, by the index of ops and users, with all ways tried."""

from __future__ import annotations

from collections.abc import Container, Iterator

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.edits.rewriting.facts import NodeFacts
from gdsurgeon.edits.rewriting.searching import Found, Search, may_be
from gdsurgeon.patterns.check import bound_by
from gdsurgeon.patterns.terms import Op, Ref, Rule, walk

MOST_WAYS = 64
"""Ways in which a pattern may match at one node that are looked at."""


class Matcher:
    """The matches of a rule in a graph.

    Attributes:
        tried: how often a term was held against a tensor, or a result against those before it.
    """

    def __init__(self, topology: Topology, rule: Rule, barred: Container[int]) -> None:
        """BARRED: nodes that are none to a pattern."""
        self.topology = topology
        self.rule = rule
        self.facts = NodeFacts(topology)
        self.tried = 0
        self.barred = barred
        self._others = [root for root in rule.pattern[1:] if isinstance(root, Op)]
        self._tables: dict[Op, _Table] = {}

    # -- where to look ---------------------------------------------------------------------------------------

    def roots(self) -> list[int]:
        """The nodes at which the first result may match, ascending."""
        first = self.rule.pattern[0]
        assert isinstance(first, Op)
        return self._candidates(first)

    def _candidates(self, root: Op) -> list[int]:
        """The nodes at which ROOT may match: found upwards from the nodes of its rarest op."""
        counts = self.topology.table.op_counts
        anchors = [(sum(counts.get(op, 0) for op in term.ops), path) for term, path in _anchors(root)]
        if not anchors:
            return [number for number in self.topology.numbers() if may_be(self.topology, root, number)]
        _, path = min(anchors, key=lambda anchor: anchor[0])
        found = self.topology.with_ops(path[-1].ops)
        for term in reversed(path[:-1]):
            users = dict.fromkeys(user for number in found for user in self.topology.users(number))
            found = [user for user in users if may_be(self.topology, term, user)]
        return sorted(found)

    # -- matches ---------------------------------------------------------------------------------------------

    def ways(self, root: int, taken: Container[int] = ()) -> Iterator[Found]:
        """The ways in which the rule matches at ROOT, without the nodes that are TAKEN."""
        first = self.rule.pattern[0]
        assert isinstance(first, Op)
        for found in self._ways_of(first, root, taken):
            yield from self._with_others(found, 0, taken)

    def _ways_of(self, term: Op, number: int, taken: Container[int]) -> Iterator[Found]:
        """The ways in which one result matches at a node."""
        return Search(self, taken).ways(term, number)

    def _with_others(self, found: Found, index: int, taken: Container[int]) -> Iterator[Found]:
        """FOUND with each way in which the further results match, from that of an INDEX on."""
        if index == len(self._others):
            if all(isinstance(root, Op) or root.label in found.nodes for root in self.rule.pattern):
                yield found
            return
        term = self._others[index]
        if term not in self._tables:
            self._tables[term] = _Table(self, term, _names_before(self.rule, term))
        roots = {found.placed[each] for each in self._others[:index]}
        roots.add(found.root(self.rule.pattern[0]))
        for other in self._tables[term].fitting(found, taken):
            self.tried += 1
            both = found.joined(other, self.facts) if other.placed[term] not in roots else None
            if both is not None:
                yield from self._with_others(both, index + 1, taken)


class _Table:
    """All matches of a further result, by what the names that it shares with those before it stand for.

    So a pair is found by a look into a table, however many nodes read the same.
    """

    def __init__(self, matcher: Matcher, term: Op, names: frozenset[str]) -> None:
        self._names, self._term, self._facts = names, term, matcher.facts
        self._rows: dict[tuple[object, ...], list[Found]] = {}
        self._starts: dict[tuple[object, ...], int] = {}
        for number in matcher._candidates(term):
            for count, found in enumerate(matcher._ways_of(term, number, ())):
                if count == MOST_WAYS:
                    break
                self._rows.setdefault(self._key(found), []).append(found)

    def _key(self, found: Found) -> tuple[object, ...]:
        tensors, nodes = found.tensors, found.nodes
        return tuple(
            nodes.get(name) if name[0] != "$" else self._facts.first(tensors[name[1:]]) if name[1:] in tensors else None
            for name in sorted(self._names)
        )

    def fitting(self, found: Found, taken: Container[int]) -> Iterator[Found]:
        """The matches that fit what is FOUND, as far as names say, but for those with a node that is TAKEN."""
        key = self._key(found)
        rows = self._rows.get(key, [])
        start = self._starts.get(key, 0)
        while start < len(rows) and rows[start].placed[self._term] in taken:
            start += 1  # and for good: what is taken stays so
        self._starts[key] = start
        for at in range(start, len(rows)):
            if not any(number in taken for number in rows[at].placed.values()):
                yield rows[at]


def _anchors(root: Op) -> Iterator[tuple[Op, list[Op]]]:
    """The ops that a match has in any case, each with the way down to it from ROOT, both included."""
    pending = [[root]]
    while pending:
        path = pending.pop()
        term = path[-1]
        if term.ops:
            yield term, path
        pending += [[*path, each] for each in term.inputs or () if isinstance(each, Op) and not each.optional]


def _names_before(rule: Rule, term: Op) -> frozenset[str]:
    """The names that are bound in any match of TERM, and of the results before it."""
    before = rule.pattern[: rule.pattern.index(term)]
    mine, others = bound_by([term]), bound_by(before)
    tensors = mine.tensors & others.tensors
    refs = {each.label for each in walk(term) if isinstance(each, Ref)} & others.labels
    return frozenset({f"${name}" for name in tensors} | refs)
