"""The names that the older libraries keep in their module ``util``."""

from __future__ import annotations

from gdsurgeon.graph_editor.control_outputs import ControlOutputs
from gdsurgeon.graph_editor.lists import (
    ListView,
    check_graphs,
    concatenate_unique,
    flatten_tree,
    get_consuming_ops,
    get_generating_ops,
    get_tensors,
    get_unique_graph,
    is_iterable,
    make_list_of_op,
    make_list_of_t,
    transform_tree,
)
from gdsurgeon.graph_editor.make import (
    make_const,
    make_identity,
    make_placeholder,
    make_placeholder_from_dtype_and_shape,
    make_placeholder_from_tensor,
)
from gdsurgeon.graph_editor.names import (
    find_corresponding,
    find_corresponding_elem,
    placeholder_name,
    scope_basename,
    scope_dirname,
    scope_finalize,
)

__all__ = [
    "ControlOutputs",
    "ListView",
    "check_graphs",
    "concatenate_unique",
    "find_corresponding",
    "find_corresponding_elem",
    "flatten_tree",
    "get_consuming_ops",
    "get_generating_ops",
    "get_tensors",
    "get_unique_graph",
    "is_iterable",
    "make_const",
    "make_identity",
    "make_list_of_op",
    "make_list_of_t",
    "make_placeholder",
    "make_placeholder_from_dtype_and_shape",
    "make_placeholder_from_tensor",
    "placeholder_name",
    "scope_basename",
    "scope_dirname",
    "scope_finalize",
    "transform_tree",
]
