"""Merges one function library into another: equal functions once, unequal ones under a new name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.protos import AttrValue, FunctionDef, GradientDef


@dataclass
class FunctionMerge:
    """A merge that has been planned and not been made.

    Attributes:
        added: FunctionDefs to add, with their new names.
        gradients: GradientDefs to add.
        renamed: the new names of functions whose names were taken by unequal ones.
    """

    added: list[FunctionDef]
    gradients: list[GradientDef]
    renamed: dict[str, str]

    def apply(self, library: FunctionLibrary) -> dict[str, str]:
        """Makes the merge; returns `renamed`."""
        for function in self.added:
            library.add(function)
        for gradient in self.gradients:
            library.add_gradient(gradient)
        return self.renamed


def plan_function_merge(library: FunctionLibrary, other: FunctionLibrary) -> FunctionMerge:
    """Plans to add the functions of OTHER to LIBRARY.

    Two functions are equal where their definitions are, and those of all functions that they call.

    Raises:
        InputError: a library is corrupt.
    """
    functions = {function.signature.name: function for function in other}
    if not functions:
        return FunctionMerge([], [], {})
    unequal = _unequal(library, other, functions)
    unique = UniqueNames(lambda name: name in library or name in functions or op_def(name) is not None)
    renamed = {name: unique(name) for name in functions if name in unequal}
    added = [respelt(f, renamed) for name, f in functions.items() if name not in library or name in renamed]
    return FunctionMerge(added, list(_gradients(library, other, renamed)), renamed)


def _unequal(library: FunctionLibrary, other: FunctionLibrary, functions: Mapping[str, FunctionDef]) -> set[str]:
    """The functions whose names LIBRARY uses for something else."""
    unequal = {name for name, function in functions.items() if name in library and library.get(name) != function}
    # A function that calls an unequal one means something else, even where its text is the same.
    return {name for name in other.reaching(unequal) if name in library}


def _gradients(library: FunctionLibrary, other: FunctionLibrary, renamed: Mapping[str, str]) -> list[GradientDef]:
    """The GradientDefs to add: TensorFlow allows one for each function."""
    taken = {gradient.function_name for gradient in library.gradients()}
    out: list[GradientDef] = []
    for gradient in other.gradients():
        copy = type(gradient)()
        copy.function_name = renamed.get(gradient.function_name, gradient.function_name)
        copy.gradient_func = renamed.get(gradient.gradient_func, gradient.gradient_func)
        if copy.function_name not in taken:
            taken.add(copy.function_name)
            out.append(copy)
    return out


def respelt(function: FunctionDef, renamed: Mapping[str, str]) -> FunctionDef:
    """FUNCTION with the new names, its own and those it calls; itself where none is concerned."""
    if not renamed:
        return function
    copy = type(function)()
    copy.CopyFrom(function)
    copy.signature.name = renamed.get(function.signature.name, function.signature.name)
    respell_body(copy, renamed)
    return copy


def respell_body(function: FunctionDef, renamed: Mapping[str, str]) -> None:
    """Has the nodes in FUNCTION call functions by their new names."""
    for node in function.node_def if renamed else ():
        node.op = renamed.get(node.op, node.op)
        for value in node.attr.values():
            respell_value(value, renamed)


def respell_value(value: AttrValue, renamed: Mapping[str, str]) -> bool:
    """Gives the functions in an AttrValue their new names; returns whether there were any to give."""
    found = [func for func in functions_in(value) if func.name in renamed]
    for func in found:
        func.name = renamed[func.name]
    return bool(found)


def respell_functions(graph: Graph, node: Node, renamed: Mapping[str, str]) -> None:
    """Has NODE call functions by their new names."""
    if node.op in renamed:
        graph.set_op(node, renamed[node.op])
    definition = node.op_def
    for key in node.attr_keys:
        kind = definition.attrs[key].kind if definition is not None and key in definition.attrs else ""
        if kind and "func" not in kind:
            continue
        value = node.attr(key)
        if value is not None and respell_value(value, renamed):
            graph.set_attr(node, key, value.SerializeToString(deterministic=True))
