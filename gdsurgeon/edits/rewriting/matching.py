"""Finds where a pattern matches: a depth-first search from the nodes of its rarest op, with all ways tried."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from math import isfinite
from typing import Any

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.constants import Constant, TensorHeader, constant, constant_header
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.dtypes import FLOAT16, STRING
from gdsurgeon.ops.kinds import COMMUTATIVE, CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.patterns.parse import bound_by
from gdsurgeon.patterns.terms import (
    HANDING_ON,
    MOST_EQUAL,
    AttrTest,
    AttrVariable,
    DTypeName,
    Match,
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
Bindings = dict[Op | str, Any]
"""A partial match: the node of each `Op` and label, the code of each tensor by ``$name``, and the serialized AttrValue
of each attr variable by ``=name``.
"""


class ConstantFacts:
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
        while number not in known and top.op(number) in HANDING_ON and len(reads := top.data_producers(number)) == 1:
            passed.append(number)
            number = reads[0]
        found = known.setdefault(number, number if top.op(number) == "Const" else None)
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
        header = self.header(code) if term.kind else None
        if header is None or header.dims is None or (term.kind == "scalar" and header.elements != 1):
            return not term.kind
        if term.dims is not None and len(term.dims) != len(header.dims):
            return False
        if any(want not in (-1, dim) for dim, want in zip(header.dims, term.dims or (), strict=False)):
            return False
        if term.bounds is None:
            return True
        found, (low, high) = self.value(code), term.bounds
        return found is not None and all(not isinstance(v, bytes) and low <= v <= high for v in found.values)


def _is_near(value: object, wanted: object, near: float) -> bool:
    """Returns whether a number or boolean equals `wanted`; a float may differ by the fraction `near`."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if not isinstance(value, int | float) or not isinstance(wanted, int | float):
        return False
    is_close = isinstance(value, float) and isfinite(wanted) and abs(value - wanted) <= near * abs(wanted)
    return is_close or value == wanted


def holds(test: AttrTest, have: object) -> bool:
    """Returns whether an attr with the value `have` satisfies `test`."""
    wanted = test.value
    if have is None or test.relation in ("=", "!="):
        return have is not None and _is_equal(have, wanted) == (test.relation == "=")
    if isinstance(have, bool) or not isinstance(have, int | float) or not isinstance(wanted, int | float):
        return False
    return {"<": have < wanted, "<=": have <= wanted, ">": have > wanted, ">=": have >= wanted}[test.relation]


def _is_equal(have: object, wanted: object) -> bool:
    if isinstance(wanted, list):
        return isinstance(have, list) and len(have) == len(wanted) and all(map(_is_equal, have, wanted))
    if isinstance(wanted, DTypeName):
        return have == wanted.number
    return have in (wanted, wanted.encode()) if isinstance(wanted, str) else _is_near(have, wanted, NEAR)


# -- matches ---------------------------------------------------------------------------------------------------


