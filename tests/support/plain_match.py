"""Patterns matched by plain means: from the top, by names, every way there is; on a draft of a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from gdsurgeon.graph.attrs import Plain, attr_value, plain
from gdsurgeon.graph.constants import Constant, TensorHeader, constant, constant_header, constant_in, header_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOAT16, STRING
from gdsurgeon.ops.kinds import COMMUTATIVE, CONTROL_FLOW, MERGE, NEXT_ITERATION, PLACEHOLDERS
from gdsurgeon.ops.op_defs import OpDef, arg_dtypes
from gdsurgeon.patterns.terms import (
    MOST_EQUAL,
    Anything,
    AttrVariable,
    Op,
    Ref,
    Rule,
    Term,
    Value,
    Variable,
)
from gdsurgeon.specification.rewrite import are_near, satisfies

Tensor = tuple[str, int]
"""The name of a node, and the index of an output."""


@dataclass
class Cell:
    """A node of the draft. `dtypes` are the dtypes of its outputs, computed when first needed."""

    op: str
    reads: list[Tensor]
    controls: list[str]
    attrs: dict[str, bytes]
    device: str = ""
    dtypes: list[int] | None = field(default=None, compare=False)


class Env(NamedTuple):
    """The tensors, nodes and attributes that names are bound to, and the node that matches each term."""

    tensors: dict[str, Tensor]
    nodes: dict[str, str]
    attrs: dict[str, bytes]
    placed: dict[Op, str]


_HELD = 1 << 12
"""Number of nodes of the file that are kept as cells, because a match reads the same node several times."""


@dataclass
class Cells:
    """A graph as it is, and what has become of some of its nodes.

    Attributes:
        graph: the file.
        cells: the changed nodes.
        gone: the names of removed nodes.
        added: the names of new ones, each with a number that grows as they come.
        tried: how often a term was compared with a tensor.
    """

    graph: Graph
    cells: dict[str, Cell] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    added: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    _users: dict[str, set[str]] = field(default_factory=dict)
    _read: dict[str, Cell] = field(default_factory=dict)
    _count: int = 0

    def __contains__(self, name: str) -> bool:
        return name in self.cells or (name not in self.gone and name in self.graph)

    def node(self, name: str) -> Cell:
        """The node NAME."""
        found = self.cells.get(name) or self._read.get(name)
        if found is None:
            if len(self._read) >= _HELD:
                self._read.clear()
            found = self._read[name] = _cell(self.graph[name])
        return found

    def op(self, name: str) -> str:
        """Its op."""
        if name in self.cells:
            return self.cells[name].op
        table = self.graph.store.table
        row = table.rows.get(name)
        return self.graph[name].op if row is None else table.op(row)

    def put(self, name: str, cell: Cell) -> None:
        """Has the node NAME be CELL."""
        self._forget(name)
        self.cells[name] = cell
        self.gone.discard(name)
        for read in _read_by(cell):
            self._users.setdefault(read, set()).add(name)

    def add(self, name: str, cell: Cell) -> None:
        """Adds the node NAME."""
        self.put(name, cell)
        self._count += 1
        self.added[name] = self._count

    def drop(self, name: str) -> None:
        """Takes a node out."""
        self._forget(name)
        self.gone.add(name)
        self.added.pop(name, None)

    def _forget(self, name: str) -> None:
        cell = self.cells.pop(name, None)
        for read in _read_by(cell) if cell is not None else ():
            self._users[read].discard(name)

    def users(self, name: str) -> list[str]:
        """Those that read a node or wait for it."""
        return sorted(self.readers(name))

    def is_used(self, name: str) -> bool:
        """Whether any reads a node or waits for it."""
        return any(True for _ in self.readers(name))

    def readers(self, name: str) -> Iterator[str]:
        """`users` one by one: of a node that many read the first may be enough."""
        yield from self._users.get(name, ())
        table = self.graph.store.table
        row = table.rows.get(name)
        for user in table.users(row) if row is not None else ():
            if table.names[user] not in self.cells and table.names[user] not in self.gone:
                yield table.names[user]

    def names(self) -> Iterator[str]:
        """All nodes: those of the file in its order, then the new ones."""
        yield from (name for name in self.graph.names() if name not in self.gone)
        yield from self.added

    def with_ops(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """Those whose op is WANTED, in that order."""
        table = self.graph.store.table
        ops = {number for number, op in enumerate(table.op_names) if wanted(op)}
        rows = {row for row, op in enumerate(table.ops) if op in ops}
        rows |= {table.rows[name] for name in self.cells if name in table.rows}
        found = (table.names[row] for row in sorted(rows))
        yield from (name for name in found if name not in self.gone and wanted(self.op(name)))
        yield from (name for name in self.added if wanted(self.op(name)))

    def row(self, name: str) -> int:
        """The place of a node in that order."""
        rows = self.graph.store.table.rows
        return rows[name] if name in rows else len(rows) + self.added[name]

    def definition(self, name: str) -> OpDef | None:
        """The signature of its op."""
        return self.graph.op_def(self.op(name))

    def dtype(self, tensor: Tensor) -> int:
        """The DataType of a tensor; 0 where it is not known."""
        cell = self.node(tensor[0])
        if cell.dtypes is None:
            definition = self.definition(tensor[0])
            cell.dtypes = [] if definition is None else arg_dtypes(definition.outputs, definition, reader(cell.attrs))
        return cell.dtypes[tensor[1]] if tensor[1] < len(cell.dtypes) else 0

    def constant(self, name: str) -> str | None:
        """The Const that a node is, or hands on."""
        while self.op(name) in ("Identity", "Enter"):
            reads = self.node(name).reads
            if len(reads) != 1:
                return None
            name = reads[0][0]
        return name if self.op(name) == "Const" else None

    def value(self, name: str) -> Constant | None:
        """The value of the constant that a node is, or hands on, where that is small."""
        found = self.constant(name)
        if found is None or found in self.cells:
            return None if found is None else constant_in(self.cells[found].attrs.get("value", b""))
        return constant(self.graph[found])

    def header(self, name: str) -> TensorHeader | None:
        """The header of the constant that a node is, or hands on."""
        found = self.constant(name)
        if found is None or found in self.cells:
            return None if found is None else header_of(self.cells[found].attrs.get("value", b""))
        return constant_header(self.graph[found])

    def all_attrs(self, name: str) -> dict[str, bytes]:
        """The attrs of a node, also what a constant holds."""
        return self.cells[name].attrs if name in self.cells else _attrs_of(self.graph[name], ())

    def levels(self) -> dict[str, int]:
        """The longest way to each node from what reads nothing; loops are cut where they close."""
        out: dict[str, int] = {}
        for start in self.names():
            pending = [start]
            while pending:
                name = pending[-1]
                above = [] if name in out else [each for each in self._above(name) if each not in out]
                if above:
                    pending += above
                    continue
                out.setdefault(name, 1 + max((out[each] for each in self._above(name)), default=-1))
                pending.pop()
        return out

    def _above(self, name: str) -> list[str]:
        table = self.graph.store.table
        if name in self.cells:
            found = _read_by(self.cells[name])
        else:
            codes = table.inputs(table.rows[name])
            found = [table.names[code >> Table.PORT_BITS] for code in codes if code >= 0]
        is_head = self.op(name) in MERGE
        return [each for each in found if not (is_head and self.op(each) in NEXT_ITERATION)]


def _read_by(cell: Cell) -> list[str]:
    """The nodes that a cell reads, or waits for."""
    return [*(read for read, _ in cell.reads), *cell.controls]


def _cell(node: Node) -> Cell:
    attrs = _attrs_of(node, ("value",) if node.op == "Const" else ())  # weights are not read
    reads = [(read.node.name, read.index) for read in node.inputs]
    return Cell(node.op, reads, [control.name for control in node.controls], attrs, node.device)


def _attrs_of(node: Node, without: Collection[str]) -> dict[str, bytes]:
    return {key: node.attr_bytes(key) or b"" for key in node.attr_keys if key not in without}


class _Reader:
    def __init__(self, attrs: dict[str, bytes]) -> None:
        self._attrs = attrs

    def __call__(self, key: str) -> Plain | None:
        return plain(attr_value(self._attrs[key])) if key in self._attrs else None


def reader(attrs: dict[str, bytes]) -> _Reader:
    """What gives the plain values of ATTRS."""
    return _Reader(attrs)


class PlainMatch:
    """A pattern compared with a draft.

    Args:
        cells: the draft.
        rule: the pattern.
        out: nodes that it ignores.
    """

    def __init__(self, cells: Cells, rule: Rule, out: Collection[str]) -> None:
        self.cells, self.rule, self.out = cells, rule, out
        self._firsts: dict[Op, list[str]] = {}

    def roots(self, term: Op | None = None) -> list[str]:
        """The nodes whose op is that of the first result, or of TERM."""
        first = self.rule.pattern[0] if term is None else term
        assert isinstance(first, Op)
        if first not in self._firsts:
            self._firsts[first] = list(self.cells.with_ops(partial(_is_of, first)))
        return self._firsts[first]

    def ways(self, root: str, taken: Collection[str]) -> Iterator[Env]:
        """All ways in which the rule matches at ROOT without the nodes that are TAKEN."""
        first = self.rule.pattern[0]
        assert isinstance(first, Op)
        for env in self.held(first, (root, first.port), Env({}, {}, {}, {}), taken):
            yield from self._others(env, 1, {root}, taken)

    def _others(self, env: Env, index: int, roots: set[str], taken: Collection[str]) -> Iterator[Env]:
        if index == len(self.rule.pattern):
            yield env
            return
        term = self.rule.pattern[index]
        if isinstance(term, Ref):
            if term.label in env.nodes:
                yield from self._others(env, index + 1, roots, taken)
            return
        for root in self.roots(term):
            if root not in roots:
                for more in self.held(term, (root, term.port), env, taken):
                    yield from self._others(more, index + 1, {*roots, root}, taken)

    def held(self, term: Term, tensor: Tensor, env: Env, taken: Collection[str]) -> Iterator[Env]:
        """The ways in which TERM matches TENSOR where names stand for what ENV says."""
        self.cells.tried += 1
        name, port = tensor
        if isinstance(term, Anything):
            yield env
        elif isinstance(term, Variable):
            known = env.tensors.get(term.name, tensor)
            if self._is_kind(term, name) and (known == tensor or self._is_equal(known[0], name)):
                yield env._replace(tensors={**env.tensors, term.name: known})
        elif isinstance(term, Value):
            if self._is_value(term, name):
                yield env
        elif isinstance(term, Ref):
            if (env.nodes.get(term.label), term.port) == tensor:
                yield env
        else:
            if port == term.port and self._is_op(term, name) and name not in self.out and name not in taken:
                attrs = self._attrs(term, name, env.attrs)
                if attrs is not None:
                    nodes = {**env.nodes, term.label: name} if term.label else env.nodes
                    yield from self._inputs(
                        term, name, Env(env.tensors, nodes, attrs, {**env.placed, term: name}), taken
                    )
            if term.optional and term.inputs:
                yield from self.held(term.inputs[0], tensor, env, taken)

    def _inputs(self, term: Op, name: str, env: Env, taken: Collection[str]) -> Iterator[Env]:
        if term.inputs is None:
            yield env
            return
        reads = self.cells.node(name).reads
        if len(reads) < len(term.inputs) or (len(reads) > len(term.inputs) and not term.rest):
            return
        yield from self._each(term.inputs, reads, env, taken)
        if len(reads) == len(term.inputs) == 2 and reads[0] != reads[1] and self._is_commutative(name):
            yield from self._each(term.inputs, [reads[1], reads[0]], env, taken)

    def _is_commutative(self, name: str) -> bool:
        """Whether a node gives the same with its inputs exchanged: of two texts Add makes one."""
        op = self.cells.op(name)
        return op in COMMUTATIVE and (op != "Add" or self.cells.dtype((name, 0)) != STRING)

    def _each(
        self, terms: Sequence[Term], tensors: Sequence[Tensor], env: Env, taken: Collection[str]
    ) -> Iterator[Env]:
        if not terms:
            yield env
            return
        for more in self.held(terms[0], tensors[0], env, taken):
            yield from self._each(terms[1:], tensors[1:], more, taken)

    # -- conditions ------------------------------------------------------------------------------------------

    def _is_op(self, term: Op, name: str) -> bool:
        return _is_of(term, self.cells.op(name))

    def _is_equal(self, one: str, other: str) -> bool:
        """Whether two nodes are small constants that hold the same."""
        a, b = self.cells.value(one), self.cells.value(other)
        if a is None or b is None or max(len(a.values), len(b.values)) > MOST_EQUAL:
            return False
        return (a.dtype, a.shape, *map(repr, a.values)) == (b.dtype, b.shape, *map(repr, b.values))

    def _is_kind(self, term: Variable, name: str) -> bool:
        if not term.kind:
            return True
        header = self.cells.header(name)
        if header is None or header.dims is None:
            return False
        wanted = term.dims
        if wanted is not None and [w if w >= 0 else d for w, d in zip(wanted, header.dims)] != [*header.dims]:  # noqa: B905
            return False
        if wanted is not None and len(wanted) != len(header.dims):
            return False
        if term.kind == "scalar" and header.elements != 1:
            return False
        found = self.cells.value(name)
        if term.bounds is None:
            return True
        return found is not None and all(
            isinstance(value, int | float) and term.bounds[0] <= value <= term.bounds[1] for value in found.values
        )

    def _is_value(self, term: Value, name: str) -> bool:
        found = self.cells.value(name)
        if found is None or (term.shape and term.shape != found.shape):
            return False
        if not found.values:
            return bool(term.shape)
        near = 1e-3 if found.dtype == FLOAT16 else 1e-5
        for at, have in enumerate(found.values):
            want = term.values[at] if term.shape else term.values[0]
            if isinstance(have, bytes) or isinstance(have, bool) != isinstance(want, bool):
                return False
            if have != want and (isinstance(have, int) or not are_near(have, want, near)):
                return False
        return True

    def _attrs(self, term: Op, name: str, known: dict[str, bytes]) -> dict[str, bytes] | None:
        """The attrs that variables stand for then; None where one is not what it has to be."""
        cell, definition, out = self.cells.node(name), self.cells.definition(name), dict(known)
        for test in term.attrs:
            if isinstance(test.value, AttrVariable):
                if test.key not in cell.attrs:
                    return None
                data = attr_value(cell.attrs[test.key]).SerializeToString(deterministic=True)
                if out.setdefault(test.value.name, data) != data:
                    return None
                continue
            have: object = reader(cell.attrs)(test.key)
            if have is None and definition is not None and test.key in definition.attrs:
                have = definition.attrs[test.key].default
            if have is None or not satisfies(test, have):
                return None
        return out


def _is_of(term: Op, op: str) -> bool:
    """Whether an op is one that TERM may be."""
    return op in term.ops or (not term.ops and op not in CONTROL_FLOW and op not in PLACEHOLDERS)
