"""Finds where a pattern matches: a depth-first search from the nodes of its rarest op, with all ways tried."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.constants import Constant, TensorHeader, constant, constant_header
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOAT16, STRING
from gdsurgeon.ops.kinds import COMMUTATIVE, CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.patterns.check import bound_by
from gdsurgeon.patterns.terms import (
    HANDING_ON,
    MOST_EQUAL,
    Anything,
    AttrTest,
    AttrVariable,
    DTypeName,
    Op,
    Ref,
    Rule,
    Term,
    Value,
    Variable,
    walk,
)

BITS, CONTROL = Table.PORT_BITS, Table.CONTROL_PORT
NEAR, NEAR_HALF = 1e-5, 1e-3
"""The relative difference up to which a constant equals a number of a pattern; for float16."""
MOST_TRIED = 1 << 20
"""The number of comparisons of terms with tensors at one node: sums of sums have very many orders."""
MOST_WAYS = 64
"""The number of ways in which a pattern may match at one node that are tried."""

Todo = tuple[Term, int, "Todo"] | None
"""Terms that have not matched yet, each with the code of its tensor."""


class NodeFacts:
    """Facts about the constants of a topology, each computed once."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._constants: dict[int, int | None] = {}
        self._values: dict[int, Constant | None] = {}
        self._firsts: dict[int, int] = {}
        self._equal: dict[tuple[object, ...], int] = {}

    def constant_node(self, code: int) -> int | None:
        """Returns the Const whose value a tensor has, also if other nodes forward it; otherwise None."""
        top, number, known = self.topology, code >> BITS, self._constants
        passed: list[int] = []
        while number not in known and top.op(number) in HANDING_ON:
            passed.append(number)
            reads = top.data_producers(number)
            if len(reads) != 1:
                break
            number = reads[0]
        if number not in known:
            known[number] = number if top.op(number) == "Const" else None
        found = known[number]
        known.update(dict.fromkeys(passed, found))
        return found

    def header(self, code: int) -> TensorHeader | None:
        """Returns the header of a constant; otherwise None."""
        number = self.constant_node(code)
        return None if number is None else constant_header(self.topology.node(number))

    def value(self, code: int) -> Constant | None:
        """Returns the value of a small constant; otherwise None (see `gdsurgeon.graph.constants.constant`)."""
        number = self.constant_node(code)
        if number is None:
            return None
        if number not in self._values:
            self._values[number] = constant(self.topology.node(number))
        return self._values[number]

    def first(self, code: int) -> int:
        """Returns a tensor; for a small constant, the first requested one with the same value."""
        if code not in self._firsts:
            header = self.header(code)
            found = self.value(code) if header is not None and header.elements <= MOST_EQUAL else None
            held = None if found is None else (found.dtype, found.shape, *map(repr, found.values))
            self._firsts[code] = code if held is None else self._equal.setdefault(held, code)
        return self._firsts[code]

    def has_value(self, code: int, wanted: Value) -> bool:
        """Returns whether a tensor is a constant with the value `wanted`."""
        found = self.value(code)
        if found is None or not found.values:
            return found is not None and wanted.shape == found.shape == (0,)
        if wanted.shape and found.shape != wanted.shape:
            return False
        near = NEAR_HALF if found.dtype == FLOAT16 else NEAR
        values = wanted.values if wanted.shape else wanted.values * len(found.values)
        return all(_is_near(value, want, near) for value, want in zip(found.values, values, strict=True))

    def is_kind(self, code: int, term: Variable) -> bool:
        """Returns whether a tensor satisfies the conditions of a variable."""
        if not term.kind:
            return True
        header = self.header(code)
        if header is None or header.dims is None or (term.kind == "scalar" and header.elements != 1):
            return False
        if term.dims is not None and not _has_dims(header.dims, term.dims):
            return False
        if term.bounds is None:
            return True
        found, (low, high) = self.value(code), term.bounds
        return found is not None and all(not isinstance(v, bytes) and low <= v <= high for v in found.values)

    def attrs_of(self, term: Op, number: int, known: Mapping[str, bytes]) -> dict[str, bytes] | None:
        """Returns the attr variables that a term binds at a node; None if an attr does not have the required value."""
        if not term.attrs:
            return {}
        node = self.topology.node(number)
        out: dict[str, bytes] = {}
        for test in term.attrs:
            if isinstance(test.value, AttrVariable):
                data = canonical_attr(node, test.key)
                if data is None or out.get(test.value.name, known.get(test.value.name, data)) != data:
                    return None
                out[test.value.name] = data
            elif not holds(test, node.setting(test.key)):
                return None
        return out


