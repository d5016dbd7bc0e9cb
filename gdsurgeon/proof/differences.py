"""The differences between two models as graphs, and whether values show them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from math import prod

from gdsurgeon.analysis.shapes.inference import shape_of_tensor
from gdsurgeon.compare.comparison import Comparison, compared_nodes, difference_text, rewiring_text
from gdsurgeon.errors import GdsurgeonError, quoted
from gdsurgeon.feeds.numbers import INTEGERS, clipped, numbers, packed
from gdsurgeon.graph.attrs import FullShape, Shape, type_value
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.functions import called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import nodes_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.writing import node_def
from gdsurgeon.ops import dtypes
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import (
    COLOCATION_ATTR,
    CONTROL_FLOW,
    PLACEHOLDERS,
    STATED_SHAPES,
    holds_state,
    is_random,
    undefined_outputs,
)
from gdsurgeon.ops.reach import is_pure
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.proof import agrees
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.text import listed
from gdsurgeon.values import Tolerance
from gdsurgeon.wire.protos import GraphDef, NodeDef

EQUAL, DIFFERENT = "equal", "different"


@dataclass
class GraphDifference:
    """A node, or a record outside the nodes, that differs between two models.

    Attributes:
        where: the function that contains it; '' at the top.
        name: the name of the node or record.
        what: the differences, one phrase each.
        node: whether it is a node that both models have.
        is_rewired: whether only its inputs differ.
        has_value: whether a value can show it; control dependencies and devices show in no value.
        shown: `EQUAL` or `DIFFERENT` after a run in isolation; '' without one.
        why: how this was shown, or why not.
    """

    where: str
    name: str
    what: list[str] = field(default_factory=list)
    node: bool = True
    is_rewired: bool = False
    has_value: bool = True
    shown: str = ""
    why: str = ""

    @property
    def text(self) -> str:
        """The difference as a line."""
        where = f" in the function {quoted(self.where)}" if self.where else ""
        return f"{quoted(self.name)}{where}: {listed(self.what, 3)}{f' ({self.why})' if self.why else ''}"


def listed_differences(comparison: Comparison, where: str = "") -> list[GraphDifference]:
    """Returns all differences between two models, also in functions; the differences of the graph come first.

    Args:
        comparison: of the models.
        where: the function that `comparison` is about; '' at the top.
    """
    facts = comparison.facts
    nodes: dict[str, GraphDifference] = {}
    for slot in facts.rewired:
        found = nodes.setdefault(slot.node, GraphDifference(where, slot.node, is_rewired=True))
        found.what.append(rewiring_text(slot))
    for name, altered in facts.altered.items():
        found = nodes.setdefault(name, GraphDifference(where, name, is_rewired=True, has_value=False))
        for what, (was, now) in altered.items():
            found.what.append(difference_text(what, was, now))
            found.is_rewired &= what == "inputs"
            found.has_value |= what in ("op", "inputs") or (what.startswith("attr ") and not what[5:].startswith("_"))
    out, functions = list(nodes.values()), facts.functions
    for place, names, text in (
        (where, facts.removed, "is only in the first"),
        (where, facts.added, "is only in the second"),
        ("", functions.removed, "the function is only in the first"),
        ("", functions.added, "the function is only in the second"),
    ):
        out += [GraphDifference(place, name, [text], node=False) for name in names]
    for name in functions.changed:
        body = comparison.inside.get(name)
        inner = listed_differences(body, name) if body is not None else []
        out += inner or [GraphDifference("", name, ["the function differs"], node=False)]
    for what, (was, now) in facts.graph_fields.items():
        change = "is only in the second" if was is None else "is only in the first" if now is None else "differs"
        has_value = what in ("signature", "versions") or what.startswith("gradient")
        out.append(GraphDifference(where, what, [change], node=False, has_value=has_value))
    return out


def summed_up(differences: list[GraphDifference]) -> Iterator[str]:
    """Yields a line for each difference that no run has shown to be equal."""
    return (item.text for item in differences if item.shown != EQUAL)


def node_differences(a: Node, b: Node, name_in_b: Callable[[str], str] = lambda tensor: tensor) -> list[str]:
    """Returns a line for each difference between node `a` of one graph and node `b` of the other graph.

    `name_in_b` returns the name in the graph of `b` of a tensor of the other graph. Constants of any size are compared,
    but their values are not printed.
    """
    rewired, altered = compared_nodes(a, b, name_in_b)
    out = [difference_text(what, *values) for what, values in altered.items()]
    return [*out, *map(rewiring_text, rewired), *_bodies(a, b)]


def _bodies(a: Node, b: Node) -> list[str]:
    """Returns a line for each function that both nodes call by the same name and that differs."""
    out: list[str] = []
    if not len(a.graph.functions) or "Const" in (a.op, b.op):
        return out
    theirs = set(called_functions(node_def(b), b.graph.functions))
    for name in called_functions(node_def(a), a.graph.functions):
        before, after = a.graph.functions.get(name), b.graph.functions.get(name)
        if name not in theirs or before is None or after is None or before == after:
            continue
        nodes = {node.name: node for node in before.node_def}
        others = [node.name for node in after.node_def if nodes.get(node.name) != node]
        shown = ", ".join(map(quoted, others[:3])) or "its results"
        out.append(f"the function {quoted(name)} differs in {shown}")
    return out


MOST_NODES = 64
SECONDS = 10.0
"""How many nodes are run apart, and for how long."""

_APART = "nodes apart"
_SHAPES: tuple[FullShape, ...] = ((2, 3), (3,), (), (2, 3, 4), (2, 4, 4, 3))
"""Shapes to try for inputs without a known shape."""
_UNKNOWN_SIZE = 2
_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, 5.5, 6.0, 6.5, 7.0, 1e-3, 1e6, -1e6, 300.0)
_NOT_FINITE = (float("nan"), float("inf"), float("-inf"), 0.0)


def run_apart(
    executor: Executor, comparison: Comparison, differences: Sequence[GraphDifference], tolerance: Tolerance
) -> None:
    """Runs different nodes in isolation, on numbers that the inputs of the model would not reach, and records the
    results.

    Feeds seldom reach the places at which Relu and Relu6, Less and LessEqual, or two roundings differ. A node in
    isolation can be tested anywhere, also in loops and functions. After DLFuzz and differential testing.

    Args:
        executor: runs the nodes.
        comparison: of the models.
        differences: all differences.
        tolerance: by how much floats may differ.
    """
    started = time.monotonic()
    todo = [item for item in differences if item.node and item.has_value]
    for item in todo[:MOST_NODES]:
        if time.monotonic() - started > SECONDS:
            break
        side = comparison.inside[item.where] if item.where else comparison
        try:
            item.shown, item.why = _compared(executor, side, item.name, tolerance)
        except GdsurgeonError as error:  # a crash: nothing more can be run over there
            item.why = f"not run in isolation: {error.message}"
            break


def _compared(executor: Executor, side: Comparison, name: str, tolerance: Tolerance) -> tuple[str, str]:
    """Returns the result of a run in isolation of the node `name` and its counterpart, and how it was shown.

    The result is `EQUAL` or `DIFFERENT`; '' if they cannot run, with the reason.
    """
    back = {new: old for old, new in side.facts.renamed.items()}
    a, b = side.before[back.get(name, name)], side.after[name]
    lone = [
        f"{quoted(slot.new)} replaces a different tensor"
        for slot in side.facts.rewired
        for read in nodes_of((slot.old, slot.new))
        if slot.node == b.name and not (back.get(read, read) in side.before and read in side.after)
    ]
    if a.op == b.op == "Const":
        return "", "no output shows it"
    why = next(filter(None, (_reason(a), _reason(b), *lone)), "")
    if why:
        return "", f"not run in isolation: {why}"
    pair = _Pair(a, b, side.facts.renamed)
    try:
        return _tried(executor, pair, tolerance)
    except Refused as refused:
        return "", f"not run in isolation: {refused.text}"
    finally:
        executor.unload(_APART)


def _reason(node: Node) -> str:
    """Returns why a node cannot run in isolation; '' if it can."""
    definition = node.op_def
    attrs = {key: node.plain_attr(key) for key in node.attr_keys}
    if definition is None or node.op in CONTROL_FLOW | PLACEHOLDERS:
        return f"{node.op} cannot be run separately"
    if definition.takes_functions or node.op in node.graph.functions:
        return f"{node.op} calls functions"
    if definition.is_stateful or holds_state(node.op) or is_random(node.op) or not is_pure(node.op, attrs):
        return f"the outputs of {node.op} depend on more than its inputs"
    found = map(base_dtype, [*(node.input_dtypes or ()), *(node.output_dtypes or ())])
    return "" if _VALUES.issuperset(found) else f"{node.op} has handles as inputs or outputs"


_OTHERS = dtypes.BOOL, dtypes.UINT8, dtypes.STRING, dtypes.COMPLEX64, dtypes.COMPLEX128
_VALUES = frozenset((*dtypes.FLOATING, *INTEGERS, *_OTHERS))


class _Pair:
    """Two nodes in one graph, with placeholders and constants for their inputs."""

    def __init__(self, a: Node, b: Node, renamed: Mapping[str, str]) -> None:
        self.graph: GraphDef = GraphDef()
        self.graph.versions.producer = a.graph.store.producer if isinstance(a.graph, Graph) else 0
        self.fed: dict[str, tuple[int, Shape]] = {}
        """The dtypes and shapes of the placeholders."""
        self.edges: list[float] = []
        """Numbers that constants hold which the nodes read: at these a comparison turns."""
        self._names: dict[str, str] = {}
        for name, node, names in (("a", a, renamed), ("b", b, {})):
            reads = [self._source(read, names) for read in node.inputs]
            self._add(name, node).input.extend(reads)
        undefined = undefined_outputs(a.op, a.setting) | undefined_outputs(b.op, b.setting)
        count = min(a.output_count or 0, b.output_count or 0)
        self.outputs = [i for i in range(count) if i not in undefined]

    def _add(self, name: str, node: Node) -> NodeDef:
        """Adds a copy of a node without inputs."""
        copy = self.graph.node.add()
        copy.CopyFrom(node_def(node))
        copy.name, copy.device = name, ""
        del copy.input[:]
        for key in (COLOCATION_ATTR, STATED_SHAPES):
            copy.attr.pop(key, None)
        return copy

    def _source(self, read: Output, renamed: Mapping[str, str]) -> str:
        """Returns the placeholder or constant for an input; both nodes share it if the input is the same."""
        called = f"{renamed.get(read.node.name, read.node.name)}:{read.index}"
        if called not in self._names:
            name = self._names[called] = f"input{len(self._names)}"
            if read.node.op == "Const":
                self._add(name, read.node)
                held = constant(read.node)
                self.edges += [] if held is None else [x for x in held.values[:4] if isinstance(x, (int, float))]
            else:
                dtype, graph = base_dtype(read.dtype), read.node.graph
                assert isinstance(graph, Graph)
                self.graph.node.add(name=name, op="Placeholder").attr["dtype"].CopyFrom(type_value(dtype))
                self.fed[name] = dtype, shape_of_tensor(graph, read)
        return self._names[called]


def _tried(executor: Executor, pair: _Pair, tolerance: Tolerance) -> tuple[str, str]:
    """Runs both nodes on several feeds, until they differ; returns the result as `_compared`. Raises Refused."""
    fetches = [f"{name}:{i}" for name in "ab" for i in pair.outputs]
    executor.load(_APART, pair.graph.SerializeToString(deterministic=True))
    executor.loaded(_APART)
    ran = 0
    for fed in _feeds(pair):
        try:
            executor.run(_APART, _APART, fed, fetches)
        except Refused:
            continue
        ran += 1
        pairs = [(i, len(pair.outputs) + i) for i in range(len(pair.outputs))]
        found = executor.compare(_APART, _APART, pairs, tolerance)
        executor.drop(_APART)
        for each in found:
            if not agrees(each, tolerance):
                why = each.reason or f"{each.differing:,} of {each.count:,} elements differ"
                return DIFFERENT, f"run in isolation, {why}"
    if not ran:
        return "", "not run in isolation: it refuses all generated feeds"
    return EQUAL, f"the same on {ran} generated feeds"


def _feeds(pair: _Pair) -> Iterator[dict[str, Tensor]]:
    """Yields feeds in possible shapes: positive and negative numbers, edges and ties, and infinite numbers."""
    for guess in _SHAPES if any(shape is None for _, shape in pair.fed.values()) else _SHAPES[:1]:
        for kind in ("plain", "wide", "edges", "not finite"):
            fed: dict[str, Tensor] = {}
            for seed, (name, (dtype, shape)) in enumerate(pair.fed.items()):
                dims = [size if size >= 0 else _UNKNOWN_SIZE for size in (guess if shape is None else shape)]
                fed[name] = _tensor(dtype, tuple(dims), kind, seed, pair.edges)
            yield fed


def _tensor(dtype: int, shape: FullShape, kind: str, seed: int, edges: Sequence[float]) -> Tensor:
    count = prod(shape)
    if dtype == dtypes.STRING:
        return Tensor(dtype, shape, list(islice(cycle((b"", b"a", b"b", b"1")), count)))
    if dtype in (dtypes.FLOAT32, dtypes.FLOAT64, dtypes.FLOAT16) and kind in ("edges", "not finite"):
        # Every other input begins one further on: some pairs of elements are ties, and some are not.
        chosen = cycle((*edges, *_EDGES) if kind == "edges" else _NOT_FINITE)
        return Tensor(dtype, shape, clipped(dtype, list(islice(chosen, seed % 2, seed % 2 + count))))
    if dtype in INTEGERS and kind == "edges":
        low, high = dtypes.DTYPES[dtype].bounds
        return Tensor(dtype, shape, packed(dtype, list(islice(cycle((0, 1, low, high, 2, high - 1)), count))))
    return Tensor(dtype, shape, numbers(dtype, count, 0, 17 + seed, wide=kind != "plain"))
