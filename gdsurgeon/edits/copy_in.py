"""Copies another graph into one: nodes, weights and functions; the primitive under every joining edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.functions import FunctionLibrary, called_functions
from gdsurgeon.graph.graph import Graph, check_name
from gdsurgeon.graph.index import COLOCATION_ATTR
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.op_defs import op_def


@dataclass
class Copied:
    """What `copy_in` has done.

    Attributes:
        nodes: copy of each node of the other graph; a replaced node maps to the node in its place.
        replaced: the tensors that stand for nodes that were not copied.
        renamed: names that were taken and have become others, as (name in the other graph, name now).
        renamed_functions: likewise for functions.
    """

    nodes: dict[Node, Node] = field(default_factory=dict)
    replaced: dict[Node, Output] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    renamed_functions: dict[str, str] = field(default_factory=dict)

    def output(self, original: Output) -> Output:
        """Where a tensor of the other graph is now."""
        if original.node in self.replaced:
            return self.replaced[original.node]
        return Output(self.nodes[original.node], original.index)


def copy_in(
    graph: Graph,
    other: Graph,
    *,
    replace: Mapping[Node, Output],
    names: Mapping[Node, str] | None = None,
    after: Node | None = None,
) -> Copied:
    """Copies the nodes of OTHER into GRAPH; weights are copied by span when the graph is written.

    Args:
        graph: changed in place.
        other: left as it is; its source must stay open until GRAPH is written.
        replace: nodes of OTHER (single-output ones, placeholders as a rule) that are not copied, and the tensor of
            GRAPH that stands for each.
        names: names that certain copies must get; they are free, or about to be freed by the caller.
        after: the node of GRAPH behind which the copies are written; None: at the end.

    Raises:
        EditError: a name in OTHER is illegal, or an input names no node; GRAPH is as it was.
    """
    forced = dict(names or {})
    originals = [node for node in other.nodes() if node not in replace]
    plan = _names(graph, originals, forced)
    for node in originals:
        check_name(plan[node])
        for read in (*node.inputs, *(Output(c, 0) for c in node.controls)):
            if not read.node.exists:
                raise EditError(f"{quoted(node.name)} reads {quoted(read.node.name)}, which is not there")
    copied = Copied(replaced=dict(replace))
    copied.renamed_functions = merge_functions(graph.functions, other.functions)
    for node in originals:
        copied.nodes[node] = graph.add_copy(plan[node], node, after=after)
        if plan[node] != node.name and node not in forced:
            copied.renamed[node.name] = plan[node]
    for node in originals:
        _wire(graph, node, copied)
    return copied


def _names(graph: Graph, originals: list[Node], forced: Mapping[Node, str]) -> dict[Node, str]:
    """A name for each copy: its own where that is free, else made unique."""
    promised = set(forced.values())
    own = {node.name for node in originals}
    plan = dict(forced)
    clashing = [n for n in originals if n not in plan and (n.name in graph or n.name in promised)]
    # A new name must avoid the graph's names, and those that other copies keep.
    unique = UniqueNames(lambda name: name in graph or name in promised or name in own)
    for node in originals:
        plan.setdefault(node, node.name)
    for node in clashing:
        plan[node] = unique(node.name)
    return plan


def _wire(graph: Graph, node: Node, copied: Copied) -> None:
    """Gives the copy of NODE its inputs, colocations and function names."""
    copy = copied.nodes[node]
    graph.set_inputs(copy, [copied.output(read) for read in node.inputs])
    graph.set_controls(copy, [_counterpart(control, copied) for control in node.controls])
    if node.attr_bytes(COLOCATION_ATTR):
        graph.set_colocated(copy, [_counterpart(n, copied) for n in node.colocated if n.exists])
    if copied.renamed_functions:
        _respell_functions(graph, copy, copied.renamed_functions)


def _counterpart(node: Node, copied: Copied) -> Node:
    return copied.replaced[node].node if node in copied.replaced else copied.nodes[node]


def _respell_functions(graph: Graph, node: Node, renamed: Mapping[str, str]) -> None:
    if node.op in renamed:
        graph.set_op(node, renamed[node.op])
    for key in node.attr_keys:
        data = node.attr_bytes(key)
        if data is None or not any(name.encode() in data[:65536] for name in renamed):
            continue
        value = node.attr(key)
        if _respell_value(value, renamed):
            graph.set_attr(node, key, value.SerializeToString(deterministic=True))


def _respell_value(value: Any, renamed: Mapping[str, str]) -> bool:
    found = [func for func in functions_in(value) if func.name in renamed]
    for func in found:
        func.name = renamed[func.name]
    return bool(found)


def merge_functions(library: FunctionLibrary, other: FunctionLibrary) -> dict[str, str]:
    """Adds the functions of OTHER to LIBRARY: equal ones once, unequal ones under a new name, which is returned.

    Two functions are equal where their definitions are, and those of all functions that they call.
    """
    functions = {function.signature.name: function for function in other}
    unequal = {n for n, f in functions.items() if n in library and library.get(n) != f}
    calls = {n: [c for node in f.node_def for c in called_functions(node, other)] for n, f in functions.items()}
    # A function that calls an unequal one means something else, even where its text is the same.
    callers: dict[str, list[str]] = {}
    for name, called in calls.items():
        for callee in called:
            callers.setdefault(callee, []).append(name)
    pending = list(unequal)
    while pending:
        for caller in callers.get(pending.pop(), ()):
            if caller in library and caller not in unequal:
                unequal.add(caller)
                pending.append(caller)
    unique = UniqueNames(lambda name: name in library or name in functions or op_def(name) is not None)
    renamed = {name: unique(name) for name in functions if name in unequal}
    for name, function in functions.items():
        if name in library and name not in renamed:
            continue
        library.add(_respelt(function, renamed))
    for gradient in other.gradients():
        copy = type(gradient)()
        copy.CopyFrom(gradient)
        copy.function_name = renamed.get(gradient.function_name, gradient.function_name)
        copy.gradient_func = renamed.get(gradient.gradient_func, gradient.gradient_func)
        if copy not in library.gradients():
            library.add_gradient(copy)
    return renamed


def _respelt(function: Any, renamed: Mapping[str, str]) -> Any:
    """FUNCTION with the new names, its own and those it calls; itself where none is concerned."""
    if not renamed:
        return function
    copy = type(function)()
    copy.CopyFrom(function)
    copy.signature.name = renamed.get(function.signature.name, function.signature.name)
    for node in copy.node_def:
        node.op = renamed.get(node.op, node.op)
        for value in node.attr.values():
            _respell_value(value, renamed)
    return copy