def canonical_attr(node: Node, key: str) -> bytes | None:
    """Returns the serialized AttrValue of an attr in canonical form."""
    value = node.attr(key)
    return None if value is None else value.SerializeToString(deterministic=True)


def _has_dims(dims: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(dims) == len(wanted) and all(want in (-1, dim) for dim, want in zip(dims, wanted, strict=True))


def _is_near(value: object, wanted: float, near: float) -> bool:
    if isinstance(value, bytes) or not isinstance(value, bool | int | float):
        return False
    if isinstance(wanted, bool) or isinstance(value, bool):
        return isinstance(value, bool) and value == wanted
    return value == wanted if isinstance(value, int) else _is_close(value, wanted, near)


def _is_close(value: float, wanted: float, near: float) -> bool:
    """Returns whether a float equals a number up to rounding; an infinite number equals itself only."""
    return value == wanted or (isfinite(wanted) and abs(value - wanted) <= near * abs(wanted))


def holds(test: AttrTest, have: object) -> bool:
    """Returns whether an attr with the value `have` satisfies `test`."""
    wanted = test.value
    if have is None:
        return False
    if test.relation in ("=", "!="):
        return _is_equal(have, wanted) == (test.relation == "=")
    if isinstance(have, bool) or not isinstance(have, int | float) or not isinstance(wanted, int | float):
        return False
    return {"<": have < wanted, "<=": have <= wanted, ">": have > wanted, ">=": have >= wanted}[test.relation]


def _is_equal(have: object, wanted: object) -> bool:
    if isinstance(wanted, list):
        return (
            isinstance(have, list)
            and len(have) == len(wanted)
            and all(_is_equal(a, b) for a, b in zip(have, wanted, strict=True))
        )
    if isinstance(wanted, DTypeName):
        return have == wanted.number
    if isinstance(wanted, str):
        return have == wanted.encode() or have == wanted
    if isinstance(have, bool) or isinstance(wanted, bool):
        return have is wanted or (isinstance(wanted, bool) and have == wanted)
    if isinstance(have, int) and isinstance(wanted, int | float):
        return have == wanted
    if isinstance(have, float) and isinstance(wanted, int | float):
        return _is_close(have, wanted, NEAR)
    return False


# -- matches ---------------------------------------------------------------------------------------------------


@dataclass
class Found:
    """A match, in the numbers of a topology.

    Attributes:
        tensors: the codes of variables, by name.
        nodes: the nodes, by label.
        attrs: the serialized AttrValues of attr variables, by name.
        placed: the node of each `Op` of the pattern, except missing optional ones.
    """

    tensors: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    attrs: dict[str, bytes] = field(default_factory=dict)
    placed: dict[Op, int] = field(default_factory=dict)

    def copy(self) -> Found:
        """Returns an independent copy."""
        return Found(dict(self.tensors), dict(self.nodes), dict(self.attrs), dict(self.placed))

    def joined(self, other: Found, facts: NodeFacts) -> Found | None:
        """Returns both matches as one; None if a name is bound to two things."""
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
        """Returns the node of a result."""
        return self.nodes[term.label] if isinstance(term, Ref) else self.placed[term]

    def members(self) -> set[int]:
        """Returns the nodes that ops of the pattern matched."""
        return {*self.placed.values()}


class Matcher:
    """The matches of a rule in a graph.

    Args:
        topology: of the graph.
        rule: its pattern is searched.
        excluded: nodes that cannot be part of a match.

    Attributes:
        facts: of the topology.
        tried: the number of comparisons of terms with tensors, and of results with each other.
    """

    def __init__(self, topology: Topology, rule: Rule, excluded: Container[int]) -> None:
        self.topology, self.rule, self.excluded = topology, rule, excluded
        self.facts = NodeFacts(topology)
        self.tried = 0
        self._others = [root for root in rule.pattern[1:] if isinstance(root, Op)]
        self._tables: dict[Op, _Table] = {}

    # -- where to look ---------------------------------------------------------------------------------------

    def roots(self) -> list[int]:
        """Returns the nodes at which the first result may match, ascending."""
        first = self.rule.pattern[0]
        assert isinstance(first, Op)
        return self.candidates(first)

    def candidates(self, root: Op) -> list[int]:
        """Returns the nodes at which `root` may match: downstream of the nodes of its rarest op."""
        counts = self.topology.table.op_counts
        anchors = [(sum(counts.get(op, 0) for op in term.ops), path) for term, path in _anchors(root)]
        if not anchors:
            return [number for number in self.topology.numbers() if self._may_be(root, number)]
        _, path = min(anchors, key=lambda anchor: anchor[0])
        found = self.topology.with_ops(path[-1].ops)
        for term in reversed(path[:-1]):
            users = dict.fromkeys(user for number in found for user in self.topology.users(number))
            found = [user for user in users if self._may_be(term, user)]
        return sorted(found)

    def _may_be(self, term: Op, number: int) -> bool:
        op = self.topology.op(number)
        return op in term.ops if term.ops else op not in CONTROL_FLOW and op not in PLACEHOLDERS

    # -- matches ---------------------------------------------------------------------------------------------

    def ways(self, root: int, taken: Container[int] = ()) -> Iterator[Found]:
        """Yields the ways in which the rule matches at `root` without the nodes in `taken`."""
        first = self.rule.pattern[0]
        assert isinstance(first, Op)
        for found in self.ways_of(first, root, taken):
            yield from self._with_others(found, 0, taken)

    def ways_of(self, term: Op, number: int, taken: Container[int]) -> Iterator[Found]:
        """Yields the ways in which one result matches at a node."""
        return _Search(self, number, taken).matched((term, number << BITS | term.port, None))

    def _with_others(self, found: Found, index: int, taken: Container[int]) -> Iterator[Found]:
        """Yields `found` with each way in which the results from `index` on match."""
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


class _Search:
    """A search at one node; bindings are undone when the search goes back."""

    def __init__(self, matcher: Matcher, start: int, taken: Container[int]) -> None:
        self.matcher, self.topology, self.facts = matcher, matcher.topology, matcher.facts
        self.start, self.taken = start, taken
        self._found = Found()
        self._tried = 0

    def matched(self, todo: Todo) -> Iterator[Found]:
        """Yields the ways in which all of `todo` match; inputs of commutative ops in both orders."""
        if todo is None:
            yield self._found.copy()
            return
        term, code, rest = todo
        self.matcher.tried += 1
        self._tried += 1
        if self._tried > MOST_TRIED:
            where = quoted(self.topology.name(self.start))
            message = f"{where} can match in too many ways: the search was stopped after {MOST_TRIED:,} steps"
            raise EditError(message, code="too-many-ways")
        if isinstance(term, Op):
            yield from self._op(term, code, rest)
        elif isinstance(term, Variable):
            yield from self._variable(term, code, rest)
        elif isinstance(term, Anything):
            yield from self.matched(rest)
        elif isinstance(term, Value):
            if self.facts.has_value(code, term):
                yield from self.matched(rest)
        elif isinstance(term, Ref):
            number = self._found.nodes.get(term.label)
            if number is not None and number << BITS | term.port == code:
                yield from self.matched(rest)

    def _variable(self, term: Variable, code: int, rest: Todo) -> Iterator[Found]:
        known = self._found.tensors.get(term.name)
        if not self.facts.is_kind(code, term):
            return
        if known is not None:
            if known == code or self.facts.first(known) == self.facts.first(code):
                yield from self.matched(rest)
            return
        self._found.tensors[term.name] = code
        yield from self.matched(rest)
        del self._found.tensors[term.name]

    def _op(self, term: Op, code: int, rest: Todo) -> Iterator[Found]:
        number = code >> BITS
        is_free = number not in self.matcher.excluded and number not in self.taken
        if code & CONTROL == term.port and is_free and self.matcher._may_be(term, number):
            bound = self.facts.attrs_of(term, number, self._found.attrs)
            if bound is not None:
                new = [name for name in bound if name not in self._found.attrs]
                self._found.attrs.update(bound)
                self._found.placed[term] = number
                if term.label:
                    self._found.nodes[term.label] = number
                for following in self._inputs(term, number, rest):
                    yield from self.matched(following)
                del self._found.placed[term]
                self._found.nodes.pop(term.label, None)
                for name in new:
                    del self._found.attrs[name]
        if term.optional and term.inputs:
            yield from self.matched((term.inputs[0], code, rest))

    def _inputs(self, term: Op, number: int, rest: Todo) -> Iterator[Todo]:
        """Yields the terms that must match then, for each order of the inputs."""
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
        """Returns whether the order of inputs does not matter; an Add of strings joins them in their order."""
        op = self.topology.op(number)
        return op in COMMUTATIVE and (op != "Add" or self.topology.node(number).plain_attr("T") != STRING)


def _pushed(terms: Sequence[Term], codes: Sequence[int], rest: Todo) -> Todo:
    """Returns `terms`, each with its code, before `rest`."""
    for term, code in reversed([*zip(terms, codes, strict=False)]):
        rest = (term, code, rest)
    return rest


class _Table:
    """All matches of a further result, by the bindings of the names that it shares with earlier results.

    So each pair is found by one lookup, even if very many nodes read the same tensor.
    """

    def __init__(self, matcher: Matcher, term: Op, names: frozenset[str]) -> None:
        self._names, self._term, self._facts = names, term, matcher.facts
        self._rows: dict[tuple[object, ...], list[Found]] = {}
        self._starts: dict[tuple[object, ...], int] = {}
        for number in matcher.candidates(term):
            for count, found in enumerate(matcher.ways_of(term, number, ())):
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
        """Yields the matches with the same bindings as `found`, without those that contain nodes in `taken`."""
        key = self._key(found)
        rows = self._rows.get(key, [])
        start = self._starts.get(key, 0)
        while start < len(rows) and rows[start].placed[self._term] in taken:
            start += 1  # taken nodes stay taken
        self._starts[key] = start
        for at in range(start, len(rows)):
            if not any(number in taken for number in rows[at].placed.values()):
                yield rows[at]


def _anchors(root: Op) -> Iterator[tuple[Op, list[Op]]]:
    """Yields the ops that each match contains, each with its path from `root`, both included."""
    pending = [[root]]
    while pending:
        path = pending.pop()
        term = path[-1]
        if term.ops:
            yield term, path
        pending += [[*path, each] for each in term.inputs or () if isinstance(each, Op) and not each.optional]


def _names_before(rule: Rule, term: Op) -> frozenset[str]:
    """Returns the names that each match of `term` and of the results before it binds."""
    before = rule.pattern[: rule.pattern.index(term)]
    mine, others = bound_by([term]), bound_by(before)
    tensors = mine.tensors & others.tensors
    refs = {each.label for each in walk(term) if isinstance(each, Ref)} & others.labels
    return frozenset({f"${name}" for name in tensors} | refs)
