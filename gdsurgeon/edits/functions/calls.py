"""The bodies of functions as their calls have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gdsurgeon.analysis.checks.functions import recursions
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import CALLS
from gdsurgeon.wire.protos import AttrValue


class FunctionCall(NamedTuple):
    """A call of a function: its name, and the AttrValues that the call gives it."""

    function: str
    values: Mapping[str, AttrValue]


BodyKey = tuple[str, bytes]
"""What tells the body of one call from that of another: the function, and the values of its attrs."""


def call_of(node: Node) -> FunctionCall:
    """The call that NODE makes, which is one."""
    if node.op not in CALLS:
        return FunctionCall(node.op, dict(node.attrs()))
    value = node.attr("f")
    return FunctionCall(value.func.name, dict(value.func.attr)) if value is not None else FunctionCall("", {})


def is_call(op: str, graph: Graph) -> bool:
    """Whether a node of OP calls a function of GRAPH's library and nothing else."""
    return op in CALLS or op in graph.functions


def inner_nodes(body: Body) -> list[Node]:
    """The nodes of a body, without those that stand for its arguments and results."""
    return [node for node in body.graph.nodes() if node not in body.graph.ends]


def bodies(graph: Graph, calls: Iterable[Node]) -> dict[BodyKey, Body]:
    """The bodies that inlining CALLS needs, those of the calls inside included, by `body_key`.

    Raises:
        EditError: see `Body`; or a call is given more or fewer tensors than its function takes.
    """
    out: dict[BodyKey, Body] = {}
    pending = list(calls)
    _check_recursion(graph, [call_of(node).function for node in pending])
    while pending:
        caller = pending.pop()
        call = call_of(caller)
        key = body_key(call)
        known = key in out
        body = out.setdefault(key, out[key] if known else Body(graph, call.function, call.values))
        if len(caller.inputs) != len(body.arguments):
            raise EditError(
                f"{quoted(caller.name)} has {len(caller.inputs)} inputs, but the function "
                f"{quoted(call.function)} has {len(body.arguments)} arguments",
                code="wrong-count",
                facts={
                    "node": caller.name,
                    "function": call.function,
                    "expected": len(body.arguments),
                    "found": len(caller.inputs),
                },
            )
        if not known:
            pending += [node for node in inner_nodes(body) if is_call(node.op, graph)]
    return out


def _check_recursion(graph: Graph, names: Iterable[str]) -> None:
    """Raises EditError where one of the functions NAMES comes to call itself."""
    library = graph.functions
    for path in recursions({name: library.calls(name) for name in library.reachable(names)}):
        message = f"recursive functions cannot be inlined: {' -> '.join(map(quoted, path))}"
        raise EditError(message, code="recursion", facts={"functions": path})


def body_key(call: FunctionCall) -> BodyKey:
    """The key of the body that CALL runs."""
    values = sorted(call.values.items())
    return call.function, b"".join(k.encode() + b"\0" + v.SerializeToString(deterministic=True) for k, v in values)
