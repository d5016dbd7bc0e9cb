"""The stages of simplify in function bodies: each body is checked as a graph.

Functions that XLA compiles, that stand for an op, or that SymbolicGradient differentiates must not change.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import FunctionChanges, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.specification.sharing import calling_nodes, named_by_node
from gdsurgeon.specification.specify import Asked, violations
from gdsurgeon.wire.protos import FunctionDef

_STANDS_FOR = frozenset(("_implements", "api_implements"))


def simplify_bodies(comparison: Comparison, stage: str = "simplify", **asked: object) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`; `stage` and `asked` are the request for each body."""
    derived = _derived(comparison.before)
    for name, inside in comparison.inside.items():
        faults = violations(inside, Asked(stage, asked))
        yield from (f"in the function {quoted(name)}: {fault}" for fault in faults)
        if name in derived or _is_looked_into(comparison.before.functions[name]):
            yield f"the function {quoted(name)} must not change, but was changed"
    yield from audit(comparison, Intent(functions=FunctionChanges(changed=[*comparison.inside])))


def _is_looked_into(function: FunctionDef) -> bool:
    """Returns whether a function stands for an op, or XLA compiles it."""
    attrs = {key: value.b for key, value in function.attr.items()}
    return bool(_STANDS_FOR & attrs.keys()) or attrs.get("_XlaMustCompile", False)


def _derived(graph: Graph) -> set[str]:
    """Returns the functions that SymbolicGradient differentiates, directly or indirectly."""
    named = [name for node in calling_nodes(graph) if node.op == "SymbolicGradient" for name in named_by_node(node)]
    for function in graph.functions:
        inner = [node for node in function.node_def if node.op == "SymbolicGradient"]
        named += [value.func.name for node in inner for value in node.attr.values()]
    return set(graph.functions.reachable(named))
