"""What a term asks of a node beside its op and inputs: values of constants, and attrs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.constants import Constant, TensorHeader, constant, constant_header
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOAT16
from gdsurgeon.patterns.terms import HANDING_ON, MOST_EQUAL, AttrTest, AttrVariable, DTypeName, Op, Value, Variable

BITS = Table.PORT_BITS
NEAR, NEAR_HALF = 1e-5, 1e-3
"""By how much of it a constant of floats may be off the number in a pattern; of float16."""


class NodeFacts:
    """Answers about the nodes of a topology, each found once."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._constants: dict[int, int | None] = {}
        self._values: dict[int, Constant | None] = {}
        self._firsts: dict[int, int] = {}
        self._equal: dict[tuple[object, ...], int] = {}

    # -- constants -------------------------------------------------------------------------------------------

    def constant_node(self, code: int) -> int | None:
        """The Const whose value a tensor is, also one that others hand on; None where it is none."""
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

    def value(self, code: int) -> Constant | None:
        """The value of a small constant; None: see `gdsurgeon.graph.constants.constant`."""
        number = self.constant_node(code)
        if number is None:
            return None
        if number not in self._values:
            self._values[number] = constant(self.topology.node(number))
        return self._values[number]

    def first(self, code: int) -> int:
        """A tensor, or the first that was asked about of small constants that hold the same."""
        if code not in self._firsts:
            number = self.constant_node(code)
            header = None if number is None else constant_header(self.topology.node(number))
            found = self.value(code) if header is not None and header.elements <= MOST_EQUAL else None
            held = None if found is None else (found.dtype, found.shape, *map(repr, found.values))
            self._firsts[code] = code if held is None else self._equal.setdefault(held, code)
        return self._firsts[code]

    def has_value(self, code: int, wanted: Value) -> bool:
        """Whether a tensor is a constant that holds WANTED."""
        found = self.value(code)
        if found is None or not found.values:
            return found is not None and wanted.shape == found.shape == (0,)
        if wanted.shape and found.shape != wanted.shape:
            return False
        near = NEAR_HALF if found.dtype == FLOAT16 else NEAR
        values = wanted.values if wanted.shape else wanted.values * len(found.values)
        return all(_is_near(value, want, near) for value, want in zip(found.values, values, strict=True))

    def is_kind(self, code: int, term: Variable) -> bool:
        """Whether a tensor is what a variable has to be."""
        if not term.kind:
            return True
        number = self.constant_node(code)
        header: TensorHeader | None = None if number is None else constant_header(self.topology.node(number))
        if header is None or header.dims is None:
            return False
        if term.kind == "scalar" and header.elements != 1:
            return False
        if term.dims is not None and not _has_dims(header.dims, term.dims):
            return False
        if term.bounds is None:
            return True
        found = self.value(code)
        low, high = term.bounds
        return found is not None and all(not isinstance(v, bytes) and low <= v <= high for v in found.values)

    # -- attrs -----------------------------------------------------------------------------------------------

    def attrs_of(self, term: Op, number: int, known: Mapping[str, bytes]) -> dict[str, bytes] | None:
        """What the variables among the attrs of a term stand for at a node; None where an attr is another."""
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
    """The serialised AttrValue of an attr, in one form."""
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
    """Whether a float is a number but for rounding; none but itself is close to one that has no end."""
    return value == wanted or (isfinite(wanted) and abs(value - wanted) <= near * abs(wanted))


def holds(test: AttrTest, have: object) -> bool:
    """Whether an attr that holds HAVE is what TEST says."""
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
