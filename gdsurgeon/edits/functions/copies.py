"""Copies of library functions for copied calls: only of those whose bodies hold a name that must not be shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdsurgeon.analysis.queries.function_usage import functions_of
from gdsurgeon.edits.functions.merge import FunctionMerge, respelt
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.attr_names import SHARED_NAME
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.wire.protos import FunctionDef


def plan_function_copies(library: FunctionLibrary, nodes: Iterable[Node], shared: Mapping[str, str]) -> FunctionMerge:
    """Plans copies of those functions that NODES call, directly or not, and that hold state by a name in SHARED.

    A copied call of any other function can call the same one. SHARED gives the shared names of the copies.
    """
    if not len(library):
        return FunctionMerge([], [], {})
    called = library.reachable(name for node in nodes for name in functions_of(node))
    holding = library.reaching(name for name in called if any(held in shared for held in _shared_names(library[name])))
    unique = UniqueNames(lambda name: name in library or op_def(name) is not None)
    renamed = {name: unique(name) for name in called if name in holding}
    added = respell_shared_names([respelt(library[name], renamed) for name in renamed], shared)
    return FunctionMerge(added, [], renamed)


def shared_names_called(library: FunctionLibrary, nodes: Iterable[Node]) -> set[str]:
    """The shared names that the functions hold which NODES call, directly or not."""
    if not len(library):
        return set()
    called = library.reachable(name for node in nodes for name in functions_of(node))
    return {name for function in called for name in _shared_names(library[function])}


def respell_shared_names(functions: Iterable[FunctionDef], shared: Mapping[str, str]) -> list[FunctionDef]:
    """FUNCTIONS, those that hold a name in SHARED as copies with the new one."""
    out: list[FunctionDef] = []
    for function in functions:
        if any(name in shared for name in _shared_names(function)):
            copy = type(function)()
            copy.CopyFrom(function)
            for node in copy.node_def:
                if SHARED_NAME in node.attr:
                    old = node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape")
                    node.attr[SHARED_NAME].s = shared.get(old, old).encode("utf-8", "surrogateescape")
            function = copy
        out.append(function)
    return out


def shared_names_in_functions(library: FunctionLibrary) -> set[str]:
    """The shared names that the functions of a library hold."""
    return {name for function in library for name in _shared_names(function)}


def _shared_names(function: FunctionDef) -> list[str]:
    return [
        node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape")
        for node in function.node_def
        if SHARED_NAME in node.attr and node.attr[SHARED_NAME].s
    ]
