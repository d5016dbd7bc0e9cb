"""gdsurgeon in the words of tf.contrib.graph_editor and graph_def_editor, for those who come from there.

As a library::

    import gdsurgeon as gds
    from gdsurgeon import graph_editor as ge

    graph = gds.load("model.pb")
    ge.reroute_ts(graph.tensor("new"), graph.tensor("old"))
    view, info = ge.copy(ge.sgv_scope("tower", graph), dst_scope="tower_2", src_scope="tower")
    graph.save("edited.pb")

An *op* here is a `Node`, a *t* an `Output`. An argument for several of them accepts one, an iterable, or a graph.
Where the older libraries raise a ValueError, an error is raised that is both a ValueError and gdsurgeon's `EditError`.

| the older libraries' name                         | gdsurgeon's own                                                 |
|---------------------------------------------------|-----------------------------------------------------------------|
| Graph(graph_def), tf.Graph()                      | `gds.load`, `gds.from_bytes`; `empty_graph` for an empty one     |
| Graph.nodes, Graph.tensors                        | `Graph.nodes()`, `get_tensors`                                  |
| Graph[name], get_node_by_name, get_tensor_by_name | `Graph[name]`, `Graph.tensor`; `lookup` for either              |
| Graph.add_node, unique_name                       | `Graph.add`, `Graph.unique_names()`                             |
| Graph.rename_node                                 | `gds.rename`, `Graph.rename`                                    |
| Node.op_type, control_inputs, outputs             | `Node.op`, `Node.controls`; `graph_editor.view.node_outputs`    |
| Tensor.op, value_index, consumers()               | `Output.node`, `Output.index`; `Graph.uses`                     |
| select_ops, get_name_scope_ops, filter_ops, ...   | `select.Selection` with `select.select`                         |
| get_forward_walk_ops, get_backward_walk_ops, ...  | `Selection(forward=, backward=, between=)`                      |
| compute_boundary_ts                               | `analysis.traversal.boundary.boundary`                          |
| SubGraphView, make_view, sgv, sgv_scope           | `gds.Subgraph`                                                  |
| swap_ts(ts0, ts1)                                 | `gds.reroute(graph, pairs, swap=True)`                          |
| reroute_ts(ts0, ts1): ts0 takes the place of ts1  | `gds.reroute(graph, [(old, new)])`: note the order              |
| can_modify, cannot_modify                         | `only=`, `exclude=` of `gds.reroute`                            |
| OpMatcher, matcher; TreeExpr                      | `gds.NodeMatcher`; `gds.TreeExpr`                               |
| copy inside a graph                               | `edits.node_copies.copy_nodes`, `gds.clone_scope`               |
| copy of a whole graph into another                | `gds.copy_in`                                                   |
| ControlOutputs                                    | `Graph.users`, `Node.controls`                                  |

Parts of a tf.Graph that a GraphDef does not have are missing here: collections, ``_original_op``, the default graph.
Functions that make nodes therefore expect the graph, and nothing is added to collections.
"""

from __future__ import annotations