class Matcher:
    """The matches of a rule in a graph.

    Args:
        topology: of the graph.
        rule: its pattern is searched.
        excluded: nodes that cannot be part of a match.

    Attributes:
        facts: of the constants.
        tried: the number of comparisons of terms with tensors, and of results with each other.
    """

    def __init__(self, topology: Topology, rule: Rule, excluded: Container[int]) -> None:
        self.topology, self.rule, self.excluded = topology, rule, excluded
        self.facts = ConstantFacts(topology)
        self.tried = 0
        self._start, self._limit = 0, 0
        self._results = [root for root in rule.pattern if isinstance(root, Op)]
        self._tables: dict[Op, tuple[list[str], dict[tuple[object, ...], deque[Bindings]]]] = {}

    def roots(self) -> list[int]:
        """Returns the nodes at which the first result may match, ascending."""
        return self._candidates(self._results[0])

    def _candidates(self, root: Op) -> list[int]:
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

    def ways(self, root: int, taken: Container[int] = ()) -> Iterator[Match]:
        """Yields the ways in which the rule matches at `root` without the nodes in `taken`."""
        for bound in self._ways_of(self._results[0], root, taken):
            for found in self._with_others(bound, 1, taken):
                if all(isinstance(each, Op) or each.label in found for each in self.rule.pattern):
                    yield self._match(found)

    def _match(self, bound: Bindings) -> Match:
        top = self.topology
        placed = {term: top.node(number) for term, number in bound.items() if isinstance(term, Op)}
        nodes = {term.label: node for term, node in placed.items() if term.label}
        names = [(name, item) for name, item in bound.items() if isinstance(name, str)]
        tensors = {name[1:]: top.tensor(code) for name, code in names if name[0] == "$"}
        attrs = {name[1:]: data for name, data in names if name[0] == "="}
        roots = [Output(nodes[each.label] if isinstance(each, Ref) else placed[each], each.port)
                 for each in self.rule.pattern]  # fmt: skip
        return Match(tensors, nodes, attrs, tuple(roots), placed)

    # -- one result ------------------------------------------------------------------------------------------

    def _ways_of(self, term: Op, number: int, taken: Container[int], earlier: Iterable[str] = ()) -> Iterator[Bindings]:
        """Yields the ways in which one result matches at a node. It may read nodes with the labels `earlier`."""
        self._start, self._limit = number, self.tried + MOST_TRIED
        yield from self._extended(dict.fromkeys(earlier), (term, number << BITS | term.port, None), taken)

    def _extended(self, bound: Bindings, todo: Todo, taken: Container[int]) -> Iterator[Bindings]:
        """Yields `bound` with each way in which all of `todo` match."""
        if todo is None:
            yield bound
            return
        term, code, rest = todo
        self.tried += 1
        if self.tried > self._limit:
            where = quoted(self.topology.name(self._start))
            message = f"{where} can match in too many ways: the search was stopped after {MOST_TRIED:,} steps"
            raise EditError(message, code="too-many-ways")
        if isinstance(term, Op):
            number = code >> BITS
            more = self._bound(term, number, bound, taken) if code & CONTROL == term.port else None
            for reads in self._orders(term, number) if more is not None else ():
                following = rest
                for each in reversed([*zip(term.inputs or (), reads, strict=False)]):
                    following = (*each, following)
                yield from self._extended(more or {}, following, taken)
            if term.optional and term.inputs:
                yield from self._extended(bound, (term.inputs[0], code, rest), taken)
            return
        if isinstance(term, Variable):
            name = f"${term.name}"
            known = bound.get(name, code)
            if not self.facts.is_kind(code, term) or (known != code and self._differ(name, known, code)):
                return
            bound = {**bound, name: known}
        elif isinstance(term, Value):
            if not self.facts.has_value(code, term):
                return
        elif isinstance(term, Ref):
            if code & CONTROL != term.port or bound.get(term.label, -1) not in (None, code >> BITS):
                return
            bound = {**bound, term.label: code >> BITS}
        yield from self._extended(bound, rest, taken)

    def _bound(self, term: Op, number: int, bound: Bindings, taken: Container[int]) -> Bindings | None:
        """Returns `bound` with a node as the node of `term`; None if the node or an attr does not match."""
        if number in self.excluded or number in taken or not self._may_be(term, number):
            return None
        out: Bindings = {**bound, term: number}
        if term.label:
            out[term.label] = number
        for test in term.attrs:
            node = self.topology.node(number)
            if not isinstance(test.value, AttrVariable):
                if not holds(test, node.setting(test.key)):
                    return None
            elif (value := node.attr(test.key)) is None:
                return None
            else:
                data = value.SerializeToString(deterministic=True)
                if out.setdefault(f"={test.value.name}", data) != data:
                    return None
        return out

    def _orders(self, term: Op, number: int) -> Iterator[Sequence[int]]:
        """Yields the inputs of a node in each order in which those of `term` may match."""
        if term.inputs is None:
            yield ()
            return
        reads = [code for code in self.topology.inputs(number) if code & CONTROL != CONTROL]
        wanted = len(term.inputs)
        if len(reads) < wanted or (len(reads) > wanted and not term.rest) or min(reads, default=0) < 0:
            return
        yield reads
        op = self.topology.op(number)
        is_ordered = op not in COMMUTATIVE or (op == "Add" and self.topology.node(number).plain_attr("T") == STRING)
        if wanted == len(reads) == 2 and reads[0] != reads[1] and not is_ordered:
            yield reads[::-1]

    # -- further results -------------------------------------------------------------------------------------

    def _with_others(self, bound: Bindings, index: int, taken: Container[int]) -> Iterator[Bindings]:
        """Yields `bound` with each way in which the results from `index` on match."""
        if index == len(self._results):
            yield bound
            return
        term, roots = self._results[index], {bound[each] for each in self._results[:index]}
        for other in self._fitting(term, bound, taken):
            self.tried += 1
            is_same = not any(self._differ(name, bound.get(name, item), item) for name, item in other.items())
            if is_same and other[term] not in roots:
                yield from self._with_others({**other, **bound}, index + 1, taken)

    def _differ(self, name: Op | str, one: Any, other: Any) -> bool:
        """Returns whether a name is bound to two things; equal constants are the same tensor."""
        is_tensor = isinstance(name, str) and name[0] == "$"
        return one != other and not (is_tensor and self.facts.first(one) == self.facts.first(other))

    def _fitting(self, term: Op, bound: Bindings, taken: Container[int]) -> Iterator[Bindings]:
        """Yields the matches of a further result that have the bindings of the names that earlier results always bind.

        So each pair is found by one lookup, even if very many nodes read the same tensor.
        """
        if term not in self._tables:
            before, mine = (bound_by(terms) for terms in (self.rule.pattern[: self.rule.pattern.index(term)], [term]))
            refs = {each.label for each in walk(term) if isinstance(each, Ref)} & before.labels
            names = [*(f"${name}" for name in mine.tensors & before.tensors), *refs]
            rows: dict[tuple[object, ...], deque[Bindings]] = {}
            for number in self._candidates(term):
                for found in islice(self._ways_of(term, number, (), refs), MOST_WAYS):
                    rows.setdefault(self._key(names, found), deque()).append(found)
            self._tables[term] = names, rows
        names, rows = self._tables[term]
        fitting = rows.get(self._key(names, bound), deque())
        while fitting and fitting[0][term] in taken:
            fitting.popleft()  # taken nodes stay taken
        for each in fitting:
            if not any(number in taken for op, number in each.items() if isinstance(op, Op)):
                yield each

    def _key(self, names: Sequence[str], bound: Bindings) -> tuple[object, ...]:
        return tuple(self.facts.first(bound[n]) if n[0] == "$" and n in bound else bound.get(n) for n in names)


def _anchors(root: Op) -> Iterator[tuple[Op, list[Op]]]:
    """Yields the ops that each match contains, each with its path from `root`, both included."""
    pending = [[root]]
    while pending:
        path = pending.pop()
        term = path[-1]
        if term.ops:
            yield term, path
        pending += [[*path, each] for each in term.inputs or () if isinstance(each, Op) and not each.optional]
