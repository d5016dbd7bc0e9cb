"""Names, other than its own, that a copied node must not share with the original: frames, shared names, functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.functions import plan_function_merge, respell_functions
from gdsurgeon.edits.node_copies import (
    fresh_frame_names,
    fresh_shared_names,
    has_nameless_variables,
    nameless_variables,
    plan_copy_nodes,
    respelt_attrs,
)
from gdsurgeon.graph.attrs import string_value
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.attr_names import SHARED_NAME


@dataclass
class Renaming:
    """The names of copies that are yet to be made.

    Attributes:
        names: the name of the copy of each node.
        frames, shared_names: for each name of a while frame, and of a table, queue or variable, the copy's.
        add_functions: brings the functions that the copies call to their graph; returns the new names.
        nameless: the shared names of copies of variables that have none, by those.
    """

    names: dict[Node, str]
    frames: dict[str, str]
    shared_names: dict[str, str]
    add_functions: Callable[[], dict[str, str]]
    nameless: dict[Node, str] = field(default_factory=dict)

    @cached_property
    def functions(self) -> dict[str, str]:
        """The new names of functions; they are brought to the graph when this is first asked for."""
        return self.add_functions()

    def apply(self, original: Node, copy: Node) -> None:
        """Puts the names in the attrs of COPY right."""
        spelt = respelt_attrs(original, self.frames, self.shared_names)
        if original in self.nameless:
            spelt[SHARED_NAME] = self.nameless[original]
        for key, text in spelt.items():
            graph_of(copy).set_attr(copy, key, string_value(text).SerializeToString())
        if self.functions:
            respell_functions(graph_of(copy), copy, self.functions)


def plan_renaming(graph: Graph, graph_: Graph, names: Mapping[Node, str], cut: Iterable[Output]) -> Renaming:
    """Plans copies of nodes of GRAPH in GRAPH_, the same graph or another, under NAMES.

    Args:
        graph: left as it is.
        graph_: left as it is.
        names: the names of the copies; they are free in GRAPH_.
        cut: tensors that the copies do not read.

    Raises:
        EditError: a name is illegal, an input names no node, or a while loop would be copied in part.
    """
    replace = {tensor: tensor for tensor in cut}
    if graph_ is graph:
        plan = plan_copy_nodes(graph, names, names, replace=replace)
        merge = plan.merge
        return Renaming(
            dict(names), plan.frames, plan.shared_names, lambda: merge.apply(graph.functions), plan.nameless
        )
    # A copy inside its own graph shows what cannot be copied at all.
    free = graph.unique_names()
    plan = plan_copy_nodes(graph, names, {node: free(name) for node, name in names.items()}, replace=replace)
    merge = plan_function_merge(graph_.functions, graph.functions)
    topology = topology_of(graph_)
    return Renaming(
        dict(names),
        fresh_frame_names(topology, plan.frames, _same),
        fresh_shared_names(topology, plan.shared_names, _same),
        lambda: merge.apply(graph_.functions),
        nameless_variables(names) if has_nameless_variables(topology) else {},
    )


def _same(name: str) -> str:
    return name
