"""The ops and functions that a graph uses, and the callers of each function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import InputError
from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import REF, dtype_name
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.values import Data
from gdsurgeon.wire.protos import ArgDef


class OpUsage(NamedTuple):
    """An op.

    Attributes:
        op: its name.
        nodes: the number of nodes in the graph.
        nodes_in_functions: the number of nodes in functions.
        is_known: whether it is in the table of TensorFlow ops.
        is_function: whether it is a function of the graph.
    """

    op: str
    nodes: int
    nodes_in_functions: int
    is_known: bool
    is_function: bool


def op_counts(graph: Graph) -> dict[str, int]:
    """Returns the number of nodes of each op, the most frequent first."""
    return dict(sorted(topology_of(graph).op_counts().items(), key=lambda item: (-item[1], item[0])))


def op_usage(graph: Graph) -> list[OpUsage]:
    """Returns the ops of `graph` in its present state, the most frequent first."""
    outer = op_counts(graph)
    inner = Counter(node.op for function in graph.functions for node in function.node_def)
    counts = Counter(outer) + inner
    found = [OpUsage(op, outer.get(op, 0), inner[op], op_def(op) is not None, op in graph.functions) for op in counts]
    return sorted(found, key=lambda usage: (-usage.nodes - usage.nodes_in_functions, usage.op))


def functions_of(node: Node) -> list[str]:
    """Returns the functions that `node` calls or passes on, each once; the library may not have them."""
    is_call = node.op in node.graph.functions
    found = [node.op] if is_call else []
    definition = node.op_def
    if definition is not None and not definition.takes_functions and not is_call:  # a called function may use any attr
        return found
    for key in node.attr_keys:
        kind = definition.attrs[key].kind if definition is not None and key in definition.attrs else ""
        if not kind or "func" in kind:
            try:
                value = node.attr(key)
            except InputError:
                continue  # it is corrupt; the structural check reports this
            if value is not None:
                found.extend(func.name for func in functions_in(value))
    return list(dict.fromkeys(found))


def calling_nodes(graph: Graph) -> Iterator[tuple[Node, list[str]]]:
    """Yields the nodes that call or pass on functions, with the names of the functions."""
    topology = topology_of(graph)
    for number in topology.with_ops(op for op in topology.ops() if may_call(graph, op)):
        node = topology.node(number)
        called = functions_of(node)
        if called:
            yield node, called


def used_functions(graph: Graph) -> set[str]:
    """Returns the functions that nodes of `graph` call or pass on, directly or indirectly, with their gradients."""
    return set(graph.functions.reachable((name for _, names in calling_nodes(graph) for name in names), gradients=True))


def calling(graph: Graph, names: Iterable[str]) -> list[Node]:
    """Returns the nodes of `graph` that call or pass on one of the functions `names`, directly or indirectly."""
    reaching = graph.functions.reaching(names)
    return [node for node, called in calling_nodes(graph) if not reaching.isdisjoint(called)]


def may_call(graph: Graph, op: str) -> bool:
    """Returns whether nodes of `op` can call a function: `op` is a function, has a function attr, or is unknown."""
    definition = graph.op_def(op)
    return definition is None or op in graph.functions or definition.takes_functions


@dataclass(eq=False, repr=False)
class FunctionSummary(Data):
    """A function of the library.

    Attributes:
        name: its name.
        inputs, outputs: (name, type) of each argument; a type is that of a tensor (``float32``), an attr that holds it
            (``T``), several of one (``N * float32``), or a list of them (``Tin...``).
        nodes: the number of nodes in its body.
        is_stateful: whether it is marked as stateful.
        calls: functions that its nodes call or pass on, each once.
        called_by_nodes: nodes of the graph that call it or pass it on.
        called_by_functions: functions that call it or pass it on.
        gradient_of: functions for which it is registered as the gradient.
        is_used: whether a node of the graph reaches it, directly or through other functions.
    """

    name: str
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    nodes: int
    is_stateful: bool
    calls: list[str]
    called_by_nodes: list[str] = field(default_factory=list)
    called_by_functions: list[str] = field(default_factory=list)
    gradient_of: list[str] = field(default_factory=list)
    is_used: bool = False


def function_summaries(graph: Graph) -> list[FunctionSummary]:
    """Returns the functions of `graph` in its present state, in file order. Linear in nodes and calls."""
    library = graph.functions
    found: dict[str, FunctionSummary] = {}
    for function in library:
        signature = function.signature
        inputs, outputs = ([(arg.name, _type(arg)) for arg in s] for s in (signature.input_arg, signature.output_arg))
        calls = list(library.calls(signature.name))
        summary = FunctionSummary(signature.name, inputs, outputs, len(function.node_def), signature.is_stateful, calls)
        found.setdefault(signature.name, summary)
    for summary in found.values():
        for callee in summary.calls:
            if callee in found:
                found[callee].called_by_functions.append(summary.name)
    for node, callees in calling_nodes(graph) if found else ():
        for callee in callees:
            if callee in found:
                found[callee].called_by_nodes.append(node.name)
    for gradient in library.gradients():
        if gradient.gradient_func in found:
            found[gradient.gradient_func].gradient_of.append(gradient.function_name)
    for name in used_functions(graph) & found.keys() if found else ():
        found[name].is_used = True
    return list(found.values())


def _type(arg: ArgDef) -> str:
    """Returns the type of an ArgDef, as text."""
    if arg.type_list_attr:
        return f"{arg.type_list_attr}..."
    text = arg.type_attr or dtype_name(arg.type + (REF if arg.is_ref else 0))
    return f"{arg.number_attr} * {text}" if arg.number_attr else str(text)
