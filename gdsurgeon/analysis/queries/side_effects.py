"""What runs inside the functions that a node calls, and whether chance does the same each time."""

from __future__ import annotations

from gdsurgeon.graph.functions import FunctionLibrary, called_functions
from gdsurgeon.graph.node import Node


def is_seeded(node: Node) -> bool:
    """Whether a random op has a seed, so that equal sessions give equal values."""
    return any(node.plain_attr(key) for key in ("seed", "seed2"))


def ops_in_functions(node: Node, library: FunctionLibrary) -> set[str]:
    """The ops that run inside the functions that NODE calls, directly or through others."""
    value = _called_by(node, library)
    out: set[str] = set()
    seen: set[str] = set()
    while value:
        name = value.pop()
        function = library.get(name)
        if name in seen or function is None:
            continue
        seen.add(name)
        for inner in function.node_def:
            out.add(inner.op)
            value.extend(called_functions(inner, library))
    return out


def _called_by(node: Node, library: FunctionLibrary) -> list[str]:
    from gdsurgeon.graph.attrs import functions_in

    called = [node.op] if node.op in library else []
    definition = node.op_def
    if definition is not None and not definition.takes_functions:
        return called
    for key in node.attr_keys:
        value = node.attr(key)
        called.extend(func.name for func in functions_in(value))
    return called