from gdsurgeon.graph_editor import edit, match, reroute, select, subgraph, transform, util
from gdsurgeon.graph_editor.control_outputs import ControlOutputs
from gdsurgeon.graph_editor.edit import (
    bypass,
    connect,
    detach,
    detach_control_inputs,
    detach_control_outputs,
    detach_inputs,
    detach_outputs,
)
from gdsurgeon.graph_editor.lists import (
    ListView,
    check_graphs,
    get_consuming_ops,
    get_generating_ops,
    get_tensors,
    get_unique_graph,
    is_iterable,
    make_list_of_op,
    make_list_of_t,
)
from gdsurgeon.graph_editor.make import (
    empty_graph,
    make_const,
    make_identity,
    make_placeholder,
    make_placeholder_from_dtype_and_shape,
    make_placeholder_from_tensor,
)
from gdsurgeon.graph_editor.matcher import NodeMatcher, TreeExpr, op_type
from gdsurgeon.graph_editor.names import (
    find_corresponding,
    find_corresponding_elem,
    lookup,
    placeholder_name,
    scope_basename,
    scope_dirname,
    scope_finalize,
    tensor_name,
)
from gdsurgeon.graph_editor.refusal import Refusal
from gdsurgeon.graph_editor.reroute import (
    add_control_inputs,
    remove_control_inputs,
    reroute_inputs,
    reroute_ios,
    reroute_outputs,
    reroute_ts,
    swap_inputs,
    swap_ios,
    swap_outputs,
    swap_ts,
)
from gdsurgeon.graph_editor.select import (
    can_be_regex,
    check_cios,
    compute_boundary_ts,
    filter_ops,
    filter_ops_by_optype,
    filter_ops_from_regex,
    filter_ts,
    filter_ts_from_regex,
    get_backward_walk_ops,
    get_forward_walk_ops,
    get_input_ts,
    get_name_scope_ops,
    get_ops_ios,
    get_output_ts,
    get_walks_intersection_ops,
    get_walks_union_ops,
    get_within_boundary_ops,
    make_regex,
    select_ops,
    select_ops_and_ts,
    select_ts,
)
from gdsurgeon.graph_editor.subgraph import SubGraphView, make_view, make_view_from_scope
from gdsurgeon.graph_editor.transform import copy, copy_with_input_replacements, graph_replace
from gdsurgeon.graph_editor.transformer import (
    Transformer,
    TransformerInfo,
    copy_op_handler,
    keep_t_if_possible_handler,
    replace_t_with_placeholder_handler,
    transform_op_if_inside_handler,
    transform_op_in_place,
)

OpMatcher = matcher = NodeMatcher
SubgraphView = SubGraphView
ph = make_placeholder_from_dtype_and_shape
sgv = make_view
sgv_scope = make_view_from_scope
ops = select_ops
ts = select_ts

__all__ = [
    "ControlOutputs",
    "ListView",
    "NodeMatcher",
    "OpMatcher",
    "Refusal",
    "SubGraphView",
    "SubgraphView",
    "Transformer",
    "TransformerInfo",
    "TreeExpr",
    "add_control_inputs",
    "bypass",
    "can_be_regex",
    "check_cios",
    "check_graphs",
    "compute_boundary_ts",
    "connect",
    "copy",
    "copy_op_handler",
    "copy_with_input_replacements",
    "detach",
    "detach_control_inputs",
    "detach_control_outputs",
    "detach_inputs",
    "detach_outputs",
    "edit",
    "empty_graph",
    "filter_ops",
    "filter_ops_by_optype",
    "filter_ops_from_regex",
    "filter_ts",
    "filter_ts_from_regex",
    "find_corresponding",
    "find_corresponding_elem",
    "get_backward_walk_ops",
    "get_consuming_ops",
    "get_forward_walk_ops",
    "get_generating_ops",
    "get_input_ts",
    "get_name_scope_ops",
    "get_ops_ios",
    "get_output_ts",
    "get_tensors",
    "get_unique_graph",
    "get_walks_intersection_ops",
    "get_walks_union_ops",
    "get_within_boundary_ops",
    "graph_replace",
    "is_iterable",
    "keep_t_if_possible_handler",
    "lookup",
    "make_const",
    "make_identity",
    "make_list_of_op",
    "make_list_of_t",
    "make_placeholder",
    "make_placeholder_from_dtype_and_shape",
    "make_placeholder_from_tensor",
    "make_regex",
    "make_view",
    "make_view_from_scope",
    "match",
    "matcher",
    "op_type",
    "ops",
    "ph",
    "placeholder_name",
    "remove_control_inputs",
    "replace_t_with_placeholder_handler",
    "reroute",
    "reroute_inputs",
    "reroute_ios",
    "reroute_outputs",
    "reroute_ts",
    "scope_basename",
    "scope_dirname",
    "scope_finalize",
    "select",
    "select_ops",
    "select_ops_and_ts",
    "select_ts",
    "sgv",
    "sgv_scope",
    "subgraph",
    "swap_inputs",
    "swap_ios",
    "swap_outputs",
    "swap_ts",
    "tensor_name",
    "transform",
    "transform_op_if_inside_handler",
    "transform_op_in_place",
    "ts",
    "util",
]
