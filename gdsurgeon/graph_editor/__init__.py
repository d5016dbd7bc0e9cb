"""The functions of tf.contrib.graph_editor and graph_def_editor, under the same names.

As a library::

    import gdsurgeon as gds
    from gdsurgeon import graph_editor as ge

    graph = gds.load("model.pb")
    ge.reroute_ts(graph.tensor("new"), graph.tensor("old"))
    view, info = ge.copy(ge.sgv_scope("tower", graph), dst_scope="tower_2", src_scope="tower")
    graph.save("edited.pb")

An *op* is a `Node`, a *t* is an `Output`. An argument for several ops or ts accepts one, an iterable, or a graph.
If the older libraries raise a ValueError, the error is both a ValueError and gdsurgeon's `EditError`.

| the older libraries' name                         | gdsurgeon's own                                                 |
|---------------------------------------------------|-----------------------------------------------------------------|
| Graph(graph_def), tf.Graph()                      | `gds.load`, `gds.from_bytes`; `empty_graph` for an empty one     |
| Graph.nodes, Graph.tensors                        | `Graph.nodes()`, `get_tensors`                                  |
| Graph[name], get_node_by_name, get_tensor_by_name | `Graph[name]`, `Graph.tensor`; `lookup` for either              |
| Graph.add_node, unique_name                       | `Graph.add`, `Graph.unique_names()`                             |
| Graph.rename_node                                 | `gds.rename`, `Graph.rename`                                    |
| Node.op_type, control_inputs, outputs             | `Node.op`, `Node.controls`; `graph_editor.util.node_outputs`    |
| Tensor.op, value_index, consumers()               | `Output.node`, `Output.index`; `Graph.uses`                     |
| select_ops, get_name_scope_ops, filter_ops, ...   | `select.Selection` with `select.select`                         |
| get_forward_walk_ops, get_backward_walk_ops, ...  | `Selection(forward=, backward=, between=)`                      |
| compute_boundary_ts                               | `analysis.traversal.topology.boundary`                          |
| SubGraphView, make_view, sgv, sgv_scope           | `gds.Subgraph`                                                  |
| swap_ts(ts0, ts1)                                 | `gds.reroute(graph, pairs, swap=True)`                          |
| reroute_ts(ts0, ts1): ts0 replaces ts1            | `gds.reroute(graph, [(old, new)])`: note the order              |
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
from gdsurgeon.graph_editor.edit import *
from gdsurgeon.graph_editor.match import *
from gdsurgeon.graph_editor.reroute import *
from gdsurgeon.graph_editor.select import *
from gdsurgeon.graph_editor.subgraph import *
from gdsurgeon.graph_editor.transform import *
from gdsurgeon.graph_editor.util import *

matcher = match.NodeMatcher
ph = util.make_placeholder_from_dtype_and_shape

__all__ = ["edit", "match", "matcher", "ph", "reroute", "select", "subgraph", "transform", "util"]
__all__ += edit.__all__ + match.__all__ + reroute.__all__ + select.__all__
__all__ += subgraph.__all__ + transform.__all__ + util.__all__
