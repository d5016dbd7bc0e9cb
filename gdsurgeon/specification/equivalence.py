"""Which tensors of a file always have equal values, derived from the file and from the certificate of an edit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from gdsurgeon.compare.comparison import is_same_attr, node_of
from gdsurgeon.graph.constants import Constant, constant, constant_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import (
    ANY_ORDER,
    ASIDE,
    COMMUTATIVE,
    CONTROL_FLOW,
    MERGE,
    NEXT_ITERATION,
    PASSES_ON,
    PLACEHOLDERS,
    READS_SHAPE,
    RESHAPES,
    hides_state,
)
from gdsurgeon.ops.op_defs import OpDef, op_def
from gdsurgeon.patterns.exact import RULES, SHAPED, Bound, ExactRule, is_literal, rules_by_op
from gdsurgeon.patterns.terms import AttrVariable, Op, Term, Value, Variable
from gdsurgeon.specification.nodes import named_by_node, overwritten

BITS, PORT = Table.PORT_BITS, Table.CONTROL_PORT
REFUSING = frozenset(("Assert", "CheckNumerics", "CheckNumericsV2"))
_PACKING = {"Pack": "Unpack", "Unpack": "Pack"}
"""Ops that undo each other."""
_SHAPING = frozenset(("Reshape", "ExpandDims", "Squeeze"))
_OF_SHAPES = READS_SHAPE | {"ZerosLike", "OnesLike"}
_NOTHING: Mapping[str, str] = MappingProxyType({})
_ANY: frozenset[int] = frozenset((-1,))

Names = dict[str, Any]
"""The tensors of variables and labels, and the plain values of attr variables, whose names begin with a dollar sign."""


class Certificate(NamedTuple):
    """The steps of simplify that a checker could find only by a search, in names of the graph before.

    Attributes:
        equal: for each node that an equal node replaced, the equal node.
        moved: for each tensor that a tensor of the same shape replaced, this tensor. The proof compares both.
        constants: for each node that became a constant, its value as a serialized AttrValue. The proof compares it.
        opened: those of `constants` that are shapes with a dim that became -1. Their values are right only as the shape
            of a Reshape.
    """

    equal: Mapping[str, str] = _NOTHING
    moved: Mapping[str, str] = _NOTHING
    constants: Mapping[str, bytes] = MappingProxyType({})
    opened: frozenset[str] = frozenset()


class Equivalence:
    """Facts about the nodes of a file, by row.

    A step of the certificate is used only if it is right; a wrong step is ignored, so that tensors remain different.

    Attributes:
        graph, table: the file.
        rules: the passes whose rules make tensors equal.
        free: for each row, whether it and all upstream rows have no effects and run exactly once.
        dead: for each row, whether a constant predicate prevents it from running.
        branching: for each row, whether it depends on control flow.
        folded: the rows of `constants` that depend only on constants and shapes, with their values.
        opened: the rows of `opened`. Only `shape` makes them equal to constants with the same value.
    """

    def __init__(self, graph: Graph, rules: Collection[str], certificate: Certificate) -> None:
        self.graph, self.table, self.rules = graph, graph.store.table, frozenset(rules)
        size = len(self.table.names)
        self.free, self.dead, self.branching = bytearray(size), bytearray(size), bytearray(size)
        self._same: dict[int, int] = {}
        self._stands: dict[int, int] = {}
        self._taken: dict[int, int] = {}
        self._constants: dict[int, Constant | None] = {}
        definitions = {op: graph.op_def(op) for op in self.table.op_names}
        # Ops that only compute, except by functions; that may call functions; and that return no references.
        self._quiet = {op for op, found in definitions.items() if op not in CONTROL_FLOW and not hides_state(op)
                       and _is_stateless(found)}  # fmt: skip
        self._calling = {op for op, found in definitions.items() if found is None or found.takes_functions
                         or op in graph.functions}  # fmt: skip
        self._valued = {
            op for op, found in definitions.items() if found and not any(arg.is_ref for arg in found.outputs)
        }
        self._exact = rules_by_op(name for name in RULES if name in self.rules)
        self._shaped = rules_by_op(name for name in SHAPED if name in self.rules)
        self.folded: dict[int, bytes] = {}
        self._based = set[int]()  # the rows that are known to depend only on constants and shapes
        rows, is_chosen = self.table.rows, not {"constants", "shapes"}.isdisjoint(self.rules)
        values = {rows[name]: value for name, value in certificate.constants.items() if is_chosen}
        self._values = {row: value for row, value in values.items() if self.table.op(row) != "Const"}
        self._moved = {
            rows[old]: code for old, now in certificate.moved.items() if (code := self.code(now)) is not None
        }
        self.opened = frozenset(rows[name] for name in certificate.opened)
        self._shapes: dict[tuple[bytes, str], int] = {}  # by value and device, the first shape
        self._first = self._first_of_equal(certificate.equal) if "equal-nodes" in self.rules else {}
        self._claimed = {self.table.op(row) for row in (*self._values, *self._moved, *self._first)}
        self._equal_ops = {(self.table.op(row), self.table.op(first)) for row, first in self._first.items()}
        self._flows = any(op in CONTROL_FLOW for op in self.table.op_names)
        self._written = {self.table.rows[node.name] for node in overwritten(graph)}
        self._walk()

    # -- queries ----------------------------------------------------------------------------------------

    def code(self, text: str) -> int | None:
        """Returns the code of a tensor; None if its node does not exist."""
        row, port = self.table.rows.get(text), 0
        if row is None:
            name, port = parse_tensor(text)
            row = self.table.rows.get(name)
        return None if row is None else row << BITS | port

    def normal(self, code: int) -> int:
        """Returns the tensor that `code` forwards."""
        return self._same.get(code, code)

    def stand(self, row: int) -> int:
        """Returns what a control edge from a row is equal to: a tensor, or the row itself."""
        return self._stands.get(row, row << BITS | PORT)

    def waits(self, rows: Sequence[int]) -> set[int]:
        """Returns what control edges from `rows` are equal to, without edges that have no effect."""
        return {self.stand(row) for row in rows if not self._is_free_to_wait(row)}

    def waits_beside(self, reads: Iterable[int], rows: Sequence[int]) -> set[int]:
        """Returns the control edges of `waits` that the data inputs `reads` of the same node do not imply."""
        if not rows:
            return set()
        waited = self.waits(rows)
        for code in reads if waited else ():
            waited -= {self.normal(code), self.stand(code >> BITS), code >> BITS << BITS | PORT}
        return waited

    def same_elements(self, code: int, ops: Collection[str] = _SHAPING) -> Iterator[int]:
        """Yields a tensor, and the tensors with the same elements in the same order from which `ops` compute it."""
        code = self.normal(code)
        yield code
        while self.table.op(code >> BITS) in ops:
            reads, waited = self.edges(code >> BITS)
            if self.waits_beside(reads, waited) or not all(self._is_free(read) for read in reads[1:]):
                break
            above = self.normal(reads[0])
            if not self._gives_value(above):
                break
            code = above
            yield code

    def elements(self, code: int) -> int:
        """Returns the first tensor with the same elements in the same order."""
        *_, last = self.same_elements(code)
        return last

    def is_same(self, first: int, second: int) -> bool:
        """Returns whether two tensors, or two sources of control edges, are equal."""
        return self.normal(first) == self.normal(second)

    def shape(self, code: int) -> int:
        """Returns a tensor with the same elements as `code` if both are used as the shape of a Reshape."""
        code = self.normal(code)
        row = code >> BITS
        is_constant = row in self.folded or self.table.op(row) == "Const"
        if not (self.opened and is_constant and self.free[row]):
            return code
        node = self.graph[self.table.names[row]]
        value = self.folded.get(row) or node.attr_bytes("value") or b""
        return self._shapes.setdefault((value, node.device), code)

    def is_dead(self, code: int) -> bool:
        """Returns whether a constant predicate prevents a tensor from being computed."""
        row = code >> BITS
        return bool(self.dead[row]) or (row in self._taken and self._taken[row] != code & PORT)

    def edges(self, row: int) -> tuple[list[int], list[int]]:
        """Returns the codes that a row reads, and the rows of its control inputs."""
        codes = [code for code in self.table.inputs(row) if code >= 0]
        if row not in self.table.with_controls:
            return codes, []
        return [c for c in codes if c & PORT != PORT], [c >> BITS for c in codes if c & PORT == PORT]

    def is_quiet(self, row: int) -> bool:
        """Returns whether a row only computes."""
        op = self.table.op(row)
        if op not in self._quiet or row in self._written:
            return False
        if op not in self._calling:
            return True
        inner = self.graph.functions.reachable(named_by_node(self.graph[self.table.names[row]]))
        return all((_is_stateless(op_def(node.op)) and not hides_state(node.op)) or node.op in self.graph.functions
                   for name in inner for node in self.graph.functions[name].node_def)  # fmt: skip

    # -- the walk ----------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> Sequence[int]:
        """The rows in topological order; loops are cut at their back edges."""
        table, ops = self.table, self.table.ops
        merges, closing = self.numbered(MERGE), self.numbered(NEXT_ITERATION)
        if all(ops[row] in merges and ops[producer] in closing for producer, row in table.forward_edges()):
            return range(len(table.names))
        left = [0] * len(table.names)
        users: list[list[int]] = [[] for _ in left]
        for code, row in zip(table.edges, table.readers(), strict=True):
            if code >= 0 and not (ops[row] in merges and ops[code >> BITS] in closing):
                left[row] += 1
                users[code >> BITS].append(row)
        ready = [row for row, count in enumerate(left) if not count]
        for row in ready:  # grows while it is walked
            for user in users[row]:
                left[user] -= 1
                if not left[user]:
                    ready.append(user)
        return ready

    def numbered(self, ops: Collection[str]) -> set[int]:
        """Returns the numbers of `ops` in the table."""
        return {number for number, op in enumerate(self.table.op_names) if op in ops}

    def _walk(self) -> None:
        """Derives the facts about each row; most rows need no closer look."""
        same, free, branching = self._same, self.free, self.branching
        ops, offsets, edges = self.table.ops, self.table.offsets, self.table.edges
        triggers = list(map(self._trigger, self.table.op_names))
        ops_of_rules = self._exact.keys() - REFUSING - self._claimed if not self._flows else ()
        forwards = self.numbered([op for op in ops_of_rules if self._exact[op][0].is_forward])
        for row in self.rows:
            trigger, is_free = triggers[ops[row]], True
            if ops[row] in forwards and row not in self.table.with_controls and offsets[row + 1] == offsets[row] + 1:
                code = edges[offsets[row]]
                if code >= 0:
                    free[row] = self._is_free(code) and self.is_quiet(row)
                    self._hand_on(row, 0, code)
                    continue
            for code in edges[offsets[row] : offsets[row + 1]] if trigger is not _ANY else ():
                if code < 0:
                    continue
                producer = same.get(code, code) >> BITS
                if ops[producer] in trigger or branching[code >> BITS]:
                    trigger = _ANY
                    break
                if is_free and not free[producer]:
                    is_free = code & PORT == PORT and self._is_free_to_wait(producer)
            if trigger is _ANY:
                self._look(row)
            else:
                free[row] = is_free and self.is_quiet(row)

    def _trigger(self, op: str) -> frozenset[int]:
        """Returns the numbers of some ops: a row that reads none of them is not equal to an earlier tensor.

        _ANY if it may be any op, or if further facts are derived.
        """
        rules = self.rules
        if op in CONTROL_FLOW or (op in REFUSING and "checks" in rules) or op in self._claimed:
            return _ANY
        if (op == "NoOp" and "control-edges" in rules) or (op == "IdentityN" and "identities" in rules):
            return _ANY
        exact = self._exact.get(op, [])
        if not all(rule.needed for rule in exact):
            return _ANY
        wanted = {op for rule in exact for op in rule.needed}
        wanted |= {_PACKING[op]} if "pairs" in rules and op in _PACKING else set()
        wanted |= {self.table.op(row) for row in self._values} if "Const" in wanted else set()
        wanted |= {first for op, first in self._equal_ops if op in wanted}
        return frozenset(self.numbered(wanted))

    def _look(self, row: int) -> None:
        """Derives the facts about a row, whose upstream rows are known."""
        op = self.table.op(row)
        reads, waited = self.edges(row)
        dead = self._follow(row, op, reads, waited) if self._flows else []
        if self.dead[row]:
            return
        if op == "NoOp" and not reads:
            awaited = self.waits(waited)
            if len(awaited) == 1 and "control-edges" in self.rules:
                (self._stands[row],) = awaited
        is_free = all(map(self._is_free, reads)) and not (waited and self.waits(waited))
        self.free[row] = is_free and (self.is_quiet(row) or (op in REFUSING and "checks" in self.rules))
        if row in self._values and self._depends_on_shapes(row):
            self.folded[row] = self._values[row]
        elif any(dead) and dead.count(False) == 1:
            taken = reads[dead.index(False)]
            if not self.waits_beside([taken], waited):
                self._hand_on(row, 0, taken)
        elif op == "Switch" and "conditions" in self.rules and len(reads) == 2:
            side = self._predicate(reads[1])
            if side is not None and self._is_free(reads[1]) and not self.waits_beside(reads[:1], waited):
                self._taken[row] = side
                self._hand_on(row, side, reads[0])
        elif reads and not (waited and self.waits_beside(reads, waited)):
            self._find(row, op, reads)
        if row in self._moved:
            self._move(row, op, reads, waited)
        first = self._first.get(row, row)
        if first != row and row << BITS not in self._same and self._is_alike(first, row):
            self._stands[row] = self.stand(first)
            for port in range(self.graph[self.table.names[row]].output_count or 0):
                self._same[row << BITS | port] = self.normal(first << BITS | port)

    def _follow(self, row: int, op: str, reads: Sequence[int], waited: Sequence[int]) -> list[bool]:
        """Derives the effect of control flow on a row; returns which inputs of a Merge are dead."""
        branching, dead = self.branching, self.dead
        branching[row] = op in CONTROL_FLOW or any(branching[code >> BITS] for code in reads)
        branching[row] |= any(branching[other] for other in waited)
        closes = op in MERGE and any(self.table.op(code >> BITS) in NEXT_ITERATION for code in reads)
        found = [self.is_dead(code) for code in reads]
        joins = op in MERGE and not closes
        dead[row] = (all(found) if joins and found else any(found)) or any(map(dead.__getitem__, waited))
        return found if joins else []

    def _is_free(self, code: int) -> bool:
        return bool(self.free[self._same.get(code, code) >> BITS])

    def _is_free_to_wait(self, row: int) -> bool:
        stand = self._stands.get(row)
        return bool(self.free[row] or (stand is not None and self.free[stand >> BITS]))

    def _hand_on(self, row: int, port: int, code: int) -> None:
        code = self.normal(code)
        producer = code >> BITS
        if self._gives_value(code):
            self._same[row << BITS | port] = code
            is_flow = self._flows and self.table.op(producer) in CONTROL_FLOW
            self._stands[row] = code if is_flow else self.stand(producer)

    def _gives_value(self, code: int) -> bool:
        """Returns whether a tensor is not a reference and is not overwritten."""
        producer = code >> BITS
        return producer not in self._written and self.table.op(producer) in self._valued

    def _find(self, row: int, op: str, reads: list[int]) -> None:
        """Checks whether a row is equal to an earlier tensor."""
        several = reads if op == "IdentityN" and "identities" in self.rules else []
        several = self._packed(row, reads) if op == "Unpack" and "pairs" in self.rules else several
        if several and all(map(self._is_free, several)):
            for port, code in enumerate(several):
                self._hand_on(row, port, code)
            self._stands.pop(row, None)
            return
        if op == "Pack" and "pairs" in self.rules and (found := self._unpacked(row, reads)) is not None:
            self._hand_on(row, 0, found)
            return
        for rule in self._exact.get(op, ()):
            if rule.is_forward:
                if len(reads) == 1:
                    self._hand_on(row, 0, reads[0])
                continue
            if (wanted := rule.literal) and not any(self._is_literal(code, wanted) for code in reads):
                continue
            if (kept := self._kept(rule, row, reads)) is not None:
                self._hand_on(row, 0, kept)
                return

    # -- the certificate ---------------------------------------------------------------------------------

    def _first_of_equal(self, equal: Mapping[str, str]) -> dict[int, int]:
        """Returns for each node of a group of equal nodes, by row, the first of them.

        A group with opened shapes and other nodes is two groups.
        """
        if not equal:
            return {}
        rows, ends = self.table.rows, dict[str, str]()
        for name in reversed([*equal]):  # a node that was replaced later may be the end of an earlier replacement
            ends[name] = ends.get(equal[name], equal[name])
        order = self.rows
        place = range(len(order)) if isinstance(order, range) else {row: at for at, row in enumerate(order)}
        first: dict[tuple[str, bool], int] = {}
        members = {**{end: end for end in ends.values()}, **ends}
        for name, end in members.items():
            group = end, rows[name] in self.opened
            first[group] = min(first.get(group, rows[name]), rows[name], key=lambda row: place[row])
        return {rows[name]: first[end, rows[name] in self.opened] for name, end in members.items()}

    def _depends_on_shapes(self, row: int) -> bool:
        """Returns whether a row depends only on constants and the shapes of tensors."""
        pending, seen = [row], set[int]()
        while pending:
            at = pending.pop()
            if at in self._based or at in seen:
                continue
            op, (reads, _) = self.table.op(at), self.edges(at)
            if not self.free[at] or op in PLACEHOLDERS or not (reads or op == "Const"):
                return False
            seen.add(at)
            pending += [self.normal(code) >> BITS for code in reads if op not in _OF_SHAPES]
        self._based |= seen
        return True

    def _move(self, row: int, op: str, reads: list[int], waited: Sequence[int]) -> None:
        """Makes a row equal to the tensor in the certificate if it can only return this tensor, or a different shape.

        This tensor may be one of several equal ones. Control inputs of the row must be implied by it.
        """
        target = self.normal(self._moved[row])
        goal = self._first.get(target >> BITS, target >> BITS), target & PORT
        found: list[int] = []
        if op in RESHAPES and all(map(self._is_free, reads[1:])):
            found += self.same_elements(reads[0], RESHAPES)
        for rule in self._shaped.get(op, ()):
            if (kept := self._kept(rule, row, reads)) is not None:
                found.append(self.normal(kept))
        for code in found:
            is_target = code == target or (self._first.get(code >> BITS, code >> BITS), code & PORT) == goal
            if is_target and not self.waits_beside([code], waited):
                self._hand_on(row, 0, code)

    # -- exact rules -------------------------------------------------------------------------------------

    def _kept(self, rule: ExactRule, row: int, reads: list[int]) -> int | None:
        """Returns the tensor that replaces the result of a row; None if the rule does not match there."""
        names = self._op_matched(rule, rule.pattern, row, reads, {}, False)
        if names is None:
            return None
        bound = Bound(
            lambda name: self._value(names[name]),
            {name[1:]: value for name, value in names.items() if name.startswith("$")},
            lambda label, key: self._setting(names[label] >> BITS, key),
        )
        return names[rule.kept] if rule.condition is None or rule.condition(bound) else None

    def _matched(self, rule: ExactRule, term: Term, code: int, names: Names, is_kept: bool) -> Names | None:
        """Returns `names` with the tensors and attrs that a term binds at a tensor; None if it does not match.

        `is_kept`: the tensor that replaces the result depends on this one. Other tensors must be free of effects.
        """
        read, code = code, self._same.get(code, code)
        is_kept = is_kept or rule.kept in (getattr(term, "label", ""), getattr(term, "name", ""))
        if isinstance(term, Op):
            if self.table.op(code >> BITS) not in term.ops:
                code = read  # the node that is equal to `code`, and may be a different op
            reads, waited = self.edges(code >> BITS)
            if code & PORT or self.table.op(code >> BITS) not in term.ops or self.waits_beside(reads, waited):
                return None
            return self._op_matched(rule, term, code >> BITS, reads, names, is_kept)
        if not (is_kept or self._is_free(code)):
            return None
        if isinstance(term, Value):
            return names if self._is_literal(code, term) else None
        assert isinstance(term, Variable)
        value = self._value(code) if term.kind else None
        known = names.get(term.name, code)
        if (term.kind and not _is_of_kind(value, term)) or (known != code and not self._is_one(known, code)):
            return None
        return {**names, term.name: known}

    def _op_matched(
        self, rule: ExactRule, term: Op, row: int, reads: list[int], names: Names, is_kept: bool
    ) -> Names | None:
        names = {**names, term.label: row << BITS}
        for test in term.attrs:
            have = self._setting(row, test.key)
            want = names.setdefault(f"${test.value.name}", have) if isinstance(test.value, AttrVariable) else test.value
            if have is None or have != want:
                return None
        terms = term.inputs or ()
        orders = [reads, reads[::-1]] if len(reads) == 2 and self.table.op(row) in COMMUTATIVE else [reads]
        for order in orders if len(terms) == len(reads) else ():
            found: Names | None = names
            for inner, read in zip(terms, order, strict=True):
                found = None if found is None else self._matched(rule, inner, read, found, is_kept)
            if found is not None:
                return found
        return None

    def _is_one(self, first: int, second: int) -> bool:
        """Returns whether two tensors are equal, or constants with the same bits."""
        if self.is_same(first, second):
            return True
        a, b = self._value(first), self._value(second)
        return (
            a is not None and b is not None and (a.dtype, a.shape, repr(a.values)) == (b.dtype, b.shape, repr(b.values))
        )

    # -- packs -------------------------------------------------------------------------------------------

    def _packed(self, row: int, reads: list[int]) -> list[int]:
        """Returns the inputs of the Pack if an Unpack undoes it; otherwise []."""
        inner = self.normal(reads[0]) >> BITS
        if self.table.op(inner) != "Pack":
            return []
        first, waited = self.edges(inner)
        return first if self._is_undone(inner, row, len(first)) and not self.waits_beside(first, waited) else []

    def _unpacked(self, row: int, reads: list[int]) -> int | None:
        """Returns the input of the Unpack if a row packs its outputs in order; otherwise None."""
        inner = self.normal(reads[0]) >> BITS
        parts = [self.normal(code) for code in reads]
        if self.table.op(inner) != "Unpack" or parts != [inner << BITS | port for port in range(len(parts))]:
            return None
        first, waited = self.edges(inner)
        return first[0] if self._is_undone(row, inner, len(parts)) and not self.waits_beside(first, waited) else None

    def _is_undone(self, pack: int, unpack: int, count: int) -> bool:
        """Returns whether a Pack of `count` tensors and an Unpack have the same axis and number."""
        return (self._setting(pack, "axis"), count) == (self._setting(unpack, "axis"), self._setting(unpack, "num"))

    # -- the nodes ---------------------------------------------------------------------------------------

    def _value(self, code: int) -> Constant | None:
        row = self.normal(code) >> BITS
        if row in self.opened or (self.table.op(row) != "Const" and row not in self.folded):
            return None
        if row not in self._constants:
            value = self.folded.get(row)
            self._constants[row] = constant_in(value) if value else constant(self.graph[self.table.names[row]])
        found = self._constants[row]
        return found if found is not None and (found.values or 0 in found.shape) else None

    def _is_literal(self, code: int, term: Value) -> bool:
        """Returns whether a tensor is a constant with the value of a literal; other shapes than () are not decoded."""
        row = self.normal(code) >> BITS
        if self.table.op(row) == "Const" and row not in self._constants:
            node = node_of(self.table.record(row))
            if node is not None and node.attr["value"].tensor.tensor_shape.dim:
                return False
        return is_literal(self._value(code), term)

    def _setting(self, row: int, key: str) -> object:
        return self.graph[self.table.names[row]].setting(key)

    def _predicate(self, code: int) -> int | None:
        """Returns the side that a constant predicate selects, 1 or 0; otherwise None."""
        negated = 0
        code = self.normal(code)
        while code >> BITS not in self.folded and (op := self.table.op(code >> BITS)) in PASSES_ON | {"LogicalNot"}:
            reads, _ = self.edges(code >> BITS)
            negated ^= op == "LogicalNot"
            if not reads:
                return None
            code = self.normal(reads[0])
        value = self._value(code)
        if value is None or len(value.values) != 1 or not isinstance(value.values[0], bool):
            return None
        return int(value.values[0]) ^ negated

    def _is_alike(self, mine: int, its: int) -> bool:
        """Returns whether two rows compute the same function of equal inputs and have equal control inputs."""
        op, (one, other) = self.table.op(mine), (self.graph[self.table.names[row]] for row in (mine, its))
        is_folded = (mine in self.folded or its in self.folded) and self.free[mine] and self.free[its]
        if is_folded and self.opened.isdisjoint((mine, its)):
            values = {self.folded.get(row) or node.attr_bytes("value") for row, node in ((mine, one), (its, other))}
            if len(values) == 1 and one.device == other.device:
                return True
        if self.table.op(its) != op or not (self.is_quiet(mine) and self.is_quiet(its)) or op in PLACEHOLDERS:
            return False
        if op in self._calling or self._inputs(mine) != self._inputs(its):
            return False
        keys = {*one.attr_keys, *other.attr_keys} - ASIDE
        return one.device == other.device and all(is_same_attr(one, other, key) for key in keys)

    def _inputs(self, row: int) -> tuple[list[int], set[int]]:
        """Returns the inputs of a row, in any order if that does not matter, and its control inputs."""
        reads, waited = self.edges(row)
        op, found = self.table.op(row), [self.normal(code) for code in reads]
        if len(found) == 2 and op == "Reshape":
            found[0] = self.elements(found[0]) if "pairs" in self.rules else found[0]
            found[1] = self.shape(found[1])
        if op in ANY_ORDER and (op != "Add" or self._setting(row, "T") != STRING):
            found.sort()
        return found, self.waits_beside(reads, waited)


def _is_of_kind(value: Constant | None, term: Variable) -> bool:
    """Returns whether a constant satisfies the conditions of a variable."""
    if value is None or term.dims not in (None, value.shape) or (term.kind == "scalar" and value.shape):
        return False
    low, high = term.bounds or (0, 0)
    return term.bounds is None or all(not isinstance(v, bytes) and low <= v <= high for v in value.values)


def _is_stateless(definition: OpDef | None) -> bool:
    if definition is None:
        return False
    return not (definition.is_stateful or any(arg.is_ref for arg in (*definition.inputs, *definition.outputs)))
