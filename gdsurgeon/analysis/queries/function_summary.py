"""The functions of a graph: their arguments and results, their callers, and whether they are used."""

from __future__ import annotations

from dataclasses import dataclass, field

from gdsurgeon.analysis.queries.function_usage import calling_nodes, used_functions
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import REF, dtype_name
from gdsurgeon.wire.protos import ArgDef, FunctionDef


@dataclass
class FunctionSummary:
    """A function of the library.

    Attributes:
        name: its name.
        inputs, outputs: (name, type) of each argument; a type is that of a tensor (``float32``), an attr that holds it
            (``T``), several of one (``N * float32``), or a list of them (``Tin...``).
        node_count: nodes in its body.
        is_stateful: whether it is marked as stateful.
        calls: functions that its nodes call or pass on, each once.
        node_callers: nodes of the graph that call it or pass it on.
        function_callers: functions that do.
        gradient_of: functions for which it is registered as the gradient.
        is_used: whether a node of the graph reaches it, directly or through other functions.
    """

    name: str
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    node_count: int
    is_stateful: bool
    calls: list[str]
    node_callers: list[str] = field(default_factory=list)
    function_callers: list[str] = field(default_factory=list)
    gradient_of: list[str] = field(default_factory=list)
    is_used: bool = False


def function_summaries(graph: Graph) -> list[FunctionSummary]:
    """The functions of GRAPH as it is now, in the order of the file. Linear in nodes and calls."""
    library = graph.functions
    found: dict[str, FunctionSummary] = {}
    for function in library:
        found.setdefault(function.signature.name, _summary(function, library))
    for summary in found.values():
        for callee in summary.calls:
            if callee in found:
                found[callee].function_callers.append(summary.name)
    for node, callees in calling_nodes(graph) if found else ():
        for callee in callees:
            if callee in found:
                found[callee].node_callers.append(node.name)
    for gradient in library.gradients():
        if gradient.gradient_func in found:
            found[gradient.gradient_func].gradient_of.append(gradient.function_name)
    for name in used_functions(graph) & found.keys() if found else ():
        found[name].is_used = True
    return list(found.values())


def _summary(function: FunctionDef, library: FunctionLibrary) -> FunctionSummary:
    signature = function.signature
    return FunctionSummary(
        signature.name,
        [(arg.name, _type(arg)) for arg in signature.input_arg],
        [(arg.name, _type(arg)) for arg in signature.output_arg],
        len(function.node_def),
        signature.is_stateful,
        list(library.calls(signature.name)),
    )


def _type(arg: ArgDef) -> str:
    """The type of an ArgDef."""
    if arg.type_list_attr:
        return f"{arg.type_list_attr}..."
    text = arg.type_attr or dtype_name(arg.type + (REF if arg.is_ref else 0))
    return f"{arg.number_attr} * {text}" if arg.number_attr else str(text)
