"""The rules of simplify: a replaced tensor has the bits of the tensor that replaces it, on all kinds of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.graphs import Builder, neg, node, placeholder, typed
from support.running import run
from support.simplifying import simplified, stays

from gdsurgeon.graph.attrs import said_by_inputs
from gdsurgeon.ops.dtypes import NUMBERS
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.patterns.exact import RULES, ExactRule, exact_rules
from gdsurgeon.patterns.terms import AttrVariable, Op, Term, Value, Variable

BOOLS = frozenset(("All", "Any", "LogicalAnd", "LogicalNot", "LogicalOr"))
WHOLE = frozenset(("FloorDiv", "Invert", "TruncateDiv"))
CONSTANTS: dict[str, Any] = {
    "axes": [0], "axis": 1, "first": [1, 0], "multiples": [1, 1], "one": 1, "order": [0, 1],
    "paddings": [[0, 0], [0, 0]], "sizes": [4], "then": [1, 0], "value": 3.0,
}  # fmt: skip
"""The values of variables apart from the tensor that replaces the result."""


def _ops(term: Term) -> Iterator[Op]:
    if isinstance(term, Op):
        yield term
        for inner in term.inputs or ():
            yield from _ops(inner)


def _instances() -> Iterator[tuple[str, ExactRule, tuple[str, ...]]]:
    for name in RULES:
        for rule in exact_rules(name):
            for ops in product(*(term.ops for term in _ops(rule.pattern))):
                yield name, rule, ops


class Instance:
    """A graph in which a rule matches; `result` is the replaced tensor, `kept` the tensor that replaces it."""

    def __init__(self, rule: ExactRule, ops: tuple[str, ...]) -> None:
        self.builder, self._ops = Builder(), iter(ops)
        is_bool, is_whole = not BOOLS.isdisjoint(ops), not WHOLE.isdisjoint(ops)
        self.dtype = "bool" if is_bool else "int32" if is_whole else "complex64" if "Conj" in ops else "float32"
        self.builder.placeholder("x", self.dtype, (-1, 4))
        self._dtypes, self._labels = {"x": self.dtype}, {"x": "x"}
        self.result = self._put(rule.pattern)
        self.kept = self._labels[rule.kept]
        self.builder.node("last", "Pack", [self.result], T=self.dtype, N=1)

    def _put(self, term: Term) -> str:
        """Adds the nodes of a term; returns the name of its tensor."""
        if isinstance(term, Value):
            return self._constant(f"c{len(self._dtypes)}", term.values[0], self.dtype)
        if isinstance(term, Variable):
            if term.name not in self._labels:
                value = [] if term.dims == (0,) else CONSTANTS[term.name]
                dtype = "float32" if term.name == "value" else "int32"
                self._labels[term.name] = self._constant(term.name, value, dtype)
            return self._labels[term.name]
        assert isinstance(term, Op)
        op, inputs = next(self._ops), [self._put(each) for each in term.inputs or ()]
        definition = op_def(op)
        assert definition is not None
        found = said_by_inputs(definition, [NUMBERS[self._dtypes[name]] for name in inputs])
        attrs: dict[str, Any] = {key: value.SerializeToString() for key, value in found.items()}
        attrs |= {"DstT": "float64"} if op == "Cast" else {"type": "float32"} if op == "Bitcast" else {}
        attrs |= {"mode": "REFLECT"} if op == "MirrorPad" else {"Tlen": "int32"} if op == "SplitV" else {}
        for test in term.attrs:
            values = {"type": self.dtype, "dims": [1]}
            attrs[test.key] = values[test.value.name] if isinstance(test.value, AttrVariable) else test.value
        name = self.builder.node(f"n{len(self._dtypes)}", op, inputs, **attrs)
        self._dtypes[name] = attrs["DstT"] if op == "Cast" else self.dtype
        self._labels[term.label] = name
        return name

    def _constant(self, name: str, value: Any, dtype: str) -> str:
        self._dtypes[name] = dtype
        return self.builder.const(name, value, dtype)

    def feeds(self) -> Iterator[Any]:
        """Yields values of `x`, among them signed zeros, NaN, infinities and an empty batch."""
        random = np.random.default_rng(1)
        numbers = random.normal(0, 4, (8, 4)).astype(np.float32)
        numbers[:3] = [[0.0, -0.0, np.nan, np.inf], [-np.inf, 0.5, -0.5, 1.5], [-1.5, 6.0, 6.5, 1e-30]]
        found: Mapping[str, Any] = {
            "bool": numbers > 0,
            "int32": random.integers(-(1 << 31), 1 << 31, (8, 4)).astype(np.int32),
            "complex64": random.normal(0, 4, (8, 4)) + 1j * random.normal(0, 4, (8, 4)),
            "float32": numbers,
        }
        yield found[self.dtype].astype(self.dtype)
        if self.builder.graph_def.node[-2].op != "MirrorPad":  # which refuses empty tensors
            yield np.zeros((0, 4), self.dtype)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "rule", "ops"), [pytest.param(*each, id="-".join((each[0], *each[2]))) for each in _instances()]
)
def test_a_rule_keeps_all_bits_and_is_applied(name: str, rule: ExactRule, ops: tuple[str, ...]) -> None:
    made = Instance(rule, ops)
    for value in made.feeds() if name != "checks" else ():
        result, kept = run(made.builder.bytes(), made.result, made.kept, x=value)
        assert repr(result) == repr(kept)
    found, _ = simplified(made.builder.graph(), passes=[name])
    assert graphs.inputs(found)["last"] == [made.kept]


def test_one_tensor_is_found_behind_equal_nodes() -> None:
    casts = [node(name, "Cast", ["x"], SrcT="int32", DstT="float32") for name in ("a", "b")]
    least = typed("Minimum", "least", "a", "b")
    found, _ = simplified(placeholder("x", "int32", (-1, 4)), *casts, least, neg("last", "least"))
    assert graphs.inputs(found)["last"] == ["a"]


Step = tuple[str, list[tuple[Any, str]], dict[str, Any]]


def step(op: str, *constants: Any, kind: str = "float32", of: str = "float32", **attrs: Any) -> Step:
    """A node that reads the one before it and CONSTANTS of dtype OF."""
    return op, [(value, of) for value in constants], {"T": kind, **attrs}


def turned(*order: int) -> Step:
    return step("Transpose", [*order], of="int32", Tperm="int32")


def reversed_at(axis: int) -> Step:
    return step("ReverseV2", [axis], of="int32", Tidx="int32")


def there_and_back(given: str, wide: str) -> list[Step]:
    return [("Cast", [], {"SrcT": a, "DstT": b}) for a, b in ((given, wide), (wide, given))]


STAYS: dict[str, tuple[str, list[Step]]] = {
    "another order": ("float32", [turned(1, 0)]),
    "an order that is not restored": ("float32", [turned(1, 2, 0), turned(1, 2, 0)]),
    "an order of more dims": ("float32", [turned(1, 0), turned(1, 0, 2)]),
    "a dtype that holds less": ("float32", there_and_back("float32", "float16")),
    "integers that a float does not hold": ("int64", there_and_back("int64", "float32")),
    "integers that a smaller type does not hold": ("int32", there_and_back("int32", "uint32")),
    "floats and half precision": ("bfloat16", there_and_back("bfloat16", "float16")),
    "another axis": ("float32", [step("ExpandDims", 0, of="int32", Tdim="int32"), step("Squeeze", squeeze_dims=[1])]),
    "a floor of a float": ("float32", [step("FloorDiv", 1.0)]),
    "a quotient that is broadcast": ("int32", [step("FloorDiv", [1, 1, 1], kind="int32", of="int32")]),
    "the other zero": ("float32", [step("AddV2", 0.0)]),
    "a product that is broadcast": ("float32", [step("Mul", [1.0, 1.0])]),
    "a bound in the other order": ("float32", [step("Relu"), step("Relu6")]),
    "a number that is not a bool": ("float32", [step("Maximum", 1.0)]),
    "axes that differ": ("float32", [reversed_at(0), reversed_at(1)]),
}


def chain_of(dtype: str, steps: list[Step]) -> Builder:
    m = Builder()
    name = m.placeholder("x", dtype)
    for number, (op, constants, attrs) in enumerate(steps):
        inputs = [m.const(f"c{number}_{at}", *constant) for at, constant in enumerate(constants)]
        name = m.node(f"n{number}", op, [name, *inputs], **attrs)
    m.node("last", "Pack", [name], T=dtype, N=1)
    return m


@pytest.mark.parametrize("why", STAYS)
def test_a_rule_does_not_match(why: str) -> None:
    stays(chain_of(*STAYS[why]).graph(), passes=["neutral", "pairs"])


WIDER = {
    "bool": "int8 uint8 float32", "int8": "int16 int32 float16 bfloat16", "uint8": "int16 bfloat16", "int16": "float32",
    "int32": "int64 float64", "float16": "float32 float64", "bfloat16": "float32", "float32": "float64",
}  # fmt: skip


@pytest.mark.parametrize(("given", "wide"), [(given, wide) for given in WIDER for wide in WIDER[given].split()])
def test_a_dtype_that_holds_all_values_and_back(given: str, wide: str) -> None:
    found, _ = simplified(chain_of(given, there_and_back(given, wide)).graph(), passes=["pairs", "unread"])
    assert graphs.inputs(found)["last"] == ["x"]
