"""add-gradients: nodes in a new scope return, under the requested names, gradients that start at the targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import is_numbered, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import FLOATING
from gdsurgeon.ops.kinds import CALLED

_PASSES_GRADIENTS = frozenset(
    """
    Add AddV2 AvgPool BiasAdd ConcatV2 Conv2D DepthwiseConv2dNative Exp Identity MatMul MaxPool Mean Mul Neg RealDiv
    Relu Relu6 Reshape Sigmoid Sin Softmax Split Square Sub Sum Tanh Transpose
    """.split()
)
"""Ops through which a gradient flows to each floating-point input."""


def add_gradients(
    comparison: Comparison,
    ys: Sequence[str],
    xs: Sequence[str] = (),
    weights: bool = False,
    grad_ys: Sequence[str] = (),
    scope: str = "",
    names: Sequence[str] = (),
    unconnected: str = "error",
    **plan: object,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del plan  # recomputation shows only in values and memory
    before, after, facts = comparison.before, comparison.after, comparison.facts
    added = set(facts.added)
    scopes = {name.partition("/")[0] for name in added if name not in names}  # the default has a number if it is in use
    under = scope.strip("/") or (min(scopes) if len(scopes) == 1 else "gradients")
    own = {name for name in added if name.startswith(under + "/")}
    calls = [name for name in facts.altered if before[name].op in CALLED or before[name].op in before.functions]
    intent = Intent(added=[*own, *names], changed=calls)
    intent.functions.added = facts.functions.added
    yield from audit(comparison, intent)
    seeds = []
    for number, y in enumerate(ys):
        seeds.append(f"{under}/grad_ys_{number}")
        yield from _seed(after, seeds[-1], y, grad_ys[number] if grad_ys else None)
    beginnings = _downstream(after, seeds, added)
    sources = [*xs, *(_weights(before, ys) if weights else ())]
    for number, x in enumerate(dict.fromkeys(source.removesuffix(":0") for source in sources)):
        ref = parse_tensor(x)
        stem = f"{under}/{ref.node}" + (f"_{ref.port}" if ref.port else "")
        result = after.find(names[number]) if number < len(names) else _numbered(after, own, stem)
        if result is None:
            yield f"{quoted(x)} has no gradient"
        elif unconnected == "zero" and result.op == "ZerosLike" and [read.name for read in result.inputs] == [x]:
            continue
        elif result.op != "Identity" or result.controls or len(result.inputs) != 1:
            yield f"{quoted(result.name)}, the gradient of {quoted(x)}, is a {result.op}"
        elif unconnected == "error" and result.name not in beginnings:
            yield (f"{quoted(result.name)}, the gradient of {quoted(x)}, does not depend on the incoming gradients")


def _seed(after: Graph, name: str, y: str, given: str | None) -> Iterator[str]:
    """Yields a line unless the gradients of the target `y` start with the tensor `given`, or with ones."""
    node = after.find(name)
    if node is None:
        yield f"the gradients do not start at {quoted(y)}"
    elif given is not None and (node.op != "Identity" or not _is_same(after, node, given.removesuffix(":0"))):
        yield f"the incoming gradient of {quoted(y)} is not {quoted(given)}"


def _is_same(after: Graph, seed: Node, given: str) -> bool:
    """Returns whether `seed` reads the tensor `given`, or the output of a node that recomputes it."""
    (read,) = seed.inputs
    ref = parse_tensor(given)
    original = after.find(ref.node)
    if read.name == given or original is None:
        return read.name == given
    is_again = read.node.name.rpartition("/")[2].startswith(ref.node.rpartition("/")[2])
    return is_again and (read.node.op, read.index, len(read.node.inputs)) == (
        original.op,
        ref.port,
        len(original.inputs),
    )


def _downstream(after: Graph, seeds: Iterable[str], added: set[str]) -> set[str]:
    """Returns the `added` nodes that depend on one of `seeds`."""
    readers: dict[str, list[str]] = {}
    for name in added:
        node = after.find(name)
        for read in node.inputs if node is not None else ():
            readers.setdefault(read.node.name, []).append(name)
    return closure(seeds, lambda name: readers.get(name, ()))


def _numbered(after: Graph, own: set[str], stem: str) -> Node | None:
    """Returns the node with the name `stem`, or with the highest number after it: results are numbered last."""
    for name in sorted((name for name in own if is_numbered(name, stem)), key=len):
        node = after.find(name)
        if node is not None and node.op == "Identity":
            return node
    return after.find(stem) if stem in own else None


def _weights(graph: Graph, ys: Sequence[str]) -> list[str]:
    """Returns weights that certainly have a gradient, in file order."""
    found: list[str] = []
    starts = [graph[parse_tensor(y).node] for y in ys]
    for node in closure(starts, lambda n: [read.node for read in n.inputs if n.op in _PASSES_GRADIENTS]):
        header = constant_header(node) if node.op == "Const" else None
        if header is not None and header.dtype in FLOATING and (header.elements or 0) > 1:
            found.append(node.name)
    return sorted(found, key=graph.store.table.rows.__getitem__)
